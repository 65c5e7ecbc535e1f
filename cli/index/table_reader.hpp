// SPDX-License-Identifier: Apache-2.0
// Reads the rows of a table from CSV and TSV files with a header. Columns are matched by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records.hpp"
#include "scbf/table.hpp"

namespace scbf::cli {

/// The first record of a file. Throws IoError if there is none, or if a name is empty or repeated.
std::vector<std::string> read_header(const std::string& file, TableFormat format, Escapes escapes);

class TableReader {
 public:
  /// Reads the header. Throws IoError, also if a column is unknown, missing or repeated.
  TableReader(const std::string& file, TableFormat format, Escapes escapes,
              const TableSchema& schema);

  /// Reads the next row; returns false at the end. Throws IoError, naming the line, if the row has
  /// too many or too few fields or exceeds a limit (excess_of).
  bool next(Row& row);
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint64_t bytes_read() const noexcept { return records_.bytes_read(); }

 private:
  void check_limits(const Row& row, std::uint64_t line) const;

  RecordReader records_;
  const TableSchema& schema_;
  std::vector<std::size_t> columns_;  // of each field: a number, columns.size() for the key
  std::uint64_t rows_ = 0;
};

}  // namespace scbf::cli
