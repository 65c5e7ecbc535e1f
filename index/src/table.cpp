// SPDX-License-Identifier: Apache-2.0
#include "scbf/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "scbf/errors.hpp"

namespace scbf {

std::size_t TableSchema::column(std::string_view name) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
    names.push_back(columns[i].name);
  }
  throw InvalidArgument(fmt::format("column '{}': there is none; beside the key '{}' there are {}",
                                    name, key, fmt::join(names, ", ")));
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
      throw InvalidArgument(fmt::format("column '{}' is there twice", column.name));
    }
    if (!column.separator.empty() && !column.indexed) {
      throw InvalidArgument(
          fmt::format("column '{}' has a separator, but is not indexed", column.name));
    }
  }
}

}  // namespace scbf
