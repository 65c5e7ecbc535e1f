// SPDX-License-Identifier: Apache-2.0
#include "records.hpp"

#include <csv.h>
#include <fmt/format.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "key_reader.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kFieldGrowth =
    64 << 10;  // libcsv's default of 128 bytes makes long fields quadratic
/// Most bytes of a row as text. Every byte may be a quote, which is doubled. The rest is for the
/// key, the separators and the quotes around fields.
constexpr std::size_t kMaxRecordBytes = 2 * kMaxRowBytes + (1 << 20);
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

int never(unsigned char) { return 0; }
int line_feed(unsigned char c) { return c == '\n' ? 1 : 0; }

}  // namespace

RecordReader::RecordReader(const std::string& file, TableFormat format)
    : name_(display_name(file)),
      format_(format),
      buffer_(new char[kBlock]),
      parser_(std::make_unique<csv_parser>()),
      fd_(open_input(file)) {
  // CSV_REPALL_NL: libcsv reports empty lines too, so take_record sees every line end.
  csv_init(parser_.get(), CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL);
  csv_set_blk_size(parser_.get(), kFieldGrowth);
  csv_set_space_func(parser_.get(), never);
  if (format_ == TableFormat::tsv) {
    csv_set_delim(parser_.get(), CSV_TAB);
    csv_set_quote(parser_.get(), 0);  // parse() refuses this byte, so no quote is ever found
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
  const std::size_t n = read_from(fd_, buffer_.get(), kBlock, name_);
  if (n == 0) return finish();
  std::string_view block(buffer_.get(), n);
  const bool first = bytes_read_ == 0;
  bytes_read_ += block.size();
  if (first && block.starts_with(kByteOrderMark)) block.remove_prefix(kByteOrderMark.size());
  // Line by line, because libcsv does not report its position.
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
    fail(line_, "a byte that is 0: this is not text");
  }
  current_bytes_ += line.size();
  if (current_bytes_ > kMaxRecordBytes) {
    fail(current_.line, fmt::format("a row of more than {}; is a quote not closed?",
                                    human_bytes(kMaxRecordBytes)));
  }
  const std::size_t parsed =
      csv_parse(parser_.get(), line.data(), line.size(), take_field, take_record, this);
  if (failure_) std::rethrow_exception(failure_);
  if (parsed == line.size()) return;
  if (csv_error(parser_.get()) == CSV_ENOMEM) throw std::bad_alloc();
  fail(line_,
       "a quote in the middle of a field; a field with quotes must be in quotes, and they doubled");
}

void RecordReader::finish() {
  ended_ = true;
  const bool ok = csv_fini(parser_.get(), take_field, take_record, this) == 0;
  if (failure_) std::rethrow_exception(failure_);
  if (!ok) fail(current_.line, "a quote is opened in this row and never closed");
}

void RecordReader::take_field(void* bytes, std::size_t length, void* self) noexcept {
  auto& reader = *static_cast<RecordReader*>(self);
  try {
    reader.current_.fields.emplace_back(static_cast<const char*>(bytes), length);
  } catch (...) {
    reader.failure_ = std::current_exception();
  }
}

void RecordReader::take_record(int end, void* self) noexcept {
  auto& reader = *static_cast<RecordReader*>(self);
  std::vector<std::string>& fields = reader.current_.fields;
  try {
    if (reader.format_ == TableFormat::tsv && !fields.empty() && fields.back().ends_with('\r')) {
      fields.back().pop_back();
      if (fields.size() == 1 && fields[0].empty()) fields.clear();  // an empty line
    }
    if (!fields.empty()) {
      reader.ready_.push_back({std::exchange(fields, {}), reader.current_.line});
    }
  } catch (...) {
    reader.failure_ = std::current_exception();
  }
  reader.current_.line = reader.line_ + (end == '\n' ? 1 : 0);
  reader.current_bytes_ = 0;
}

}  // namespace scbf::cli
