// SPDX-License-Identifier: Apache-2.0
#include "key_source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "decimal.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

[[noreturn]] void throw_odd_length(const std::string& input, std::uint64_t bytes) {
  throw IoError(
      fmt::format("{}: {}: not a multiple of 8, so these are not u64 keys; for text use --keys "
                  "lines, for numbers as text --keys decimal",
                  display_name(input), counted(bytes, "byte")));
}

/// The column's name as a number, if it is one.
std::optional<std::uint64_t> column_number(const std::string& column) {
  const std::optional<std::uint64_t> number = parse_decimal(column);
  return number == 0 ? std::nullopt : number;
}

/// Bytes of the longest decimal number, with CR and the end of its line.
constexpr std::size_t kMostDigits = 20 + 2;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Could all these bytes be decimal numbers in lines?
bool may_be_decimal(std::string_view bytes, char end) {
  return std::ranges::all_of(bytes, [&](char c) { return is_digit(c) || c == end || c == '\r'; });
}

/// Whether these first bytes of an input of u64 keys are decimal numbers in lines; they are all of
/// it, or as many as first_bytes() takes. Of 8 random bytes one in 10^11 looks like that; what
/// follows does not, and is refused.
bool looks_decimal(std::string_view first, char end) {
  return !first.empty() && is_digit(first[0]) && may_be_decimal(first, end) &&
         (first.find(end) != std::string_view::npos || first.size() < kMostDigits);
}

bool is_text(std::string_view bytes) {
  return std::ranges::all_of(
      bytes, [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); });
}

/// Whether these first bytes of an input of u64 keys are lines of text: a table, or numbers with a
/// header or signs. One in 10^5 inputs of 8 random bytes looks like that, and one in 10^9 longer
/// ones.
bool looks_like_lines(std::string_view first, char end) {
  const std::size_t line = first.find(end);
  return line != std::string_view::npos && is_text(first.substr(0, std::max(line, kMostDigits)));
}

/// The first bytes of an input, as many as tell what it is: a line, or enough for a filter, UTF-16
/// or a number. Whoever waits for the answer to a single number of 8 bytes gets it.
std::string_view first_bytes(ByteInput& input, const KeyFormat& format) {
  return input.peek([&](std::string_view first) {
    if (first.size() >= kMostDigits || first.find(format.end) != std::string_view::npos)
      return true;
    return format.kind == KeyKind::u64 && !may_be_decimal(first, format.end) &&
           (first.size() >= kWord || !is_text(first));
  });
}

ByteInput::Decode decode_of(const KeyFormat& format) {
  return format.decode ? ByteInput::Decode::yes : ByteInput::Decode::no;
}

/// What the first bytes of a file tell. The input is opened only for this.
struct FirstLook {
  bool compressed, decimal;
};
FirstLook look_at(const std::string& input, const KeyFormat& format) {
  ByteInput bytes(input, decode_of(format));
  const std::string_view first = first_bytes(bytes, format);
  return {bytes.compressed(), format.decimal || (format.check && looks_decimal(first, format.end))};
}

}  // namespace

KeySource::KeySource(std::vector<std::string> inputs, KeyFormat format, Pace pace,
                     std::size_t piece_bytes)
    : inputs_(std::move(inputs)),
      format_(std::move(format)),
      pace_(pace),
      piece_bytes_(piece_bytes) {
  if (inputs_.empty()) inputs_.emplace_back("-");
  total_bytes_ = scbf::cli::total_bytes(inputs_);
  if (format_.kind != KeyKind::u64 || format_.decimal || format_.column) return;
  for (const std::string& input : inputs_) {
    const struct stat status = status_of(input);
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (!S_ISREG(status.st_mode) || input == "-" || bytes % kWord == 0) continue;
    const FirstLook first = look_at(input, format_);
    if (!first.compressed && !first.decimal) throw_odd_length(input, bytes);
  }
}

std::uint64_t KeySource::bytes_read() const noexcept {
  return bytes_before_ + (is_open() ? input().bytes_read() : 0);
}

bool KeySource::open() {
  if (!is_open() && !open_next()) return false;
  if (!examined_) examine();
  return true;
}

bool KeySource::open_next() {
  if (next_input_ == inputs_.size()) return false;
  input_ = std::make_unique<ByteInput>(inputs_[next_input_], decode_of(format_), &stop_);
  ++next_input_;
  examined_ = false;
  input_bytes_ = 0;
  return true;
}

void KeySource::close_current() noexcept {
  bytes_before_ = bytes_read();
  input_.reset();
  text_.reset();
}

bool KeySource::is_ready() const {
  if (total_bytes_) return true;
  return is_open() && examined_ && input().will_not_wait();
}

/// Finds out how the keys of the current input are written.
void KeySource::examine() {
  examined_ = true;
  decimal_ = false;
  TextForm form{.may_be_integers = !format_.only_lines, .piece_bytes = piece_bytes_};
  if (format_.column) {
    const KeyColumn& column = *format_.column;
    const std::optional<std::uint64_t> number = column_number(column.name);
    if (!number) form.column = column.name;
    form.rules = ColumnRules{.format = format_of(inputs_[next_input_ - 1], column.format),
                             .escapes = column.escapes,
                             .column = number ? *number - 1 : 0,
                             .decimal = format_.kind == KeyKind::u64};
  } else {
    look_at_first_bytes();
    if (format_.kind == KeyKind::u64 && !decimal_) return;
    form.rules = LineRules{
        .end = format_.end, .chomp_cr = format_.chomp_cr || decimal_, .decimal = decimal_};
    form.refuse_zeros = format_.check && !decimal_ && format_.end != '\0';
  }
  text_ = std::make_shared<InputText>(std::move(input_), std::move(form));
}

/// Taking something else for keys would give wrong answers and no error.
void KeySource::look_at_first_bytes() {
  decimal_ = format_.decimal;
  const std::string& name = input_->name();
  std::string_view first = first_bytes(*input_, format_);
  if (format_.decode && (format_.kind == KeyKind::lines || decimal_) &&
      first.starts_with(kByteOrderMark)) {
    input_->skip(kByteOrderMark.size());
    first.remove_prefix(kByteOrderMark.size());
    if (format_.tell && !std::exchange(told_of_mark_, true)) {
      note(fmt::format("{}: the byte order mark before the first key is skipped; --raw keeps it",
                       name));
    }
  }
  if (!format_.check) return;
  if (begins_as_filter(first)) {
    throw IoError(fmt::format("{}: a filter, where a file of keys is expected", name));
  }
  if (format_.kind == KeyKind::u64) {
    const bool as_text = !decimal_ && looks_decimal(first, format_.end);
    if (as_text && format_.bytes_given && format_.tell && !std::exchange(told_of_text_, true)) {
      note(fmt::format("{}: read as decimal numbers; --raw reads 8 bytes each", name));
    }
    decimal_ |= as_text;
    if (!decimal_ && looks_like_lines(first, format_.end)) {
      throw IoError(fmt::format(
          "{}: text, not integers of 8 bytes: {}…; numbers in lines are read by --keys decimal, "
          "those of a table by --column; --raw takes the bytes as they are",
          name, in_quotes(first.substr(0, first.find(format_.end)), 40)));
    }
    return;
  }
  if (format_.end == '\0') return;
  if (first.starts_with("\xFF\xFE") || first.starts_with("\xFE\xFF")) {
    throw IoError(fmt::format(
        "{}: UTF-16 text, whose lines would be cut in the middle of a character: convert it by "
        "iconv -f UTF-16 -t UTF-8; --raw takes the bytes as they are",
        name));
  }
  const std::size_t newline = first.find('\n');
  if (newline != std::string_view::npos && newline > 0 && first[newline - 1] == '\r' &&
      !format_.chomp_cr && format_.tell && !std::exchange(told_of_cr_, true)) {
    note(
        fmt::format("{}: lines end in CR LF, and the CR is taken as part of the key; --chomp-cr "
                    "leaves it out",
                    name));
  }
}

bool KeySource::begin(TextPiece& piece) noexcept {
  piece.keys.clear();
  piece.hashes.clear();
  piece.read_error = piece.divide_error = nullptr;
  piece.first_line = piece.lines = 0;
  piece.begins_input = false;
  piece.from = piece.to = 0;
  bool some = true;
  try {
    some = open() && is_text();
    if (some) {
      piece.of = text_;
      text_->begin(piece);
      if (piece.last) close_current();
    }
  } catch (...) {
    piece.read_error = std::current_exception();
  }
  piece.bytes_so_far = bytes_read();
  return some;
}

void KeySource::read_integers(std::span<std::uint64_t> into, std::size_t& read) {
  char* const data = reinterpret_cast<char*>(into.data());
  const std::size_t room = into.size_bytes();
  std::size_t end = cut_off_.copy(data, cut_off_.size());
  cut_off_.clear();
  read = 0;
  while (end < room) {
    if (pace_ == Pace::prompt && end >= kWord && !is_ready()) break;
    if (!open() || is_text()) break;
    const std::size_t n = input_->read({data + end, room - end});
    input_bytes_ += n;
    if (n == 0) {
      if (input_bytes_ % kWord != 0) throw_odd_length(inputs_[next_input_ - 1], input_bytes_);
      close_current();
    }
    end += n;
    read = end / kWord;
  }
  cut_off_.assign(data + end / kWord * kWord, end % kWord);
}

bool all_regular(std::span<const std::string> inputs) {
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const std::string& input) {
    return S_ISREG(status_of(input).st_mode) && input != "-";
  });
}

std::optional<std::uint64_t> keys_by_length(std::span<const std::string> inputs,
                                            const KeyFormat& format) {
  if (format.kind != KeyKind::u64 || format.column) return {};
  std::uint64_t keys = 0;
  for (const std::string& input : inputs) {
    const FirstLook first = look_at(input, format);
    if (first.compressed || first.decimal) return {};
    const auto length = static_cast<std::uint64_t>(status_of(input).st_size);
    if (length % kWord != 0) throw_odd_length(input, length);
    keys += length / kWord;
  }
  return keys;
}

}  // namespace scbf::cli
