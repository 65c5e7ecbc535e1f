// SPDX-License-Identifier: Apache-2.0
// Inserts the keys that are absent at their turn: all at once, with the result of going through
// them one by one.
//
// The *owner* of a cell that is 0 beforehand is the first key of the batch that has it. A key that
// owns a cell is new, since nothing before its turn can fill that cell. A key that owns none is
// not: each of its cells is filled beforehand, or at its owner's turn, which is earlier. So two
// kernels decide everything, however often keys repeat: one notes the owners in a table, the other
// adds the keys that own a cell.
//
// Where a key has one block, most keys are spared that. The first absent key of each block owns all
// its cells there that are 0; so the owners of blocks, one entry each, are found and added first.
// Cells are then asked of the keys that are left: those that share a block with an earlier one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/direct.hpp"
#include "engine/look.hpp"
#include "engine/owners.hpp"
#include "engine/value_keys.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// Verdicts on the way to "inserted" or "not": the key is absent, as far as is known.
inline constexpr std::uint8_t kNotNew = 0, kNew = 1, kUndecided = 2;

/// PerLane: is the lane's key undecided?
template <class Warp, class Work>
SCBF_INLINE auto undecided(const Warp& warp, const Work& work, std::size_t first) {
  return warp.each([&](unsigned l) {
    return first + l < work.keys.n && work.verdicts[first + l] == kUndecided;
  });
}

/// The table of the owners of cells, in an array that is as large as may be needed. If only the
/// device knows how many keys are left, it uses a part of it.
struct OwnersOfCells {
  std::uint64_t* entries;
  std::uint32_t cells_per_key;
  std::uint64_t most_keys;
  const std::uint64_t* keys_left;  ///< null: most_keys

  SCBF_INLINE Owners table() const noexcept {
    const std::uint64_t keys = keys_left != nullptr ? Atomic().load(keys_left) : most_keys;
    return {entries, Owners::log2_entries_for(keys * cells_per_key)};
  }
};

/// Frees the entries, unless no keys are left. Run by `threads` threads.
struct FreeEntries {
  static constexpr std::size_t kMostThreads = std::size_t{128} << 10;  ///< chosen, not measured

  OwnersOfCells owners;
  std::size_t threads;

  SCBF_INLINE void operator()(std::size_t thread) const noexcept {
    if (owners.keys_left != nullptr && Atomic().load(owners.keys_left) == 0) return;
    const Owners table = owners.table();
    for (std::uint64_t e = thread; e < std::uint64_t{1} << table.log2_entries; e += threads) {
      table.entries[e] = Owners::kFree;
    }
  }
};

/// A block's number among cells: that of one of its cells, in different words for different blocks.
SCBF_INLINE std::uint64_t cell_for_block(std::uint64_t block) noexcept {
  return block * kCountersPerBlock + block % kWordsPerBlock * kCountersPerWord;
}

/// Notes the owners of blocks, in filters of one block per key. verdicts[i] = kUndecided if key i
/// is absent, kNotNew if it is there, or null.
template <class Cells>
struct ClaimBlocks {
  static constexpr unsigned kBlocksPerProcessor = kBlocksOfLookups<Cells>;

  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Owners owners;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto there = valid_keys(warp, keys, first);
    const auto hash = hashes_of(warp, filter, keys, first, there);
    const auto held = least_by<false, Cells>(warp, filter, hash);
    warp.each([&](unsigned l) {
      if (first + l >= keys.n) return;
      const bool absent = there[l] && held[l] == 0;
      verdicts[first + l] = absent ? kUndecided : kNotNew;
      if (!absent) return;
      const std::uint64_t cells[] = {cell_for_block(filter.line(hash[l], 0))};
      owners.claim(cells, 1, static_cast<std::uint32_t>(first + l), 0);
    });
  }
};

/// Adds the keys that own their block: they become kNew. *left += how many stay undecided. If
/// counting, *filled += how many cells were 0 and are not any more.
template <class Cells, bool counting>
struct AddOwnersOfBlocks {
  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Owners owners;
  std::uint64_t* left;
  std::uint64_t* filled;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto absent = undecided(warp, *this, first);
    if (warp.ballot(absent) == 0) return;
    const auto hash = hashes_of(warp, filter, keys, first, absent);
    const auto is_new = warp.each([&](unsigned l) {
      if (!absent[l]) return false;
      const std::uint64_t cells[] = {cell_for_block(filter.line(hash[l], 0))};
      return owners.owned(cells, 1, static_cast<std::uint32_t>(first + l), 0) != 0;
    });
    warp.each([&](unsigned l) {
      if (is_new[l]) verdicts[first + l] = kNew;
    });
    add_up(warp, warp.each([&](unsigned l) { return std::int32_t{absent[l] && !is_new[l]}; }),
           left);
    add_keys<Cells, counting>(warp, filter, is_new, hash, filled);
  }
};

/// PerLane: which of the lanes' keys pass the test for one of their shares. `keys` has a bit for
/// each lane with a key; `test` is called for all shares of all of these, several at a time:
///   test(shares, first, step, wanted)   a bit for each share i that passes: it is of the key of
///                                       lane first + i · step, and counts if bit i of wanted is 1
template <class Cells, class Warp, class Test>
SCBF_INLINE auto with_any_share(const Warp& warp, const FilterRef& filter, std::uint32_t keys,
                                const typename Warp::template PerLane<std::uint64_t>& hash,
                                Test test) {
  auto any = warp.each([](unsigned) { return std::uint32_t{0}; });
  if constexpr (!std::is_same_v<Cells, RankedCells>) {
    if (filter.geometry().layout() == Layout::split_block) {
      using Blocks = BlocksOfWarp<Cells, Warp>;
      constexpr unsigned kSharers = Blocks::kSharers;
      for (std::uint32_t group = 0; group < filter.geometry().groups(); ++group) {
        const Blocks blocks(warp, filter, hash, group);
        blocks.each([&](unsigned l, unsigned step, std::uint64_t* words, auto& shares) {
          const unsigned first = l / kSharers * kSharers + step;
          for (auto& share : shares)
            share.word += static_cast<std::uint64_t>(words - filter.words());
          any[l] |= test(shares, first, 1u, keys >> first) << step;
        });
      }
      any = warp.template joined_among<kSharers>(
          any, [](std::uint32_t a, std::uint32_t b) { return a | b; });
      return warp.each([&](unsigned l) { return any[l] >> l % kSharers & 1; });
    }
  }
  return warp.each([&](unsigned l) {
    if ((keys >> l & 1) == 0) return std::uint32_t{0};
    std::uint32_t passed = 0;
    SlicesOfKey<Cells>(filter.geometry(), hash[l])
        .each([&](std::uint32_t, const auto& shares, std::uint32_t all) {
          passed |= test(shares, l, 0u, all);
        });
    return std::uint32_t{passed != 0};
  });
}

/// visit(cells, which) with the numbers of cells that keys lack, one of each share at a time: cell
/// i is of share i, for each bit i of `which`. lacking[i] has its lowest bits in the word of share
/// i.
template <class Cells, unsigned n, class Visit>
SCBF_INLINE void each_lacking(const typename Cells::Share (&shares)[n], std::uint64_t (&lacking)[n],
                              Visit visit) {
  do {
    std::uint64_t cells[n] = {};
    std::uint32_t which = 0;
    for (unsigned i = 0; i < n; ++i) {
      if (lacking[i] == 0) continue;
      which |= 1u << i;
      cells[i] =
          shares[i].word * Cells::kPerWord + detail::zeros_below(lacking[i]) * Cells::kPerWord / 64;
      lacking[i] &= lacking[i] - 1;
    }
    if (which == 0) return;
    visit(cells, which);
  } while (Cells::kCell == Cell::bit);  // a share of several cells
}

/// Notes the owners of all cells that are 0, of the undecided keys or, if nothing was decided
/// before, of all. verdicts[i] = kUndecided if key i lacks a cell, otherwise kNotNew, but kNew
/// stays.
template <class Cells>
struct ClaimCells {
  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  OwnersOfCells owners;
  bool only_undecided;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto asked =
        only_undecided ? undecided(warp, *this, first) : valid_keys(warp, keys, first);
    const std::uint32_t all = warp.ballot(asked);
    if (only_undecided && all == 0) return;
    const auto hash = hashes_of(warp, filter, keys, first, asked);
    const Owners table = owners.table();
    const auto lacks = with_any_share<Cells>(
        warp, filter, all, hash,
        [&]<unsigned n>(const typename Cells::Share(&shares)[n], unsigned lane, unsigned step,
                        std::uint32_t wanted) {
          std::uint64_t words[n], lacking[n];
          for (unsigned i = 0; i < n; ++i) {
            words[i] = load_uncached(filter.words() + shares[i].word);
          }
          std::uint32_t some = 0;
          for (unsigned i = 0; i < n; ++i) {
            lacking[i] = (wanted >> i & 1) != 0 ? Cells::lacking(words[i], shares[i]) : 0;
            some |= std::uint32_t{lacking[i] != 0} << i;
          }
          each_lacking<Cells>(shares, lacking, [&](const auto& cells, std::uint32_t which) {
            table.claim(cells, which, static_cast<std::uint32_t>(first + lane), step);
          });
          return some;
        });
    warp.each([&](unsigned l) {
      if (first + l < keys.n && (asked[l] || !only_undecided)) {
        verdicts[first + l] = lacks[l] != 0 ? kUndecided : kNotNew;
      }
    });
  }
};

/// Adds the undecided keys that own a cell, but not in the layout ranked: they become kNew, the
/// others kNotNew. If counting, *filled += how many cells were 0 and are not any more.
template <class Cells, bool counting>
struct AddOwners {
  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  OwnersOfCells owners;
  std::uint64_t* filled;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    const auto lacks = undecided(warp, *this, first);
    const std::uint32_t all = warp.ballot(lacks);
    if (all == 0) return;
    const auto hash = hashes_of(warp, filter, keys, first, lacks);
    const Owners table = owners.table();
    const auto owns = with_any_share<Cells>(
        warp, filter, all, hash,
        [&]<unsigned n>(const typename Cells::Share(&shares)[n], unsigned lane, unsigned step,
                        std::uint32_t wanted) {
          std::uint64_t cells_of[n];
          for (unsigned i = 0; i < n; ++i) {
            cells_of[i] = (wanted >> i & 1) != 0 ? Cells::lacking(0, shares[i]) : 0;
          }
          std::uint32_t owned = 0;
          each_lacking<Cells>(shares, cells_of, [&](const auto& cells, std::uint32_t which) {
            owned |= table.owned(cells, which, static_cast<std::uint32_t>(first + lane), step);
          });
          return owned;
        });
    const auto is_new = warp.each([&](unsigned l) { return owns[l] != 0; });
    warp.each([&](unsigned l) {
      if (lacks[l]) verdicts[first + l] = is_new[l] ? kNew : kNotNew;
    });
    if constexpr (!std::is_same_v<Cells, RankedCells>) {
      add_keys<Cells, counting>(warp, filter, is_new, hash, filled);
    }
  }
};

}  // namespace scbf::cuda
