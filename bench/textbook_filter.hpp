// SPDX-License-Identifier: Apache-2.0
// The counting Bloom filter of textbooks, as a comparator: one unsplit array of packed 4-bit
// counters, k positions anywhere in it by double hashing from one XXH3 hash, one key at a time.
// Written with care (no division, early exit, huge pages), but without batching or prefetching.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "scbf/backend.hpp"

namespace scbf::bench {

class TextbookFilter {
 public:
  TextbookFilter(std::size_t n, double fpr)
      : probes_(static_cast<unsigned>(std::lround(std::log2(1 / fpr)))),
        counters_(static_cast<std::uint64_t>(
            std::ceil(-static_cast<double>(probes_) * static_cast<double>(n) /
                      std::log1p(-std::pow(fpr, 1.0 / probes_))))),
        memory_(find_backend("scalar").allocate((counters_ + 15) / 16)),
        words_(memory_->words(), (counters_ + 15) / 16) {}

  static std::uint64_t hash(const void* key, std::size_t bytes) noexcept {
    return XXH3_64bits(key, bytes);
  }

  void insert(std::uint64_t hash) noexcept {
    Positions at(hash, counters_);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = at.next();
      std::uint64_t& word = words_[p / 16];
      const unsigned shift = p % 16 * 4;
      if (((word >> shift) & 15) != 15) word += std::uint64_t{1} << shift;
    }
  }

  bool contains(std::uint64_t hash) const noexcept {
    Positions at(hash, counters_);
    for (unsigned i = 0; i < probes_; ++i) {
      if (counter(at.next()) == 0) return false;
    }
    return true;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    Positions at(hash, counters_);
    unsigned least = 15;
    for (unsigned i = 0; i < probes_ && least > 0; ++i) least = std::min(least, counter(at.next()));
    return least;
  }

  bool remove(std::uint64_t hash) noexcept {
    if (!contains(hash)) return false;
    Positions at(hash, counters_);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = at.next();
      std::uint64_t& word = words_[p / 16];
      const unsigned shift = p % 16 * 4;
      const std::uint64_t value = (word >> shift) & 15;
      // Two of a key's positions may coincide, so the counter may already be zero.
      if (value != 15 && value != 0) word -= std::uint64_t{1} << shift;
    }
    return true;
  }

  bool empty() const noexcept {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  void clear() { memory_->clear(); }
  std::size_t bytes() const noexcept { return words_.size_bytes(); }
  double predicted_fpr(std::size_t n) const noexcept {
    return std::pow(-std::expm1(-static_cast<double>(probes_) * static_cast<double>(n) /
                                static_cast<double>(counters_)),
                    probes_);
  }

 private:
  /// hash + i · step, reduced by multiplication.
  class Positions {
   public:
    Positions(std::uint64_t hash, std::uint64_t counters) noexcept
        : at_(hash), step_(hash * 0x9E37'79B9'7F4A'7C15ull | 1), counters_(counters) {
      step_ ^= step_ >> 32;
    }
    std::uint64_t next() noexcept {
      __extension__ using Wide = unsigned __int128;
      const auto position = static_cast<std::uint64_t>((static_cast<Wide>(at_) * counters_) >> 64);
      at_ += step_;
      return position;
    }

   private:
    std::uint64_t at_, step_, counters_;
  };

  unsigned counter(std::uint64_t p) const noexcept {
    return static_cast<unsigned>(words_[p / 16] >> (p % 16 * 4)) & 15;
  }

  unsigned probes_;
  std::uint64_t counters_;
  std::unique_ptr<CounterStore> memory_;  // with huge pages, like a filter's
  std::span<std::uint64_t> words_;
};

}  // namespace scbf::bench
