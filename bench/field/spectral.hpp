// SPDX-License-Identifier: Apache-2.0
// The spectral Bloom filter of Cohen and Matias (SIGMOD 2003) with minimum increase: an insertion
// adds 1 to the smallest of the key's counters only, which makes counts more exact than those of a
// counting filter.
//
// It cannot remove. A key's counters no longer contain a share of each key that uses them: where
// two keys meet in a counter, the second may not have raised it, and taking one from all counters
// of either loses the other. lower() is that wrong removal, for the test that shows it.
//
// Sized as a counting filter: counters of 4 bits, half of them at zero. The paper packs counters of
// varying width into a "string-array index" of about as many bits as their values need. That would
// take fewer bits, and more time for each access; it is not built here. A counter stops at 15.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "cells.hpp"

namespace scbf::bench {

class SpectralFilter {
 public:
  static constexpr const char* kName = "spectral";

  SpectralFilter(std::size_t n, double fpr)
      : probes_(probes_for(fpr)),
        counters_(counters_for(n, fpr, probes_)),
        memory_((counters_ + 1) / 2) {
    if (probes_ > kMostProbes) throw std::invalid_argument("spectral: more than 32 probes");
  }

  /// False if the key's smallest counter cannot count further; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    std::array<std::uint64_t, kMostProbes> at;
    DoubleHashing positions(hash);
    unsigned least = kMost;
    for (unsigned i = 0; i < probes_; ++i) {
      at[i] = positions.next(counters_);
      least = std::min(least, counter(at[i]));
    }
    if (least == kMost) return false;
    for (unsigned i = 0; i < probes_; ++i) {
      // No branch: which are the smallest cannot be predicted.
      word(at[i]) += static_cast<std::uint64_t>(counter(at[i]) == least) << shift(at[i]);
    }
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      if (counter(positions.next(counters_)) == 0) return false;
    }
    return true;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    unsigned least = kMost;
    for (unsigned i = 0; i < probes_ && least > 0; ++i) {
      least = std::min(least, counter(positions.next(counters_)));
    }
    return least;
  }

  /// Takes 1 from each of the key's counters: no removal, because it loses other keys.
  void lower(std::uint64_t hash) noexcept {
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = positions.next(counters_);
      if (counter(p) != 0) word(p) -= std::uint64_t{1} << shift(p);
    }
  }

  bool empty() const noexcept { return memory_.empty(); }
  void clear() { memory_.clear(); }
  /// Its contents, and back to them.
  std::vector<std::uint64_t> state() const {
    return {memory_.words().begin(), memory_.words().end()};
  }
  void set_state(std::span<const std::uint64_t> state) {
    std::ranges::copy(state, memory_.words().begin());
  }
  std::size_t bytes() const noexcept { return memory_.size_bytes(); }
  double predicted_fpr(std::size_t n) const noexcept { return fpr_of(n, counters_, probes_); }

 private:
  static constexpr unsigned kMost = 15, kMostProbes = 32;

  static unsigned shift(std::uint64_t p) noexcept { return p % 16 * 4; }
  std::uint64_t& word(std::uint64_t p) noexcept { return memory_.words()[p / 16]; }
  unsigned counter(std::uint64_t p) const noexcept {
    return static_cast<unsigned>(memory_.words()[p / 16] >> shift(p)) & kMost;
  }

  unsigned probes_;
  std::uint64_t counters_;
  Memory memory_;
};

}  // namespace scbf::bench
