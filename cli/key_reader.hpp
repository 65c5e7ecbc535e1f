// SPDX-License-Identifier: Apache-2.0
// Reads batches of keys from files and standard input: lines, 64-bit integers, columns of tables.
// Bytes are read in blocks, and keys are views into them. No line is copied except the start of one
// that the end of a block cuts off. Besides its bytes, a block takes 16 bytes for each line, or 8
// for each number in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fresh_words.hpp"
#include "input.hpp"
#include "records.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::cli {

enum class KeyKind : std::uint8_t {
  lines,  ///< a line without its newline; the last one may lack it; empty lines are skipped
  u64,    ///< 64-bit integers
};
std::string_view to_string(KeyKind kind) noexcept;

/// A column of a table: its name in the first record, or, in a table without names, its number from
/// 1 on.
struct KeyColumn {
  std::string name;
  std::optional<TableFormat> format = {};
  Escapes escapes = Escapes::yes;
};

/// How keys are written in the inputs.
struct KeyFormat {
  KeyKind kind = KeyKind::lines;
  bool decimal = false;  ///< u64: decimal numbers, one a line, and not 8 bytes each, little-endian
  bool bytes_given = false;  ///< u64: the user said that they have 8 bytes each
  char end = '\n';           ///< of each line; 0 for lines that may hold newlines
  bool chomp_cr = false;     ///< a carriage return at the end of a line is no part of the key
  bool decode = true;        ///< decompress, and skip a byte order mark
  bool check = true;  ///< refuse what does not look like keys; find decimal numbers by themselves
  bool tell = true;   ///< print notes about what is read
  bool only_lines = false;  ///< the verb has no --keys, so that messages do not advise it
  std::optional<KeyColumn> column = {};
};

/// The keys of one read, and the memory that they view.
class KeyBlock {
 public:
  KeyBatch batch() const noexcept;
  std::size_t size() const noexcept;
  KeyKind kind() const noexcept { return kind_; }
  /// The keys of kind `lines`.
  std::span<const std::string_view> lines() const noexcept { return lines_; }
  /// The keys of kind `u64`.
  std::span<const std::uint64_t> numbers() const noexcept { return numbers_; }
  /// Keys delivered and bytes read up to the end of this block. The reader itself may already be
  /// filling the next block.
  std::uint64_t keys_so_far() const noexcept { return keys_so_far_; }
  std::uint64_t bytes_so_far() const noexcept { return bytes_so_far_; }

 private:
  friend class KeyReader;
  /// Makes room for at least `bytes` bytes and keeps the first `kept` bytes.
  void reserve(std::size_t bytes, std::size_t kept);
  char* bytes() const noexcept { return reinterpret_cast<char*>(words_.get()); }
  /// Copies a line behind the others, which lie one behind the other from bytes() on and take
  /// `used` bytes.
  void append(std::string_view line, std::size_t used);
  /// Keys from text, of either kind.
  std::size_t keys_of_text() const noexcept { return lines_.size() + parsed_.size(); }

  KeyKind kind_ = KeyKind::lines;
  FreshWords words_;  // words, so that u64 keys are aligned
  std::size_t capacity_ = 0;
  std::vector<std::string_view> lines_;
  std::span<const std::uint64_t> numbers_;
  std::vector<std::uint64_t> parsed_;  // numbers_, if they came as text
  std::uint64_t keys_so_far_ = 0, bytes_so_far_ = 0;
};

/// What was read so far.
struct KeyTotals {
  KeyKind kind = KeyKind::lines;
  std::uint64_t keys = 0, empty_lines = 0;
  std::uint64_t bytes = 0;  ///< before decompression
};

class Output;
/// Writes key i, numbers in decimal. Throws IoError if a key of a column holds what ends keys.
void write_key(Output& out, const KeyBlock& block, std::size_t i, const KeyFormat& format);

/// Bytes of a block that stays in cache between being read and being used.
inline constexpr std::size_t kSmallBlock = std::size_t{1} << 20;

/// Reads inputs one after another; "-" is standard input. A line never spans two inputs.
class KeyReader {
 public:
  /// How full a block must be before it is delivered.
  enum class Pace : std::uint8_t {
    bulk,    ///< as full as possible
    prompt,  ///< delivered as soon as waiting for more input would delay answers
  };

  /// Checks all inputs first, so that a missing file or a file of odd length is found before any
  /// work is done. A block has `block_bytes`, and more only if a single line is longer. Throws
  /// IoError.
  KeyReader(std::vector<std::string> inputs, KeyFormat format, Pace pace = Pace::bulk,
            std::size_t block_bytes = kSmallBlock);
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;
  ~KeyReader();

  /// Replaces the contents of `block` by the next keys, at most a few million lines. Returns false
  /// at the end. Throws IoError, after all keys before the error are delivered.
  bool fill(KeyBlock& block);
  /// From any thread: a fill() that waits for input ends, and so does every later one, by IoError.
  void stop() noexcept { stop_.stop(); }

  KeyKind kind() const noexcept { return format_.kind; }
  Pace pace() const noexcept { return pace_; }
  std::uint64_t keys() const noexcept { return keys_; }
  KeyTotals totals() const noexcept { return {kind(), keys_, empty_lines_, bytes_read()}; }
  /// Bytes read from the inputs, before decompression.
  std::uint64_t bytes_read() const noexcept;
  /// Total length of the inputs; none if any of them is not a regular file.
  std::optional<std::uint64_t> total_bytes() const noexcept { return total_bytes_; }

 private:
  bool open_next(const KeyBlock& block);
  void close_current() noexcept;
  void examine();
  bool more_is_waiting() const;
  void fill_some(KeyBlock& block);
  void fill_lines(KeyBlock& block);
  void fill_numbers(KeyBlock& block);
  void fill_column(KeyBlock& block);
  /// Refuses lines with zero bytes.
  void check_for_zeros(std::string_view bytes) const;
  const std::string& current_name() const { return inputs_[next_input_ - 1]; }
  /// Keys and empty lines so far, those of the block that is being filled included.
  std::uint64_t lines_up_to(const KeyBlock& block) const noexcept {
    return keys_ + block.numbers_.size() + block.keys_of_text() + empty_lines_;
  }

  std::vector<std::string> inputs_;
  KeyFormat format_;
  Pace pace_;
  std::size_t block_bytes_;
  StopSignal stop_;
  std::optional<std::uint64_t> total_bytes_ = 0;
  std::size_t next_input_ = 0;
  std::unique_ptr<ByteInput> input_;       // the current one,
  std::unique_ptr<RecordReader> records_;  // or, with a column, this
  std::size_t column_ = 0;                 // number of the one with the keys, from 0 on
  bool examined_ = false;                  // the first bytes of the current input are known
  bool decimal_ = false;                   // the current input holds numbers as text
  bool told_of_cr_ = false, told_of_mark_ = false, told_of_text_ = false;
  std::string cut_off_;  // the beginning of a line whose end is in the next block
  std::uint64_t keys_ = 0, empty_lines_ = 0;
  std::uint64_t bytes_before_ = 0;  // read from earlier inputs
  std::uint64_t lines_before_ = 0;  // of earlier inputs
  std::uint64_t input_bytes_ = 0;   // delivered by the current input
  std::exception_ptr failed_;       // what the next fill throws
};

/// Whether every input is a regular file, so that it can be read twice. Throws IoError if one is
/// missing.
bool all_regular(std::span<const std::string> inputs);
/// Number of keys in the inputs, with repetitions, if their lengths tell it: for u64 keys that are
/// neither text nor compressed. Requires all_regular(inputs). Throws IoError.
std::optional<std::uint64_t> keys_by_length(std::span<const std::string> inputs,
                                            const KeyFormat& format);

}  // namespace scbf::cli
