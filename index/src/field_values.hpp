// SPDX-License-Identifier: Apache-2.0
// The values of a field. Only this file splits fields at separators and strips blanks.
#pragma once

#include <string_view>

#include "scbf/table.hpp"

namespace scbf::index {

inline std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Calls each(value) for the values of a field, in order; an empty field has none.
template <class Each>
void for_each_field_value(const Column& column, std::string_view field, const Each& each) {
  if (column.separator.empty()) {
    if (!field.empty()) each(field);
    return;
  }
  while (true) {
    const std::size_t end = field.find(column.separator);
    if (const std::string_view value = without_blanks(field.substr(0, end)); !value.empty()) {
      each(value);
    }
    if (end == std::string_view::npos) return;
    field.remove_prefix(end + column.separator.size());
  }
}

}  // namespace scbf::index
