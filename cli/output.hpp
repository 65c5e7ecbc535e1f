// SPDX-License-Identifier: Apache-2.0
// The only place where the command opens outputs: standard output, and files, which are replaced as
// a whole or not at all. Standard error is written by note() here and by progress.hpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "file_lock.hpp"

namespace scbf {
struct OutputFile;
}

namespace scbf::cli {

using Json = nlohmann::ordered_json;

/// A buffered writer. Throws ReaderGone if the reader of a pipe has closed it, and IoError with
/// name and reason for all other failures. Call finish() to write the last bytes. The destructor
/// drops them, because without finish() something else has failed already.
class Output {
 public:
  using Sink = std::function<void(std::string_view)>;

  /// Writes to standard output.
  Output();
  /// Writes to `sink`.
  explicit Output(Sink sink);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view bytes) {
    if (bytes.size() > kCapacity - used_) return write_slowly(bytes);
    bytes.copy(buffer_.get() + used_, bytes.size());
    used_ += bytes.size();
  }
  void write(char c) { write(std::string_view(&c, 1)); }
  /// Writes a JSON document (json_text), indented by 2, and a newline.
  void write_json(const Json& json);
  void flush();
  void finish() { flush(); }

 private:
  static constexpr std::size_t kCapacity = 1 << 18;
  void write_slowly(std::string_view bytes);

  Sink sink_;
  std::size_t used_ = 0;
  std::unique_ptr<char[]> buffer_;
};

/// Writes a field of TSV: a tab, a line break and a backslash in it as \t, \n, \r and \\.
void write_tsv_field(Output& out, std::string_view text);

/// JSON on one line, or indented by so many blanks per level. A string that is not UTF-8 becomes
/// {"bytes": [255, …]}, so that no two strings print alike.
std::string json_text(const Json& json, int indent = -1);

/// Where a verb writes its result, checked before any work is done. "-", and any other name of the
/// file that standard output is, means standard output.
class Destination {
 public:
  struct Rules {
    /// What may be replaced without `force`; what is written is of the same kind.
    enum class Replace : unsigned char { filters, banks, nothing, anything };
    Replace replace = Replace::filters;
    bool force = false;
    bool binary = true;                    ///< refused on a terminal
    bool json = false;                     ///< a report in JSON is to go to standard output
    std::vector<std::string> inputs = {};  ///< must not be replaced
    std::string way_out = {};  ///< what to do if it is an input; empty: "write to another file"
  };

  /// `option` names the output in messages, such as "-o f.scbf". Throws UsageError if the output is
  /// one of the inputs, a terminal, or something that only --force replaces, and IoError if it
  /// cannot be written: a folder, in no folder, or without permission.
  Destination(const std::string& option, std::string path, const Rules& rules);

  bool is_standard_output() const noexcept { return path_ == "-"; }
  const std::string& path() const noexcept { return path_; }
  /// Writes what `produce` writes. A regular file gets it as a whole at the end, or stays as it was
  /// if anything fails or the process is ended by a signal. Throws IoError. It does so, too, if
  /// only --force may replace the file, it was not there when this object was made, and now it is.
  /// (On a file system with neither links nor RENAME_NOREPLACE, a file that appears during the
  /// writing is replaced.)
  void write(const std::function<void(Output&)>& produce) const;
  /// The same for a filter, whose parts can be written in any order where the output is a file.
  void write_parts(const std::function<void(const OutputFile&)>& produce) const;
  /// Prints a report: to standard output, or to standard error if the result goes there.
  void report(std::string_view text) const;
  /// Locks the file (FileLock) until this object is destroyed: for verbs that read it before they
  /// replace it.
  void lock() { lock_ = FileLock(path_); }

 private:
  std::string path_;
  bool is_new_ = false;  // was not there, and nothing may be replaced
  FileLock lock_;
};

/// The inputs of a verb, checked before they are read: the filter and the files of keys. Throws
/// UsageError if two of them are one pipe or standard input, which can be read only once, and if
/// standard output is appended to one of them.
void check_inputs(std::span<const std::string> inputs);

/// From now on SIGINT, SIGTERM and SIGHUP remove unfinished files before they end the process, and
/// a limit on the size of files gives an error.
void clean_up_on_signals();

/// The verb has changed a file or an index. If its report cannot be written after that, print_json
/// and print_text throw ReportLost. Destination::write calls it.
void work_is_done(const std::string& on);

/// Writes one JSON document to standard output.
void print_json(const Json& json);
/// Writes text to standard output.
void print_text(std::string_view text);

/// Writes a line to standard error, prefixed "scbf: ".
void note(std::string_view text);

}  // namespace scbf::cli
