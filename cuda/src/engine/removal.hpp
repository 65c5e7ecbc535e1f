// SPDX-License-Identifier: Apache-2.0
// Removal by all threads at once, with the result of removal one key after another. If no counter
// is asked for more than it holds, the verdicts against the state before the batch are the
// sequential verdicts. The steps:
//   look     verdict 1 for the keys that are present, 0 for the others. The others stay absent,
//            since removal only lowers counters
//   take     lowers the counters of all keys with verdict 1 at once. Where a counter has too
//            little, its line is marked; an unmarked line has enough for all keys that touch it
//   contest  lists, in batch order, the keys with verdict 1 that touch a marked line, and gives
//            back what they took. All counters are then as if only the other keys had been
//            removed, and no counter of those underflowed
//   resolve  decides the contested keys in order
//
// Resolving uses deterministic reservations (Blelloch, Fineman, Gibbons, Shun, PPoPP 2012). In each
// round, undecided keys claim the lines that they touch, and the lowest key wins a line. A key that
// has won all its lines is decided: no earlier key can affect it any more. Some keys are decided
// without a claim. If a counter is zero, the key is absent, now as at its turn. If all its counters
// are saturated, it is removed, which changes nothing. Every other decided key lowers a counter, so
// a line is claimed successfully at most 14 times per counter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/keys.hpp"
#include "engine/marks.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Must key i be decided in batch order?
struct IsContested {
  FilterRef filter;
  ValueKeys keys;
  const std::uint8_t* verdicts;
  Marks marks;

  SCBF_INLINE bool operator()(std::uint32_t i) const noexcept {
    if (!marks.any() || verdicts[i] == kAbsent) return false;
    if (verdicts[i] == kContested) return true;
    const std::uint64_t hash = keys.hash(filter, i);
    for (std::uint32_t line = 0; line < filter.lines(); ++line) {
      if (marks.marked(filter.line(hash, line))) return true;
    }
    return false;
  }
};

/// Decides the contested keys, in batch order. Run by a grid of threads that can synchronise; the
/// policy Grid:
///   each(n, f)   f(0) … f(n − 1), shared among the threads
///   sync()       waits until all threads are here
/// Every thread executes everything else.
struct Resolve {
  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Marks marks;
  bool marked_lines_untouched;     ///< nothing was taken from marked lines (partitioned)
  const std::uint32_t* contested;  ///< indices, ascending
  const std::uint64_t* how_many;   ///< of them
  std::uint64_t* claims;           ///< all ones; 2^log2_claims of them
  unsigned log2_claims;
  std::uint32_t window;      ///< keys that are decided together
  std::uint64_t* undecided;  ///< three counters, zeroed

  static constexpr unsigned kRotation = 3;

  template <class Grid>
  SCBF_HOST_DEVICE void operator()(const Grid& grid) const {
    const std::uint64_t n = *how_many;
    if (n == 0) return;
    grid.each(n, [&](std::uint64_t i) { give_back(contested[i]); });
    grid.sync();
    std::uint32_t round = 0;
    for (std::uint64_t first = 0; first < n; first += window) {
      const std::uint64_t size = n - first < window ? n - first : window;
      for (bool all_decided = false; !all_decided; ++round) {
        std::uint64_t* left = undecided + round % kRotation;
        std::uint64_t* next_left = undecided + (round + 1) % kRotation;
        // Later rounds have lower numbers, so claims of earlier rounds need not be cleared.
        const std::uint64_t number = std::uint64_t{0xFFFF'FFFFu - 1 - round} << 32;
        grid.each(size, [&](std::uint64_t i) { claim(contested[first + i], number | i); });
        grid.sync();
        grid.each(size, [&](std::uint64_t i) {
          if (!decide(contested[first + i], number | i)) Atomic().add(left, 1);
          if (i == 0) Atomic().store(next_left, 0);
        });
        grid.sync();
        all_decided = Atomic().load(left) == 0;
      }
    }
  }

 private:
  SCBF_INLINE void give_back(std::uint32_t key) const noexcept {
    if (verdicts[key] == kRemoved) {
      const std::uint64_t hash = keys.hash(filter, key);
      for (std::uint32_t i = 0; i < filter.probes(); ++i) {
        const detail::Probe probe = filter.probe(hash, i);
        if (marked_lines_untouched && marks.marked(probe.word / kWordsPerBlock)) continue;
        add_one(Atomic(), filter.words() + probe.word, probe.shift);
      }
    }
    verdicts[key] = kContested;
  }

  SCBF_INLINE std::uint64_t* claim_on(std::uint64_t line) const noexcept {
    return claims + (line * 0x9E37'79B9'7F4A'7C15u >> (64 - log2_claims));
  }

  SCBF_INLINE void claim(std::uint32_t key, std::uint64_t number) const noexcept {
    if (verdicts[key] != kContested) return;
    const std::uint64_t hash = keys.hash(filter, key);
    unsigned least = kCounterMax;
    for (std::uint32_t i = 0; i < filter.probes(); ++i) {
      const unsigned c = filter.counter(hash, i);
      least = c < least ? c : least;
    }
    if (least == 0 || least == kCounterMax) {
      verdicts[key] = least == 0 ? kAbsent : kRemoved;
      return;
    }
    for (std::uint32_t line = 0; line < filter.lines(); ++line) {
      Atomic().lower(claim_on(filter.line(hash, line)), number);
    }
  }

  /// Returns false if the key must wait for another key.
  SCBF_INLINE bool decide(std::uint32_t key, std::uint64_t number) const noexcept {
    if (verdicts[key] != kContested) return true;
    const std::uint64_t hash = keys.hash(filter, key);
    for (std::uint32_t line = 0; line < filter.lines(); ++line) {
      if (Atomic().load(claim_on(filter.line(hash, line))) != number) return false;
    }
    for (std::uint32_t i = 0; i < filter.probes(); ++i) {
      const detail::Probe probe = filter.probe(hash, i);
      take_one(Atomic(), filter.words() + probe.word, probe.shift);
    }
    verdicts[key] = kRemoved;
    return true;
  }
};

}  // namespace scbf::cuda
