// SPDX-License-Identifier: Apache-2.0
// Reads the records of a CSV or TSV file with libcsv. Errors name the file and the line.
//
// CSV is RFC 4180: fields with separators, quotes or line breaks are quoted, quotes inside them are
// doubled, and lines end in LF, CRLF or CR. A quote anywhere else is an error. TSV has no quotes: a
// field is all text between two tabs, and lines end in LF or CRLF. In both formats blanks belong to
// the field. Empty lines and a byte order mark at the start are skipped.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index_options.hpp"

struct csv_parser;

namespace scbf::cli {

struct Record {
  std::vector<std::string> fields;
  std::uint64_t line = 0;  ///< number of its first line, from 1
};

class RecordReader {
 public:
  /// Opens a file; "-" is standard input. Throws IoError.
  RecordReader(const std::string& file, TableFormat format);
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  ~RecordReader();

  /// Reads the next record; returns false at the end. Throws IoError, also if the text is
  /// malformed.
  bool next(Record& record);
  const std::string& name() const noexcept { return name_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  [[noreturn]] void fail(std::uint64_t line, std::string_view what) const;

 private:
  void read_more();
  void parse(std::string_view line);
  void finish();
  // Callbacks of libcsv, for the end of a field and of a record.
  static void take_field(void* bytes, std::size_t length, void* self) noexcept;
  static void take_record(int end, void* self) noexcept;

  std::string name_;
  TableFormat format_;
  std::unique_ptr<char[]> buffer_;
  std::unique_ptr<csv_parser> parser_;
  int fd_;
  Record current_{.fields = {}, .line = 1};
  std::size_t current_bytes_ = 0;  // length of its text
  std::deque<Record> ready_;
  std::exception_ptr failure_;  // from a callback, which must not throw through C
  std::uint64_t line_ = 1, bytes_read_ = 0;
  bool ended_ = false;
};

}  // namespace scbf::cli
