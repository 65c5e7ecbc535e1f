// SPDX-License-Identifier: Apache-2.0
// Rows of an index: as dicts, from mappings, and from tables of rows that Python code or Arrow has.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/table.hpp"

namespace scbf::python {

nanobind::dict dict_of(const TableSchema& schema, const Row& row);

/// The items of a mapping. Throws InvalidArgument for anything else.
nanobind::object items_of(nanobind::handle mapping, const char* what);

/// The row in a mapping of column names to fields; columns that it lacks, or that are None, NaN or
/// pandas.NA, are empty.
Row row_of(const TableSchema& schema, nanobind::handle fields);

/// The rows of an object, one after another. Made and destroyed with Python's global lock.
class RowSequence {
 public:
  virtual ~RowSequence() = default;
  /// Stores the next row in `row`, which must be empty; false at the end. Without the lock. Throws
  /// what Ctrl-C raises.
  virtual bool next(Row& row) = 0;
};

/// The rows of an iterable of mappings, of a data frame, or of what has __arrow_c_stream__ or
/// __arrow_c_array__. Throws InvalidArgument, naming the column, if Arrow's columns are not text or
/// bytes of this table. The schema must outlive the rows.
std::unique_ptr<RowSequence> rows_of(const TableSchema& schema, nanobind::handle object);

/// One text or bytes, or a column of them: an iterable, or what has __arrow_c_stream__ or
/// __arrow_c_array__. `what`: for messages.
std::vector<std::string> texts_of(nanobind::handle object, std::string_view what);

}  // namespace scbf::python
