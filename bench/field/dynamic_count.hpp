// SPDX-License-Identifier: Apache-2.0
// The dynamic count filter of Aguilar-Saborit, Trancoso, Muntés-Mulero and Larriba-Pey (SIGMOD
// Record 35(1), 2006): a vector of counters of fixed width (CBFV), and beside each an overflow
// counter (OFV) for what does not fit. All overflow counters have the width that the largest needs.
// When one needs more, the whole vector is made anew, wider; when the largest has left, narrower.
//
// Sized as a counting filter, half of the counters at zero. The fixed counters have 2 bits: at that
// fill, 99.4 % stay below 4. The overflow counters begin with none and end with 2 bits each where
// some counter of tens of millions reaches 8. Making the vector anew takes a step per counter;
// narrower only after as many removed positions, so that it costs a constant share of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "cells.hpp"

namespace scbf::bench {

class DynamicCountFilter {
 public:
  static constexpr const char* kName = "dynamic_count";

  DynamicCountFilter(std::size_t n, double fpr)
      : probes_(probes_for(fpr)),
        counters_(counters_for(n, fpr, probes_)),
        fixed_((counters_ + 31) / 32 * 8) {}

  bool insert(std::uint64_t hash) {
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < probes_; ++i) raise(positions.next(counters_));
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < probes_; ++i) {
      const std::uint64_t p = positions.next(counters_);
      if (fixed(p) == 0 && overflow(p) == 0) return false;
    }
    return true;
  }

  std::uint64_t count(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    std::uint64_t least = ~std::uint64_t{0};
    for (unsigned i = 0; i < probes_ && least > 0; ++i) {
      const std::uint64_t p = positions.next(counters_);
      least = std::min(least, overflow(p) << kWidth | fixed(p));
    }
    return least;
  }

  bool remove(std::uint64_t hash) {
    if (!contains(hash)) return false;
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < probes_; ++i) lower(positions.next(counters_));
    return true;
  }

  /// Bits of each overflow counter at present.
  unsigned overflow_bits() const noexcept { return overflow_ ? overflow_->width() : 0; }

  bool empty() const noexcept { return fixed_.empty() && (!overflow_ || overflow_->empty()); }
  void clear() {
    fixed_.clear();
    overflow_.reset();
    widest_ = lowered_ = 0;
  }
  std::size_t bytes() const noexcept {
    return fixed_.size_bytes() + (overflow_ ? overflow_->size_bytes() : 0);
  }
  double predicted_fpr(std::size_t n) const noexcept { return fpr_of(n, counters_, probes_); }

 private:
  static constexpr unsigned kWidth = 2, kPerWord = 64 / kWidth;
  static constexpr std::uint64_t kMost = (1u << kWidth) - 1;

  std::uint64_t fixed(std::uint64_t p) const noexcept {
    return fixed_.words()[p / kPerWord] >> (p % kPerWord * kWidth) & kMost;
  }
  void add_to_fixed(std::uint64_t p, std::uint64_t value) noexcept {
    fixed_.words()[p / kPerWord] += value << (p % kPerWord * kWidth);
  }
  std::uint64_t overflow(std::uint64_t p) const noexcept {
    return overflow_ ? overflow_->get(p) : 0;
  }

  void raise(std::uint64_t p) {
    if (fixed(p) != kMost) return add_to_fixed(p, 1);
    const std::uint64_t value = overflow(p) + 1;
    if (!overflow_ || value > overflow_->most()) {
      make_anew(overflow_bits() + 1);
      lowered_ = 0;
    }
    overflow_->set(p, value);
    if (value == top()) ++widest_;
    add_to_fixed(p, -kMost);
  }

  void lower(std::uint64_t p) {
    ++lowered_;
    if (fixed(p) != 0) return add_to_fixed(p, ~std::uint64_t{0});
    const std::uint64_t value = overflow(p);
    if (value == 0) return;  // two of the key's positions coincide
    overflow_->set(p, value - 1);
    add_to_fixed(p, kMost);
    if (value == top()) --widest_;
    if (widest_ > 0 || lowered_ < counters_) return;
    while (overflow_ && widest_ == 0) make_anew(overflow_bits() - 1);
    lowered_ = 0;
  }

  /// The least value that needs all bits of an overflow counter.
  std::uint64_t top() const noexcept { return std::uint64_t{1} << (overflow_->width() - 1); }

  void make_anew(unsigned width) {
    std::optional<PackedCells> made;
    widest_ = 0;
    if (width > 0) {
      made.emplace(counters_, width);
      for (std::uint64_t p = 0; overflow_ && p < counters_; ++p) {
        const std::uint64_t value = overflow_->get(p);
        if (value == 0) continue;
        made->set(p, value);
        widest_ += value >> (width - 1);
      }
    }
    overflow_ = std::move(made);
  }

  unsigned probes_;
  std::uint64_t counters_;
  Memory fixed_;
  std::optional<PackedCells> overflow_;  ///< none: all are 0
  std::uint64_t widest_ = 0;             ///< overflow counters that need all their bits
  std::uint64_t lowered_ = 0;            ///< positions, since the overflow counters were made
};

}  // namespace scbf::bench
