// SPDX-License-Identifier: Apache-2.0
#include "encoding.hpp"
#include "scbf/detail/in_quotes.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace scbf::index {

namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored in native byte order");

constexpr int kFormat = 1;
constexpr std::string_view kEnd("\x00\x01", 2), kZero("\x00\xFF", 2);

template <class Number>
void append_big(std::string& out, Number number) {
  for (int shift = 8 * (static_cast<int>(sizeof number) - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(number >> shift & 0xFF));
  }
}
template <class Number>
void append_raw(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
template <class Number>
Number take_raw(std::string_view& bytes, std::string_view what) {
  Number number;
  if (bytes.size() < sizeof number) {
    throw CorruptFile(fmt::format("the store's {} is cut off", what));
  }
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

nlohmann::ordered_json definition_of(const TableSchema& schema, const IndexPlan& plan) {
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (const Column& column : schema.columns) {
    columns.push_back(
        {{"name", column.name}, {"indexed", column.indexed}, {"separator", column.separator}});
  }
  return {
      {"key", schema.key},
      {"columns", columns},
      {"fpr", plan.fpr},
      {"region_values", plan.region_values},
      {"servers", plan.servers},
      {"seed", plan.seed},
      {"layout", std::string(to_string(plan.layout))},
  };
}

std::string text_of(const nlohmann::ordered_json& definition) {
  try {
    return definition.dump(2);
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument("a column's name or separator is not UTF-8: both must be");
  }
}

}  // namespace

std::string region_record_key(RegionId region) {
  return std::string(kRegionRecords) + region_key(region);
}
std::string region_state_key(RegionId region) { return "state/" + region_key(region); }
RegionId region_of(std::string_view record_key) {
  RegionId region = 0;
  for (const char c : record_key.substr(kRegionRecords.size(), 4)) {
    region = region << 8 | static_cast<unsigned char>(c);
  }
  return region;
}

std::string entry_key(std::size_t column, std::string_view value) {
  std::string key;
  key.reserve(2 + value.size());
  append_big(key, static_cast<std::uint16_t>(column));
  return key.append(value);
}

std::size_t column_of(std::string_view entry) {
  return static_cast<std::size_t>(static_cast<unsigned char>(entry[0]) << 8 |
                                  static_cast<unsigned char>(entry[1]));
}

std::string region_key(RegionId region) {
  std::string key;
  append_big(key, region);
  return key;
}

std::string value_key(RegionId region, std::string_view entry) {
  return region_key(region).append(entry);
}

std::string posting_prefix(RegionId region, std::string_view entry) {
  std::string key = region_key(region);
  key.reserve(key.size() + entry.size() + 2);
  key.append(entry.substr(0, 2));
  for (const char c : entry.substr(2)) {
    if (c == '\0') {
      key.append(kZero);
    } else {
      key.push_back(c);
    }
  }
  return key.append(kEnd);
}

std::string posting_key(RegionId region, std::string_view entry, std::string_view row) {
  return posting_prefix(region, entry).append(row);
}

std::string log_key(RegionId region, std::uint64_t change) {
  std::string key = region_key(region);
  append_big(key, change);
  return key;
}

Posting parse_posting(std::string_view key) {
  Posting posting;
  if (key.size() >= 6) {
    posting.entry.assign(key.substr(4, 2));
    for (std::size_t i = 6; i + 1 < key.size(); ++i) {
      if (key[i] != '\0') {
        posting.entry.push_back(key[i]);
      } else if (key[++i] == kEnd[1]) {
        posting.prefix = i + 1;
        return posting;
      } else if (key[i] == kZero[1]) {
        posting.entry.push_back('\0');
      } else {
        break;
      }
    }
  }
  throw CorruptFile(fmt::format("posting {}: the end of the value is missing", shown(key)));
}

std::uint64_t change_of(std::string_view log_key) {
  if (log_key.size() != 12) throw CorruptFile("log of a filter: a key is cut off");
  std::uint64_t change = 0;
  for (const char c : log_key.substr(4)) change = change << 8 | static_cast<unsigned char>(c);
  return change;
}

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::string encode_row(const std::vector<std::string>& values) {
  std::string bytes;
  append_raw(bytes, static_cast<std::uint32_t>(values.size()));
  for (const std::string& value : values) {
    append_raw(bytes, static_cast<std::uint32_t>(value.size()));
    bytes.append(value);
  }
  return bytes;
}

std::vector<std::string> decode_row(std::string_view key, std::string_view bytes,
                                    std::size_t columns) {
  const auto damaged = [&](const std::string& how) {
    return CorruptFile(fmt::format("the store's row {} {}", shown(key), how));
  };
  const auto number = [&] {
    std::uint32_t taken;
    if (bytes.size() < sizeof taken) throw damaged("is cut off");
    std::memcpy(&taken, bytes.data(), sizeof taken);
    bytes.remove_prefix(sizeof taken);
    return taken;
  };
  if (const std::uint32_t count = number(); count != columns) {
    throw damaged(fmt::format("has {} values: the table has {} columns", count, columns));
  }
  std::vector<std::string> values(columns);
  for (std::string& value : values) {
    const std::uint32_t size = number();
    if (size > bytes.size()) throw damaged("is cut off");
    value.assign(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty()) throw damaged(fmt::format("has {} bytes too many", bytes.size()));
  return values;
}

std::string encode_number(std::uint64_t number) {
  std::string bytes;
  append_raw(bytes, number);
  return bytes;
}

std::uint64_t decode_number(std::string_view bytes, std::string_view what) {
  const auto number = take_raw<std::uint64_t>(bytes, what);
  if (!bytes.empty()) {
    throw CorruptFile(fmt::format("the store's {} has {} bytes too many", what, bytes.size()));
  }
  return number;
}

std::string encode_change(const FilterChange& change) {
  std::string bytes;
  append_raw(bytes, static_cast<std::uint32_t>(change.added.size()));
  append_raw(bytes, static_cast<std::uint32_t>(change.removed.size()));
  for (const auto* hashes : {&change.added, &change.removed}) {
    bytes.append(reinterpret_cast<const char*>(hashes->data()), hashes->size() * 8);
  }
  return bytes;
}

FilterChange decode_change(std::string_view bytes) {
  constexpr std::string_view kWhat = "log of a filter";
  const auto added = take_raw<std::uint32_t>(bytes, kWhat);
  const auto removed = take_raw<std::uint32_t>(bytes, kWhat);
  if (bytes.size() != 8 * (std::uint64_t{added} + removed)) {
    throw CorruptFile(fmt::format("log of a filter: {} bytes where {} hashes should be",
                                  bytes.size(), std::uint64_t{added} + removed));
  }
  FilterChange change;
  for (auto* hashes : {&change.added, &change.removed}) {
    hashes->resize(hashes == &change.added ? added : removed);
    for (std::uint64_t& hash : *hashes) hash = take_raw<std::uint64_t>(bytes, kWhat);
  }
  return change;
}

std::string encode_state(const RegionState& state) {
  std::string bytes;
  for (const std::uint64_t number : {state.rows, state.values, state.changes, state.history}) {
    append_raw(bytes, number);
  }
  return bytes;
}

RegionState decode_state(std::string_view bytes) {
  RegionState state;
  for (std::uint64_t* number : {&state.rows, &state.values, &state.changes}) {
    *number = take_raw<std::uint64_t>(bytes, "record of a region");
  }
  // Version 0.1 wrote no history.
  if (!bytes.empty()) state.history = take_raw<std::uint64_t>(bytes, "record of a region");
  if (!bytes.empty()) {
    throw CorruptFile(
        fmt::format("the store's record of a region has {} bytes too many", bytes.size()));
  }
  return state;
}

std::string encode_region(const RegionRecord& record) {
  std::string bytes;
  append_raw(bytes, record.server);
  return bytes.append(record.from);
}

RegionRecord decode_region(std::string_view bytes) {
  const auto server = take_raw<ServerId>(bytes, "record of a region");
  return {server, std::string(bytes)};
}

std::string encode_definition(const TableSchema& schema, const IndexPlan& plan) {
  nlohmann::ordered_json definition = {{"format", kFormat}};
  definition.update(definition_of(schema, plan));
  return text_of(definition);
}

namespace {

/// Throws CorruptFile unless the number fits.
template <class Number>
Number number_at(const nlohmann::json& definition, const char* name) {
  const nlohmann::json& value = definition.at(name);
  if (value.is_number_unsigned() && std::in_range<Number>(value.get<std::uint64_t>())) {
    return static_cast<Number>(value.get<std::uint64_t>());
  }
  throw CorruptFile(fmt::format("the definition of the index is damaged: {} {}: must be 0 to {}",
                                name, value.dump(), std::numeric_limits<Number>::max()));
}

}  // namespace

void decode_definition(std::string_view json, TableSchema& schema, IndexPlan& plan) {
  try {
    const auto definition = nlohmann::json::parse(json);
    if (const int format = definition.at("format"); format != kFormat) {
      throw CorruptFile(
          fmt::format("the index has format {}: this version reads {}", format, kFormat));
    }
    schema.key = definition.at("key");
    for (const auto& column : definition.at("columns")) {
      schema.columns.push_back({column.at("name"), column.at("indexed"), column.at("separator")});
    }
    plan.fpr = definition.at("fpr");
    plan.region_values = number_at<decltype(plan.region_values)>(definition, "region_values");
    plan.servers = number_at<decltype(plan.servers)>(definition, "servers");
    plan.seed = number_at<decltype(plan.seed)>(definition, "seed");
    plan.layout = layout_from_string(definition.at("layout").get<std::string>());
    schema.check();
  } catch (const nlohmann::json::exception& error) {
    throw CorruptFile(fmt::format("the definition of the index is damaged: {}", error.what()));
  } catch (const InvalidArgument& error) {
    throw CorruptFile(fmt::format("the definition of the index is damaged: {}", error.what()));
  }
}

std::string shown(std::string_view bytes) { return detail::in_quotes(bytes, 64); }

}  // namespace scbf::index

namespace scbf {

std::string definition_json(const TableSchema& schema, const IndexPlan& plan) {
  return index::text_of(index::definition_of(schema, plan));
}

}  // namespace scbf
