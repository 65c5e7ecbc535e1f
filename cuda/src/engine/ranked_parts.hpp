// SPDX-License-Identifier: Apache-2.0
// Insertion into a filter of layout ranked, in two steps.
//
// First, partition by partition, keys are added to the lists of their blocks: four lanes share a
// block, one for each slice, and each adds the block's keys, one after another, to the two words of
// its slice, in registers. Keys that find the lists full, or spilled, are left over.
//
// Then the table of spilled counts takes these. It is laid out anew, since the slots of entries
// depend on which blocks have some, and on nothing else (kit/spill_table.hpp): the blocks that have
// an entry or get one now are listed in order, one thread gives them their slots, and all entries
// are written. Finally the keys left over are counted there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/keys_by_block.hpp"
#include "engine/loops.hpp"
#include "engine/marks.hpp"
#include "engine/partitions.hpp"
#include "kit/ranked_lists.hpp"
#include "kit/ranked_slice.hpp"
#include "kit/spill_table.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// The positions of keys that found no room in the lists of their block, in any order.
struct LeftOver {
  std::uint64_t* positions;
  std::uint64_t* how_many;
};

/// Adds keys to the lists of their blocks, a partition of sorted positions per block of threads.
/// Marks the blocks that spill by what is left over. If counting, *filled += how many positions of
/// the filter were not in use and are now.
template <bool counting>
struct AddToLists {
  Partitions partitions;
  const std::uint64_t* positions;
  const std::uint64_t* bounds;  ///< of SortByPartition
  RankedShape shape;
  std::uint32_t chunk;  ///< keys
  LeftOver left_over;
  Marks spilling;
  std::uint64_t* filled;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t partition,
                              std::uint64_t* shared) const {
    const Keys keys(reinterpret_cast<std::uint32_t*>(shared), partitions,
                    static_cast<std::uint32_t>(partition));
    const auto first_block =
        static_cast<std::uint32_t>((partition << partitions.log2_words) / kWordsPerBlock);
    const std::uint64_t end = bounds[partition + 1];
    for (std::uint64_t first = bounds[partition]; first < end; first += chunk) {
      const std::uint64_t left = end - first;
      keys.sort(threads, positions + first,
                left < chunk ? static_cast<std::uint32_t>(left) : chunk);
      keys.template each_block<counting>(
          threads, filled,
          [&](const auto& warp, const auto& block, const auto& n, const auto& words) {
            return add(warp, keys, first_block, block, n, words);
          });
    }
  }

 private:
  using Keys = KeysByBlock<RankedCells>;
  static_assert(Keys::kSharers == kRankedSlices);

  /// Adds the n keys of each lane's block, of which the lane has a slice.
  template <class Warp, class Numbers, class Words>
  SCBF_INLINE auto add(const Warp& warp, const Keys& keys, std::uint32_t first_block,
                       const Numbers& block, const Numbers& n, const Words& words) const {
    const auto second = warp.each([&](unsigned l) { return words[l].high; });
    // As is_spilled() in kit/ranked_block.hpp.
    const auto closed = warp.template of_neighbour<kRankedSlices>(second, 0);
    const auto in_lists = warp.template of_neighbour<kRankedSlices>(second, 1);
    const auto spilled = warp.each(
        [&](unsigned l) { return (closed[l] & kLast) != 0 && (in_lists[l] & kLast) == 0; });
    // All lanes of a block add the same keys, whatever their words are.
    const auto room =
        warp.template of_neighbour<kRankedSlices>(warp.each([&](unsigned l) -> std::uint32_t {
          const unsigned there = keys_in_list(shape, second[l]);
          return spilled[l] || there >= shape.most_keys ? 0 : shape.most_keys - there;
        }),
                                                  0);
    const auto fitting = warp.each([&](unsigned l) { return n[l] < room[l] ? n[l] : room[l]; });
    const auto filled_here = warp.each([&](unsigned l) -> std::int32_t {
      if (fitting[l] == 0) return 0;
      const unsigned j = l % kRankedSlices;
      RankedWords now{words[l].low, words[l].high};
      std::int32_t count = 0;
      SCBF_NOT_UNROLLED
      for (std::uint32_t k = 0; k < fitting[l]; ++k) {
        const unsigned position = detail::position_of(keys.key(block[l], n[l], k), j);
        const RankedSlice slice(now, position);
        if (counting) count += !slice.in_use();
        now = slice.template with_key<SelectBySearch>(shape);
      }
      Atomic().store(keys.line(block[l]) + j, now.first);
      Atomic().store(keys.line(block[l]) + kRankedSlices + j, now.second);
      return count;
    });
    const auto begin =
        warp.template of_neighbour<kRankedSlices>(warp.each([&](unsigned l) -> std::uint64_t {
          if (l % kRankedSlices != 0 || fitting[l] == n[l]) return 0;
          if (!spilled[l]) spilling.mark(first_block + block[l]);
          return Atomic().advance(left_over.how_many, n[l] - fitting[l]);
        }),
                                                  0);
    warp.each([&](unsigned l) {
      for (std::uint32_t k = fitting[l] + l % kRankedSlices; k < n[l]; k += kRankedSlices) {
        left_over.positions[begin[l] + k - fitting[l]] =
            std::uint64_t{first_block + block[l]} << 32 | keys.key(block[l], n[l], k);
      }
    });
    return filled_here;
  }
};

// ---- the table ----------------------------------------------------------------------------------
// All of this does nothing if no block is marked.

/// Is the block marked?
struct IsMarked {
  Marks marks;
  SCBF_INLINE bool operator()(std::uint32_t block) const noexcept {
    return marks.any() && marks.marked(block);
  }
};

/// Marks the block of a slot's entry, if it has one. (In words that no filter has, it may be the
/// entry of a block that does not exist.)
struct MarkEntry {
  SpillTable table;
  Marks marks;

  SCBF_INLINE void operator()(std::size_t slot) const noexcept {
    if (!marks.any()) return;
    const std::uint64_t number = table.number(slot);
    if (number != 0 && number <= table.blocks()) marks.mark(number - 1);
  }
};

/// Moves a word of the table away.
struct MoveAway {
  SpillTable table;
  std::uint64_t* away;
  Marks marks;

  SCBF_INLINE void operator()(std::size_t word) const noexcept {
    if (!marks.any()) return;
    std::uint64_t* const from = table.at(0) + word;
    away[word] = *from;
    *from = 0;
  }
};

/// Threads that share a list whose length only the device knows.
inline constexpr std::size_t kThreadsOfList = 64 * 1024;

/// The blocks that are to have entries, in ascending order.
struct EntryList {
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;

  const std::uint32_t* blocks;
  const std::uint64_t* how_many;
  std::uint32_t* slots;  ///< of each, or kNone
};

/// Gives the blocks of the list their slots. Each gets the first slot that is at or behind its home
/// and behind the slot of the block before; if that is out of reach, none. A block of threads finds
/// the homes; one thread does the rest, as each slot depends on the one before.
struct PlaceEntries {
  SpillTable table;
  EntryList list;

  static constexpr std::uint32_t kAtOnce = 512;
  static constexpr std::size_t kSharedWords = kAtOnce + 1;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t, std::uint64_t* shared) const {
    std::uint64_t* const slots = shared + 1;
    threads.each([&](unsigned rank) {
      if (rank == 0) shared[0] = 0;  // the first slot that is free
    });
    const std::uint64_t all = *list.how_many;
    for (std::uint64_t first = 0; first < all; first += kAtOnce) {
      const std::uint32_t n =
          all - first < kAtOnce ? static_cast<std::uint32_t>(all - first) : kAtOnce;
      threads.each([&](unsigned rank) {
        for (std::uint32_t i = rank; i < n; i += threads.size()) {
          slots[i] = table.home(list.blocks[first + i]);
        }
      });
      threads.sync();
      threads.each([&](unsigned rank) {
        if (rank == 0) shared[0] = place(slots, n, shared[0]);
      });
      threads.sync();
      threads.each([&](unsigned rank) {
        for (std::uint32_t i = rank; i < n; i += threads.size()) {
          list.slots[first + i] = static_cast<std::uint32_t>(slots[i]);
        }
      });
    }
  }

 private:
  /// Replaces n homes by slots. Returns the first slot behind them.
  SCBF_INLINE std::uint64_t place(std::uint64_t* slots, std::uint32_t n,
                                  std::uint64_t free) const noexcept {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint64_t home = slots[i], slot = home < free ? free : home;
      const bool fits = slot - home < table.reach();
      slots[i] = fits ? slot : EntryList::kNone;
      if (fits) free = slot + 1;
    }
    return free;
  }
};

/// Writes the entries of the list: those that were there before, and the counts of blocks that
/// spill now, whose lists it clears. By kThreadsOfList threads.
struct WriteEntries {
  SpillTable table, before;
  EntryList list;
  RankedShape shape;
  std::uint64_t* words;  ///< of the filter

  SCBF_INLINE void operator()(std::size_t thread) const noexcept {
    for (std::uint64_t i = thread; i < *list.how_many; i += kThreadsOfList) {
      const std::uint32_t block = list.blocks[i], slot = list.slots[i];
      const std::uint64_t* const old = before.find(block);
      std::uint64_t* const line = words + std::uint64_t{block} * kWordsPerBlock;
      if (slot != EntryList::kNone) write(table.at(slot), block, old, line);
      if (old == nullptr) clear_lists(line);
    }
  }

 private:
  SCBF_INLINE void write(std::uint64_t* entry, std::uint32_t block, const std::uint64_t* old,
                         const std::uint64_t* line) const noexcept {
    if (old != nullptr) {
      for (std::uint64_t w = 0; w < table.entry_words(); ++w) entry[w] = old[w];
      return;
    }
    entry[0] = (std::uint64_t{block} + 1) << 32;
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for_each_count(shape, line, j, [&](unsigned position, unsigned count) {
        SpillTable::set_count(entry, shape.index_of(j, position), count);
      });
    }
  }
  SCBF_INLINE void clear_lists(std::uint64_t* line) const noexcept {
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      std::uint64_t* const second = line + kRankedSlices + j;
      Atomic().store(second, (*second & shape.bitmap) | (j == 0 ? kLast : 0));
    }
  }
};

/// Counts the keys that are left over in the entries of their blocks, where they have some, and
/// marks their positions as in use. By kThreadsOfList threads. If counting, *filled += how many
/// positions were not in use and are now.
template <bool counting>
struct AddLeftOver {
  SpillTable table;
  LeftOver left_over;
  RankedShape shape;
  std::uint64_t* words;
  std::uint64_t* filled;

  SCBF_INLINE void operator()(std::size_t thread) const noexcept {
    std::uint64_t filled_here = 0;
    for (std::uint64_t i = thread; i < *left_over.how_many; i += kThreadsOfList) {
      const std::uint64_t place = left_over.positions[i];
      std::uint64_t* const entry = table.find(detail::block_of(place));
      for (unsigned j = 0; j < kRankedSlices; ++j) {
        const unsigned position = detail::position_of(place, j);
        if (entry != nullptr) raise(entry, shape.index_of(j, position));
        const auto share =
            RankedCells::in_block(static_cast<std::uint32_t>(detail::block_of(place)),
                                  static_cast<std::uint32_t>(place), j);
        const std::uint64_t bit = std::uint64_t{1} << share.shift;
        filled_here += (Atomic().set_bits(words + share.word, bit) & bit) == 0;
      }
    }
    if (counting && filled_here != 0) Atomic().add(filled, filled_here);
  }

 private:
  /// Adds 1 to count i of an entry, which stays at kMostSpilled.
  SCBF_INLINE static void raise(std::uint64_t* entry, unsigned i) noexcept {
    std::uint64_t* const word = entry + 1 + i / 8;
    const unsigned shift = i % 8 * 8;
    std::uint64_t seen = Atomic().load(word);
    while ((seen >> shift & 0xFF) != kMostSpilled &&
           !Atomic().exchange(word, seen, seen + (std::uint64_t{1} << shift))) {
    }
  }
};

}  // namespace scbf::cuda
