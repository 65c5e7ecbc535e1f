// SPDX-License-Identifier: Apache-2.0
#include "records.hpp"

#include <csv.h>
#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <new>
#include <utility>

#include "errors.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kFieldGrowth =
    64 << 10;  // libcsv's default of 128 bytes makes long fields quadratic

int never(unsigned char) { return 0; }
int line_feed(unsigned char c) { return c == '\n' ? 1 : 0; }

}  // namespace

TableFormat table_format_from_string(const std::string& text) {
  if (text == "tab") return {'\t'};
  const auto is_no_separator = [](unsigned char c) {
    return c == 0 || c >= 0x80 || std::isalnum(c) != 0 || std::strchr("\"\\\r\n", c) != nullptr;
  };
  if (text.size() != 1 || is_no_separator(static_cast<unsigned char>(text[0]))) {
    throw UsageError(
        fmt::format("--separator {}: must be tab or a character such as , ; or |, and no letter, "
                    "digit, quote or backslash",
                    in_quotes(text)));
  }
  return {text[0]};
}

TableFormat format_of(const std::string& file, std::optional<TableFormat> option) {
  if (option) return *option;
  std::string_view name = file;
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  return {name.ends_with(".tsv") || name.ends_with(".tab") ? '\t' : ','};
}

RecordReader::RecordReader(const std::string& file, TableFormat format, Escapes escapes,
                           ByteInput::Decode decode, const StopSignal* stop)
    : input_(file, decode, stop),
      format_(format),
      escapes_(escapes),
      buffer_(new char[kBlock]),
      parser_(std::make_unique<csv_parser>()) {
  // CSV_REPALL_NL: libcsv reports empty lines too, so take_record sees every line end.
  csv_init(parser_.get(), CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL);
  csv_set_blk_size(parser_.get(), kFieldGrowth);
  csv_set_space_func(parser_.get(), never);
  csv_set_delim(parser_.get(), static_cast<unsigned char>(format_.separator));
  if (format_.is_tsv()) {
    csv_set_quote(parser_.get(), 0);  // parse() refuses this byte, so no quote is ever found
    csv_set_term_func(parser_.get(), line_feed);
  }
}

RecordReader::~RecordReader() { csv_free(parser_.get()); }

void RecordReader::fail(std::uint64_t line, std::string_view what) const {
  throw IoError(fmt::format("{}: line {}: {}", name(), line, what));
}

bool RecordReader::next(Record& record) {
  while (ready_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    if (ended_) return false;
    try {
      read_more();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  record = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

void RecordReader::read_more() {
  const std::size_t n = input_.read({buffer_.get(), kBlock});
  if (n == 0) return finish();
  std::string_view block(buffer_.get(), n);
  if (!std::exchange(begun_, true) && block.starts_with(kByteOrderMark)) {
    block.remove_prefix(kByteOrderMark.size());
  }
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
  if (format_.is_tsv() && line.find('\0') != std::string_view::npos) {
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

void RecordReader::unescape(std::string& field) const {
  std::size_t at = field.find('\\');
  if (at == std::string::npos) return;
  std::size_t end = at;  // of what is finished
  for (; at < field.size(); ++at) {
    char c = field[at];
    if (c == '\\') {
      const char code = ++at < field.size() ? field[at] : '\0';
      if (std::string_view("tnr\\").find(code) == std::string_view::npos) {
        fail(line_,
             "a backslash that begins none of \\t, \\n, \\r and \\\\; write it twice, or take all "
             "backslashes as they are by --no-escapes");
      }
      c = code == 't' ? '\t' : code == 'n' ? '\n' : code == 'r' ? '\r' : '\\';
    }
    field[end++] = c;
  }
  field.resize(end);
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
    if (reader.format_.is_tsv() && !fields.empty() && fields.back().ends_with('\r')) {
      fields.back().pop_back();
      if (fields.size() == 1 && fields[0].empty()) fields.clear();  // an empty line
    }
    if (reader.format_.is_tsv() && reader.escapes_ == Escapes::yes) {
      for (std::string& field : fields) reader.unescape(field);
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
