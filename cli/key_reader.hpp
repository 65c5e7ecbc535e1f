// SPDX-License-Identifier: Apache-2.0
// Reads batches of keys from files and standard input. Bytes are read in large blocks, and keys are
// views into them. No line is copied except the start of one that the end of a block cuts off. A
// block takes up to 128 MiB (64 of bytes, 64 of views), and more only if a single line is longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/key_batch.hpp"

namespace scbf::cli {

enum class KeyKind : std::uint8_t {
  lines,  ///< a line without its newline; the last one may lack it; empty lines are skipped
  u64,    ///< 8 bytes each, little-endian
};
std::string_view to_string(KeyKind kind) noexcept;
/// Throws UsageError for any other name than "lines" and "u64".
KeyKind key_kind_from_string(std::string_view name);

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

  KeyKind kind_ = KeyKind::lines;
  std::unique_ptr<std::uint64_t[]> words_;  // words, so that u64 keys are aligned
  std::size_t capacity_ = 0;
  std::vector<std::string_view> lines_;
  std::span<const std::uint64_t> numbers_;
  std::uint64_t keys_so_far_ = 0, bytes_so_far_ = 0;
};

/// Reads inputs one after another; "-" is standard input. A line never spans two inputs.
class KeyReader {
 public:
  /// How full a block must be before it is delivered.
  enum class Pace : std::uint8_t {
    bulk,    ///< as full as possible, because large batches are fast
    prompt,  ///< delivered as soon as waiting for more input would delay answers
  };

  /// Checks all inputs first, so that a missing file or a file of odd length is found before any
  /// work is done. Throws IoError.
  KeyReader(std::vector<std::string> inputs, KeyKind kind, Pace pace = Pace::bulk);
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;
  ~KeyReader();

  /// Replaces the contents of `block` by the next keys, at most a few million. Returns false at the
  /// end. Throws IoError.
  bool fill(KeyBlock& block);

  KeyKind kind() const noexcept { return kind_; }
  Pace pace() const noexcept { return pace_; }
  std::uint64_t keys() const noexcept { return keys_; }
  std::uint64_t empty_lines() const noexcept { return empty_lines_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// Total length of the inputs; none if any of them is not a regular file.
  std::optional<std::uint64_t> total_bytes() const noexcept { return total_bytes_; }

 private:
  bool open_next();
  void close_current() noexcept;
  std::size_t read_some(char* into, std::size_t bytes);
  bool more_is_waiting() const;
  void fill_lines(KeyBlock& block);
  void fill_numbers(KeyBlock& block);
  std::string current_name() const;

  std::vector<std::string> inputs_;
  KeyKind kind_;
  Pace pace_;
  std::optional<std::uint64_t> total_bytes_ = 0;
  std::size_t next_input_ = 0;
  int fd_ = -1;
  std::string cut_off_;  // the beginning of a line whose end is in the next block
  std::uint64_t keys_ = 0, empty_lines_ = 0, bytes_read_ = 0;
  std::uint64_t input_bytes_ = 0;  // read from the current input
};

/// The name for messages: "standard input" for "-".
std::string display_name(const std::string& input);
/// Opens an input for one sequential read. Throws IoError.
int open_input(const std::string& input);
/// Reads up to `bytes` bytes. Returns how many were read; 0 at the end. Throws IoError.
std::size_t read_from(int fd, char* into, std::size_t bytes, const std::string& input);

/// Calls use(block) for each block. With `overlap`, a second thread reads the next block meanwhile.
void for_each_block(KeyReader& reader, bool overlap,
                    const std::function<void(const KeyBlock&)>& use);

/// Whether every input is a regular file, so that it can be read twice. Throws IoError if one is
/// missing.
bool all_regular(std::span<const std::string> inputs);
/// Number of keys in the inputs, with repetitions. For lines it reads all inputs once and calls
/// progress(keys, bytes) now and then; for u64 it only reads the file lengths.
/// Requires all_regular(inputs). Throws IoError.
std::uint64_t count_keys(std::span<const std::string> inputs, KeyKind kind,
                         const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace scbf::cli
