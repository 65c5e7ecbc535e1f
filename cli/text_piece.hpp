// SPDX-License-Identifier: Apache-2.0
// A piece of the text of an input, and the keys in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fresh_words.hpp"
#include "input.hpp"
#include "record_divider.hpp"

namespace scbf::cli {

/// Keys of text, in its order: all of them views, or all of them numbers.
struct TextKeys {
  std::vector<std::string_view> lines;
  std::vector<std::uint64_t> numbers;
  std::list<std::string> copies;  ///< of keys that do not stand in the text as they are
  std::uint64_t empty = 0;        ///< how many were empty, and left out

  std::size_t size() const noexcept { return lines.size() + numbers.size(); }
  void clear() noexcept;
};

/// Keys that are lines.
struct LineRules {
  char end = '\n';
  bool chomp_cr = false;  ///< a carriage return at the end of a line is no part of the key
  bool decimal = false;   ///< they are numbers
};
/// Keys that are in a column of a table.
struct ColumnRules {
  TableFormat format;
  Escapes escapes = Escapes::yes;
  std::size_t column = 0;  ///< its number, from 0 on
  bool decimal = false;
};
using TextRules = std::variant<LineRules, ColumnRules>;

class InputText;

/// One thread after another works on it: it is begun (InputText::begin), loaded, cut
/// (InputText::cut) and divided. Pieces are begun and cut in order, and loaded and divided in any.
struct TextPiece {
  std::shared_ptr<InputText> of;            ///< what it is a piece of, until it is cut
  std::shared_ptr<const std::string> name;  ///< of the input, for messages
  bool last = false;                        ///< nothing follows in this input

  // Its bytes, and room before them for what the piece before it leaves over.
  FreshWords words;
  std::size_t capacity = 0;
  std::size_t from = 0, to = 0;
  std::optional<ByteInput::Place> place;     ///< where they are to be loaded from, if not there yet
  std::uint64_t line_feeds = 0, quotes = 0;  ///< in a table, how many were loaded

  TextRules rules;
  bool begins_input = false;     ///< it is the first text of its input
  std::uint64_t first_line = 0;  ///< number of its first line, if it is the first with keys; else 0
  TextKeys keys;
  std::vector<std::uint64_t> hashes;  ///< of the lines among them, if divide() had a seed
  std::uint64_t lines = 0;            ///< how many were divided

  /// What went wrong: before the piece's text was complete, or when it was divided.
  std::exception_ptr read_error, divide_error;
  std::uint64_t bytes_so_far = 0;  ///< read up to here from all inputs, before decompression

  char* bytes() const noexcept { return reinterpret_cast<char*>(words.get()); }
  std::string_view text() const noexcept { return {bytes() + from, to - from}; }
  /// Makes room for so many bytes, and for others before them; what was there is lost. Throws
  /// bad_alloc.
  void make_room(std::size_t before, std::size_t bytes);
  /// Puts text before its own. Throws bad_alloc.
  void prepend(std::string_view begun);
  void load() noexcept;
  /// Finds the keys, and hashes those that are no numbers while they are in cache.
  void divide(std::optional<std::uint64_t> seed) noexcept;

 private:
  void divide_column(const ColumnRules& column);

  std::optional<RecordDivider> records_;
  ColumnRules made_for_;  // what records_ was made for
};

}  // namespace scbf::cli
