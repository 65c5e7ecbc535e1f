// SPDX-License-Identifier: Apache-2.0
// Removal from one filter by all threads at once, with the result of removal one key after another.
// If no counter is asked for more than it holds, the verdicts against the state before the batch
// are the sequential verdicts. The steps:
//   look     verdict 1 for the keys that are present, 0 for the others. The others stay absent,
//            since removal only lowers counters
//   take     lowers the counters of all keys with verdict 1 at once. Where a counter has too
//            little, its line is marked; an unmarked line has enough for all keys that touch it
//   contest  lists, in batch order, the keys with verdict 1 that touch a marked line, and gives
//            back what they took. All counters are then as if only the other keys had been
//            removed, and no counter of those underflowed
//   resolve  decides the contested keys in order (reservations.hpp)
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/marks.hpp"
#include "engine/reservations.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
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

/// Decides the contested keys, in batch order; run by a grid.
struct Resolve {
  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Marks marks;
  bool marked_lines_untouched;     ///< nothing was taken from marked lines (partitioned)
  const std::uint32_t* contested;  ///< indices, ascending
  const std::uint64_t* how_many;   ///< of them
  std::uint64_t* emptied;          ///< as in remove()
  InOrder order;

  template <class Grid>
  SCBF_HOST_DEVICE void operator()(const Grid& grid) const {
    const std::uint64_t n = *how_many;
    if (n == 0) return;
    grid.each(n, [&](std::uint64_t i) { give_back(contested[i]); });
    grid.sync();
    decide_in_order(grid, n, order, *this);
  }

  // ---- as decide_in_order calls it ----
  static constexpr bool kHasReaders = false;

  SCBF_INLINE bool reserve(std::uint64_t i, std::uint64_t number) const noexcept {
    std::uint8_t& verdict = verdicts[contested[i]];
    if (verdict != kContested) return false;
    const KeyInFilter key = key_of(contested[i]);
    const unsigned least = filter.least<CounterCells>(key.hash);
    if (least == 0 || least == kCounterMax) {
      verdict = least == 0 ? kAbsent : kRemoved;
    } else {
      key.reserve(order.reservations, number);
    }
    return false;
  }
  SCBF_INLINE bool settle(std::uint64_t, std::uint64_t) const noexcept { return false; }
  SCBF_INLINE bool decide(std::uint64_t i, std::uint64_t number) const noexcept {
    std::uint8_t& verdict = verdicts[contested[i]];
    if (verdict != kContested) return true;
    const KeyInFilter key = key_of(contested[i]);
    if (!key.is_first(order.reservations, number)) return false;
    key.take(emptied);
    verdict = kRemoved;
    return true;
  }

 private:
  SCBF_INLINE KeyInFilter key_of(std::uint32_t key) const noexcept {
    return {filter, keys.hash(filter, key)};
  }
  SCBF_INLINE void give_back(std::uint32_t key) const noexcept {
    if (verdicts[key] == kRemoved) {
      const std::uint64_t hash = keys.hash(filter, key);
      std::uint64_t filled = 0;
      for (std::uint32_t i = 0; i < filter.probes(); ++i) {
        const detail::Probe probe = filter.probe(hash, i);
        if (marked_lines_untouched && marks.marked(probe.word / kWordsPerBlock)) continue;
        filled += add_one(Atomic(), filter.words() + probe.word, probe.shift) == 0;
      }
      if (emptied != nullptr && filled != 0) Atomic().add(emptied, 0 - filled);
    }
    verdicts[key] = kContested;
  }
};

}  // namespace scbf::cuda
