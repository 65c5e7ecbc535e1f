// SPDX-License-Identifier: Apache-2.0
// Reads batches of keys from files and standard input: lines, 64-bit integers, columns of tables.
// Keys of text are views into it; few are copied. Besides its bytes, text takes 24 bytes for each
// line, of which 8 are its hash, or 8 for each number.
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
#include "key_format.hpp"
#include "key_source.hpp"
#include "scbf/key_batch.hpp"
#include "text_piece.hpp"
#include "text_pieces.hpp"

namespace scbf::cli {

/// The keys of one read, and the memory that they view.
class KeyBlock {
 public:
  /// Lines as their hashes, if the reader has a seed.
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
  void add(std::unique_ptr<TextPiece> piece);

  KeyKind kind_ = KeyKind::lines;
  std::span<const std::string_view> lines_;
  std::span<const std::uint64_t> numbers_, hashes_;
  // Keys of text: the pieces with them, and if there are several, the keys of all.
  std::vector<std::unique_ptr<TextPiece>> pieces_;
  std::size_t text_bytes_ = 0;
  TextKeys of_all_;
  std::vector<std::uint64_t> hashes_of_all_;
  // Keys of 8 bytes each.
  FreshWords words_;
  std::size_t words_capacity_ = 0;
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

/// How inputs are read.
struct Reading {
  unsigned threads = 1;  ///< that divide text
  std::optional<std::uint64_t> seed =
      {};  ///< of the filters that are to have or to be asked the keys
  Pace pace = Pace::bulk;
  /// Bytes of a block, about: text is read in pieces, of which a small block has one, or several
  /// short ones.
  std::size_t block_bytes = kSmallBlock;
  std::size_t piece_bytes = kPieceBytes;  ///< of text; smaller ones are for tests
};

/// Reads inputs one after another; "-" is standard input. A line never spans two inputs.
class KeyReader {
 public:
  /// Checks all inputs first, so that a missing file or a file of odd length is found before any
  /// work is done. Throws IoError.
  KeyReader(std::vector<std::string> inputs, KeyFormat format, const Reading& reading = {});
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;
  ~KeyReader();

  /// Replaces the contents of `block` by the next keys, at most a few million lines. Returns false
  /// at the end. Throws IoError, after all keys before the error are delivered.
  bool fill(KeyBlock& block);
  /// From any thread: a fill() that waits for input ends, and so does every later one, by IoError.
  void stop() noexcept { source_.stop(); }
  /// For a thread that waits until another has filled a block.
  TextPieces& pieces() noexcept { return pieces_; }

  KeyKind kind() const noexcept { return source_.format().kind; }
  std::uint64_t keys() const noexcept { return keys_; }
  KeyTotals totals() const noexcept { return {kind(), keys_, empty_lines_, bytes_}; }
  /// Bytes read from the inputs, before decompression, up to the keys delivered.
  std::uint64_t bytes_read() const noexcept { return bytes_; }
  /// Total length of the inputs; none if any of them is not a regular file.
  std::optional<std::uint64_t> total_bytes() const noexcept { return source_.total_bytes(); }

 private:
  void fill_some(KeyBlock& block);
  void fill_integers(KeyBlock& block);
  void fill_text(KeyBlock& block);
  void take(std::unique_ptr<TextPiece> piece, KeyBlock& block);
  void find_error(const TextPiece& piece);

  KeySource source_;
  std::size_t block_bytes_;
  bool at_once_;  // keys are delivered as soon as there are any and reading on would wait
  TextPieces pieces_;
  bool in_text_ = false;  // there may be text left
  bool ended_ = false;
  std::uint64_t lines_ = 0;  // of the current input, in what was taken
  std::uint64_t keys_ = 0, empty_lines_ = 0, bytes_ = 0;
  std::exception_ptr failed_;  // what the next fill throws
};

}  // namespace scbf::cli
