// SPDX-License-Identifier: Apache-2.0
#include "records.hpp"

#include <csv.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kFieldGrowth = 64 << 10;  // libcsv's own 128 bytes make long fields quadratic
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

int never(unsigned char) { return 0; }
int line_feed(unsigned char c) { return c == '\n' ? 1 : 0; }

}  // namespace

RecordReader::RecordReader(std::string file, TableFormat format)
    : name_(file == "-" ? "standard input" : std::move(file)),
      format_(format),
      buffer_(new char[kBlock]),
      parser_(std::make_unique<csv_parser>()) {
  fd_ = name_ == "standard input" ? STDIN_FILENO : ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    throw IoError(
        fmt::format("{}: cannot open: {}", name_, std::generic_category().message(errno)));
  }
  csv_init(parser_.get(), CSV_STRICT | CSV_STRICT_FINI);
  csv_set_blk_size(parser_.get(), kFieldGrowth);
  csv_set_space_func(parser_.get(), never);
  if (format_ == TableFormat::tsv) {
    csv_set_delim(parser_.get(), CSV_TAB);
    csv_set_quote(parser_.get(), 0);  // which parse() refuses: there are none
    csv_set_term_func(parser_.get(), line_feed);
  }
}

RecordReader::~RecordReader() {
  csv_free(parser_.get());
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

void RecordReader::fail(std::uint64_t line, std::string_view what) const {
  throw IoError(fmt::format("{}: line {}: {}", name_, line, what));
}

bool RecordReader::next(Record& record) {
  while (ready_.empty() && !ended_) read_more();
  if (ready_.empty()) return false;
  record = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

void RecordReader::read_more() {
  ssize_t n = 0;
  do {
    n = ::read(fd_, buffer_.get(), kBlock);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    throw IoError(
        fmt::format("{}: cannot read: {}", name_, std::generic_category().message(errno)));
  }
  if (n == 0) return finish();
  std::string_view block(buffer_.get(), static_cast<std::size_t>(n));
  const bool first = bytes_read_ == 0;
  bytes_read_ += block.size();
  if (first && block.starts_with(kByteOrderMark)) block.remove_prefix(kByteOrderMark.size());
  // Line by line, because libcsv does not say where it is.
  while (!block.empty()) {
    const std::size_t feed = block.find('\n');
    const std::size_t length = feed == std::string_view::npos ? block.size() : feed + 1;
    parse(block.substr(0, length));
    line_ += feed == std::string_view::npos ? 0 : 1;
    block.remove_prefix(length);
  }
}

void RecordReader::parse(std::string_view line) {
  if (format_ == TableFormat::tsv && line.find('\0') != std::string_view::npos) {
    fail(line_, "a byte that is 0: this is no text");
  }
  if (current_bytes_ + parser_->entry_pos + line.size() > 2 * kMaxRowBytes) {
    fail(current_.line, fmt::format("a row of more than {}; is a quote not closed?",
                                    human_bytes(2 * kMaxRowBytes)));
  }
  const bool between_records = parser_->pstate == 0;  // ROW_NOT_BEGUN
  if (between_records) current_.line = line_;
  const auto field = [](void* bytes, std::size_t length, void* self) {
    static_cast<RecordReader*>(self)->take_field({static_cast<const char*>(bytes), length});
  };
  const auto record = [](int, void* self) { static_cast<RecordReader*>(self)->take_record(); };
  const std::size_t parsed =
      csv_parse(parser_.get(), line.data(), line.size(), field, record, this);
  if (failure_) std::rethrow_exception(failure_);
  if (parsed == line.size()) return;
  if (csv_error(parser_.get()) == CSV_ENOMEM) throw std::bad_alloc();
  fail(line_,
       "a quote in the middle of a field; a field with quotes must be in quotes, and they doubled");
}

void RecordReader::finish() {
  ended_ = true;
  const auto field = [](void* bytes, std::size_t length, void* self) {
    static_cast<RecordReader*>(self)->take_field({static_cast<const char*>(bytes), length});
  };
  const auto record = [](int, void* self) { static_cast<RecordReader*>(self)->take_record(); };
  const bool ok = csv_fini(parser_.get(), field, record, this) == 0;
  if (failure_) std::rethrow_exception(failure_);
  if (!ok) fail(current_.line, "a quote is opened in this row and never closed");
}

void RecordReader::take_field(std::string_view field) noexcept {
  try {
    current_bytes_ += field.size();
    current_.fields.emplace_back(field);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void RecordReader::take_record() noexcept {
  try {
    if (format_ == TableFormat::tsv && !current_.fields.empty() &&
        current_.fields.back().ends_with('\r')) {
      current_.fields.back().pop_back();
      if (current_.fields.size() == 1 && current_.fields[0].empty()) {  // an empty line
        current_.fields.clear();
        current_bytes_ = 0;
        return;
      }
    }
    ready_.push_back({std::exchange(current_.fields, {}), current_.line});
    current_bytes_ = 0;
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace scbf::cli
