// SPDX-License-Identifier: Apache-2.0
#include "input_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "line_ends.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;
/// Binary files have zero bytes long before this one.
constexpr std::size_t kZeroCheck = std::size_t{64} << 10;
/// Room for the beginning of a line or record, before a piece.
constexpr std::size_t kBegun = std::size_t{1} << 10;

/// The number of the column with this name. Throws TextError.
std::size_t column_in(const Record& header, const std::string& column) {
  const std::vector<std::string_view>& names = header.fields;
  if (std::ranges::count(names, column) > 1) {
    throw TextError(header.line, fmt::format("column {} is there twice", in_quotes(column)));
  }
  const auto found = std::ranges::find(names, column);
  if (found == names.end()) {
    throw TextError(
        header.line,
        fmt::format("no column {}; there are: {}", in_quotes(column),
                    list_in_quotes(std::vector<std::string>(names.begin(), names.end()))));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

InputText::InputText(std::unique_ptr<ByteInput> input, TextForm form)
    : input_(std::move(input)),
      name_(std::make_shared<std::string>(input_->name())),
      form_(std::move(form)),
      rules_(form_.rules),
      column_(form_.column) {}

void InputText::begin(TextPiece& piece) {
  piece.name = name_;
  piece.rules = form_.rules;
  piece.last = false;
  piece.place = input_->pass_over(form_.piece_bytes);
  // Small inputs, which are ahead, take little memory, as there may be many.
  const std::size_t ahead = input_->bytes_ahead();
  const std::size_t room = piece.place ? piece.place->bytes
                           : ahead > 0 ? std::min(ahead + 1, form_.piece_bytes)
                                       : form_.piece_bytes;
  piece.make_room(kBegun, room);
  if (piece.place) return;
  const std::size_t end = piece.from + room;
  try {
    if (failed_) std::rethrow_exception(failed_);
    do {
      const std::size_t n = input_->read({piece.bytes() + piece.to, end - piece.to});
      piece.to += n;
      piece.last = n == 0;
    } while (!piece.last && piece.to < end && input_->will_not_wait());
  } catch (...) {
    if (piece.from == piece.to) throw;
    failed_ = std::current_exception();  // told after what was read before it
  }
}

void InputText::cut(TextPiece& piece) {
  if (form_.refuse_zeros && bytes_ < kZeroCheck) check_zeros(piece.text());
  bytes_ += piece.text().size();
  line_feeds_ += piece.line_feeds;
  quoted_ ^= piece.quotes % 2 != 0;
  const std::size_t end = piece.last ? piece.to : last_end(piece);
  const std::string_view rest(piece.bytes() + end, piece.to - end);
  if (end == piece.from && !piece.last) {
    left_over_ += rest;
    piece.to = end;
    check_begun();
    return;
  }
  std::string left_over(rest);
  piece.to = end;
  piece.prepend(left_over_);
  left_over_ = std::move(left_over);
  next_check_ = 0;
  if (column_) piece.from += skip_header(piece.text());
  piece.rules = rules_;
  if (piece.from < piece.to) {
    piece.begins_input = std::exchange(at_start_, false);
    piece.first_line = std::exchange(first_line_, 0);
  }
  try {
    check_begun();
  } catch (...) {
    piece.read_error = std::current_exception();  // told after its keys
  }
}

/// Where the last line or record of the piece ends; its beginning if none does. In CSV, a line ends
/// a record if the quotes before it are even in number; where they are not because of an error, the
/// record with the error is not complete.
std::size_t InputText::last_end(const TextPiece& piece) {
  const std::string_view text = piece.text();
  const auto after_last = [&](char end) { return piece.from + text.rfind(end) + 1; };
  if (const auto* const lines = std::get_if<LineRules>(&rules_)) return after_last(lines->end);
  if (std::get<ColumnRules>(rules_).format.is_tsv()) return after_last('\n');
  bool quoted = quoted_;
  for (std::size_t at = text.size(); at > 0; --at) {
    const char byte = text[at - 1];
    if (!quoted && (byte == '\n' || byte == '\r')) return piece.from + at;
    quoted ^= byte == '"';
  }
  return piece.from;
}

/// Looks for the column in the first record. Returns how long the text before the next one is.
std::size_t InputText::skip_header(std::string_view text) {
  auto& rules = std::get<ColumnRules>(rules_);
  const bool tsv = rules.format.is_tsv();
  RecordDivider records(rules.format, rules.escapes);
  std::size_t end = 0;
  try {
    while (column_ && end < text.size()) {
      std::string row;
      for (bool quoted = false, ended = false; !ended && end < text.size(); ++end) {
        row += text[end];
        quoted ^= !tsv && text[end] == '"';
        ended = !quoted && (text[end] == '\n' || (text[end] == '\r' && !tsv));
      }
      records.feed(row, true);
      if (const Record* const header = records.next()) {
        rules.column = column_in(*header, *column_);
        column_.reset();
      }
    }
  } catch (const TextError& error) {
    throw error_in_line(*name_, first_line_ - 1 + error.line, error.what());
  }
  first_line_ += records.line() - 1;
  at_start_ = false;
  return end;
}

void InputText::check_zeros(std::string_view text) const {
  if (text.find('\0') == std::string_view::npos) return;
  throw IoError(fmt::format(
      "{}: zero bytes in lines: is it binary? {} that end in a zero byte; --raw takes the "
      "lines as they are",
      input_->name(),
      form_.may_be_integers ? "--keys u64 reads integers of 8 bytes, -0 keys"
                            : "--null reads lines"));
}

/// Refuses what is left over if it is too long, or no beginning of a record. It is looked at again
/// each time it has grown by half.
void InputText::check_begun() {
  const auto* const column = std::get_if<ColumnRules>(&rules_);
  if (column == nullptr) {
    if (left_over_.size() < kMaxLineBytes) return;
    throw IoError(fmt::format("{}: a line of more than {}: not a file of lines?{}", input_->name(),
                              human_bytes(kMaxLineBytes),
                              form_.may_be_integers ? " (--keys u64)" : ""));
  }
  if (left_over_.size() < next_check_) return;
  next_check_ = left_over_.size() + left_over_.size() / 2;
  std::string_view text = left_over_;
  if (at_start_ && text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  try {
    check_begun_row(text, 1 + line_feeds_ - count_byte(text, '\n'), column->format);
  } catch (const TextError& error) {
    throw error_in_line(*name_, error.line, error.what());
  }
}

}  // namespace scbf::cli
