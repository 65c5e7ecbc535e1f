// SPDX-License-Identifier: Apache-2.0
// What the verbs of scbf index share: the folder of the index, how it is opened, how tables are
// written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::cli {

/// An index and how it is opened.
struct IndexTarget {
  std::string folder;
  IndexOptions options;
  bool json = false;

  /// DIR, --backend, --threads, --json; --sync where the verb writes rows.
  enum class Writes : unsigned char { no, yes };
  void add_to(CommandLine& line, const std::string& json_help, Writes writes = Writes::no);
  /// How to open or create it.
  IndexOptions how() const;
  /// Adds notes on standard error where filters had to be made anew, or are asked always.
  SecondaryIndex open() const;

 private:
  std::string backend_ = "auto";  // options would only view it
};

/// Fields of a table are divided by commas (RFC 4180) or by tabs.
enum class TableFormat : unsigned char { csv, tsv };
/// "," or "tab". Throws UsageError for others.
TableFormat table_format_from_string(const std::string& text);

/// "COL=VALUE"; a column's name may have "=" in it, then the longest that fits is meant. Throws
/// UsageError naming the columns there are.
struct Assignment {
  std::string column, value;
};
Assignment parse_assignment(const TableSchema& schema, const std::string& text);

/// All that are given as words, then the lines of `file` ("-" is standard input; none if empty).
/// Throws UsageError when that is none, IoError.
std::vector<std::string> keys_from(std::vector<std::string> words, const std::string& file);

/// A key for people: bytes that do not print as \xHH, shortened to `most` characters.
std::string printable(std::string_view key, std::size_t most = 40);

}  // namespace scbf::cli
