// SPDX-License-Identifier: Apache-2.0
// The byte formats in the store: keys that sort like their parts, rows, and small records. This
// file does not depend on the store. docs/secondary_index.md lists the families and their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// An entry: the number of the column (16 bits, big-endian), then an indexed value. The filters
/// hash these bytes.
std::string entry_key(std::size_t column, std::string_view value);

/// The number of the column in an entry, which has at least two bytes.
std::size_t column_of(std::string_view entry);

/// The region (32 bits, big-endian), so that everything of a region is contiguous.
std::string region_key(RegionId region);
/// region ‖ entry: the key of a value's count of rows in the region.
std::string value_key(RegionId region, std::string_view entry);
/// region ‖ entry ‖ key of the row. In the entry's value each 00 is written as 00 FF, and 00 01
/// ends it. So postings sort by region, column, value and row.
std::string posting_key(RegionId region, std::string_view entry, std::string_view row);
/// The part of posting_key before the row's key: the common prefix of a value's postings.
std::string posting_prefix(RegionId region, std::string_view entry);
/// region ‖ number of the change (64 bits, big-endian).
std::string log_key(RegionId region, std::uint64_t change);
/// The entry in a value_key.
inline std::string_view entry_of(std::string_view value_key) { return value_key.substr(4); }

/// The parts of a posting_key.
struct Posting {
  std::string entry;
  std::size_t prefix;  ///< number of bytes before the row's key
};
/// Splits a posting_key. Throws CorruptFile.
Posting parse_posting(std::string_view key);
/// The number of the change in a log_key. Throws CorruptFile.
std::uint64_t change_of(std::string_view log_key);

/// The smallest key greater than all keys that begin with `prefix`; empty if there is none.
std::string after_prefix(std::string prefix);

std::string encode_row(const std::vector<std::string>& values);
/// Throws CorruptFile, naming the row, unless `bytes` hold exactly `columns` values.
std::vector<std::string> decode_row(std::string_view key, std::string_view bytes,
                                    std::size_t columns);

std::string encode_number(std::uint64_t number);
/// `what` names the number in the CorruptFile that this throws if the bytes are too short.
std::uint64_t decode_number(std::string_view bytes, std::string_view what);

/// The hashes that a change added to a region's filter and removed from it.
struct FilterChange {
  std::vector<std::uint64_t> added, removed;
};
std::string encode_change(const FilterChange& change);
FilterChange decode_change(std::string_view bytes);

// Keys of meta; kDefinition and kIdentity are in definition.hpp.

inline constexpr std::string_view kNextRegion = "next_region";
/// What region_record_key begins with.
inline constexpr std::string_view kRegionRecords = "region/";
std::string region_record_key(RegionId region);
std::string region_state_key(RegionId region);
/// The region of a region_record_key.
RegionId region_of(std::string_view record_key);

/// The part of a region's state that every write changes.
struct RegionState {
  std::uint64_t rows = 0;
  std::uint64_t values = 0;   ///< distinct
  std::uint64_t changes = 0;  ///< number of changes to its filter since the region was made
  std::uint64_t history = 0;  ///< digest of these changes (history.hpp)
};
std::string encode_state(const RegionState& state);
RegionState decode_state(std::string_view bytes);

/// The server of a region and its first key.
struct RegionRecord {
  ServerId server;
  std::string from;
};
std::string encode_region(const RegionRecord& record);
RegionRecord decode_region(std::string_view bytes);

/// The object of definition_json with "format" before the other members. Throws InvalidArgument
/// unless all names are UTF-8.
std::string encode_definition(const TableSchema& schema, const IndexPlan& plan);
/// Throws CorruptFile.
void decode_definition(std::string_view json, TableSchema& schema, IndexPlan& plan);

/// The first 64 bytes, quoted for messages (scbf/detail/in_quotes.hpp).
std::string shown(std::string_view bytes);

}  // namespace scbf::index
