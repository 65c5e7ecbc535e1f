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
/// once: the swap fails if it is out of date, and a counter that was 15 is still 15. Returns what
/// the counter was.
template <class Atomic>
SCBF_INLINE unsigned add_one_to(Atomic atomic, std::uint64_t* word, unsigned shift,
                                std::uint64_t seen) {
  for (;;) {
    const unsigned counter = detail::counter_at(seen, shift);
    const std::uint64_t next = detail::incremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return counter;
  }
}
template <class Atomic>
SCBF_INLINE unsigned add_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  return add_one_to(atomic, word, shift, atomic.load(word));
}

/// Subtracts 1 from the counter at bit `shift`, unless it is 15 (saturated) or 0. Returns what the
/// counter was. `seen` is what the word held a moment ago.
template <class Atomic>
SCBF_INLINE unsigned take_one_from(Atomic atomic, std::uint64_t* word, unsigned shift,
                                   std::uint64_t seen) {
  for (;;) {
    const unsigned counter = detail::counter_at(seen, shift);
    if (counter == 0) return counter;
    const std::uint64_t next = detail::decremented(seen, shift);
    if (next == seen || atomic.exchange(word, seen, next)) return counter;
  }
}
template <class Atomic>
SCBF_INLINE unsigned take_one(Atomic atomic, std::uint64_t* word, unsigned shift) {
  return take_one_from(atomic, word, shift, atomic.load(word));
}

/// Stores next(i) in each of n words that is still seen[i]. Returns a bit for each that is not;
/// seen[i] is then what it holds now.
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

/// Up to four counters, one in each byte, the first one lowest. They are compared all at once.
using CountersInBytes = std::uint32_t;

template <unsigned n>
SCBF_INLINE CountersInBytes in_bytes(const std::uint64_t (&words)[n], const unsigned (&shifts)[n]) {
  static_assert(n <= sizeof(CountersInBytes));
  CountersInBytes bytes = 0;
  for (unsigned i = 0; i < n; ++i) bytes |= detail::counter_at(words[i], shifts[i]) << 8 * i;
  return bytes;
}
/// A bit in each byte whose counter is `least` > 0 or more.
SCBF_INLINE std::uint32_t reaching(CountersInBytes bytes, unsigned least) {
  return (bytes + 0x0101'0101u * (16 - least)) & 0x1010'1010u;
}
/// How many of n counters are less than `least`.
template <unsigned n>
SCBF_INLINE std::uint32_t how_many_below(CountersInBytes bytes, unsigned least) {
  return n - detail::bits_set(reaching(bytes, least));
}

/// Adds 1 to n counters, each as add_one does, with n accesses under way at once: n loads, and then
/// n swaps if all are to change. Bit i of `wanted` says whether counter i is wanted; its word must
/// exist even if not. The loads may return what the words held earlier (Atomic::load_cached).
/// Returns how many of the wanted counters were 0.
template <unsigned n, class Atomic>
SCBF_INLINE std::uint32_t add_ones(Atomic atomic, std::uint64_t* const (&words)[n],
                                   const unsigned (&shifts)[n], std::uint32_t wanted) {
  constexpr std::uint32_t kAll = (1u << n) - 1;
  std::uint64_t seen[n];
  for (unsigned i = 0; i < n; ++i) seen[i] = atomic.load_cached(words[i]);
  const CountersInBytes counters = in_bytes(seen, shifts);
  const bool all = ((wanted & kAll) == kAll) & (reaching(counters, 15) == 0);
  if (all) {
    wanted = swap_all<n>(atomic, words, seen,
                         [&](unsigned i) { return seen[i] + (std::uint64_t{1} << shifts[i]); });
    if (wanted == 0) return how_many_below<n>(counters, 1);
  }
  std::uint32_t filled = 0;
  for (unsigned i = 0; i < n; ++i) {
    if ((wanted >> i & 1) != 0) {
      filled += add_one_to(atomic, words[i], shifts[i], seen[i]) == 0;
    } else if (all) {
      filled += detail::counter_at(seen[i], shifts[i]) == 0;
    }
  }
  return filled;
}

/// What take_ones found.
struct Taken {
  std::uint32_t missing;  ///< a bit for each counter that is wanted and was 0
  std::uint32_t emptied;  ///< how many became 0
};

/// Subtracts 1 from n counters, each as take_one does, with n accesses under way at once.
template <unsigned n, class Atomic>
SCBF_INLINE Taken take_ones(Atomic atomic, std::uint64_t* const (&words)[n],
                            const unsigned (&shifts)[n], std::uint32_t wanted) {
  constexpr std::uint32_t kAll = (1u << n) - 1;
  std::uint64_t seen[n];
  for (unsigned i = 0; i < n; ++i) seen[i] = atomic.load(words[i]);
  const CountersInBytes counters = in_bytes(seen, shifts);
  // Not &&: each comparison could become a branch.
  const int all = int{(wanted & kAll) == kAll} & int{how_many_below<n>(counters, 1) == 0} &
                  int{reaching(counters, 15) == 0};
  if (all != 0) {
    wanted = swap_all<n>(atomic, words, seen,
                         [&](unsigned i) { return seen[i] - (std::uint64_t{1} << shifts[i]); });
    if (wanted == 0) return {0, how_many_below<n>(counters, 2)};
  }
  Taken taken{0, 0};
  for (unsigned i = 0; i < n; ++i) {
    if ((wanted >> i & 1) != 0) {
      const unsigned counter = take_one_from(atomic, words[i], shifts[i], seen[i]);
      taken.missing |= std::uint32_t{counter == 0} << i;
      taken.emptied += counter == 1;
    } else if (all) {
      taken.emptied += detail::counter_at(seen[i], shifts[i]) == 1;
    }
  }
  return taken;
}

/// detail::added, in fewer instructions where no counter is above 7, as nearly everywhere.
SCBF_INLINE std::uint64_t added_fast(std::uint64_t a, std::uint64_t b) noexcept {
  return ((a | b) & detail::kHighBits) == 0 ? a + b : detail::added(a, b);
}
/// detail::subtracted, likewise.
SCBF_INLINE detail::Difference subtracted_fast(std::uint64_t a, std::uint64_t b) noexcept {
  if (((a | b) & detail::kHighBits) != 0) return detail::subtracted(a, b);
  const std::uint64_t difference = (a | detail::kHighBits) - b;  // the high bit is left where a ≥ b
  return {difference ^ detail::kHighBits, (~difference & detail::kHighBits) >> 3, 0};
}

/// Adds sixteen counters to the word's, each saturating at 15. Returns what the word was. `seen` is
/// what the word held a moment ago.
template <class Atomic>
SCBF_INLINE std::uint64_t add_all_to(Atomic atomic, std::uint64_t* word, std::uint64_t counters,
                                     std::uint64_t seen) {
  for (;;) {
    const std::uint64_t next = added_fast(seen, counters);
    if (next == seen || atomic.exchange(word, seen, next)) return seen;
  }
}
template <class Atomic>
SCBF_INLINE std::uint64_t add_all(Atomic atomic, std::uint64_t* word, std::uint64_t counters) {
  return add_all_to(atomic, word, counters, atomic.load(word));
}

}  // namespace scbf::cuda
