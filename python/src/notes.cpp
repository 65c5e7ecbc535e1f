// SPDX-License-Identifier: Apache-2.0
#include "notes.hpp"

#include <nlohmann/json.hpp>

namespace scbf::python {

Notes read_notes(const std::string& metadata) {
  constexpr int kDeepest = 10;  // notes are flat
  bool is_deep = false;
  const auto stop_if_deep = [&](int depth, nlohmann::json::parse_event_t, auto&) {
    is_deep |= depth > kDeepest;
    return !is_deep;
  };
  Notes notes;
  if (!metadata.starts_with('{')) return notes;
  const auto json = nlohmann::json::parse(metadata, stop_if_deep, false);
  if (is_deep || !json.is_object()) return notes;
  if (const auto keys = json.find("keys"); keys != json.end() && keys->is_string()) {
    if (*keys == "lines") notes.kinds = KindsOfKeys::text;
    if (*keys == "u64") notes.kinds = KindsOfKeys::numbers;
  }
  if (const auto capacity = json.find("capacity");
      capacity != json.end() && capacity->is_number_unsigned()) {
    if (const auto keys = capacity->get<std::uint64_t>(); keys > 0) notes.capacity = keys;
  }
  if (const auto fpr = json.find("fpr"); fpr != json.end() && fpr->is_number()) {
    if (const double rate = fpr->get<double>(); rate > 0 && rate < 1) notes.fpr = rate;
  }
  return notes;
}

}  // namespace scbf::python
