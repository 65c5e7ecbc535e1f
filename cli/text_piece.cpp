// SPDX-License-Identifier: Apache-2.0
#include "text_piece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "decimal.hpp"
#include "input_text.hpp"
#include "line_ends.hpp"
#include "scbf/key_batch.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// Bytes whose line ends are looked for at a time.
constexpr std::size_t kSearched = std::size_t{4} << 10;

std::string not_a_number(std::string_view digits) {
  return fmt::format("{}: must be a decimal number from 0 to 2^64 - 1", in_quotes(digits, 40));
}

/// Adds a key, unless it is empty. Returns false if it should be a number and is none.
bool add(std::string_view key, bool decimal, TextKeys& to) {
  if (key.empty()) {
    ++to.empty;
  } else if (!decimal) {
    to.lines.push_back(key);
  } else if (const auto number = parse_decimal(key)) {
    to.numbers.push_back(*number);
  } else {
    return false;
  }
  return true;
}

/// Divides lines, of which the last one may lack its end. Returns how many there were. Throws
/// TextError.
std::uint64_t divide_lines(std::string_view text, const LineRules& rules, TextKeys& to) {
  std::uint64_t lines = 0;
  const auto take = [&](std::string_view line) {
    ++lines;
    if (rules.chomp_cr && line.ends_with('\r')) line.remove_suffix(1);
    if (!add(line, rules.decimal, to)) {
      throw TextError(lines, not_a_number(line) + "; for 8 bytes each: --keys u64 --raw");
    }
  };
  std::size_t line = 0;
  for (std::size_t from = 0; from < text.size(); from += kSearched) {
    std::array<std::uint32_t, kSearched> ends;
    const std::size_t found = line_ends(text.substr(from, kSearched), rules.end, ends.data());
    for (std::size_t i = 0; i < found; ++i) {
      const std::size_t end = from + ends[i];
      take(text.substr(line, end - line));
      line = end + 1;
    }
  }
  if (line < text.size()) take(text.substr(line));
  return lines;
}

/// Takes the keys of all records that were fed to the divider. Throws TextError.
void take_column(RecordDivider& records, const ColumnRules& rules, TextKeys& to) {
  while (const Record* const record = records.next()) {
    if (rules.column >= record->fields.size()) {
      throw TextError(record->line,
                      fmt::format("{}, and the key is in field {}",
                                  counted(record->fields.size(), "field"), rules.column + 1));
    }
    std::string_view key = record->fields[rules.column];
    if (!records.views_text() && !rules.decimal) key = to.copies.emplace_back(key);
    if (!add(key, rules.decimal, to)) throw TextError(record->line, not_a_number(key));
  }
}

}  // namespace

void TextKeys::clear() noexcept {
  lines.clear();
  numbers.clear();
  copies.clear();
  empty = 0;
}

void TextPiece::make_room(std::size_t before, std::size_t bytes) {
  from = to = before;
  const std::size_t wanted = (before + bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  if (wanted * sizeof(std::uint64_t) <= capacity) return;
  words = nullptr;
  capacity = 0;
  words = fresh_words(wanted);
  capacity = rounded_words(wanted) * sizeof(std::uint64_t);
}

void TextPiece::prepend(std::string_view begun) {
  if (begun.size() > from) {
    FreshWords old = std::exchange(words, nullptr);
    const std::string_view own(reinterpret_cast<const char*>(old.get()) + from, to - from);
    capacity = 0;
    make_room(begun.size(), own.size());
    own.copy(bytes() + from, own.size());
    to = from + own.size();
  }
  from -= begun.size();
  begun.copy(bytes() + from, begun.size());
}

void TextPiece::load() noexcept {
  if (read_error) return;
  try {
    if (place) to = from + of->input().read_at(*place, bytes() + from);
    line_feeds = quotes = 0;
    if (!std::holds_alternative<ColumnRules>(rules)) return;
    line_feeds = count_byte(text(), '\n');
    quotes = count_byte(text(), '"');
  } catch (...) {
    read_error = std::current_exception();
  }
}

void TextPiece::divide(std::optional<std::uint64_t> seed) noexcept {
  try {
    if (const auto* const column = std::get_if<ColumnRules>(&rules)) {
      divide_column(*column);
    } else {
      lines = divide_lines(text(), std::get<LineRules>(rules), keys);
    }
  } catch (...) {
    divide_error = std::current_exception();
  }
  if (!seed || keys.lines.empty()) return;
  try {
    hashes.resize(keys.lines.size());
    KeyBatch(keys.lines).hashes(*seed, hashes);
  } catch (...) {
    keys.clear();
    divide_error = std::current_exception();
  }
}

void TextPiece::divide_column(const ColumnRules& column) {
  if (from == to) return;
  if (!records_ || made_for_.format != column.format || made_for_.escapes != column.escapes) {
    records_.emplace(column.format, column.escapes);
    made_for_ = column;
  }
  records_->begin(begins_input);
  records_->feed({bytes() + from, to - from}, true);
  take_column(*records_, column, keys);
  lines = records_->line() - 1;
}

}  // namespace scbf::cli
