// SPDX-License-Identifier: Apache-2.0
// Reads the records of a CSV or TSV file. Errors name the file and the line.
//
// CSV is RFC 4180, with any separator: fields with separators, quotes or line breaks are quoted,
// quotes inside them are doubled, and lines end in LF, CRLF or CR. A quote anywhere else is an
// error. TSV has no quotes: a field is all text between two tabs, and lines end in LF or CRLF. In
// both formats blanks belong to the field. Empty lines and a byte order mark at the start are
// skipped.
//
// In TSV a tab, a line feed, a carriage return and a backslash within a field are \t, \n, \r and
// \\, as PostgreSQL and jq write them. Any other backslash is an error, unless Escapes::no takes
// them all as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "input.hpp"
#include "line_ends.hpp"
#include "quoted_records.hpp"

namespace scbf::cli {

/// What divides the fields of a table: a tab (TSV), or another character (CSV, RFC 4180).
struct TableFormat {
  char separator = ',';
  bool is_tsv() const noexcept { return separator == '\t'; }
};
/// Parses "tab" or a character. Throws UsageError for anything else, and for letters, digits,
/// quotes, backslashes and line breaks.
TableFormat table_format_from_string(const std::string& text);
/// The format that `option` gives, else the one for the name: .tsv and .tab are TSV, others CSV. A
/// .gz or .zst after it does not count.
TableFormat format_of(const std::string& file, std::optional<TableFormat> option);
enum class Escapes : unsigned char { yes, no };

/// Most bytes of a record as text. While it is read, each of its marks takes 4 bytes more.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{513} << 20;

struct Record {
  std::vector<std::string_view> fields;
  std::uint64_t line = 0;  ///< number of its first line, from 1
};

class RecordReader {
 public:
  /// Opens a file; "-" is standard input. `stop` ends reads that wait, as in ByteInput. Throws
  /// IoError.
  RecordReader(const std::string& file, TableFormat format, Escapes escapes = Escapes::yes,
               ByteInput::Decode decode = ByteInput::Decode::yes, const StopSignal* stop = nullptr);
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  /// The next record, which is there until this or more_is_waiting() is called again; null at the
  /// end. Throws IoError, also if the text is malformed, after the records before it; so does every
  /// later call.
  const Record* next();
  const std::string& name() const noexcept { return input_.name(); }
  std::uint64_t bytes_read() const noexcept { return input_.bytes_read(); }
  /// False if next() would wait for input.
  bool more_is_waiting();
  [[noreturn]] void fail(std::uint64_t line, std::string_view what) const;

 private:
  enum class Wait : bool { no, yes };
  /// A line with its line feed, and where in the buffer its marks are, but for the line feed.
  struct Line {
    std::span<char> text;
    std::span<const std::uint32_t> marks;
  };
  bool find_next(Wait wait);
  bool next_line(Line& line);
  bool read_more();
  void make_room();
  void find_marks_in(std::size_t first, std::size_t bytes);
  void refuse_zeros(std::string_view text) const;
  bool take(const Line& line);
  bool divide_csv(const Line& line, std::size_t length);
  void divide_tsv(const Line& line, std::size_t length);
  std::span<char> in_buffer(std::string_view field) const;
  std::string_view unescape(std::span<char> field) const;
  void parse(std::string_view line);
  void finish();

  ByteInput input_;
  TableFormat format_;
  Escapes escapes_;
  Marks mark_bytes_;  // by which lines are divided, and those for which they need a closer look
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  // In the buffer: what is read and not yet taken, and where the last line of it ends.
  std::size_t from_ = 0, end_ = 0, last_end_ = 0;
  std::vector<std::uint32_t> marks_;  // where they are, up to end_
  std::size_t next_mark_ = 0;         // the first one from from_ on
  std::unique_ptr<std::uint32_t[]> found_marks_;
  std::uint64_t line_ = 1;  // of the byte at from_
  bool begun_ = false, ended_ = false;
  Record next_;
  bool found_next_ = false;
  std::optional<QuotedRecords> quoted_;  // of CSV
  QuotedRecords::Found quoted_record_;   // what the fields of its last record view
  std::exception_ptr failure_;
};

}  // namespace scbf::cli
