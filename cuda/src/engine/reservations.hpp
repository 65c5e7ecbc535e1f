// SPDX-License-Identifier: Apache-2.0
// Decides keys in batch order, by all threads at once, with deterministic reservations (Blelloch,
// Fineman, Gibbons, Shun, PPoPP 2012). In each round, undecided keys reserve the lines that they
// touch, and the lowest key wins a line. A key that has won all its lines is decided: no earlier
// key can affect it any more. Some keys are decided without reserving. If a counter is zero, the
// key is absent, now as at its turn. If all its counters are saturated, it is removed, which
// changes nothing. Every other decided key lowers a counter, so a line is won at most 14 times per
// counter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/marks.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Which key holds a line: a hash table without chains. Lines that share an entry only make some
/// keys wait needlessly.
struct Reservations {
  std::uint64_t* entries;  ///< all ones at first; 2^log2_entries of them
  unsigned log2_entries;

  SCBF_INLINE void reserve(std::uint64_t line, std::uint64_t number) const noexcept {
    Atomic().lower(entry_of(line), number);
  }
  /// The lowest number that reserved the line in this round; higher than all numbers of this round
  /// if none did.
  SCBF_INLINE std::uint64_t holder(std::uint64_t line) const noexcept {
    return Atomic().load(entry_of(line));
  }

 private:
  SCBF_INLINE std::uint64_t* entry_of(std::uint64_t line) const noexcept {
    return entries + (line * 0x9E37'79B9'7F4A'7C15u >> (64 - log2_entries));
  }
};

/// A number that the threads of a grid count up in one pass and read after it, pass after pass.
/// Each thread has its own copy of this object.
class PassCount {
 public:
  /// One is counted up, one was read last by slow threads, and one is cleared.
  static constexpr std::uint32_t kWords = 3;

  SCBF_INLINE explicit PassCount(std::uint64_t* words) noexcept : words_(words) {}
  SCBF_INLINE void add() const noexcept { Atomic().add(words_ + pass_ % kWords, 1); }
  /// To be called by one thread in each pass.
  SCBF_INLINE void clear_next() const noexcept { Atomic().store(words_ + (pass_ + 1) % kWords, 0); }
  /// To be called by all threads, between the barrier after a pass and the next pass.
  SCBF_INLINE bool any_in_pass() noexcept { return Atomic().load(words_ + pass_++ % kWords) != 0; }

 private:
  std::uint64_t* words_;
  std::uint32_t pass_ = 0;
};

/// The memory that decide_in_order works with.
struct InOrder {
  Reservations reservations;
  std::uint32_t window;    ///< keys that are decided together
  std::uint64_t* numbers;  ///< kNumbers of them, zeroed
  static constexpr std::uint32_t kNumbers = 2 * PassCount::kWords;
};

/// Decides keys 0 … n − 1. Run by a grid of threads that can synchronise; the policy Grid:
///   each(n, f)   f(0) … f(n − 1), shared among the threads
///   sync()       waits until all threads are here
/// Every thread executes everything else. The policy Keys, of which key i reserves as `number`:
///   reserve(i, number)   decides the key or reserves its lines; true if it is a reader, which does
///                        neither for now
///   settle(i, number)    true if the key is a reader that must wait for an earlier key, which it
///                        did not know before
///   decide(i, number)    false if the key stays undecided
/// Readers are keys that change nothing, unless an earlier key makes them.
template <class Grid, class Keys>
SCBF_HOST_DEVICE void decide_in_order(const Grid& grid, std::uint64_t n, const InOrder& order,
                                      const Keys& keys) {
  PassCount undecided(order.numbers), readers(order.numbers + PassCount::kWords);
  std::uint32_t round = 0;
  for (std::uint64_t first = 0; first < n; first += order.window) {
    const std::uint64_t size = n - first < order.window ? n - first : order.window;
    for (bool all_decided = false; !all_decided; ++round) {
      // Later rounds have lower numbers, so reservations of earlier rounds need not be cleared.
      const std::uint64_t number = std::uint64_t{0xFFFF'FFFFu - 1 - round} << 32;
      grid.each(size, [&](std::uint64_t i) {
        if (keys.reserve(first + i, number | i)) readers.add();
        if (i == 0) readers.clear_next();
      });
      grid.sync();
      while (Keys::kHasReaders && readers.any_in_pass()) {
        grid.each(size, [&](std::uint64_t i) {
          if (keys.settle(first + i, number | i)) readers.add();
          if (i == 0) readers.clear_next();
        });
        grid.sync();
      }
      grid.each(size, [&](std::uint64_t i) {
        if (!keys.decide(first + i, number | i)) undecided.add();
        if (i == 0) undecided.clear_next();
      });
      grid.sync();
      all_decided = !undecided.any_in_pass();
    }
  }
}

/// A key in a filter, for reservations and removal.
struct KeyInFilter {
  FilterRef filter;
  std::uint64_t hash;

  /// Filters have different lines, and so different numbers for them.
  SCBF_INLINE std::uint64_t line(std::uint32_t i) const noexcept {
    constexpr std::uint64_t kLineBytes = kWordsPerBlock * sizeof(std::uint64_t);
    return reinterpret_cast<std::uintptr_t>(filter.words()) / kLineBytes + filter.line(hash, i);
  }
  SCBF_INLINE void reserve(const Reservations& reservations, std::uint64_t number) const noexcept {
    for (std::uint32_t i = 0; i < filter.lines(); ++i) reservations.reserve(line(i), number);
  }
  /// Has no key with a lower number reserved one of the lines?
  SCBF_INLINE bool is_first(const Reservations& reservations, std::uint64_t number) const noexcept {
    for (std::uint32_t i = 0; i < filter.lines(); ++i) {
      if (reservations.holder(line(i)) < number) return false;
    }
    return true;
  }
  /// *emptied += how many counters became 0, unless `emptied` is null.
  SCBF_INLINE void take(std::uint64_t* emptied) const noexcept {
    std::uint32_t mine = 0;
    for (std::uint32_t i = 0; i < filter.probes(); ++i) {
      const detail::Probe probe = filter.probe(hash, i);
      mine += take_one(Atomic(), filter.words() + probe.word, probe.shift) == 1;
    }
    if (emptied != nullptr && mine != 0) Atomic().add(emptied, mine);
  }
};

}  // namespace scbf::cuda
