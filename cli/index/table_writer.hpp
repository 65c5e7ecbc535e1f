// SPDX-License-Identifier: Apache-2.0
// Rows as text: CSV that reads back as it was, TSV for other tools, JSON objects.
#pragma once

#include <string_view>

#include "index_options.hpp"
#include "output.hpp"
#include "scbf/table.hpp"

namespace scbf::cli {

/// Writes fields, one after another, and ends rows. In CSV a field is in quotes where it must be;
/// in TSV tabs and line breaks within a field are written as \t, \n and \r.
class TableWriter {
 public:
  TableWriter(Output& out, TableFormat format) : out_(out), format_(format) {}
  void field(std::string_view text);
  void end_row();
  /// Key, then values.
  void row(const Row& row);
  /// The names of the columns.
  void header(const TableSchema& schema, bool keys_only = false);

 private:
  Output& out_;
  TableFormat format_;
  bool first_ = true;
};

/// {column: value, …}; only the key if the row has no values.
Json row_json(const TableSchema& schema, const Row& row);

}  // namespace scbf::cli
