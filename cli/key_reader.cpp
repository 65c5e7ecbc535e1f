// SPDX-License-Identifier: Apache-2.0
#include "key_reader.hpp"

#include <fmt/format.h>

#include <bit>
#include <exception>
#include <utility>

#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

static_assert(std::endian::native == std::endian::little, "u64 keys are read in place");

namespace {

constexpr std::size_t kMaxLines = std::size_t{4} << 20;
/// Pieces of small inputs, or of small writes to a pipe, whose keys are put together in a block.
constexpr std::size_t kMostShortPieces = 256;

}  // namespace

std::string_view to_string(KeyKind kind) noexcept {
  return kind == KeyKind::lines ? "lines" : "u64";
}

KeyBatch KeyBlock::batch() const noexcept {
  if (kind_ == KeyKind::u64) return KeyBatch(numbers_);
  return hashes_.empty() ? KeyBatch(lines_) : KeyBatch::from_hashes(hashes_);
}

std::size_t KeyBlock::size() const noexcept {
  return kind_ == KeyKind::lines ? lines_.size() : numbers_.size();
}

/// Keys of a single piece stay where they are.
void KeyBlock::add(std::unique_ptr<TextPiece> piece) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  pieces_.push_back(std::move(piece));
  if (pieces_.size() == 1) {
    const TextPiece& only = *pieces_.front();
    lines_ = only.keys.lines;
    numbers_ = only.keys.numbers;
    hashes_ = only.hashes;
    return;
  }
  lines_ = {};  // in case there is no memory for all
  numbers_ = hashes_ = {};
  for (std::size_t i = pieces_.size() == 2 ? 0 : pieces_.size() - 1; i < pieces_.size(); ++i) {
    TextPiece& one = *pieces_[i];
    append(of_all_.lines, one.keys.lines);
    append(of_all_.numbers, one.keys.numbers);
    append(hashes_of_all_, one.hashes);
    // A large block may have many.
    decltype(one.keys.lines)().swap(one.keys.lines);
    decltype(one.keys.numbers)().swap(one.keys.numbers);
    decltype(one.hashes)().swap(one.hashes);
  }
  lines_ = of_all_.lines;
  numbers_ = of_all_.numbers;
  hashes_ = hashes_of_all_;
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

KeyReader::KeyReader(std::vector<std::string> inputs, KeyFormat format, const Reading& reading)
    : source_(std::move(inputs), std::move(format), reading.pace, reading.piece_bytes),
      block_bytes_(reading.block_bytes),
      at_once_(reading.pace == Pace::prompt && !source_.total_bytes()),
      pieces_(source_, at_once_ ? 1 : reading.threads, reading.seed) {}

KeyReader::~KeyReader() { stop(); }

bool KeyReader::fill(KeyBlock& block) {
  block.kind_ = kind();
  do {
    block.lines_ = {};
    block.numbers_ = block.hashes_ = {};
    block.hashes_of_all_.clear();
    block.text_bytes_ = 0;
    block.of_all_.clear();
    for (std::unique_ptr<TextPiece>& piece : block.pieces_) pieces_.give_back(std::move(piece));
    block.pieces_.clear();
    if (failed_) std::rethrow_exception(failed_);
    try {
      fill_some(block);
    } catch (...) {
      failed_ = std::current_exception();  // told when the keys before it are delivered
    }
  } while (block.size() == 0 && (failed_ || !ended_));
  keys_ += block.size();
  block.keys_so_far_ = keys_;
  block.bytes_so_far_ = bytes_;
  return block.size() > 0;
}

void KeyReader::fill_some(KeyBlock& block) {
  if (!in_text_) {
    ended_ = !source_.open();
    if (ended_) return;
    if (!source_.is_text()) return fill_integers(block);
    in_text_ = true;
    pieces_.go_on();
  }
  fill_text(block);
}

void KeyReader::fill_integers(KeyBlock& block) {
  const std::size_t words = block_bytes_ / sizeof(std::uint64_t);
  if (words > block.words_capacity_) {
    block.words_ = fresh_words(words);
    block.words_capacity_ = rounded_words(words);
  }
  std::size_t read = 0;
  try {
    source_.read_integers({block.words_.get(), block.words_capacity_}, read);
  } catch (...) {
    failed_ = std::current_exception();
  }
  block.numbers_ = {block.words_.get(), read};
  bytes_ = source_.bytes_read();
}

void KeyReader::fill_text(KeyBlock& block) {
  // The keys of several pieces must be put together, so a small block has one, unless they are
  // short.
  const std::size_t enough = block_bytes_ > kSmallBlock ? block_bytes_ : kPieceBytes / 2;
  const std::size_t most_pieces = kMostShortPieces + 2 * (enough / kPieceBytes);
  const auto full = [&] {
    return block.text_bytes_ >= enough || block.size() >= kMaxLines ||
           block.pieces_.size() >= most_pieces;
  };
  while (!failed_ && !full()) {
    if (at_once_ && block.size() > 0 && !source_.is_ready()) break;
    std::unique_ptr<TextPiece> piece = pieces_.next();
    in_text_ = piece != nullptr;
    if (!in_text_) break;
    take(std::move(piece), block);
  }
}

void KeyReader::take(std::unique_ptr<TextPiece> piece, KeyBlock& block) {
  empty_lines_ += piece->keys.empty;
  bytes_ = piece->bytes_so_far;
  find_error(*piece);
  if (piece->keys.size() == 0) return pieces_.give_back(std::move(piece));
  block.text_bytes_ += piece->text().size();
  block.add(std::move(piece));
}

/// What is wrong with a piece, if anything is, is told by the next fill().
void KeyReader::find_error(const TextPiece& piece) {
  failed_ = piece.read_error;
  if (piece.first_line > 0) lines_ = piece.first_line - 1;
  if (piece.divide_error) {
    try {
      std::rethrow_exception(piece.divide_error);
    } catch (const TextError& error) {
      failed_ =
          std::make_exception_ptr(error_in_line(*piece.name, lines_ + error.line, error.what()));
    } catch (...) {
      failed_ = std::current_exception();
    }
  }
  lines_ += piece.lines;
}

}  // namespace scbf::cli
