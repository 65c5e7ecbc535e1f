// SPDX-License-Identifier: Apache-2.0
// Makes the removal of many keys at once, from a filter of several arrays, equal to removal one by
// one.
//
// The engine takes keys away array by array, in any order: all keys, or those that a lookup found
// present. If no counter would fall below zero, the result is that of removal one by one. A counter
// that would fall below zero (an *underflow*) had more takers than it held. Exactly the keys that
// touch such a counter are contested. Their verdicts follow from replaying them in batch order on
// the contested counters alone, because their other counters held enough for all takers. For a key
// that turns out absent, the other counters are restored. A table of bits quickly shows that nearly
// all other keys are not contested.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "cpu_simd/kernels.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

/// The underflows of one removal, of all threads.
class Underflows {
 public:
  /// Allocates room for `most` now, so that append cannot fail.
  Underflows(std::size_t most, std::pmr::memory_resource& memory) : counters_(&memory) {
    counters_.reserve(most);
  }
  /// `counters` are numbers within an array that begins at `first_word`.
  void append(std::uint64_t first_word, std::span<const std::uint64_t> counters);
  bool empty() const noexcept { return counters_.empty(); }

 private:
  friend class ConflictResolver;
  std::pmr::vector<std::uint64_t>
      counters_;  // word · 16 + nibble in the filter, once per underflow
};

/// Settles the contested keys. Pass every key that was taken away and may_touch a contested counter
/// twice, in batch order: first all to `survey`, then all to `settle`. Others may be passed, too.
class ConflictResolver {
  struct Contested {
    std::uint64_t counter;
    std::uint64_t takers;      // keys that took from it
    std::uint64_t underflows;  // how many of them found it empty
    std::uint64_t left;        // its value while settling
  };
  static constexpr std::size_t slots_for(std::size_t underflows) noexcept {
    return std::bit_ceil(2 * underflows + 1);
  }
  /// Words of marks_: 256 to 512 bits for each contested counter, so that few other keys, of eight
  /// counters and more, touch one by chance.
  static constexpr std::size_t marks_for(std::size_t underflows) noexcept {
    return std::bit_ceil(4 * underflows + 1);
  }

 public:
  ConflictResolver(CounterView view, const Underflows& underflows,
                   std::pmr::memory_resource& memory);

  /// Memory for this many underflows and their resolver.
  static constexpr std::size_t bytes_for(std::size_t most) noexcept {
    return most * (sizeof(std::uint64_t) + sizeof(Contested)) +
           slots_for(most) * sizeof(std::size_t) + marks_for(most) * sizeof(std::uint64_t) +
           4 * alignof(std::max_align_t);  // underflows, and the three vectors below
  }

  /// May a key with this position in this array touch a contested counter? May be called by several
  /// threads.
  bool may_touch(const Array& array, std::uint64_t position) const noexcept {
    const std::uint64_t mark = in_blocks_
                                   ? array.first_word / kWordsPerBlock + detail::block_of(position)
                                   : array.first_word * kCountersPerWord + position;
    return marks_[mark / 64 & (marks_.size() - 1)] >> mark % 64 & 1;
  }

  void survey(std::uint64_t hash);
  /// Returns the verdict. If the key was not present at its turn, restores its other counters and
  /// returns false.
  bool settle(std::uint64_t hash);
  /// Writes the final values of the contested counters. To be called after the last settle. Returns
  /// how many counters became non-zero again, in settle and here.
  std::uint64_t finish();

 private:
  /// The slot that holds the counter, or the empty slot where it belongs.
  std::size_t& slot_of(std::uint64_t counter) noexcept;
  Contested* find(std::uint64_t counter) noexcept;

  CounterView view_;
  bool in_blocks_;  ///< split_block, where a mark is for a block; else for a counter
  std::pmr::vector<std::uint64_t> marks_;
  std::pmr::vector<Contested> contested_;
  // Open addressing, at most half full: 1 + index in contested_, or 0. Nearly all probes of nearly
  // all keys end at an empty slot.
  std::pmr::vector<std::size_t> slots_;
  bool settling_ = false;
  std::uint64_t refilled_ = 0;
};

}  // namespace scbf
