// SPDX-License-Identifier: Apache-2.0
// Writes rows as text: CSV and TSV that RecordReader reads back exactly, or JSON objects.
#pragma once

#include <string_view>

#include "index_options.hpp"
#include "output.hpp"
#include "scbf/table.hpp"

namespace scbf::cli {

/// Writes rows field by field. CSV quotes a field only if it has to. TSV writes tabs,
/// line breaks and backslashes within a field as \t, \n, \r and \\.
class TableWriter {
 public:
  TableWriter(Output& out, TableFormat format) : out_(out), format_(format) {}
  void field(std::string_view text);
  void end_row();
  /// Writes the key, then the values.
  void row(const Row& row);
  /// Writes the names of the columns, the key first.
  void header(const TableSchema& schema, bool keys_only = false);

 private:
  Output& out_;
  TableFormat format_;
  bool first_ = true;
};

/// {column: value, …}. Only the key if row.values is empty.
Json row_json(const TableSchema& schema, const Row& row);

}  // namespace scbf::cli
