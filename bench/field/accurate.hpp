// SPDX-License-Identifier: Apache-2.0
// The accurate counting Bloom filter (ACBF) of Li, Huang, Zhang and Qin, "Accurate Counting Bloom
// Filters for Large-Scale Data Processing" (Mathematical Problems in Engineering, 2013): counters
// in levels of bits. A counter of value v has a 1 in the first v levels and a 0 in the next. The
// first level is a Bloom filter, and all that lookups read. Level i + 1 has one bit for each 1 of
// level i, in the same order, so a bit's place there is the number of 1s before it ("offset
// indexing"). An insertion puts a bit between two others; all that follow move by one.
//
// So that few bits move, memory is cut into groups of a cache line, each with its own levels, which
// end where the line ends. A group with n_1 bits in level 1 holds 512 − n_1 increments in all, with
// no limit for any one counter. A key one of whose groups is full is refused.
//
// Sized for the fewest bits: of all numbers of probes, the one that lets a group serve the most
// keys, with n_1 as large as the rate asks, and so few keys that not one in 10^6 filters refuses a
// key. (At 1 % that is 4 probes instead of the usual 7, since each costs a bit more for the
// counter.)
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cells.hpp"

namespace scbf::bench {

class AccurateFilter {
 public:
  static constexpr const char* kName = "accurate";

  AccurateFilter(std::size_t n, double fpr)
      : shape_(shape_for(n, fpr)), memory_(shape_.groups * kWords * 8) {}

  /// False if a group is full; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    // Asks all groups first, so that their lines are fetched together: what comes after has
    // branches that cannot be predicted.
    bool room = true;
    DoubleHashing asked(hash);
    for (unsigned i = 0; i < shape_.probes; ++i) {
      const std::uint64_t* words = group(next(asked));
      room &= shape_.first_level + Ranks(words).all() < kBits;
    }
    if (!room) return false;
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < shape_.probes; ++i) {
      if (raise(next(positions))) continue;
      // Two positions fell into a group that had room for one.
      DoubleHashing again(hash);
      while (i-- > 0) lower(next(again));
      return false;
    }
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < shape_.probes; ++i) {
      const Place at = next(positions);
      if (!bit(group(at), at.bit)) return false;
    }
    return true;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    DoubleHashing positions(hash);
    unsigned least = ~0u;
    for (unsigned i = 0; i < shape_.probes && least > 0; ++i) {
      const Place at = next(positions);
      least = std::min(least, climb(Ranks(group(at)), at.bit).value);
    }
    return least;
  }

  bool remove(std::uint64_t hash) noexcept {
    if (!contains(hash)) return false;
    DoubleHashing positions(hash);
    for (unsigned i = 0; i < shape_.probes; ++i) lower(next(positions));
    return true;
  }

  bool empty() const noexcept { return memory_.empty(); }
  void clear() { memory_.clear(); }
  std::size_t bytes() const noexcept { return memory_.size_bytes(); }
  double predicted_fpr(std::size_t n) const noexcept {
    return fpr_of(n, shape_.groups * shape_.first_level, shape_.probes);
  }

 private:
  static constexpr unsigned kWords = 8, kBits = 64 * kWords;

  struct Shape {
    unsigned probes = 0, first_level = 0;  ///< bits of a group in level 1
    std::uint64_t groups = 1;
  };
  struct Place {
    std::uint64_t group;
    unsigned bit;  ///< in level 1
  };
  /// A counter: its value, its 0, the last 1 before that, and where the level of the 0 starts and
  /// the next one does.
  struct Counter {
    unsigned value, zero, last_one, start, next;
  };

  static Shape shape_for(std::size_t n, double fpr) {
    Shape best;
    double most_keys = 0;
    for (unsigned probes = 1; probes <= 32; ++probes) {
      const double bits = static_cast<double>(counters_for(1'000'000, fpr, probes)) / 1e6;
      for (unsigned increments = kBits; increments > 0; --increments) {
        const double keys = static_cast<double>(increments) / probes;
        const double first_level = std::ceil(bits * keys);
        const double room = kBits - first_level;
        const double groups = std::ceil(static_cast<double>(n) / keys);
        if (keys <= most_keys) break;
        if (room <= increments) continue;
        // Chernoff's bound for a Poisson variable.
        const double tail = room - increments - room * std::log(room / increments);
        if (std::log(groups) + tail > std::log(1e-6)) continue;
        most_keys = keys;
        best = {probes, static_cast<unsigned>(first_level), static_cast<std::uint64_t>(groups)};
      }
    }
    return best;
  }

  Place next(DoubleHashing& positions) const noexcept {
    const Wide product = static_cast<Wide>(positions.next()) * shape_.groups;
    return {static_cast<std::uint64_t>(product >> 64),
            static_cast<unsigned>(scaled(static_cast<std::uint64_t>(product), shape_.first_level))};
  }

  std::uint64_t* group(Place at) noexcept { return memory_.words().data() + at.group * kWords; }
  const std::uint64_t* group(Place at) const noexcept {
    return memory_.words().data() + at.group * kWords;
  }
  static bool bit(const std::uint64_t* words, unsigned at) noexcept {
    return (words[at / 64] >> (at % 64) & 1) != 0;
  }
  static std::uint64_t below(unsigned at) noexcept { return (std::uint64_t{1} << at % 64) - 1; }
  /// A group, and how many 1s there are before each of its words.
  struct Ranks {
    explicit Ranks(const std::uint64_t* group) noexcept : words(group) {
      for (unsigned i = 0; i < kWords; ++i) {
        before[i + 1] = before[i] + static_cast<unsigned>(std::popcount(words[i]));
      }
    }
    unsigned all() const noexcept { return before[kWords]; }
    /// 1s before a bit that is less than kBits.
    unsigned operator()(unsigned at) const noexcept {
      return before[at / 64] + static_cast<unsigned>(std::popcount(words[at / 64] & below(at)));
    }
    const std::uint64_t* words;
    unsigned before[kWords + 1] = {};
  };

  /// From a bit of level 1 up to the counter's 0. A level ends before the end of the group if the
  /// counter goes on above it.
  Counter climb(const Ranks& ranks, unsigned at) const noexcept {
    Counter counter = {
        .value = 0, .zero = at, .last_one = 0, .start = 0, .next = shape_.first_level};
    while (bit(ranks.words, counter.zero)) {
      const unsigned start = counter.next;
      counter = {.value = counter.value + 1,
                 .zero = above(ranks, counter),
                 .last_one = counter.zero,
                 .start = start,
                 .next = start + ranks(start) - ranks(counter.start)};
    }
    return counter;
  }
  /// Where the counter's bit in the next level is, or is to be.
  static unsigned above(const Ranks& ranks, const Counter& counter) noexcept {
    return counter.next + ranks(counter.zero) - ranks(counter.start);
  }

  bool raise(Place at) noexcept {
    std::uint64_t* words = group(at);
    const Ranks ranks(words);
    if (shape_.first_level + ranks.all() == kBits) return false;
    const Counter counter = climb(ranks, at.bit);
    const unsigned made = above(ranks, counter);
    words[counter.zero / 64] |= std::uint64_t{1} << counter.zero % 64;
    std::uint64_t moved = 0;
    for (unsigned i = made / 64; i < kWords; ++i) {
      const std::uint64_t stays = i == made / 64 ? below(made) : 0;
      const std::uint64_t word = words[i];
      words[i] = (word & stays) | (word & ~stays) << 1 | moved;
      moved = word >> 63;
    }
    return true;
  }

  void lower(Place at) noexcept {
    std::uint64_t* words = group(at);
    const Counter counter = climb(Ranks(words), at.bit);
    if (counter.value == 0) return;
    for (unsigned i = counter.zero / 64; i < kWords; ++i) {
      const std::uint64_t stays = i == counter.zero / 64 ? below(counter.zero) : 0;
      const std::uint64_t next_bit = i + 1 < kWords ? words[i + 1] << 63 : 0;
      words[i] = (words[i] & stays) | (words[i] >> 1 & ~stays) | next_bit;
    }
    words[counter.last_one / 64] &= ~(std::uint64_t{1} << counter.last_one % 64);
  }

  Shape shape_;
  Memory memory_;
};

}  // namespace scbf::bench
