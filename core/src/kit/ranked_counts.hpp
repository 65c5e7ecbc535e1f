// SPDX-License-Identifier: Apache-2.0
// `ranked` filters beyond ranked_block.hpp: keys whose block has spilled or spills now, whole
// blocks, and operations on ranges of blocks for backends on the host.
//
// All functions take the filter's geometry and all of its words. A caller that changes a block must
// have it to itself; the table of spilled counts is shared, and locked here.
#pragma once

#include <array>
#include <cstdint>

#include "kit/ranked_block.hpp"
#include "kit/ranked_lists.hpp"
#include "kit/word_ops.hpp"
#include "scbf/backend.hpp"

namespace scbf {

// ---- one key ------------------------------------------------------------------------------------

/// Adds a key to a block that is closed. Returns how many positions were not in use.
std::uint32_t add_to_closed(const Geometry& geometry, std::uint64_t* words,
                            std::uint64_t place) noexcept;
/// Takes a key that is there from a block that has spilled. Returns how many positions are no
/// longer in use. From a block that is stuck it takes nothing, and counts that
/// (removals_from_stuck).
std::uint32_t take_from_spilled(const Geometry& geometry, std::uint64_t* words,
                                std::uint64_t place) noexcept;
/// Is the block of this place stuck? Then it stays so.
bool is_stuck(const Geometry& geometry, const std::uint64_t* words, std::uint64_t place) noexcept;
/// The smallest count of a key that is there, in a block that has spilled; kCounterMax if it is
/// stuck.
unsigned least_of_spilled(const Geometry& geometry, const std::uint64_t* words,
                          std::uint64_t place) noexcept;

// The functions of OneKey.

template <class Select>
SCBF_INLINE unsigned ranked_count_key(const Geometry& geometry, const std::uint64_t* words,
                                      std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  const std::uint64_t* const line = ranked_line(words, place);
  if (!ranked_holds(line, place)) return 0;
  const RankedShape shape(geometry);
  return is_spilled(line) ? least_of_spilled(geometry, words, place)
                          : ranked_least<Select>(line, place, shape);
}
template <class Select>
SCBF_INLINE std::uint32_t ranked_add_key(const Geometry& geometry, std::uint64_t* words,
                                         std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  std::uint64_t* const line = ranked_line(words, place);
  const RankedShape shape(geometry);
  return is_closed(line) ? add_to_closed(geometry, words, place)
                         : ranked_add<Select>(line, place, shape);
}
template <class Select>
SCBF_INLINE std::uint32_t ranked_take_key(const Geometry& geometry, std::uint64_t* words,
                                          std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  std::uint64_t* const line = ranked_line(words, place);
  if (!ranked_holds(line, place)) return OneKey::kNotThere;
  const RankedShape shape(geometry);
  return is_spilled(line) ? take_from_spilled(geometry, words, place)
                          : ranked_take<Select>(line, place, shape);
}
SCBF_INLINE bool ranked_holds_key(const Geometry& geometry, const std::uint64_t* words,
                                  std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  return ranked_holds(ranked_line(words, place), place);
}

// ---- blocks -------------------------------------------------------------------------------------

/// All counts of a block.
struct BlockCounts {
  bool stuck = false;  ///< then a count is 1 where the position is in use
  std::array<std::array<std::uint8_t, kMaxRankedPositions>, kRankedSlices> counts{};
};
BlockCounts read_block(const Geometry& geometry, const std::uint64_t* words, std::uint64_t block);
/// Replaces a block. A block that is stuck stays so.
void write_block(const Geometry& geometry, std::uint64_t* words, std::uint64_t block,
                 const BlockCounts& counts);

// ---- parts of a filter -------------------------------------------------------------------------
// With `lists`, blocks that they can handle are not unpacked.

/// into += from, block by block, in two steps, each for all blocks: those that are stuck in `from`
/// become stuck, and then the others are added. Otherwise the order of blocks would decide which of
/// them find room in the table.
void merge_stuck_blocks(const CounterView& into, const ConstCounterView& from, FilterPart blocks);
void merge_blocks(const CounterView& into, const ConstCounterView& from, FilterPart blocks,
                  const RankedLists* lists);
/// What subtract_blocks would meet: positions that would fall below zero, and those of blocks that
/// are stuck, from which nothing is taken.
SubtractCounts check_subtract_blocks(const ConstCounterView& from, const ConstCounterView& what,
                                     FilterPart blocks, const RankedLists* lists);
void subtract_blocks(const CounterView& from, const ConstCounterView& what, FilterPart blocks,
                     const RankedLists* lists);
/// One histogram per slice. Counts of more than 15, and all of blocks that are stuck, are in the
/// last place.
std::array<Histogram, kRankedSlices> histograms_of_blocks(const ConstCounterView& view,
                                                          FilterPart blocks);
/// How many positions are in use.
std::uint64_t total_positions_in_use(const ConstCounterView& view, FilterPart blocks) noexcept;

}  // namespace scbf
