// SPDX-License-Identifier: Apache-2.0
// What a table is made of: columns, rows, and which values of a row are indexed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scbf {

/// Most columns of a table, beside its key.
inline constexpr std::size_t kMaxColumns = 4096;
/// Most bytes of a row's key, and of a value that is indexed.
inline constexpr std::size_t kMaxKeyBytes = 65'535;
inline constexpr std::size_t kMaxIndexedBytes = 65'535;
/// Most bytes of all values of a row.
inline constexpr std::size_t kMaxRowBytes = 256u << 20;

/// A column. Empty fields have no value: they are not indexed.
struct Column {
  std::string name;
  bool indexed = false;
  /// Not empty: a field holds several values, which this separates; blanks around them are not part
  /// of them. Each is indexed by itself, and counts once however often the field has it.
  std::string separator;

  friend bool operator==(const Column&, const Column&) = default;
};

/// A table: rows have a key of their own, by which they are sorted (as unsigned bytes) and divided
/// into regions.
struct TableSchema {
  std::string key;              ///< the key's name
  std::vector<Column> columns;  ///< the others, in the order of Row::values

  /// The number of a column. Throws InvalidArgument, naming those there are.
  std::size_t column(std::string_view name) const;
  /// Throws InvalidArgument unless names are there, distinct and not empty, at most kMaxColumns
  /// columns.
  void check() const;
  friend bool operator==(const TableSchema&, const TableSchema&) = default;
};

/// values.size() == TableSchema::columns.size().
struct Row {
  std::string key;
  std::vector<std::string> values;

  friend bool operator==(const Row&, const Row&) = default;
};

/// A part of a row that is over its limit, or a key that is empty.
struct RowExcess {
  enum class Part : std::uint8_t { key, value, row };
  Part part;
  std::size_t column;  ///< of Part::value: its number in TableSchema::columns; else 0
  std::size_t bytes;   ///< of Part::value: of the longest value of that field; 0 for an empty key
  std::size_t limit;   ///< kMaxKeyBytes, kMaxIndexedBytes or kMaxRowBytes
};
/// Why an index would refuse a row; empty if it takes it. The key is looked at first, then the
/// columns in order, then the row as a whole. row.values.size() must be schema.columns.size().
/// Cost: fields longer than kMaxIndexedBytes are read once, others not at all.
std::optional<RowExcess> excess_of(const TableSchema& schema, const Row& row);

}  // namespace scbf
