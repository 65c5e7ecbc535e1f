// SPDX-License-Identifier: Apache-2.0
// The counting Bloom filter of textbooks, as a comparator: one unsplit array of packed 4-bit
// counters, k positions anywhere in it by double hashing from one XXH3 hash, one key at a time.
// Written with care (no division, early exit, huge pages), but without batching or prefetching.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "double_hashing.hpp"
#include "scbf/backend.hpp"

namespace scbf::bench {

class TextbookFilter {
 public:
  TextbookFilter(std::size_t n, double fpr)
      : probes_(probes_for(fpr)),
        counters_(counters_for(n, fpr, probes_)),
        memory_(find_backend("scalar").allocate((counters_ + 15) / 16)),
        words_(memory_->words(), (counters_ + 15) / 16) {}

  void insert(std::uint64_t hash) noexcept {
    DoubleHashing at(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = at.next(counters_);
      std::uint64_t& word = words_[p / 16];
      const unsigned shift = p % 16 * 4;
      if (((word >> shift) & 15) != 15) word += std::uint64_t{1} << shift;
    }
  }

  bool contains(std::uint64_t hash) const noexcept {
    DoubleHashing at(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      if (counter(at.next(counters_)) == 0) return false;
    }
    return true;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    DoubleHashing at(hash);
    unsigned least = 15;
    for (unsigned i = 0; i < probes_ && least > 0; ++i)
      least = std::min(least, counter(at.next(counters_)));
    return least;
  }

  bool remove(std::uint64_t hash) noexcept {
    if (!contains(hash)) return false;
    DoubleHashing at(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = at.next(counters_);
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
  double predicted_fpr(std::size_t n) const noexcept { return fpr_of(n, counters_, probes_); }

 private:
  unsigned counter(std::uint64_t p) const noexcept {
    return static_cast<unsigned>(words_[p / 16] >> (p % 16 * 4)) & 15;
  }

  unsigned probes_;
  std::uint64_t counters_;
  std::unique_ptr<CounterStore> memory_;  // with huge pages, like a filter's
  std::span<std::uint64_t> words_;
};

}  // namespace scbf::bench
