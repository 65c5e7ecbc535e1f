// SPDX-License-Identifier: Apache-2.0
// Arrow tables, record batches and columns of text, row by row: for the fields of an index.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keys/arrow.hpp"
#include "keys/arrow_columns.hpp"

namespace scbf::python {

/// Columns of text or bytes, some rows at a time.
class TextRows {
 public:
  /// Throws InvalidArgument, naming the column and its type, unless all columns are text, bytes or
  /// dictionaries of these.
  explicit TextRows(std::unique_ptr<ArrowBatches> batches);
  ~TextRows();
  TextRows(const TextRows&) = delete;
  TextRows& operator=(const TextRows&) = delete;

  /// The columns' names, in order; of a plain array, a single empty one.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// Goes on to the next rows; false at the end. With Python's global lock.
  bool next();
  /// How many rows there are now.
  std::size_t size() const noexcept { return size_; }
  /// A field, valid until next(); nothing if it is null. Needs no lock. Throws InvalidArgument if
  /// the array does not follow the C data interface.
  std::optional<std::string_view> field(std::size_t column, std::size_t row) const;

 private:
  class Part;

  std::unique_ptr<ArrowBatches> batches_;
  std::vector<const ArrowSchema*> schemas_;  // of the columns
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Part>> parts_;  // of the columns, for the rows that there are now
  std::size_t size_ = 0;
};

/// The rows of an object with __arrow_c_stream__ or __arrow_c_array__; null if it has neither, and
/// for those of pandas: its streams have its index as a column.
std::unique_ptr<TextRows> text_rows(nanobind::handle object, std::string_view of);

}  // namespace scbf::python
