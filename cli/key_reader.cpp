// SPDX-License-Identifier: Apache-2.0
// Within a block, bytes are read and split in small steps, so that a step is still in the L2 cache
// when it is split.
#include "key_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

#include "decimal.hpp"
#include "errors.hpp"
#include "line_ends.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

static_assert(std::endian::native == std::endian::little, "u64 keys are read in place");

namespace {

constexpr std::size_t kStepBytes = std::size_t{256} << 10;
/// Bytes whose line ends are looked for at a time.
constexpr std::size_t kSearched = std::size_t{4} << 10;
constexpr std::size_t kMaxLines = std::size_t{4} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;
constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Binary files have zero bytes long before this one.
constexpr std::size_t kZeroCheck = std::size_t{64} << 10;

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

std::string not_a_number(std::string_view digits) {
  return fmt::format("{}: must be a decimal number from 0 to 2^64 - 1", in_quotes(digits, 40));
}

}  // namespace

std::string_view to_string(KeyKind kind) noexcept {
  return kind == KeyKind::lines ? "lines" : "u64";
}

KeyBatch KeyBlock::batch() const noexcept {
  return kind_ == KeyKind::lines ? KeyBatch(lines()) : KeyBatch(numbers_);
}

std::size_t KeyBlock::size() const noexcept {
  return kind_ == KeyKind::lines ? lines_.size() : numbers_.size();
}

void KeyBlock::reserve(std::size_t bytes, std::size_t kept) {
  if (bytes <= capacity_) return;
  const std::size_t words = (bytes + kWord - 1) / kWord;
  FreshWords fresh = fresh_words(words);
  if (kept > 0) std::memcpy(fresh.get(), words_.get(), kept);
  words_ = std::move(fresh);
  capacity_ = rounded_words(words) * kWord;
}

void KeyBlock::append(std::string_view line, std::size_t used) {
  if (used + line.size() > capacity_) {
    reserve(2 * (used + line.size()), used);
    const char* at = bytes();
    for (std::string_view& moved : lines_) {
      moved = {at, moved.size()};
      at += moved.size();
    }
  }
  line.copy(bytes() + used, line.size());
  lines_.emplace_back(bytes() + used, line.size());
}

void write_key(Output& out, const KeyBlock& block, std::size_t i, const KeyFormat& format) {
  if (block.kind() == KeyKind::u64) {
    const fmt::format_int digits(block.numbers()[i]);
    return out.write(std::string_view(digits.data(), digits.size()));
  }
  const std::string_view key = block.lines()[i];
  if (format.column && key.find(format.end) != std::string_view::npos) {
    throw IoError(fmt::format("key {}: a {} in it; {}", in_quotes(key, 40),
                              format.end == '\n' ? "newline" : "zero byte",
                              format.end == '\n' ? "-0 prints keys with zero bytes between them"
                                                 : "without -0 keys are printed in lines"));
  }
  out.write(key);
}

KeyReader::KeyReader(std::vector<std::string> inputs, KeyFormat format, Pace pace,
                     std::size_t block_bytes)
    : inputs_(std::move(inputs)),
      format_(std::move(format)),
      pace_(pace),
      block_bytes_(block_bytes) {
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

KeyReader::~KeyReader() = default;

std::uint64_t KeyReader::bytes_read() const noexcept {
  return bytes_before_ + (input_ ? input_->bytes_read() : records_ ? records_->bytes_read() : 0);
}

bool KeyReader::open_next(const KeyBlock& block) {
  close_current();
  if (next_input_ == inputs_.size()) return false;
  const std::string& name = inputs_[next_input_];
  if (format_.column) {
    const KeyColumn& column = *format_.column;
    records_ = std::make_unique<RecordReader>(name, format_of(name, column.format), column.escapes,
                                              decode_of(format_), &stop_);
  } else {
    input_ = std::make_unique<ByteInput>(name, decode_of(format_), &stop_);
  }
  ++next_input_;
  input_bytes_ = 0;
  lines_before_ = lines_up_to(block);
  examined_ = false;
  return true;
}

void KeyReader::close_current() noexcept {
  bytes_before_ = bytes_read();
  input_.reset();
  records_.reset();
}

bool KeyReader::more_is_waiting() const {
  return input_ ? input_->more_is_waiting() : records_->more_is_waiting();
}

/// Looks at the first bytes of the current input: taking something else for keys would give wrong
/// answers and no error.
void KeyReader::examine() {
  examined_ = true;
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

void KeyReader::check_for_zeros(std::string_view bytes) const {
  if (!format_.check || format_.kind != KeyKind::lines || format_.end == '\0') return;
  if (bytes.find('\0') == std::string_view::npos) return;
  throw IoError(fmt::format(
      "{}: zero bytes in lines: is it binary? {} that end in a zero byte; --raw takes the "
      "lines as they are",
      input_->name(),
      format_.only_lines ? "--null reads lines" : "--keys u64 reads integers of 8 bytes, -0 keys"));
}

bool KeyReader::fill(KeyBlock& block) {
  block.kind_ = format_.kind;
  do {
    block.lines_.clear();
    block.parsed_.clear();
    block.numbers_ = {};
    if (failed_) std::rethrow_exception(failed_);
    try {
      block.reserve(block_bytes_, 0);
      if (!input_ && !records_ && !open_next(block)) break;
      fill_some(block);
    } catch (...) {
      failed_ = std::current_exception();  // told when the keys before it are delivered
    }
    if (!block.parsed_.empty()) block.numbers_ = block.parsed_;
  } while (block.size() == 0);
  keys_ += block.size();
  block.keys_so_far_ = keys_;
  block.bytes_so_far_ = bytes_read();
  return block.size() > 0;
}

/// Fills the block from the current input on. The block holds the keys before an error, too.
void KeyReader::fill_some(KeyBlock& block) {
  if (input_ && !examined_) examine();
  if (format_.column) {
    fill_column(block);
  } else if (format_.kind == KeyKind::lines || decimal_) {
    fill_lines(block);
  } else {
    fill_numbers(block);
  }
}

void KeyReader::fill_column(KeyBlock& block) {
  const KeyColumn& column = *format_.column;
  const std::optional<std::uint64_t> number = column_number(column.name);
  std::size_t used = 0;
  while (block.keys_of_text() < kMaxLines && used < block_bytes_) {
    if (!records_ && !open_next(block)) break;
    if (pace_ == Pace::prompt && block.keys_of_text() > 0 && !more_is_waiting()) break;
    if (!examined_) {
      examined_ = true;
      if (number) {
        column_ = *number - 1;
      } else if (const Record* const header = records_->next()) {
        const std::vector<std::string_view>& names = header->fields;
        const auto found = std::ranges::find(names, column.name);
        if (std::ranges::count(names, column.name) > 1) {
          records_->fail(header->line,
                         fmt::format("column {} is there twice", in_quotes(column.name)));
        }
        if (found == names.end()) {
          records_->fail(
              header->line,
              fmt::format("no column {}; there are: {}", in_quotes(column.name),
                          list_in_quotes(std::vector<std::string>(names.begin(), names.end()))));
        }
        column_ = static_cast<std::size_t>(found - names.begin());
      }
    }
    const Record* const record = records_->next();
    if (!record) {
      close_current();
      continue;
    }
    if (column_ >= record->fields.size()) {
      records_->fail(record->line,
                     fmt::format("{}, and the key is in field {}",
                                 counted(record->fields.size(), "field"), column_ + 1));
    }
    const std::string_view key = record->fields[column_];
    if (key.empty()) {
      ++empty_lines_;
    } else if (format_.kind == KeyKind::lines) {
      block.append(key, used);
    } else if (const auto value = parse_decimal(key)) {
      block.parsed_.push_back(*value);
    } else {
      records_->fail(record->line, not_a_number(key));
    }
    used += key.size();
  }
}

void KeyReader::fill_lines(KeyBlock& block) {
  std::vector<std::string_view>& lines = block.lines_;
  block.reserve(cut_off_.size() + kStepBytes, 0);
  char* data = block.bytes();
  cut_off_.copy(data, cut_off_.size());
  std::size_t line = 0;               // start of the line that is still incomplete
  std::size_t end = cut_off_.size();  // end of the bytes read and split so far
  cut_off_.clear();
  const bool decimal = decimal_, chomp = decimal || format_.chomp_cr;
  const auto add = [&](std::size_t stop) {
    if (chomp && stop > line && data[stop - 1] == '\r') --stop;
    const std::string_view key(data + line, stop - line);
    if (key.empty()) {
      ++empty_lines_;
    } else if (!decimal) {
      lines.push_back(key);
    } else if (const auto value = parse_decimal(key)) {
      block.parsed_.push_back(*value);
    } else {
      throw IoError(fmt::format("{}: line {}: {}; for 8 bytes each: --keys u64 --raw",
                                display_name(current_name()),
                                lines_up_to(block) - lines_before_ + 1, not_a_number(key)));
    }
  };

  while (block.keys_of_text() < kMaxLines) {
    if (!input_ && !open_next(block)) return;
    if (end == block.capacity_) {
      if (block.keys_of_text() > 0) break;
      if (line > 0) {  // nothing but empty lines so far
        std::memmove(data, data + line, end - line);
        end -= line;
        line = 0;
        continue;
      }
      if (block.capacity_ >= kMaxLineBytes) {
        throw IoError(fmt::format("{}: a line of more than {}: not a file of lines?{}",
                                  display_name(current_name()), human_bytes(kMaxLineBytes),
                                  format_.only_lines ? "" : " (--keys u64)"));
      }
      block.reserve(std::min(2 * block.capacity_, kMaxLineBytes), end);
      data = block.bytes();
    }
    if (pace_ == Pace::prompt && block.keys_of_text() > 0 && !more_is_waiting()) break;
    if (!examined_) {
      examine();
      if (decimal_ != decimal) break;
    }
    const std::size_t n = input_->read({data + end, std::min(kStepBytes, block.capacity_ - end)});
    if (n == 0) {
      if (end > line) add(end);
      line = end;
      close_current();
      continue;
    }
    if (input_bytes_ < kZeroCheck) check_for_zeros({data + end, n});
    input_bytes_ += n;
    for (const std::size_t stop = end + n; end < stop;) {
      const std::size_t searched = std::min(kSearched, stop - end);
      std::array<std::uint32_t, kSearched> ends;
      const std::size_t found = line_ends({data + end, searched}, format_.end, ends.data());
      for (std::size_t i = 0; i < found; ++i) {
        add(end + ends[i]);
        line = end + ends[i] + 1;
      }
      end += searched;
    }
  }
  cut_off_.assign(data + line, end - line);
}

void KeyReader::fill_numbers(KeyBlock& block) {
  char* const data = block.bytes();
  std::size_t end = cut_off_.size();
  cut_off_.copy(data, end);
  cut_off_.clear();
  while (end < block.capacity_) {
    if (!input_ && !open_next(block)) break;
    if (pace_ == Pace::prompt && end >= kWord && !more_is_waiting()) break;
    if (!examined_) {
      examine();
      if (decimal_) break;
    }
    const std::size_t n = input_->read({data + end, block.capacity_ - end});
    input_bytes_ += n;
    if (n == 0) {
      if (input_bytes_ % kWord != 0) throw_odd_length(current_name(), input_bytes_);
      close_current();
    }
    end += n;
    block.numbers_ = {block.words_.get(), end / kWord};
  }
  const std::size_t whole = end / kWord * kWord;
  cut_off_.assign(data + whole, end - whole);
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
