// SPDX-License-Identifier: Apache-2.0
// Bytes of the store: keys that sort as their parts do, rows, small records. Knows nothing of the
// store itself. docs/secondary_index.md lists the families and their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// An indexed value of a row, as the filters know it: the column's number (16 bits, big-endian),
/// then the value. These bytes are hashed.
std::string entry_key(std::size_t column, std::string_view value);

/// Region (32 bits, big-endian), so that what belongs to a region lies together.
std::string region_key(RegionId region);
/// region ‖ entry: how many rows of the region have the value.
std::string value_key(RegionId region, std::string_view entry);
/// region ‖ entry, its value ended by 00 01 and its zeros written 00 FF ‖ key of the row: sorts by
/// region, column, value, row.
std::string posting_key(RegionId region, std::string_view entry, std::string_view row);
/// All before the row's key: what the postings of a value begin with.
std::string posting_prefix(RegionId region, std::string_view entry);
/// region ‖ number of the change (64 bits, big-endian).
std::string log_key(RegionId region, std::uint64_t change);
/// The entry of value_key.
inline std::string_view entry_of(std::string_view value_key) { return value_key.substr(4); }

/// A posting's key, taken apart.
struct Posting {
  std::string entry;
  std::size_t prefix;  ///< bytes before the row's key
};
/// Throws CorruptFile.
Posting parse_posting(std::string_view key);
/// The change number of log_key.
std::uint64_t change_of(std::string_view log_key);

/// The first key behind all that begin with `prefix`; empty if there is none.
std::string after_prefix(std::string prefix);

std::string encode_row(const std::vector<std::string>& values);
/// Throws CorruptFile, naming the row, unless there are `columns` values.
std::vector<std::string> decode_row(std::string_view key, std::string_view bytes,
                                    std::size_t columns);

std::string encode_number(std::uint64_t number);
/// Throws CorruptFile, naming what it is.
std::uint64_t decode_number(std::string_view bytes, std::string_view what);

/// Hashes that a change brought to a region's filter and took from it.
struct FilterChange {
  std::vector<std::uint64_t> added, removed;
};
std::string encode_change(const FilterChange& change);
FilterChange decode_change(std::string_view bytes);

/// What changes with every write to a region.
struct RegionState {
  std::uint64_t rows = 0;
  std::uint64_t values = 0;   ///< distinct
  std::uint64_t changes = 0;  ///< of its filter, ever
};
std::string encode_state(const RegionState& state);
RegionState decode_state(std::string_view bytes);

/// What a region is.
struct RegionRecord {
  ServerId server;
  std::string from;
};
std::string encode_region(const RegionRecord& record);
RegionRecord decode_region(std::string_view bytes);

/// "format", then what definition_json gives. Throws InvalidArgument for names that are not UTF-8.
std::string encode_definition(const TableSchema& schema, const IndexPlan& plan);
/// Throws CorruptFile.
void decode_definition(std::string_view json, TableSchema& schema, IndexPlan& plan);

/// For messages: at most 64 bytes of it, quoted.
std::string shown(std::string_view bytes);

}  // namespace scbf::index
