// SPDX-License-Identifier: Apache-2.0
#include "records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kStep = 16 << 10;  // that are searched for marks at a time

/// Makes one quote of every two, in place.
std::string_view undouble(std::span<char> field) {
  std::size_t end = 0;  // of what is finished
  for (std::size_t at = 0; at < field.size(); ++at) {
    field[end++] = field[at];
    if (field[at] == '"') ++at;
  }
  return {field.data(), end};
}

Marks marks_of(TableFormat format) {
  if (format.is_tsv()) return {format.separator, '\n', '\\', '\0'};
  return {format.separator, '\n', '"', '\r'};
}

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
      mark_bytes_(marks_of(format)),
      capacity_(kBlock),
      buffer_(new char[kBlock]),
      found_marks_(new std::uint32_t[kStep]) {
  if (!format_.is_tsv()) quoted_.emplace(format_.separator);
}

void RecordReader::fail(std::uint64_t line, std::string_view what) const {
  throw IoError(fmt::format("{}: line {}: {}", name(), line, what));
}

bool RecordReader::more_is_waiting() {
  return find_next(Wait::no) || failure_ || input_.more_is_waiting();
}

const Record* RecordReader::next() {
  if (!find_next(Wait::yes)) {
    if (failure_) std::rethrow_exception(failure_);
    return nullptr;
  }
  found_next_ = false;
  return &next_;
}

/// Whether next_ is the next record, for which it may have to wait.
bool RecordReader::find_next(Wait wait) {
  while (!found_next_) {
    if (quoted_ && !quoted_->empty()) {
      quoted_record_ = quoted_->take();
      next_.fields.assign(quoted_record_.fields.begin(), quoted_record_.fields.end());
      next_.line = quoted_record_.line;
      return found_next_ = true;
    }
    if (failure_ || (wait == Wait::no && from_ >= last_end_)) return false;
    try {
      if (Line line; next_line(line)) {
        found_next_ = take(line);
      } else if (quoted_ && quoted_->within_record()) {
        finish();
      } else {
        return false;
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  return true;
}

/// Takes the next line out of the buffer. The last one of the input may lack the line feed. Of CSV,
/// it may also be a piece of a line that is longer than the buffer or has ended in CR. None at the
/// end.
bool RecordReader::next_line(Line& line) {
  while (from_ >= last_end_ && read_more()) {
  }
  if (from_ == end_) return false;
  const std::size_t first = from_, first_mark = next_mark_;
  from_ = from_ < last_end_ ? last_end_ : end_;
  std::size_t marks = 0;
  while (next_mark_ < marks_.size() && marks_[next_mark_] < from_) {
    const std::size_t at = marks_[next_mark_++];
    if (buffer_[at] == '\n') {
      from_ = at + 1;
      break;
    }
    ++marks;
  }
  line.text = {buffer_.get() + first, from_ - first};
  line.marks = {marks_.data() + first_mark, marks};
  if (!std::exchange(begun_, true) &&
      std::string_view(line.text.data(), line.text.size()).starts_with(kByteOrderMark)) {
    line.text = line.text.subspan(kByteOrderMark.size());
  }
  return true;
}

/// Reads on. Returns false if the input has ended, or if the buffer is full and does not grow.
bool RecordReader::read_more() {
  if (ended_) return false;
  if (from_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + from_, end_ - from_);
    marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(next_mark_));
    for (std::uint32_t& mark : marks_) mark -= static_cast<std::uint32_t>(from_);
    next_mark_ = 0;
    end_ -= std::exchange(from_, 0);
    last_end_ = 0;
  }
  if (end_ == capacity_) {
    if (!format_.is_tsv()) return false;
    make_room();
  }
  const std::size_t n = input_.read({buffer_.get() + end_, std::min(kBlock, capacity_ - end_)});
  ended_ = n == 0;
  const std::size_t line_end =
      std::string_view(buffer_.get() + end_, n).find_last_of(format_.is_tsv() ? "\n" : "\r\n");
  if (line_end != std::string_view::npos) last_end_ = end_ + line_end + 1;
  find_marks_in(end_, n);
  end_ += n;
  return true;
}

void RecordReader::find_marks_in(std::size_t first, std::size_t bytes) {
  for (const std::size_t stop = first + bytes; first < stop; first += kStep) {
    const std::span<std::uint32_t> found(
        found_marks_.get(), find_marks({buffer_.get() + first, std::min(kStep, stop - first)},
                                       mark_bytes_, found_marks_.get()));
    for (std::uint32_t& mark : found) mark += static_cast<std::uint32_t>(first);
    marks_.insert(marks_.end(), found.begin(), found.end());
  }
}

/// For a line of TSV that is longer than the buffer.
void RecordReader::make_room() {
  refuse_zeros({buffer_.get(), end_});
  if (capacity_ > kMaxRecordBytes) {
    fail(line_, fmt::format("a row of more than {}", human_bytes(kMaxRecordBytes)));
  }
  const std::size_t more = std::min(2 * capacity_, kMaxRecordBytes + 1);
  std::unique_ptr<char[]> larger(new char[more]);
  std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
  capacity_ = more;
}

void RecordReader::refuse_zeros(std::string_view text) const {
  if (text.find('\0') != std::string_view::npos) {
    fail(line_, "a byte that is 0: this is not text");
  }
}

/// Returns whether next_ is now the record of this line. A line that needs libcsv is parsed by it,
/// and its records wait in quoted_.
bool RecordReader::take(const Line& line) {
  const std::string_view text(line.text.data(), line.text.size());
  const bool complete = text.ends_with('\n');
  std::size_t length = text.size() - (complete ? 1 : 0);
  if (length > 0 && text[length - 1] == '\r') --length;
  next_.line = line_;
  next_.fields.clear();
  if (!quoted_) {
    divide_tsv(line, length);
  } else if (const bool may_be_a_piece = !complete && !ended_;
             quoted_->within_record() || may_be_a_piece || !divide_csv(line, length)) {
    next_.fields.clear();
    parse(text);
  }
  line_ += complete ? 1 : 0;
  return !next_.fields.empty();
}

/// Divides a line of CSV, of this length without what ends it; an empty one has no fields. Returns
/// false, with the line unchanged, unless it is exactly one well-formed record.
bool RecordReader::divide_csv(const Line& line, std::size_t length) {
  if (length == 0) return true;
  std::vector<std::string_view>& fields = next_.fields;
  const char* from = line.text.data();
  const char* const stop = from + length;
  auto mark = line.marks.begin();
  bool doubled = false;
  while (true) {
    const char* end = stop;  // of the field, and of its quotes
    if (from < stop && *from == '"') {
      const char* quote = nullptr;
      while (true) {
        do {
          if (++mark == line.marks.end()) return false;
          quote = buffer_.get() + *mark;
        } while (*quote != '"');
        end = quote + 1;
        if (end == stop || *end != '"') break;
        ++mark;
        doubled = true;
      }
      if (end != stop && *end != format_.separator) return false;
      fields.emplace_back(from + 1, quote);
      ++mark;
    } else {
      if (mark != line.marks.end()) end = buffer_.get() + *mark;
      if (end != stop && *end != format_.separator) return false;
      fields.emplace_back(from, end);
    }
    if (end == stop) break;
    ++mark;
    from = end + 1;
  }
  if (doubled) {
    for (std::string_view& field : fields) {
      if (field.find('"') != std::string_view::npos) field = undouble(in_buffer(field));
    }
  }
  return true;
}

/// The same for TSV, of which every line is a record.
void RecordReader::divide_tsv(const Line& line, std::size_t length) {
  if (length == 0) return;
  std::vector<std::string_view>& fields = next_.fields;
  const auto stands = [&](char byte) {
    return std::ranges::any_of(line.marks,
                               [&](std::uint32_t mark) { return buffer_[mark] == byte; });
  };
  if (stands('\0')) refuse_zeros({line.text.data(), length});
  const char* from = line.text.data();
  const char* const stop = from + length;
  const auto is_separator = [&](std::uint32_t mark) { return buffer_[mark] == format_.separator; };
  const auto separators = std::ranges::count_if(line.marks, is_separator);
  fields.resize(static_cast<std::size_t>(separators) + 1);
  std::size_t n = 0;
  for (const std::uint32_t mark : line.marks) {
    if (!is_separator(mark)) continue;
    const char* const at = buffer_.get() + mark;
    fields[n++] = {from, at};
    from = at + 1;
  }
  fields[n] = {from, stop};
  if (escapes_ == Escapes::yes && stands('\\')) {
    for (std::string_view& field : fields) {
      field = unescape(in_buffer(field));
    }
  }
}

std::span<char> RecordReader::in_buffer(std::string_view field) const {
  return {buffer_.get() + (field.data() - buffer_.get()), field.size()};
}

/// Replaces escapes by what they stand for, in place.
std::string_view RecordReader::unescape(std::span<char> field) const {
  std::size_t end = 0;  // of what is finished
  for (std::size_t at = 0; at < field.size(); ++at) {
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
  return {field.data(), end};
}

void RecordReader::parse(std::string_view line) {
  const bool well_formed = quoted_->parse(line, line_);
  if (quoted_->record_bytes() > kMaxRecordBytes) {
    fail(quoted_->record_line(), fmt::format("a row of more than {}; is a quote not closed?",
                                             human_bytes(kMaxRecordBytes)));
  }
  if (!well_formed) {
    fail(line_,
         "a quote in the middle of a field; a field with quotes must be in quotes, and they "
         "doubled");
  }
}

void RecordReader::finish() {
  if (!quoted_->finish()) {
    fail(quoted_->record_line(), "a quote is opened in this row and never closed");
  }
}

}  // namespace scbf::cli
