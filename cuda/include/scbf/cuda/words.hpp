// SPDX-License-Identifier: Apache-2.0
// One packed word of sixteen counters, changed by many threads at once: load, change the one
// counter (SWAR), compare and swap the whole word. Exact under any contention: a word only ever
// goes from one valid state to the next, so nothing carries into a neighbour. Contention is
// bounded, too: after at most 16 · 15 successful additions all counters are saturated, and
// further ones only read.
//
// The atomic operations are a policy: a GPU's, std::atomic_ref's in tests with many host threads,
// and one that steps through all interleavings of a few operations (tests/cuda_words_test.cpp).
// Policy: load(word), and exchange(word, seen, next), which stores next if the word still is
// `seen` and otherwise puts what it is into `seen`; true if it stored.
#pragma once

#include <cstdint>

#include "scbf/detail/packed.hpp"

namespace scbf::cuda {

/// + 1 to the counter at bit `shift`, unless it is 15.
template <class Atomic>
SCBF_INLINE void add_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    const std::uint64_t next = detail::incremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return;
  }
}

/// − 1 from the counter at bit `shift`, unless it is 15 (sticky). False, and nothing is changed,
/// if it is 0.
template <class Atomic>
SCBF_INLINE bool take_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    if (detail::counter_at(seen, shift) == 0) return false;
    const std::uint64_t next = detail::decremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return true;
  }
}

/// Adds sixteen counters to sixteen, each saturating at 15.
template <class Atomic>
SCBF_INLINE void add_all(Atomic atomic, std::uint64_t* word, std::uint64_t counters) {
  std::uint64_t seen = atomic.load(word);
  for (;;) {
    const std::uint64_t next = detail::added(seen, counters);
    if (next == seen || atomic.exchange(word, seen, next)) return;
  }
}

}  // namespace scbf::cuda
