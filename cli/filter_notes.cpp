// SPDX-License-Identifier: Apache-2.0
#include "filter_notes.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "errors.hpp"
#include "input.hpp"
#include "scbf/errors.hpp"

namespace scbf::cli {

Json metadata_as_json(const std::string& metadata) {
  constexpr int kDeepest = 100;
  const Json::parser_callback_t not_deep = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw std::length_error("nested too deeply");
    return true;
  };
  try {
    return Json::parse(metadata, not_deep, false);
  } catch (const std::length_error&) {
    return Json(Json::value_t::discarded);
  }
}

FilterNotes read_notes(const std::string& metadata) {
  FilterNotes notes;
  const Json json = metadata_as_json(metadata);
  if (!json.is_object()) return notes;
  if (const auto it = json.find("keys"); it != json.end() && it->is_string()) {
    const auto name = it->get<std::string>();
    if (name == "lines") notes.kind = KeyKind::lines;
    if (name == "u64") notes.kind = KeyKind::u64;
  }
  if (const auto it = json.find("capacity"); it != json.end() && it->is_number_unsigned()) {
    if (const auto keys = it->get<std::uint64_t>(); keys > 0) notes.capacity = keys;
  }
  if (const auto it = json.find("fpr"); it != json.end() && it->is_number()) {
    if (const double rate = it->get<double>(); rate > 0 && rate < 1) notes.fpr = rate;
  }
  return notes;
}

std::string write_notes(const FilterNotes& notes) {
  Json json = Json::object();
  if (notes.kind) json["keys"] = to_string(*notes.kind);
  if (notes.capacity) json["capacity"] = *notes.capacity;
  if (notes.fpr) json["fpr"] = *notes.fpr;
  return json.dump();
}

std::string with_kind(const std::string& metadata, std::optional<KeyKind> kind) {
  Json json = metadata.empty() ? Json::object() : metadata_as_json(metadata);
  if (!json.is_object()) return metadata;
  json.erase("keys");
  if (kind) json["keys"] = to_string(*kind);
  return json_text(json);
}

void note_both_kinds(std::string_view what, std::string_view verb) {
  note(fmt::format("{} keys of both kinds: say by --keys which ones 'scbf {}' is to ask for", what,
                   verb));
}

KeyFormat agreed_format(const KeyOptions& keys, const FilterNotes& notes, const std::string& file) {
  if (keys.kind && notes.kind && *keys.kind != *notes.kind && !keys.force) {
    throw UsageError(fmt::format(
        "--keys '{}': {} was built from {} keys; leave --keys out, or add --force if you mean it",
        keys.format.decimal ? "decimal" : to_string(*keys.kind), display_name(file),
        to_string(*notes.kind)));
  }
  if (!keys.kind && !notes.kind) {  // a program wrote it
    note(fmt::format(
        "{} does not say which kind of keys it holds: lines are taken as text; give --keys lines, "
        "or u64 or decimal if its keys are integers",
        display_name(file)));
  }
  return keys.format_for(keys.kind ? *keys.kind : notes.kind.value_or(KeyKind::lines));
}

void check_kinds(const FilterNotes& notes, const std::string& file, const FilterNotes& others,
                 const std::string& other, bool force) {
  if (force || !notes.kind || !others.kind || *notes.kind == *others.kind) return;
  throw Incompatible(fmt::format("{} holds {} keys, {} holds {} keys; --force combines them",
                                 display_name(file), to_string(*notes.kind), display_name(other),
                                 to_string(*others.kind)));
}

}  // namespace scbf::cli
