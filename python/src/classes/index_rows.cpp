// SPDX-License-Identifier: Apache-2.0
#include "classes/index_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "errors.hpp"
#include "keys/arrow_rows.hpp"
#include "keys/single_key.hpp"
#include "outside.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {

nb::dict dict_of(const TableSchema& schema, const Row& row) {
  nb::dict fields;
  fields[nb::str(schema.key.c_str())] = decoded(row.key);
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    fields[nb::str(schema.columns[i].name.c_str())] = decoded(row.values[i]);
  }
  return fields;
}

nb::object items_of(nb::handle mapping, const char* what) {
  if (!PyMapping_Check(mapping.ptr()) || !nb::hasattr(mapping, "items")) {
    throw InvalidArgument(fmt::format(
        "{}: must map columns to their fields, and is of type {}; of a data frame, take "
        "to_dict('records') (pandas) or iter_rows(named=True) (Polars)",
        what, nb::type_name(mapping.type()).c_str()));
  }
  nb::object items = nb::steal(PyMapping_Items(mapping.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  return items;
}

Row row_of(const TableSchema& schema, nb::handle fields) {
  const nb::object items = items_of(fields, "a row");
  nb::object key;
  std::vector<std::string> names;
  names.reserve(nb::len(items));
  for (nb::handle item : items) {
    names.push_back(encoded(item[0], "a column's name"));
    if (names.back() == schema.key) key = item[1];
  }
  if (!key.is_valid() || is_null(key.ptr())) {
    throw InvalidArgument(fmt::format("the row has no '{}', which is the table's key", schema.key));
  }
  Row row{.key = encoded(key, schema.key)};
  row.values.resize(schema.columns.size());
  try {
    auto next = names.begin();
    for (nb::handle item : items) {
      const std::string& name = *next++;
      const nb::object value = item[1];
      if (name != schema.key && !is_null(value.ptr())) {
        row.values[schema.column(name)] = encoded(value, name);
      }
    }
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("the row of {}: {}", shown(key.ptr()), error.what()));
  }
  return row;
}

namespace {

/// Rows of mappings: of an iterable, or of a data frame of pandas, which makes them.
class Mappings final : public RowSequence {
 public:
  Mappings(const TableSchema& schema, nb::handle rows) : schema_(schema) {
    if (is_of_package(rows, "pandas") && nb::hasattr(rows, "iloc") &&
        nb::hasattr(rows, "to_dict")) {
      frame_ = nb::borrow(rows);
      frame_rows_ = nb::len(rows);
      iterator_ = nb::iter(nb::list());
    } else {
      iterator_ = nb::iter(rows);
    }
  }

  bool next(Row& row) override {
    if (taken_ == block_.size() && !refill()) return false;
    row = std::move(block_[taken_++]);
    return true;
  }

 private:
  bool refill() {
    constexpr std::size_t kRows = 256;
    const Inside python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    block_.clear();
    taken_ = 0;
    while (block_.size() < kRows) {
      const nb::object fields = nb::steal(PyIter_Next(iterator_.ptr()));
      if (!fields.is_valid()) {
        if (PyErr_Occurred()) throw nb::python_error();
        if (!next_of_frame()) break;
      } else {
        block_.push_back(row_of(schema_, fields));
      }
    }
    return !block_.empty();
  }

  /// Goes on to more rows of the frame, if there are any.
  bool next_of_frame() {
    constexpr std::size_t kFrameRows = 4096;
    if (frame_from_ >= frame_rows_) return false;
    const std::size_t to = std::min(frame_rows_, frame_from_ + kFrameRows);
    const nb::object part =
        frame_.attr("iloc")[nb::slice(nb::int_(frame_from_), nb::int_(to), nb::none())];
    iterator_ = nb::iter(part.attr("to_dict")("records"));
    frame_from_ = to;
    return true;
  }

  const TableSchema& schema_;
  nb::object iterator_, frame_;
  std::size_t frame_from_ = 0, frame_rows_ = 0;
  std::vector<Row> block_;
  std::size_t taken_ = 0;
};

/// Rows of Arrow's columns.
class ArrowRows final : public RowSequence {
 public:
  ArrowRows(const TableSchema& schema, std::unique_ptr<TextRows> rows)
      : schema_(schema), rows_(std::move(rows)) {
    const std::vector<std::string>& names = rows_->names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i)) {
        throw InvalidArgument(fmt::format("the rows have two columns '{}'", names[i]));
      }
      if (names[i] == schema.key) {
        key_ = i;
      } else {
        values_.emplace_back(i, schema.column(names[i]));
      }
    }
    if (!key_) {
      throw InvalidArgument(
          fmt::format("the rows have no column '{}', which is the table's key", schema.key));
    }
  }

  bool next(Row& row) override {
    constexpr std::uint64_t kBetweenSignals = 4096;
    while (at_ == rows_->size()) {
      const Inside python;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      at_ = 0;
      if (!rows_->next()) return false;
    }
    if (++done_ % kBetweenSignals == 0) {
      const Inside python;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    const auto key = rows_->field(*key_, at_);
    if (!key) {
      throw InvalidArgument(
          fmt::format("row {} has no '{}', which is the table's key", done_ - 1, schema_.key));
    }
    row.key = *key;
    row.values.resize(schema_.columns.size());
    for (const auto& [from, to] : values_) {
      if (const auto field = rows_->field(from, at_)) row.values[to] = *field;
    }
    ++at_;
    return true;
  }

 private:
  const TableSchema& schema_;
  std::unique_ptr<TextRows> rows_;
  std::optional<std::size_t> key_;                           // number of Arrow's column
  std::vector<std::pair<std::size_t, std::size_t>> values_;  // Arrow's columns, and the table's
  std::size_t at_ = 0;                                       // among the rows that there are now
  std::uint64_t done_ = 0;
};

}  // namespace

std::unique_ptr<RowSequence> rows_of(const TableSchema& schema, nb::handle object) {
  if (auto rows = text_rows(object, "rows")) {
    return std::make_unique<ArrowRows>(schema, std::move(rows));
  }
  return std::make_unique<Mappings>(schema, object);
}

std::vector<std::string> texts_of(nb::handle object, std::string_view what) {
  std::vector<std::string> texts;
  if (nb::isinstance<nb::str>(object) || nb::isinstance<nb::bytes>(object)) {
    texts.push_back(encoded(object, what));
  } else if (const auto rows = text_rows(object, what)) {
    if (rows->names().size() != 1) {
      throw InvalidArgument(fmt::format("{}: give one column, not {}", what, rows->names().size()));
    }
    while (rows->next()) {
      for (std::size_t i = 0; i < rows->size(); ++i) {
        const auto text = rows->field(0, i);
        if (!text) throw InvalidArgument(fmt::format("{}: number {} is null", what, texts.size()));
        texts.emplace_back(*text);
      }
    }
  } else {
    for (nb::handle text : object) texts.push_back(encoded(text, what));
  }
  return texts;
}

}  // namespace scbf::python
