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
// `seen`.
#pragma once

#include <cstdint>

#include "scbf/detail/packed.hpp"

namespace scbf::cuda {

/// Adds 1 to the counter at bit `shift`, unless it is 15.
template <class Atomic>
SCBF_INLINE void add_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    const std::uint64_t next = detail::incremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return;
  }
}

/// Subtracts 1 from the counter at bit `shift`, unless it is 15 (saturated). Returns false,
/// changing nothing, if it is 0.
template <class Atomic>
SCBF_INLINE bool take_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    if (detail::counter_at(seen, shift) == 0) return false;
    const std::uint64_t next = detail::decremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return true;
  }
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
