// SPDX-License-Identifier: Apache-2.0
// Opens the inputs of keys, one after another, and finds out how the keys are written there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "input.hpp"
#include "input_text.hpp"
#include "key_format.hpp"
#include "text_piece.hpp"

namespace scbf::cli {

/// How much is read before it is delivered.
enum class Pace : std::uint8_t {
  bulk,    ///< as much as fits
  prompt,  ///< what there is, as soon as waiting for more would delay answers
};

/// For one thread at a time.
class KeySource {
 public:
  /// Checks all inputs first. Throws IoError.
  KeySource(std::vector<std::string> inputs, KeyFormat format, Pace pace, std::size_t piece_bytes);

  /// Looks at the current input, or the next one if that has ended. Returns false at the end of the
  /// last one. Throws IoError, as the others do.
  bool open();
  /// After open(): are the keys of the current input text? Otherwise they have 8 bytes each.
  bool is_text() const noexcept { return text_ != nullptr; }
  /// Begins the next piece of text, and reads it if that must be done in order. Returns false if
  /// there is no text left before other keys. Errors go into the piece.
  bool begin(TextPiece& piece) noexcept;
  /// Reads keys of 8 bytes each until there is no room, or the next keys are text. `read` is how
  /// many there are, also if it throws.
  void read_integers(std::span<std::uint64_t> into, std::size_t& read);
  /// Whether reading on will not wait: the inputs are regular files, or the current one has bytes
  /// waiting that are not compressed.
  bool is_ready() const;

  const KeyFormat& format() const noexcept { return format_; }
  /// Bytes read from the inputs, before decompression.
  std::uint64_t bytes_read() const noexcept;
  /// Total length of the inputs; none if any of them is not a regular file.
  std::optional<std::uint64_t> total_bytes() const noexcept { return total_bytes_; }
  /// From any thread: reading that waits for input ends, by IoError.
  void stop() noexcept { stop_.stop(); }

 private:
  bool open_next();
  void close_current() noexcept;
  void examine();
  void look_at_first_bytes();
  ByteInput& input() noexcept { return text_ ? text_->input() : *input_; }
  const ByteInput& input() const noexcept { return text_ ? text_->input() : *input_; }
  bool is_open() const noexcept { return input_ || text_; }

  std::vector<std::string> inputs_;
  KeyFormat format_;
  Pace pace_;
  std::size_t piece_bytes_;
  StopSignal stop_;
  std::optional<std::uint64_t> total_bytes_;
  std::size_t next_input_ = 0;
  // The current input: first this, and once it is known to be text, the other.
  std::unique_ptr<ByteInput> input_;
  std::shared_ptr<InputText> text_;
  bool examined_ = false;
  bool decimal_ = false;            // it holds numbers as text
  std::uint64_t input_bytes_ = 0;   // of integers, delivered by it
  std::string cut_off_;             // the beginning of an integer
  std::uint64_t bytes_before_ = 0;  // read from earlier inputs
  bool told_of_cr_ = false, told_of_mark_ = false, told_of_text_ = false;
};

/// Whether every input is a regular file, so that it can be read twice. Throws IoError if one is
/// missing.
bool all_regular(std::span<const std::string> inputs);
/// Number of keys in the inputs, with repetitions, if their lengths tell it: for u64 keys that are
/// neither text nor compressed. Requires all_regular(inputs). Throws IoError.
std::optional<std::uint64_t> keys_by_length(std::span<const std::string> inputs,
                                            const KeyFormat& format);

}  // namespace scbf::cli
