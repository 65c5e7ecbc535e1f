// SPDX-License-Identifier: Apache-2.0
// How keys are written in the inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "record_divider.hpp"

namespace scbf::cli {

enum class KeyKind : std::uint8_t {
  lines,  ///< a line without its newline; the last one may lack it; empty lines are skipped
  u64,    ///< 64-bit integers
};
std::string_view to_string(KeyKind kind) noexcept;

/// A column of a table: its name in the first record, or, in a table without names, its number from
/// 1 on.
struct KeyColumn {
  std::string name;
  std::optional<TableFormat> format = {};
  Escapes escapes = Escapes::yes;
};

/// How keys are written in the inputs.
struct KeyFormat {
  KeyKind kind = KeyKind::lines;
  bool decimal = false;  ///< u64: decimal numbers, one a line, and not 8 bytes each, little-endian
  bool bytes_given = false;  ///< u64: the user said that they have 8 bytes each
  char end = '\n';           ///< of each line; 0 for lines that may hold newlines
  bool chomp_cr = false;     ///< a carriage return at the end of a line is no part of the key
  bool decode = true;        ///< decompress, and skip a byte order mark
  bool check = true;  ///< refuse what does not look like keys; find decimal numbers by themselves
  bool tell = true;   ///< print notes about what is read
  bool only_lines = false;  ///< the verb has no --keys, so that messages do not advise it
  std::optional<KeyColumn> column = {};
};

}  // namespace scbf::cli
