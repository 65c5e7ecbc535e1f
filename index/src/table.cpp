// SPDX-License-Identifier: Apache-2.0
#include "scbf/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "field_values.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/errors.hpp"

namespace scbf {

std::size_t TableSchema::column(std::string_view name) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
    names.push_back(detail::in_quotes(columns[i].name));
  }
  throw InvalidArgument(fmt::format("column {}: no such column; beside the key {} there are {}",
                                    detail::in_quotes(name), detail::in_quotes(key),
                                    fmt::join(names, ", ")));
}

void TableSchema::check() const {
  if (columns.size() > kMaxColumns) {
    throw InvalidArgument(
        fmt::format("{} columns: a table has at most {}", columns.size(), kMaxColumns));
  }
  if (key.empty()) throw InvalidArgument("the key has no name");
  std::unordered_set<std::string_view> names = {key};
  for (const Column& column : columns) {
    if (column.name.empty()) throw InvalidArgument("a column has no name");
    if (!names.insert(column.name).second) {
      throw InvalidArgument(
          fmt::format("column {} is there twice", detail::in_quotes(column.name)));
    }
    if (!column.separator.empty() && !column.indexed) {
      throw InvalidArgument(fmt::format("column {} has a separator, but is not indexed",
                                        detail::in_quotes(column.name)));
    }
  }
}

std::optional<RowExcess> excess_of(const TableSchema& schema, const Row& row) {
  using Part = RowExcess::Part;
  if (row.key.empty() || row.key.size() > kMaxKeyBytes) {
    return RowExcess{Part::key, 0, row.key.size(), kMaxKeyBytes};
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    const std::string& field = row.values[i];
    bytes += field.size();
    if (!schema.columns[i].indexed || field.size() <= kMaxIndexedBytes) continue;
    std::size_t longest = 0;
    index::for_each_field_value(schema.columns[i], field, [&](std::string_view value) {
      longest = std::max(longest, value.size());
    });
    if (longest > kMaxIndexedBytes) return RowExcess{Part::value, i, longest, kMaxIndexedBytes};
  }
  if (bytes > kMaxRowBytes) return RowExcess{Part::row, 0, bytes, kMaxRowBytes};
  return std::nullopt;
}

}  // namespace scbf
