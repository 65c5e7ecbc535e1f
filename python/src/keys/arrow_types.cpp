// SPDX-License-Identifier: Apache-2.0
#include "keys/arrow_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "keys/arrow_columns.hpp"

namespace scbf::python {

namespace {

constexpr std::string_view kFloatAdvice =
    "round floating-point numbers to integers (pandas with missing values: astype('Int64'))";
constexpr std::string_view kTime32Advice = "cast it to int32, in one unit for all data of a filter";
constexpr std::string_view kMomentAdvice = "cast it to int64, in one unit for all data of a filter";
// Of NumPy and pandas, which have a number for what is missing.
constexpr std::string_view kTimestampAdvice =
    "cast it to int64, in one unit for all data of a filter (pandas: leave NaT out first, for "
    "example by dropna(), or it becomes a number, too)";

/// Format strings begin with the prefix of their type; of several that fit, the first counts.
struct Type {
  std::string_view prefix, name;
  std::string_view advice = {};  // for those that cannot be keys
};
constexpr Type kTypes[] = {
    {"c", "int8"},
    {"C", "uint8"},
    {"s", "int16"},
    {"S", "uint16"},
    {"i", "int32"},
    {"I", "uint32"},
    {"l", "int64"},
    {"L", "uint64"},
    {"b", "bool", "true and false are no keys; was a mask given for the column?"},
    {"e", "float16", kFloatAdvice},
    {"f", "float32", kFloatAdvice},
    {"g", "float64", kFloatAdvice},
    {"d", "decimal", "cast it to a string or to int64"},
    {"tdD", "date32", "cast it to int32, which are days; to the same for all data of a filter"},
    {"tdm", "date64",
     "cast it to int64, which are milliseconds; to the same for all data of a filter"},
    {"tts", "time32", kTime32Advice},
    {"ttm", "time32", kTime32Advice},
    {"tt", "time64", kMomentAdvice},
    {"ts", "timestamp", kTimestampAdvice},
    {"tD", "duration", kTimestampAdvice},
    {"ti", "interval", "cast it to a string where it comes from, for example in SQL"},
    {"+r", "run-end encoded", "decode it first"},
    {"+s", "struct", "choose one of its columns"},
    {"+m", "map", "choose one of its columns"},
    {"+l", "list", "flatten it first"},
    {"+L", "large_list", "flatten it first"},
    {"+w", "fixed-size list", "flatten it first"},
    {"+v", "list view", "flatten it first"},
    {"+u", "union", "choose one of its columns"},
};

/// Null if it is not in the table.
const Type* known(std::string_view format) {
  const auto* const found = std::ranges::find_if(
      kTypes, [&](const Type& type) { return format.starts_with(type.prefix); });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

std::string type_name(std::string_view format) {
  if (const Type* const type = known(format)) return std::string(type->name);
  return fmt::format("format '{}'", printable(format));
}

std::string refusal_of_format(std::string_view format) {
  if (const Type* const type = known(format); type && !type->advice.empty()) {
    return fmt::format("an Arrow column of type {} cannot be keys: {}", type->name, type->advice);
  }
  return fmt::format("an Arrow column of format '{}' cannot be keys: cast it to int64 or string",
                     printable(format));
}

}  // namespace scbf::python
