// SPDX-License-Identifier: Apache-2.0
// Removal from several filters by all threads at once, each key from the one filter that claims it
// at its turn, with the result of removal one key after another. The steps:
//   look     in all filters: which one claims a key, or that several do. Removal only lowers
//            counters, so a key that none claims is absent, now as at its turn, and no key gains a
//            claim
//   decide   all other keys in batch order (reservations.hpp). A key with one claim reserves its
//            lines in that filter: it may lower counters there
//
// A key with several claims is a *reader*: it is ambiguous, and changes nothing, unless an earlier
// key takes all its claims but one. Only then does it lower counters itself, in one of the filters
// that claim it now. So the readers of a round are settled after the others have reserved: a reader
// that finds an earlier key on a line of a filter that claims it must wait, and reserves all its
// lines, which may make later readers wait. When no more do, the rest is ambiguous, all at once: if
// an earlier key could still change a claim of theirs, it would have reserved the line. A million
// copies of one ambiguous key take one round.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/marks.hpp"
#include "engine/reservations.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// Who claims a key: a filter, by its index, or one of these.
inline constexpr std::uint32_t kNobody = 0xFFFF'FFFFu, kSeveral = kNobody - 1;

/// Notes that the filter of this index claims the keys that are present. Filters are looked in by
/// ascending index. Verdicts are then kAbsent or kContested.
struct ClaimAnswers {
  std::uint32_t filter;
  std::uint32_t* claimers;
  std::uint8_t* verdicts;

  template <class Warp, class Answers>
  SCBF_INLINE void put(const Warp& warp, std::size_t first, std::size_t n,
                       const Answers& answers) const {
    warp.each([&](unsigned l) {
      const std::size_t i = first + l;
      if (i >= n) return;
      const std::uint32_t before = filter == 0 ? kNobody : claimers[i];
      const std::uint32_t now = answers[l] == 0 ? before : before == kNobody ? filter : kSeveral;
      claimers[i] = now;
      verdicts[i] = now == kNobody ? kAbsent : kContested;
    });
  }
};

/// Decides the keys that some filter claims, in batch order; run by a grid.
struct ClaimedKeys {
  const FilterRef* filters;
  std::uint32_t how_many_filters;
  ValueKeys keys;           ///< hashed, or all filters of one seed
  std::uint32_t* claimers;  ///< in the end, of removed keys, the filter they were removed from
  std::uint8_t* verdicts;
  const std::uint32_t* contested;  ///< indices, ascending
  const std::uint64_t* how_many;   ///< of them
  std::uint64_t* emptied;          ///< as in remove_from_several()
  InOrder order;

  template <class Grid>
  SCBF_HOST_DEVICE void operator()(const Grid& grid) const {
    decide_in_order(grid, *how_many, order, *this);
  }

  // ---- as decide_in_order calls it ----
  static constexpr bool kHasReaders = true;

  SCBF_INLINE bool reserve(std::uint64_t i, std::uint64_t number) const noexcept {
    const std::uint32_t key = contested[i];
    if (verdicts[key] != kContested) return false;
    const std::uint64_t hash = hash_of(key);
    if (claimers[key] == kSeveral) {
      claimers[key] = claimer_now(hash);
      if (claimers[key] == kSeveral) return true;
    }
    const unsigned least =
        claimers[key] == kNobody ? 0 : filters[claimers[key]].least<CounterCells>(hash);
    if (least == 0 || least == kCounterMax) {
      verdicts[key] = least == 0 ? kAbsent : kRemoved;
    } else {
      KeyInFilter{filters[claimers[key]], hash}.reserve(order.reservations, number);
    }
    return false;
  }

  SCBF_INLINE bool settle(std::uint64_t i, std::uint64_t number) const noexcept {
    const std::uint32_t key = contested[i];
    if (verdicts[key] != kContested || claimers[key] != kSeveral) return false;
    const std::uint64_t hash = hash_of(key);
    bool is_first = true;
    for (std::uint32_t f = 0; f < how_many_filters && is_first; ++f) {
      if (filters[f].holds<CounterCells>(hash)) {
        is_first = KeyInFilter{filters[f], hash}.is_first(order.reservations, number);
      }
    }
    if (is_first) return false;
    verdicts[key] = kWaiting;
    for (std::uint32_t f = 0; f < how_many_filters; ++f) {
      if (filters[f].holds<CounterCells>(hash)) {
        KeyInFilter{filters[f], hash}.reserve(order.reservations, number);
      }
    }
    return true;
  }

  SCBF_INLINE bool decide(std::uint64_t i, std::uint64_t number) const noexcept {
    const std::uint32_t key = contested[i];
    std::uint8_t& verdict = verdicts[key];
    if (verdict == kWaiting) {
      verdict = kContested;
      return false;
    }
    if (verdict != kContested) return true;
    if (claimers[key] == kSeveral) {
      verdict = kAmbiguous;
      return true;
    }
    const KeyInFilter in_filter{filters[claimers[key]], hash_of(key)};
    if (!in_filter.is_first(order.reservations, number)) return false;
    in_filter.take(emptied + claimers[key]);
    verdict = kRemoved;
    return true;
  }

 private:
  SCBF_INLINE std::uint64_t hash_of(std::uint32_t key) const noexcept {
    return keys.hash(filters[0], key);
  }
  SCBF_INLINE std::uint32_t claimer_now(std::uint64_t hash) const noexcept {
    std::uint32_t claimer = kNobody;
    for (std::uint32_t f = 0; f < how_many_filters; ++f) {
      if (!filters[f].holds<CounterCells>(hash)) continue;
      if (claimer != kNobody) return kSeveral;
      claimer = f;
    }
    return claimer;
  }
};

/// Was key i removed from this filter?
struct IsRemovedFrom {
  const std::uint8_t* verdicts;
  const std::uint32_t* claimers;
  std::uint32_t filter;
  SCBF_INLINE bool operator()(std::size_t i) const noexcept {
    return verdicts[i] == kRemoved && claimers[i] == filter;
  }
};
/// Does key i have this verdict?
struct HasVerdict {
  const std::uint8_t* verdicts;
  std::uint8_t verdict;
  SCBF_INLINE bool operator()(std::size_t i) const noexcept { return verdicts[i] == verdict; }
};

/// to[i] = value, for values that kernels take by pointer.
template <class Value>
struct Put {
  Value value;
  Value* to;
  SCBF_INLINE void operator()(std::size_t i) const noexcept { to[i] = value; }
};

}  // namespace scbf::cuda
