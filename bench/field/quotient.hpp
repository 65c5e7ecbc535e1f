// SPDX-License-Identifier: Apache-2.0
// The quotient filter of Bender, Farach-Colton, Johnson, Kraner, Kuszmaul, Medjedovic, Montes,
// Shetty, Spillane and Zadok, "Don't Thrash: How to Cache Your Hash on Flash" (VLDB 2012): a table
// with linear probing. A key's hash is a quotient, the slot where it belongs, and a remainder of r
// bits, which is stored. The remainders of one quotient lie together and sorted, a *run*; runs that
// push each other along, without a gap, are a *cluster*. Three bits per slot tell which run is
// whose:
//   occupied      some key has this slot's number as its quotient
//   continuation  the remainder here is not the first of its run
//   shifted       the remainder here is not in the slot of its quotient
// A key that is inserted again takes a slot again, so counting and removing are exact.
//
// Sized as in the paper: n keys fill 3/4 of the slots, rate 0.75 · 2^-r. At 1 %, r = 7. Insertions
// are refused from 9/10 on, where clusters become long. The paper's number of slots is a power of
// two; here quotient and remainder come from one product, so any number will do.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cells.hpp"

namespace scbf::bench {

class QuotientFilter {
 public:
  static constexpr const char* kName = "quotient";

  QuotientFilter(std::size_t n, double fpr)
      : slots_(static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) / kLoad)) + 2),
        most_(static_cast<std::uint64_t>(kMostLoad * static_cast<double>(slots_))),
        remainder_bits_(remainder_bits_for(n, fpr, slots_)),
        cells_(slots_, 3 + remainder_bits_) {}

  /// False if the filter is full; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    if (keys_ == most_) return false;
    ++keys_;
    const Place key = at(hash);
    const std::uint64_t cell = cells_.get(key.quotient);
    if ((cell & kAll) == 0) {
      cells_.set(key.quotient, key.remainder | kOccupied);
      return true;
    }
    const bool has_run = (cell & kOccupied) != 0;
    cells_.set(key.quotient, cell | kOccupied);
    const std::uint64_t run = run_of(key.quotient);
    std::uint64_t slot = run;
    std::uint64_t made = key.remainder;
    if (has_run) {
      slot = first_not_less(run, key.remainder).slot;
      if (slot == run) {
        cells_.set(run, cells_.get(run) | kContinuation);
      } else {
        made |= kContinuation;
      }
    }
    if (slot != key.quotient) made |= kShifted;
    push(slot, made);
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    const Place key = at(hash);
    if ((cells_.get(key.quotient) & kOccupied) == 0) return false;
    return first_not_less(run_of(key.quotient), key.remainder).equal;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    const Place key = at(hash);
    if ((cells_.get(key.quotient) & kOccupied) == 0) return 0;
    Found found = first_not_less(run_of(key.quotient), key.remainder);
    if (!found.equal) return 0;
    unsigned number = 0;
    std::uint64_t cell;
    do {
      ++number;
      found.slot = after(found.slot);
      cell = cells_.get(found.slot);
    } while ((cell & kContinuation) != 0 && (cell & ~kAll) == key.remainder);
    return number;
  }

  bool remove(std::uint64_t hash) noexcept {
    const Place key = at(hash);
    const std::uint64_t own = cells_.get(key.quotient);
    if ((own & kOccupied) == 0) return false;
    const std::uint64_t run = run_of(key.quotient);
    const Found found = first_not_less(run, key.remainder);
    if (!found.equal) return false;
    --keys_;
    const bool was_first = found.slot == run;
    const bool run_goes_on = (cells_.get(after(found.slot)) & kContinuation) != 0;
    if (was_first && !run_goes_on) cells_.set(key.quotient, cells_.get(key.quotient) ^ kOccupied);
    pull(found.slot, key.quotient, was_first && run_goes_on);
    return true;
  }

  bool empty() const noexcept { return keys_ == 0 && cells_.empty(); }
  void clear() {
    cells_.clear();
    keys_ = 0;
  }
  std::size_t bytes() const noexcept { return cells_.size_bytes(); }
  std::uint64_t most_keys() const noexcept { return most_; }
  /// That one of n keys has the same quotient and remainder.
  double predicted_fpr(std::size_t n) const noexcept {
    return fpr_with(n, slots_, remainder_bits_);
  }

 private:
  static constexpr double kLoad = 0.75, kMostLoad = 0.9;
  static constexpr std::uint64_t kOccupied = 1, kContinuation = 2, kShifted = 4, kAll = 7;

  /// The remainder is where it is in a cell, above the three bits.
  struct Place {
    std::uint64_t quotient, remainder;
  };
  struct Found {
    std::uint64_t slot;
    bool equal;
  };

  static double fpr_with(std::size_t n, std::uint64_t slots, unsigned bits) noexcept {
    return -std::expm1(-static_cast<double>(n) / std::ldexp(static_cast<double>(slots), bits));
  }
  static unsigned remainder_bits_for(std::size_t n, double fpr, std::uint64_t slots) {
    for (unsigned bits = 1; bits <= 32; ++bits) {
      if (fpr_with(n, slots, bits) <= fpr) return bits;
    }
    throw std::invalid_argument("quotient: the rate takes more than 32 bits a remainder");
  }

  Place at(std::uint64_t hash) const noexcept {
    const Wide product = static_cast<Wide>(hash) * slots_;
    return {static_cast<std::uint64_t>(product >> 64),
            static_cast<std::uint64_t>(product) >> (64 - remainder_bits_) << 3};
  }
  std::uint64_t after(std::uint64_t slot) const noexcept {
    return slot + 1 == slots_ ? 0 : slot + 1;
  }
  std::uint64_t before(std::uint64_t slot) const noexcept {
    return slot == 0 ? slots_ - 1 : slot - 1;
  }

  /// Where the run of an occupied quotient begins, or is to begin.
  std::uint64_t run_of(std::uint64_t quotient) const noexcept {
    std::uint64_t owner = quotient;
    while ((cells_.get(owner) & kShifted) != 0) owner = before(owner);
    // Here a cluster begins. Go along its runs and, as far, along their quotients.
    std::uint64_t run = owner;
    while (owner != quotient) {
      do run = after(run);
      while ((cells_.get(run) & kContinuation) != 0);
      do owner = after(owner);
      while ((cells_.get(owner) & kOccupied) == 0);
    }
    return run;
  }

  /// The first slot of a run whose remainder is not less, or the slot after the run.
  Found first_not_less(std::uint64_t slot, std::uint64_t remainder) const noexcept {
    std::uint64_t cell = cells_.get(slot);
    do {
      if ((cell & ~kAll) >= remainder) return {slot, (cell & ~kAll) == remainder};
      slot = after(slot);
      cell = cells_.get(slot);
    } while ((cell & kContinuation) != 0);
    return {slot, false};
  }

  /// Puts a remainder into a slot. What is there moves on by one, up to the next empty slot.
  void push(std::uint64_t slot, std::uint64_t made) noexcept {
    for (;;) {
      const std::uint64_t cell = cells_.get(slot);
      cells_.set(slot, made | (cell & kOccupied));
      if ((cell & kAll) == 0) return;
      made = (cell & ~kOccupied) | kShifted;
      slot = after(slot);
    }
  }

  /// Empties a slot in the run of `quotient`. What follows in the cluster moves back by one. If
  /// `next_is_first`, the next remainder of the run becomes its first.
  void pull(std::uint64_t slot, std::uint64_t quotient, bool next_is_first) noexcept {
    for (;;) {
      const std::uint64_t own = cells_.get(slot) & kOccupied;
      const std::uint64_t next = after(slot);
      std::uint64_t moved = cells_.get(next);
      if ((moved & kShifted) == 0) {  // empty, or the start of another cluster
        cells_.set(slot, own);
        return;
      }
      if ((moved & kContinuation) == 0) {
        do quotient = after(quotient);
        while ((cells_.get(quotient) & kOccupied) == 0);
      } else if (next_is_first) {
        moved ^= kContinuation;
      }
      next_is_first = false;
      if ((moved & kContinuation) == 0 && slot == quotient) moved ^= kShifted;
      cells_.set(slot, (moved & ~kOccupied) | own);
      slot = next;
    }
  }

  std::uint64_t slots_, most_;
  unsigned remainder_bits_;
  PackedCells cells_;
  std::uint64_t keys_ = 0;
};

}  // namespace scbf::bench
