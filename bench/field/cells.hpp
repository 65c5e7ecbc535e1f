// SPDX-License-Identifier: Apache-2.0
// What the structures of this folder are made of: zeroed memory with huge pages, cells of a few
// bits packed into it, and a comparison of all cells of a bucket at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "../double_hashing.hpp"
#include "scbf/backend.hpp"

namespace scbf::bench {

/// Zeroed memory from where our filters have theirs, so that all have huge pages. Any byte can be
/// the first of a word; so there are 15 bytes more than asked for.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes)
      : size_((bytes + 15 + 7) / 8),
        store_(find_backend("scalar").allocate(size_)),
        words_(store_->words()) {}

  std::uint64_t load(std::uint64_t byte) const noexcept {
    std::uint64_t word;
    std::memcpy(&word, bytes() + byte, sizeof word);
    return word;
  }
  void store(std::uint64_t byte, std::uint64_t word) noexcept {
    std::memcpy(bytes() + byte, &word, sizeof word);
  }
  // In halves: compilers move a whole one through vector registers, which takes longer.
  Wide load_wide(std::uint64_t byte) const noexcept {
    return load(byte) | static_cast<Wide>(load(byte + 8)) << 64;
  }
  void store_wide(std::uint64_t byte, Wide word) noexcept {
    store(byte, static_cast<std::uint64_t>(word));
    store(byte + 8, static_cast<std::uint64_t>(word >> 64));
  }

  std::span<std::uint64_t> words() noexcept { return {words_, size_}; }
  std::span<const std::uint64_t> words() const noexcept { return {words_, size_}; }
  void clear() { store_->clear(); }
  bool empty() const noexcept {
    return std::ranges::all_of(words(), [](std::uint64_t word) { return word == 0; });
  }
  std::size_t size_bytes() const noexcept { return 8 * size_; }

 private:
  unsigned char* bytes() const noexcept { return reinterpret_cast<unsigned char*>(words_); }

  std::uint64_t size_;
  std::unique_ptr<CounterStore> store_;
  std::uint64_t* words_;
};

/// `cells` numbers of `width` bits, 1 to 57, back to back.
class PackedCells {
 public:
  PackedCells(std::uint64_t cells, unsigned width)
      : width_(width), mask_((std::uint64_t{1} << width) - 1), memory_((cells * width + 7) / 8) {}

  std::uint64_t get(std::uint64_t i) const noexcept {
    const std::uint64_t bit = i * width_;
    return memory_.load(bit / 8) >> (bit % 8) & mask_;
  }
  void set(std::uint64_t i, std::uint64_t value) noexcept {
    const std::uint64_t bit = i * width_;
    const auto word = memory_.load(bit / 8);
    memory_.store(bit / 8, (word & ~(mask_ << (bit % 8))) | value << (bit % 8));
  }

  unsigned width() const noexcept { return width_; }
  std::uint64_t most() const noexcept { return mask_; }
  void clear() { memory_.clear(); }
  bool empty() const noexcept { return memory_.empty(); }
  std::size_t size_bytes() const noexcept { return memory_.size_bytes(); }
  std::span<std::uint64_t> words() noexcept { return memory_.words(); }
  std::span<const std::uint64_t> words() const noexcept { return memory_.words(); }

 private:
  unsigned width_;
  std::uint64_t mask_;
  Memory memory_;
};

/// Finds a value among the lanes of a word: `lanes` of `width` bits each, from the lowest bit on.
template <class Word>
class Lanes {
 public:
  Lanes(unsigned lanes, unsigned width) : width_(width) {
    for (unsigned i = 0; i < lanes; ++i) ones_ |= Word{1} << (i * width);
    high_ = ones_ << (width - 1);
    low_ = high_ - ones_;
    inverse_ = (1u << 16) / width + 1;
  }

  /// The highest bit of each lane that holds the value. Higher bits of `word` do not matter.
  Word equal(Word word, std::uint64_t value) const noexcept {
    const Word differs = word ^ (ones_ * value);
    return ~(((differs & low_) + low_) | differs) & high_;
  }
  /// The lane of the lowest bit of what equal() gave.
  unsigned first(Word found) const noexcept { return bit(found) * inverse_ >> 16; }
  /// All bits of that lane.
  Word mask(Word found) const noexcept {
    return ((Word{1} << width_) - 1) << (bit(found) + 1 - width_);
  }
  /// The number of lanes in what equal() gave.
  static unsigned number(Word found) noexcept {
    unsigned lanes = 0;
    for (; found != 0; found &= found - 1) ++lanes;
    return lanes;
  }
  /// The value in the lane that `mask` covers.
  Word in(Word mask, std::uint64_t value) const noexcept { return mask & (ones_ * value); }

 private:
  static unsigned bit(Word word) noexcept {
    const auto low = static_cast<std::uint64_t>(word);
    if constexpr (sizeof(Word) > 8) {
      if (low == 0) return 64 + std::countr_zero(static_cast<std::uint64_t>(word >> 64));
    }
    return std::countr_zero(low);
  }

  unsigned width_, inverse_;
  Word ones_ = 0, high_, low_;
};

}  // namespace scbf::bench
