// SPDX-License-Identifier: Apache-2.0
// Removal of many keys at once from filters of several arrays, made equal to removal one by one.
//
// The engine looks all keys up first, then takes the present ones away, array by array, in any
// order. As long as no counter was asked to go below zero, that *is* what one by one would have
// done. A counter that was asked to (an *underflow*) had more takers than it held: keys that
// touch such a counter are contested, and only they. Their verdicts follow from replaying them in
// batch order on the contested counters alone; all other counters of theirs suffice by
// definition. Keys that lose get their other counters back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

/// Underflows of one removal, from all threads.
class Underflows {
 public:
  /// `counters` are numbers within an array that begins at `first_word`.
  void append(std::uint64_t first_word, std::span<const std::uint64_t> counters);
  bool empty() const noexcept { return counters_.empty(); }

 private:
  friend class ConflictResolver;
  std::vector<std::uint64_t> counters_;  // word · 16 + nibble in the filter, once per underflow
};

/// Settles the contested keys. All keys that were taken away are shown twice, in batch order:
/// first to `survey`, then to `settle`.
class ConflictResolver {
 public:
  ConflictResolver(CounterView view, const Underflows& underflows);

  void survey(std::uint64_t hash);
  /// Returns the verdict: false if the key was not there at its turn, and then gives back what
  /// was taken for it.
  bool settle(std::uint64_t hash);
  /// Writes what is left of the contested counters. After the last settle. Returns how many
  /// counters, in all of settling, are non-zero again.
  std::uint64_t finish();

 private:
  struct Contested {
    std::uint64_t counter;
    std::uint64_t takers;      // keys that took from it
    std::uint64_t underflows;  // of which so many found it empty
    std::uint64_t left;        // while settling
  };
  /// The slot that holds the counter, or the empty one that would.
  std::size_t& slot_of(std::uint64_t counter) noexcept;
  Contested* find(std::uint64_t counter) noexcept;

  CounterView view_;
  std::vector<Contested> contested_;
  // Open addressing, at most half full: 1 + index in contested_, or 0. Nearly all probes of nearly
  // all keys end at an empty slot.
  std::vector<std::size_t> slots_;
  bool settling_ = false;
  std::uint64_t refilled_ = 0;
};

}  // namespace scbf
