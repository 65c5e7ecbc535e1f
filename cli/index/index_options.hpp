// SPDX-License-Identifier: Apache-2.0
// Options that the verbs of scbf index share: the index, how to open it, and the format of tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "key_reader.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "records.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::cli {

/// The directory of an index, and the options for opening it.
struct IndexTarget {
  std::string folder;
  IndexOptions options;
  bool json = false;

  /// Adds DIR, --backend, --threads and --json, and --sync if the verb writes rows.
  enum class Writes : unsigned char { no, yes };
  void add_to(CommandLine& line, const std::string& json_help, Writes writes = Writes::no);
  /// Opens the index. Prints a note on standard error if filters had to be rebuilt or regions are
  /// always asked.
  SecondaryIndex open() const;
  /// Does the same for a verb that only reads: it needs no permission to write, and works beside
  /// another process that writes.
  SecondaryIndex open_read_only() const;
};

/// Throws UsageError if `folder` exists. With `may_be_empty`, an empty directory is accepted.
void must_be_new(const std::string& folder, bool may_be_empty);

/// Adds --no-escapes, for reading TSV.
void add_escapes_to(CommandLine& line, Escapes& escapes);

/// Parses "COL=VALUE". Names of columns may contain "="; the longest matching name is taken. Throws
/// UsageError, listing the columns, if none matches.
struct Assignment {
  std::string column, value;
};
Assignment parse_assignment(const TableSchema& schema, const std::string& text);

/// A file of keys or values, one a line, and how they are written there.
struct ListFile {
  std::string name;  ///< of the option
  std::string file;  ///< "-": standard input; empty: none
  KeyFormat format = {.only_lines = true};

  /// Adds the option that names the file, and those that say how it is written.
  void add_to(CommandLine& line, const std::string& option, const std::string& help);
  /// Throws UsageError if options say how a file is written, and there is none.
  void check() const;
};
/// Returns `words`, then the lines of the file. Throws UsageError if there is no key at all, or as
/// ListFile::check does, and IoError.
std::vector<std::string> keys_from(std::vector<std::string> words, const ListFile& list);

/// Throws UsageError if the text that is to divide values was meant as a list of columns, as the
/// rest of "tags:,,town". `what` says where it was given.
void refuse_list_of_columns(const TableSchema& schema, const std::string& separator,
                            const std::string& what);

}  // namespace scbf::cli
