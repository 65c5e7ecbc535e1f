// SPDX-License-Identifier: Apache-2.0
// Changes packed words of sixteen counters from many threads at once: load, change the counter
// (SWAR), compare and swap the whole word. This is exact under any contention: a word only goes
// from one valid state to the next, so nothing carries into a neighbour. Contention is bounded,
// too: after at most 16 · 15 successful additions all counters are saturated, and further ones only
// read.
//
// The atomic operations are a policy: those of a GPU, std::atomic_ref in tests with many host
// threads, and one that steps through all interleavings of a few operations
// (tests/cuda/cuda_words_test.cpp). Policy: load(word), and exchange(word, seen, next), which
// stores next and returns true if the word is still `seen`, and otherwise puts the word into
// `seen`; for several words at once, also load_cached(word) and swap(word, seen, next)
// (scbf/cuda/atomic.hpp).
#pragma once

#include <cstdint>

#include "scbf/detail/packed.hpp"

namespace scbf::cuda {

/// Adds 1 to the counter at bit `shift`, unless it is 15. `seen` is what the word holds, or held
/// once: the swap fails if it is out of date, and a counter that was 15 is still 15.
template <class Atomic>
SCBF_INLINE void add_one_to(Atomic atomic, std::uint64_t* word, unsigned shift,
                            std::uint64_t seen) {
  for (;;) {
    const std::uint64_t next = detail::incremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return;
  }
}
template <class Atomic>
SCBF_INLINE void add_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  add_one_to(atomic, word, shift, atomic.load(word));
}

/// Subtracts 1 from the counter at bit `shift`, unless it is 15 (saturated). Returns false,
/// changing nothing, if it is 0. `seen` is what the word held a moment ago.
template <class Atomic>
SCBF_INLINE bool take_one_from(Atomic atomic, std::uint64_t* word, unsigned shift,
                               std::uint64_t seen) {
  for (;;) {
    if (detail::counter_at(seen, shift) == 0) return false;
    const std::uint64_t next = detail::decremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return true;
  }
}
template <class Atomic>
SCBF_INLINE bool take_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  return take_one_from(atomic, word, shift, atomic.load(word));
}

/// Stores next(i) in each of n words that is still seen[i]. Returns a bit for each that is not;
/// seen[i] is then what it is.
template <unsigned n, class Atomic, class Next>
SCBF_INLINE std::uint32_t swap_all(Atomic atomic, std::uint64_t* const (&words)[n],
                                   std::uint64_t (&seen)[n], Next next) {
  std::uint64_t found[n];
  for (unsigned i = 0; i < n; ++i) found[i] = atomic.swap(words[i], seen[i], next(i));
  std::uint32_t lost = 0;
  for (unsigned i = 0; i < n; ++i) {
    lost |= std::uint32_t{found[i] != seen[i]} << i;
    seen[i] = found[i];
  }
  return lost;
}

/// Adds 1 to n counters, each as add_one does, with n accesses under way at once: n loads, and then
/// n swaps if all are to change. Bit i of `wanted` says whether counter i is wanted; its word must
/// exist even if not. The loads may return what the words held earlier (Atomic::load_cached).
template <unsigned n, class Atomic>
SCBF_INLINE void add_ones(Atomic atomic, std::uint64_t* const (&words)[n],
                          const unsigned (&shifts)[n], std::uint32_t wanted) {
  std::uint64_t seen[n];
  for (unsigned i = 0; i < n; ++i) seen[i] = atomic.load_cached(words[i]);
  bool all = true;
  for (unsigned i = 0; i < n; ++i) {
    all = all & ((wanted >> i & 1) != 0) & (detail::counter_at(seen[i], shifts[i]) != 15);
  }
  if (all) {
    wanted = swap_all<n>(atomic, words, seen,
                         [&](unsigned i) { return seen[i] + (std::uint64_t{1} << shifts[i]); });
  }
  if (wanted == 0) return;
  for (unsigned i = 0; i < n; ++i) {
    if ((wanted >> i & 1) != 0) add_one_to(atomic, words[i], shifts[i], seen[i]);
  }
}

/// Subtracts 1 from n counters, each as take_one does, with n accesses under way at once. Returns a
/// bit for each that is wanted and is 0.
template <unsigned n, class Atomic>
SCBF_INLINE std::uint32_t take_ones(Atomic atomic, std::uint64_t* const (&words)[n],
                                    const unsigned (&shifts)[n], std::uint32_t wanted) {
  std::uint64_t seen[n];
  for (unsigned i = 0; i < n; ++i) seen[i] = atomic.load(words[i]);
  bool all = true;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned counter = detail::counter_at(seen[i], shifts[i]);
    all = all & ((wanted >> i & 1) != 0) & (counter != 0) & (counter != 15);
  }
  if (all) {
    wanted = swap_all<n>(atomic, words, seen,
                         [&](unsigned i) { return seen[i] - (std::uint64_t{1} << shifts[i]); });
  }
  std::uint32_t missing = 0;
  if (wanted == 0) return missing;
  for (unsigned i = 0; i < n; ++i) {
    if ((wanted >> i & 1) != 0 && !take_one_from(atomic, words[i], shifts[i], seen[i])) {
      missing |= 1u << i;
    }
  }
  return missing;
}

/// Adds sixteen counters to the word's, each saturating at 15.
template <class Atomic>
SCBF_INLINE void add_all(Atomic atomic, std::uint64_t* word, std::uint64_t counters) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    const std::uint64_t next = detail::added(seen, counters);
    if (next == seen || atomic.exchange(word, seen, next)) return;
  }
}

}  // namespace scbf::cuda
