// SPDX-License-Identifier: Apache-2.0
// Divides the text of a CSV or TSV file into records.
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
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "line_ends.hpp"
#include "quoted_records.hpp"
#include "scbf/errors.hpp"

namespace scbf::cli {

/// What divides the fields of a table: a tab (TSV), or another character (CSV, RFC 4180).
struct TableFormat {
  char separator = ',';
  bool is_tsv() const noexcept { return separator == '\t'; }
  bool operator==(const TableFormat&) const = default;
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

/// Something is wrong in this line of an input.
struct TextError : std::runtime_error {
  TextError(std::uint64_t number, const std::string& what)
      : std::runtime_error(what), line(number) {}
  std::uint64_t line;
};
/// The error for users: it names the input and the line.
IoError error_in_line(const std::string& input, std::uint64_t line, std::string_view what);

/// Throws TextError if a row that has begun, in this line, is too long or is malformed already.
void check_begun_row(std::string_view text, std::uint64_t line, TableFormat format);

class RecordDivider {
 public:
  explicit RecordDivider(TableFormat format, Escapes escapes = Escapes::yes);

  /// The next text: whole lines, but for the last text; of CSV, also a piece of a long line, or a
  /// line that has ended in CR. The divider may change the text, which must be there until next()
  /// is null.
  void feed(std::span<char> text, bool last);
  /// The next record, which is there until the next call; null if there is none without more text.
  /// Throws TextError if the text is malformed, after the records before it; so does every later
  /// call.
  const Record* next();

  /// Whether the last record views the text that was fed; otherwise, the divider.
  bool views_text() const noexcept { return views_text_; }
  /// The number of the line in which the next text begins; of the first one it is 1.
  std::uint64_t line() const noexcept { return line_; }
  /// What is fed next is in line 1, and is the beginning of a file or of another record. Not after
  /// an error.
  void begin(bool file) noexcept;

 private:
  /// A line with its line feed, and where in the text its marks are, but for the line feed.
  struct Line {
    std::span<char> text;
    std::span<const std::uint32_t> marks;
  };
  bool within_record() const noexcept { return quoted_ && quoted_->within_record(); }
  Line next_line();
  bool take(const Line& line);
  bool divide_csv(const Line& line, std::size_t length);
  void divide_tsv(const Line& line, std::size_t length);
  std::span<char> in_text(std::string_view field) const;
  std::string_view unescape(std::span<char> field) const;
  void parse(std::string_view line);
  void finish();

  TableFormat format_;
  Escapes escapes_;
  Marks mark_bytes_;  // by which lines are divided, and those for which they need a closer look
  std::span<char> text_;
  std::size_t from_ = 0;  // what is left of the text
  bool last_ = false;
  std::unique_ptr<std::uint32_t[]> found_marks_;
  std::vector<std::uint32_t> marks_;  // where they are in the text
  std::size_t next_mark_ = 0;         // the first one from from_ on
  std::uint64_t line_ = 1;            // of the byte at from_
  bool begun_ = false;
  Record next_;
  bool views_text_ = true;
  std::optional<QuotedRecords> quoted_;  // of CSV
  QuotedRecords::Found quoted_record_;   // what the fields of its last record view
  std::exception_ptr failure_;
};

}  // namespace scbf::cli
