// SPDX-License-Identifier: Apache-2.0
// Rows of a table from CSV and TSV files with a header, their columns matched by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records.hpp"
#include "scbf/table.hpp"

namespace scbf::cli {

/// What the option says, else by the name: .tsv and .tab are TSV, all else is CSV.
TableFormat format_of(const std::string& file, std::optional<TableFormat> option);
/// The first record of a file. Throws IoError when there is none, or a name is empty or twice
/// there.
std::vector<std::string> read_header(const std::string& file, TableFormat format);

class TableReader {
 public:
  /// Reads the header. Throws IoError, for a column that is unknown, missing or twice there too.
  TableReader(const std::string& file, TableFormat format, const TableSchema& schema);

  /// False at the end. Throws IoError, naming the line, for a row with too many or too few fields,
  /// and for what no index takes.
  bool next(Row& row);
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint64_t bytes_read() const noexcept { return records_.bytes_read(); }

 private:
  void check_limits(const Row& row) const;

  RecordReader records_;
  const TableSchema& schema_;
  std::vector<std::size_t> place_;  // of each field; columns.size() is the key
  Record record_;
  std::uint64_t rows_ = 0;
};

}  // namespace scbf::cli
