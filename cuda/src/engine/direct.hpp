// SPDX-License-Identifier: Apache-2.0
// Changes counters one by one, by compare-and-swap. A warp takes 32 keys, and each lane hashes one
// of them. In split_block, eight neighbouring lanes then change the eight words of one key's block
// together, key after key, so that one access of the warp covers four whole blocks. (In a block of
// bits two lanes do so, for its two words.) In split each lane follows its own key. Either way a
// lane has four accesses under way at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/loops.hpp"
#include "engine/marks.hpp"
#include "engine/value_keys.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// The blocks of a warp's keys in one group. kSharers neighbouring lanes visit the blocks of their
/// keys together, kAtOnce keys at a time: each lane has one word of each of these blocks.
template <class Cells, class Warp>
class BlocksOfWarp {
 public:
  static constexpr unsigned kSharers = Cells::kBlockWords;
  static constexpr unsigned kAtOnce = kSharers < 4 ? kSharers : 4;
  using Shares = typename Cells::Share[kAtOnce];

  SCBF_INLINE BlocksOfWarp(const Warp& warp, const FilterRef& filter,
                           const typename Warp::template PerLane<std::uint64_t>& hash,
                           std::uint32_t group)
      : warp_(warp),
        words_(filter.words() + group * filter.geometry().blocks_per_group() * Cells::kBlockWords) {
    const auto place = warp.each(
        [&](unsigned l) { return detail::place_in_group(filter.geometry(), hash[l], group); });
    block_ = warp.each(
        [&](unsigned l) { return static_cast<std::uint32_t>(detail::block_of(place[l])); });
    nibbles_ = warp.each([&](unsigned l) { return static_cast<std::uint32_t>(place[l]); });
  }

  /// visit(lane, first, words, shares) for first = 0, kAtOnce … below kSharers, with the lane's
  /// shares of the keys of neighbours first, first + 1 …; their words are counted from `words`.
  template <class Visit>
  SCBF_INLINE void each(Visit visit) const {
    SCBF_UNROLLED
    for (unsigned first = 0; first < kSharers; first += kAtOnce) {
      typename Warp::template PerLane<std::uint32_t> block[kAtOnce], nibbles[kAtOnce];
      for (unsigned i = 0; i < kAtOnce; ++i) {
        block[i] = warp_.template of_neighbour<kSharers>(block_, first + i);
        nibbles[i] = warp_.template of_neighbour<kSharers>(nibbles_, first + i);
      }
      warp_.each([&](unsigned l) {
        Shares shares;
        for (unsigned i = 0; i < kAtOnce; ++i) {
          shares[i] = Cells::in_block(block[i][l], nibbles[i][l], l % kSharers);
        }
        visit(l, first, words_ + l % kSharers, shares);
      });
    }
  }

 private:
  const Warp& warp_;
  std::uint64_t* words_;
  // The places of the keys, in halves.
  typename Warp::template PerLane<std::uint32_t> block_, nibbles_;
};

/// The shares of a key in split, and in ranked, of counters or of bits.
template <class Cells>
class SlicesOfKey {
 public:
  SCBF_INLINE SlicesOfKey(const Geometry& geometry, std::uint64_t hash) noexcept
      : geometry_(geometry), hash_(hash) {}

  /// visit(first, shares, all) with the shares of slices first, first + 1 …: four of them, or what
  /// is left. `all` has a bit for each.
  template <class Visit>
  SCBF_INLINE void each(Visit visit) const {
    const std::uint32_t slices = geometry_.probes();
    std::uint32_t first = 0;
    for (; slices - first >= 4; first += 4) visit_some<4>(first, visit);
    switch (slices - first) {
      case 3:
        return visit_some<3>(first, visit);
      case 2:
        return visit_some<2>(first, visit);
      case 1:
        return visit_some<1>(first, visit);
      default:
        return;
    }
  }

 private:
  template <unsigned n, class Visit>
  SCBF_INLINE void visit_some(std::uint32_t first, Visit visit) const {
    typename Cells::Share shares[n];
    for (std::uint32_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<Cells, RankedCells>) {
        shares[i] = Cells::share(geometry_, hash_, first + i);
      } else if (Cells::kCell == Cell::bit && geometry_.layout() == Layout::ranked) {
        shares[i] = Cells::share(geometry_, hash_, first + i);
      } else {
        const std::uint64_t position = detail::slice_position<detail::PlainOps, true>(
            hash_, detail::multiplier_of(first + i), geometry_.counters_per_slice());
        shares[i] = Cells::in_slice((first + i) * geometry_.slice_stride() + position);
      }
    }
    visit(first, shares, (1u << n) - 1);
  }

  const Geometry& geometry_;
  std::uint64_t hash_;
};

/// Adds the keys of the lanes that are `there`. If counting, *filled += how many cells were 0 and
/// are not any more.
template <class Cells, bool counting, class Warp>
SCBF_INLINE void add_keys(const Warp& warp, const FilterRef& filter,
                          const typename Warp::template PerLane<bool>& there,
                          const typename Warp::template PerLane<std::uint64_t>& hash,
                          std::uint64_t* filled) {
  const Geometry& geometry = filter.geometry();
  auto mine = warp.each([](unsigned) { return std::int32_t{0}; });
  if (geometry.layout() != Layout::split_block) {
    warp.each([&](unsigned l) {
      if (!there[l]) return;
      SlicesOfKey<Cells>(geometry, hash[l])
          .each([&](std::uint32_t, const auto& shares, std::uint32_t all) {
            mine[l] += static_cast<std::int32_t>(Cells::add(filter.words(), shares, all));
          });
    });
  } else {
    const std::uint32_t all_there = warp.ballot(there);
    for (std::uint32_t group = 0; group < geometry.groups(); ++group) {
      using Blocks = BlocksOfWarp<Cells, Warp>;
      const Blocks blocks(warp, filter, hash, group);
      blocks.each([&](unsigned l, unsigned step, std::uint64_t* words, const auto& shares) {
        const std::uint32_t wanted = all_there >> l / Blocks::kSharers * Blocks::kSharers >> step;
        mine[l] += static_cast<std::int32_t>(Cells::add(words, shares, wanted));
      });
    }
  }
  if (counting) add_up(warp, mine, filled);
}

/// Adds keys, counting as by add_keys.
template <class Cells, bool counting>
struct AddDirect {
  /// In blocks of counters, 64 registers hold all that four loads bring. (See blocks_for.)
  static constexpr unsigned kBlocksPerProcessor = Cells::kCell == Cell::counter ? 4 : 0;

  FilterRef filter;
  ValueKeys keys;
  std::uint64_t* filled;

  /// Runs keys first … first + 31, as far as they exist.
  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto there = valid_keys(warp, keys, first);
    const auto hash = hashes_of(warp, filter, keys, first, there);
    add_keys<Cells, counting>(warp, filter, there, hash, filled);
  }
};

/// Takes 1 from the counters of keys with verdict kRemoved. A key that finds one of them at 0 gives
/// back what it took, marks all its lines, and becomes contested. It must mark all its lines:
/// another key may take what this key gives back without underflow, though there was not enough for
/// both. If counting, *emptied += how many counters became 0; those that are no longer 0, because a
/// key gave back what it took, count as −1.
template <bool counting>
struct TakeDirect {
  /// 64 registers hold it all; with fewer, some of it would go to memory.
  static constexpr unsigned kBlocksPerProcessor = 4;

  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Marks marks;
  std::uint64_t* emptied;

  /// Runs keys first … first + 31, as far as they exist.
  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto takes = warp.each(
        [&](unsigned l) { return first + l < keys.n && verdicts[first + l] == kRemoved; });
    const auto hash = hashes_of(warp, filter, keys, first, takes);
    auto mine = warp.each([](unsigned) { return std::int32_t{0}; });
    if (filter.geometry().layout() == Layout::split_block) {
      take_in_blocks(warp, first, takes, hash, mine);
    } else {
      warp.each([&](unsigned l) {
        if (takes[l] && !take_in_slices(hash[l], mine[l])) contest(first + l, hash[l]);
      });
    }
    if (counting) add_up(warp, mine, emptied);
  }

 private:
  /// Returns false, with everything given back, if a counter is 0.
  SCBF_INLINE bool take_in_slices(std::uint64_t hash, std::int32_t& mine) const {
    std::uint64_t taken = 0;  // from which slices
    bool fine = true;
    const SlicesOfKey<CounterCells> slices(filter.geometry(), hash);
    slices.each([&](std::uint32_t first, const auto& shares, std::uint32_t all) {
      const Taken met = CounterCells::take(filter.words(), shares, all);
      taken |= std::uint64_t{all & ~met.missing} << first;
      fine = fine && met.missing == 0;
      mine += static_cast<std::int32_t>(met.emptied);
    });
    if (fine) return true;
    for (std::uint32_t i = 0; i < filter.probes(); ++i) {
      if ((taken >> i & 1) == 0) continue;
      const detail::Probe at = filter.probe(hash, i);
      mine -= add_one(Atomic(), filter.words() + at.word, at.shift) == 0;
    }
    return false;
  }

  template <class Warp>
  SCBF_INLINE void take_in_blocks(const Warp& warp, std::size_t first,
                                  const typename Warp::template PerLane<bool>& takes,
                                  const typename Warp::template PerLane<std::uint64_t>& hash,
                                  typename Warp::template PerLane<std::int32_t>& mine) const {
    using Blocks = BlocksOfWarp<CounterCells, Warp>;
    constexpr unsigned kSharers = Blocks::kSharers;
    static_assert(kMaxProbes <= 64, "a bit for each group and neighbour");
    const std::uint32_t all_taking = warp.ballot(takes);
    // For each lane: at which neighbours' keys it found a counter at 0; and which neighbours'
    // counters it took, a byte for each group, the last one lowest.
    auto missing = warp.each([](unsigned) { return std::uint32_t{0}; });
    auto taken = warp.each([](unsigned) { return std::uint64_t{0}; });
    for (std::uint32_t group = 0; group < filter.geometry().groups(); ++group) {
      const Blocks blocks(warp, filter, hash, group);
      warp.each([&](unsigned l) { taken[l] <<= kSharers; });
      blocks.each([&](unsigned l, unsigned step, std::uint64_t* words, const auto& shares) {
        const std::uint32_t wanted =
            all_taking >> l / kSharers * kSharers >> step & ((1u << Blocks::kAtOnce) - 1);
        const Taken met = CounterCells::take(words, shares, wanted);
        missing[l] |= met.missing << step;
        taken[l] |= std::uint64_t{wanted & ~met.missing} << step;
        mine[l] += static_cast<std::int32_t>(met.emptied);
      });
    }
    if (warp.ballot(missing) == 0) return;
    const auto contested = warp.template joined_among<kSharers>(
        missing, [](std::uint32_t a, std::uint32_t b) { return a | b; });
    for (std::uint32_t group = filter.geometry().groups(); group-- > 0;) {
      const Blocks blocks(warp, filter, hash, group);
      blocks.each([&](unsigned l, unsigned step, std::uint64_t* words, const auto& shares) {
        for (unsigned i = 0; i < Blocks::kAtOnce; ++i) {
          if ((taken[l] & contested[l]) >> (step + i) & 1) {
            mine[l] -= add_one(Atomic(), words + shares[i].word, shares[i].shift) == 0;
          }
        }
      });
      warp.each([&](unsigned l) { taken[l] >>= kSharers; });
    }
    warp.each([&](unsigned l) {
      if ((contested[l] >> l % kSharers & 1) != 0) contest(first + l, hash[l]);
    });
  }

  SCBF_INLINE void contest(std::size_t key, std::uint64_t hash) const {
    for (std::uint32_t i = 0; i < filter.lines(); ++i) marks.mark(filter.line(hash, i));
    verdicts[key] = kContested;
  }
};

}  // namespace scbf::cuda
