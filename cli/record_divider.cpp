// SPDX-License-Identifier: Apache-2.0
#include "record_divider.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "input.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

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

void refuse_zeros(std::string_view text, std::uint64_t line) {
  if (text.find('\0') != std::string_view::npos) {
    throw TextError(line, "a byte that is 0: this is not text");
  }
}

[[noreturn]] void throw_too_long(std::uint64_t line, TableFormat format) {
  throw TextError(line, fmt::format("a row of more than {}{}", human_bytes(kMaxRecordBytes),
                                    format.is_tsv() ? "" : "; is a quote not closed?"));
}

[[noreturn]] void throw_misplaced_quote(std::uint64_t line) {
  throw TextError(line,
                  "a quote in the middle of a field; a field with quotes must be in quotes, and "
                  "they doubled");
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

IoError error_in_line(const std::string& input, std::uint64_t line, std::string_view what) {
  return IoError(fmt::format("{}: line {}: {}", input, line, what));
}

void check_begun_row(std::string_view text, std::uint64_t line, TableFormat format) {
  if (format.is_tsv()) refuse_zeros(text, line);
  if (text.size() > kMaxRecordBytes) throw_too_long(line, format);
  if (format.is_tsv()) return;
  QuotedRecords records(format.separator);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!records.parse(text.substr(0, end), line)) throw_misplaced_quote(line);
    while (!records.empty()) records.take();
    text.remove_prefix(end);
    ++line;
  }
}

RecordDivider::RecordDivider(TableFormat format, Escapes escapes)
    : format_(format),
      escapes_(escapes),
      mark_bytes_(marks_of(format)),
      found_marks_(new std::uint32_t[kStep]) {
  if (!format_.is_tsv()) quoted_.emplace(format_.separator);
}

void RecordDivider::begin(bool file) noexcept {
  line_ = 1;
  begun_ = !file;
}

void RecordDivider::feed(std::span<char> text, bool last) {
  text_ = text;
  from_ = next_mark_ = 0;
  last_ = last;
  marks_.clear();
  for (std::size_t first = 0; first < text.size(); first += kStep) {
    const std::string_view step(text.data() + first, std::min(kStep, text.size() - first));
    const std::span<std::uint32_t> found(found_marks_.get(),
                                         find_marks(step, mark_bytes_, found_marks_.get()));
    for (std::uint32_t& mark : found) mark += static_cast<std::uint32_t>(first);
    marks_.insert(marks_.end(), found.begin(), found.end());
  }
}

const Record* RecordDivider::next() {
  for (;;) {
    if (quoted_ && !quoted_->empty()) {
      quoted_record_ = quoted_->take();
      next_.fields.assign(quoted_record_.fields.begin(), quoted_record_.fields.end());
      next_.line = quoted_record_.line;
      views_text_ = false;
      return &next_;
    }
    if (failure_) std::rethrow_exception(failure_);
    try {
      if (from_ < text_.size()) {
        views_text_ = true;
        if (take(next_line())) return &next_;
      } else if (last_ && within_record()) {
        finish();
      } else {
        return nullptr;
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

/// Takes the next line out of the text. The last one may lack the line feed. Of CSV, it may also be
/// a piece of a long line, or a line that has ended in CR.
RecordDivider::Line RecordDivider::next_line() {
  const std::size_t first = from_, first_mark = next_mark_;
  from_ = text_.size();
  std::size_t marks = 0;
  while (next_mark_ < marks_.size()) {
    const std::size_t at = marks_[next_mark_++];
    if (text_[at] == '\n') {
      from_ = at + 1;
      break;
    }
    ++marks;
  }
  Line line{text_.subspan(first, from_ - first), {marks_.data() + first_mark, marks}};
  if (!std::exchange(begun_, true) &&
      std::string_view(line.text.data(), line.text.size()).starts_with(kByteOrderMark)) {
    line.text = line.text.subspan(kByteOrderMark.size());
  }
  return line;
}

/// Returns whether next_ is now the record of this line. A line that needs libcsv is parsed by it,
/// and its records wait in quoted_.
bool RecordDivider::take(const Line& line) {
  const std::string_view text(line.text.data(), line.text.size());
  const bool complete = text.ends_with('\n');
  std::size_t length = text.size() - (complete ? 1 : 0);
  if (length > 0 && text[length - 1] == '\r') --length;
  next_.line = line_;
  next_.fields.clear();
  if (!quoted_) {
    divide_tsv(line, length);
  } else if (const bool may_be_a_piece = !complete && !last_;
             quoted_->within_record() || may_be_a_piece || !divide_csv(line, length)) {
    next_.fields.clear();
    parse(text);
  }
  line_ += complete ? 1 : 0;
  return !next_.fields.empty();
}

/// Divides a line of CSV, of this length without what ends it; an empty one has no fields. Returns
/// false, with the line unchanged, unless it is exactly one well-formed record.
bool RecordDivider::divide_csv(const Line& line, std::size_t length) {
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
          quote = text_.data() + *mark;
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
      if (mark != line.marks.end()) end = text_.data() + *mark;
      if (end != stop && *end != format_.separator) return false;
      fields.emplace_back(from, end);
    }
    if (end == stop) break;
    ++mark;
    from = end + 1;
  }
  if (doubled) {
    for (std::string_view& field : fields) {
      if (field.find('"') != std::string_view::npos) field = undouble(in_text(field));
    }
  }
  return true;
}

/// The same for TSV, of which every line is a record.
void RecordDivider::divide_tsv(const Line& line, std::size_t length) {
  if (length == 0) return;
  std::vector<std::string_view>& fields = next_.fields;
  const auto stands = [&](char byte) {
    return std::ranges::any_of(line.marks, [&](std::uint32_t mark) { return text_[mark] == byte; });
  };
  if (stands('\0')) refuse_zeros({line.text.data(), length}, line_);
  const char* from = line.text.data();
  const char* const stop = from + length;
  const auto is_separator = [&](std::uint32_t mark) { return text_[mark] == format_.separator; };
  const auto separators = std::ranges::count_if(line.marks, is_separator);
  fields.resize(static_cast<std::size_t>(separators) + 1);
  std::size_t n = 0;
  for (const std::uint32_t mark : line.marks) {
    if (!is_separator(mark)) continue;
    const char* const at = text_.data() + mark;
    fields[n++] = {from, at};
    from = at + 1;
  }
  fields[n] = {from, stop};
  if (escapes_ == Escapes::yes && stands('\\')) {
    for (std::string_view& field : fields) {
      field = unescape(in_text(field));
    }
  }
}

std::span<char> RecordDivider::in_text(std::string_view field) const {
  return {text_.data() + (field.data() - text_.data()), field.size()};
}

/// Replaces escapes by what they stand for, in place.
std::string_view RecordDivider::unescape(std::span<char> field) const {
  std::size_t end = 0;  // of what is finished
  for (std::size_t at = 0; at < field.size(); ++at) {
    char c = field[at];
    if (c == '\\') {
      const char code = ++at < field.size() ? field[at] : '\0';
      if (std::string_view("tnr\\").find(code) == std::string_view::npos) {
        throw TextError(
            line_,
            "a backslash that begins none of \\t, \\n, \\r and \\\\; write it twice, or take all "
            "backslashes as they are by --no-escapes");
      }
      c = code == 't' ? '\t' : code == 'n' ? '\n' : code == 'r' ? '\r' : '\\';
    }
    field[end++] = c;
  }
  return {field.data(), end};
}

void RecordDivider::parse(std::string_view line) {
  const bool well_formed = quoted_->parse(line, line_);
  if (quoted_->record_bytes() > kMaxRecordBytes) {
    throw_too_long(quoted_->record_line(), format_);
  }
  if (!well_formed) throw_misplaced_quote(line_);
}

void RecordDivider::finish() {
  if (!quoted_->finish()) {
    throw TextError(quoted_->record_line(), "a quote is opened in this row and never closed");
  }
}

}  // namespace scbf::cli
