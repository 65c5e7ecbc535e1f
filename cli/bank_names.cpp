// SPDX-License-Identifier: Apache-2.0
#include "bank_names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "filter_notes.hpp"
#include "output.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// What may be a name: of named(), and of Spark.
constexpr const char* kNames[] = {"name", "group"};

/// Metadata as an object to which a name can be added.
Json as_object(const std::string& metadata) {
  Json json = metadata_as_json(metadata);
  if (json.is_object()) return json;
  json = Json::object();
  if (!metadata.empty()) json["metadata"] = metadata;
  return json;
}

/// The text of a value in a member's metadata.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto bytes = value.is_object() ? value.find("bytes") : value.end();
  if (bytes == value.end() || !bytes->is_array()) return json_text(value);
  std::string text;
  for (const Json& byte : *bytes) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255) return json_text(value);
    text += static_cast<char>(byte.get<std::uint64_t>());
  }
  return text;
}

}  // namespace

std::string named(const std::string& name, const std::string& metadata) {
  Json json = as_object(metadata);
  json["name"] = name;
  return json_text(json);
}

std::string named_as_before(const std::string& before, const std::string& metadata) {
  const Json old = as_object(before);
  Json json = as_object(metadata);
  bool changed = false;
  for (const char* const key : kNames) {
    changed |= json.erase(key) > 0;
    if (const auto it = old.find(key); it != old.end()) {
      json[key] = *it;
      changed = true;
    }
  }
  return changed ? json_text(json) : metadata;
}

std::string name_in(const std::string& metadata, std::uint32_t number) {
  const Json json = metadata_as_json(metadata);
  if (json.is_object()) {
    for (const char* const key : kNames) {
      if (const auto it = json.find(key); it != json.end()) return text_of(*it);
    }
  }
  return fmt::format("{}", number);
}

std::vector<std::string> names_of(const BankBase& bank) {
  std::vector<std::string> names(bank.slots());
  for (std::uint32_t member = 0; member < bank.slots(); ++member) {
    if (bank.has_member(member)) names[member] = name_in(bank.metadata(member), member);
  }
  return names;
}

std::vector<std::uint32_t> members_named(const BankBase& bank,
                                         const std::vector<std::string>& names,
                                         const std::string& name, const char* option,
                                         const std::string& file) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t member = 0; member < names.size(); ++member) {
    if (bank.has_member(member) && names[member] == name) members.push_back(member);
  }
  if (members.empty()) {
    throw UsageError(fmt::format("{} {}: {} has no member of this name; 'scbf info' lists them",
                                 option, in_quotes(name), display_name(file)));
  }
  return members;
}

}  // namespace scbf::cli
