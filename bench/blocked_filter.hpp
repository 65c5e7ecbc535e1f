// SPDX-License-Identifier: Apache-2.0
// A plain Bloom filter in blocks, as a comparator: what query engines use. It cannot remove. A key
// has one block of 32 bytes, and a bit in each of its eight words, so one or two vector
// instructions test or set them all.
//
// Blocks are from Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"
// (WEA 2007), and a bit for each word from Apache Impala. Which bits is as in the Apache Parquet
// format: the upper half of a hash makes the block; the lower half, times an odd number for each
// word, the bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "field/cells.hpp"

namespace scbf::bench {

class BlockedFilter {
 public:
  static constexpr const char* kName = "blocked";
  static constexpr unsigned kWords = 8;
  static constexpr std::array<std::uint32_t, kWords> kOdd = {
      0x47B6'137Bu, 0x4497'4D91u, 0x8824'AD5Bu, 0xA2B7'289Du,
      0x7054'95C7u, 0x2DF1'424Bu, 0x9EFC'4947u, 0x5C6B'FB31u};

  struct Blocks {
    std::uint32_t* words;
    std::uint64_t number;  ///< < 2^32

    std::uint32_t* of(std::uint64_t hash) const noexcept {
      return words + ((hash >> 32) * number >> 32) * kWords;
    }
  };

  BlockedFilter(std::size_t n, double fpr);

  // A batch of 64-bit keys. `ahead`: they are hashed strip by strip, and blocks are prefetched.
  // Otherwise each key is done before the next, as with one key a call.
  void insert(std::span<const std::uint64_t> keys, bool ahead) noexcept;
  /// out[i] = 1 where key i may be present; returns how many.
  std::uint64_t contains(std::span<const std::uint64_t> keys, std::uint8_t* out,
                         bool ahead) const noexcept;
  /// The vector instructions of these two.
  static const char* target();

  // One key, given by its hash, without vectors. Tests hold batches against it.
  bool insert(std::uint64_t hash) noexcept;
  bool contains(std::uint64_t hash) const noexcept;
  unsigned count(std::uint64_t hash) const noexcept { return contains(hash); }

  /// All its bits, and back to them.
  std::span<std::uint64_t> words() noexcept { return memory_.words(); }
  bool empty() const noexcept { return memory_.empty(); }
  void clear() { memory_.clear(); }
  std::size_t bytes() const noexcept { return blocks_.number * kWords * sizeof(std::uint32_t); }
  double predicted_fpr(std::size_t n) const noexcept;

 private:
  explicit BlockedFilter(std::uint64_t blocks);

  Memory memory_;
  Blocks blocks_;
};

}  // namespace scbf::bench
