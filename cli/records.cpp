// SPDX-License-Identifier: Apache-2.0
#include "records.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "scbf/errors.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBlock = 256 << 10;

/// How long the text is up to the end of its last line, 0 if none ends behind the first `seen`
/// bytes. In CSV, lines may end in CR.
std::size_t whole_lines(std::string_view text, std::size_t seen, TableFormat format) noexcept {
  const std::size_t end = text.substr(seen).find_last_of(format.is_tsv() ? "\n" : "\r\n");
  return end == std::string_view::npos ? 0 : seen + end + 1;
}

}  // namespace

RecordReader::RecordReader(const std::string& file, TableFormat format, Escapes escapes)
    : input_(file),
      format_(format),
      divider_(format, escapes),
      capacity_(kBlock),
      buffer_(new char[kBlock]) {}

void RecordReader::fail(std::uint64_t line, std::string_view what) const {
  throw error_in_line(name(), line, what);
}

const Record* RecordReader::next() {
  if (failure_) std::rethrow_exception(failure_);
  try {
    for (;;) {
      if (const Record* const record = divider_.next()) return record;
      if (ended_) return nullptr;
      read_more();
    }
  } catch (const TextError& error) {
    fail(error.line, error.what());
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// Reads on, and gives what ends lines to the divider.
void RecordReader::read_more() {
  std::memmove(buffer_.get(), buffer_.get() + from_, end_ - from_);
  end_ -= std::exchange(from_, 0);
  if (end_ == capacity_) make_room();
  const std::size_t n = input_.read({buffer_.get() + end_, std::min(kBlock, capacity_ - end_)});
  ended_ = n == 0;
  const std::string_view text(buffer_.get(), end_ + n);
  from_ = ended_ ? text.size() : whole_lines(text, end_, format_);
  end_ = text.size();
  // A long line of CSV is given in pieces.
  if (from_ == 0 && end_ == capacity_ && !format_.is_tsv()) from_ = end_;
  divider_.feed({buffer_.get(), from_}, ended_);
}

/// For a line of TSV that is longer than the buffer.
void RecordReader::make_room() {
  check_begun_row({buffer_.get(), end_}, divider_.line(), format_);
  const std::size_t more = std::min(2 * capacity_, kMaxRecordBytes + 1);
  std::unique_ptr<char[]> larger(new char[more]);
  std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
  capacity_ = more;
}

}  // namespace scbf::cli
