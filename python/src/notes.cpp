// SPDX-License-Identifier: Apache-2.0
#include "notes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace scbf::python {

namespace {

/// The object that the command wrote, or null.
nlohmann::ordered_json notes_in(const std::string& metadata) {
  if (!metadata.starts_with('{')) return {};
  constexpr int kDeepest = 10;  // notes are flat
  bool is_deep = false;
  const auto json_of_notes = [&](int depth, nlohmann::ordered_json::parse_event_t, auto&) {
    is_deep |= depth > kDeepest;
    return !is_deep;
  };
  const auto json = nlohmann::ordered_json::parse(metadata, json_of_notes, false);
  if (is_deep) return {};
  const auto is_note = [](const auto& item) {
    constexpr std::string_view known[] = {"keys", "capacity", "fpr", "name"};
    return std::ranges::find(known, item.key()) != std::end(known);
  };
  if (!json.is_object() || !std::ranges::all_of(json.items(), is_note)) return {};
  return json;
}

}  // namespace

Notes read_notes(const std::string& metadata) {
  Notes notes;
  const auto json = notes_in(metadata);
  if (json.is_null()) return notes;
  if (const auto keys = json.find("keys"); keys != json.end() && keys->is_string()) {
    if (*keys == "lines") notes.kinds = KindsOfKeys::text;
    if (*keys == "u64") notes.kinds = KindsOfKeys::numbers;
  }
  if (const auto capacity = json.find("capacity");
      capacity != json.end() && capacity->is_number_unsigned()) {
    notes.capacity = capacity->get<std::uint64_t>();
  }
  if (const auto fpr = json.find("fpr"); fpr != json.end() && fpr->is_number()) {
    if (const double rate = fpr->get<double>(); rate > 0 && rate < 1) notes.fpr = rate;
  }
  return notes;
}

std::string without_kind(const std::string& metadata) {
  auto json = notes_in(metadata);
  if (json.is_null()) return metadata;
  json.erase("keys");
  return json.dump();
}

}  // namespace scbf::python
