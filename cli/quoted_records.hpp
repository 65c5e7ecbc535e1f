// SPDX-License-Identifier: Apache-2.0
// The records of CSV that libcsv takes apart: those with line feeds in quotes, in lines that have a
// CR outside quotes before their end or are very long, and malformed ones. RecordDivider divides
// all others by itself. It is several times faster than libcsv, which looks at byte after byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct csv_parser;

namespace scbf::cli {

class QuotedRecords {
 public:
  struct Found {
    std::vector<std::string> fields;
    std::uint64_t line = 0;  ///< number of its first line
  };

  explicit QuotedRecords(char separator);
  QuotedRecords(const QuotedRecords&) = delete;
  QuotedRecords& operator=(const QuotedRecords&) = delete;
  ~QuotedRecords();

  /// Takes the next bytes of the text, all in the line of this number, with a line feed at most at
  /// their end. Returns false if a quote stands where none may. Throws bad_alloc.
  bool parse(std::string_view bytes, std::uint64_t line);
  /// Ends the text. Returns false if a quote is still open. Throws bad_alloc.
  bool finish();

  /// Whether the next bytes must be parsed here, too: the last ones did not end a record by a line
  /// feed.
  bool within_record() const noexcept { return within_; }
  /// The first line of the current record, and how long its text is.
  std::uint64_t record_line() const noexcept { return current_.line; }
  std::size_t record_bytes() const noexcept { return bytes_; }

  bool empty() const noexcept { return found_.empty(); }
  /// Removes the first of the records that are complete.
  Found take();

 private:
  // Callbacks of libcsv, for the end of a field and of a record.
  static void take_field(void* bytes, std::size_t length, void* self) noexcept;
  static void take_record(int end, void* self) noexcept;
  void rethrow() const;

  std::unique_ptr<csv_parser> parser_;
  Found current_;
  std::size_t bytes_ = 0;
  std::uint64_t line_ = 0;  // of the bytes that are parsed
  bool within_ = false;
  int ended_by_ = 0;  // the byte that ended the last record of these bytes
  std::deque<Found> found_;
  std::exception_ptr failure_;
};

}  // namespace scbf::cli
