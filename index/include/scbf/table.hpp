// SPDX-License-Identifier: Apache-2.0
// The parts of a table: its columns, its rows, and which values of a row are indexed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scbf {

/// The largest number of columns of a table, beside its key.
inline constexpr std::size_t kMaxColumns = 4096;
/// The largest size of a row's key, and of an indexed value, in bytes.
inline constexpr std::size_t kMaxKeyBytes = 65'535;
inline constexpr std::size_t kMaxIndexedBytes = 65'535;
/// The largest size of all values of a row together, in bytes.
inline constexpr std::size_t kMaxRowBytes = 256u << 20;

/// A column. An empty field holds no value and is not indexed.
struct Column {
  std::string name;
  bool indexed = false;
  /// Empty: the whole field is one value. Otherwise a field holds several values with this
  /// separator between them. Blanks around a value (space, tab, CR, LF) are not part of it. Each
  /// value is indexed on its own, and once per row however often the field repeats it.
  std::string separator = {};

  friend bool operator==(const Column&, const Column&) = default;
};

/// The columns of a table. Each row has a unique key. Rows are sorted by key, compared as unsigned
/// bytes, and regions are ranges of keys.
struct TableSchema {
  std::string key;              ///< the name of the key column
  std::vector<Column> columns;  ///< the other columns, in the order of Row::values

  /// The index of the column `name` in `columns`. Throws InvalidArgument, listing the columns, if
  /// there is no such column. Cost: one pass over the columns.
  std::size_t column(std::string_view name) const;
  /// Throws InvalidArgument unless every name is non-empty and unique, every column with a
  /// separator is indexed, and there are at most kMaxColumns columns.
  void check() const;
  friend bool operator==(const TableSchema&, const TableSchema&) = default;
};

/// A row. values.size() == TableSchema::columns.size().
struct Row {
  std::string key;
  std::vector<std::string> values = {};

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
/// The limit that a row exceeds; none if an index accepts the row. The key is checked first, then
/// the columns in order, then the whole row. row.values.size() must equal schema.columns.size().
/// Cost: fields longer than kMaxIndexedBytes are read once, others not at all.
std::optional<RowExcess> excess_of(const TableSchema& schema, const Row& row);

}  // namespace scbf
