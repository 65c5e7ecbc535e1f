// SPDX-License-Identifier: Apache-2.0
// Reads the records of a CSV or TSV file. Errors name the file and the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "input.hpp"
#include "record_divider.hpp"

namespace scbf::cli {

class RecordReader {
 public:
  /// Opens a file; "-" is standard input. Throws IoError.
  RecordReader(const std::string& file, TableFormat format, Escapes escapes = Escapes::yes);
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  /// The next record, which is there until this is called again; null at the end. Throws IoError,
  /// also if the text is malformed, after the records before it; so does every later call.
  const Record* next();
  const std::string& name() const noexcept { return input_.name(); }
  std::uint64_t bytes_read() const noexcept { return input_.bytes_read(); }
  [[noreturn]] void fail(std::uint64_t line, std::string_view what) const;

 private:
  void read_more();
  void make_room();

  ByteInput input_;
  TableFormat format_;
  RecordDivider divider_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  // In the buffer: what is read and does not end a line yet.
  std::size_t from_ = 0, end_ = 0;
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace scbf::cli
