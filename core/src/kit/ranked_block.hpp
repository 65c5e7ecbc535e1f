// SPDX-License-Identifier: Apache-2.0
// One block of a `ranked` filter (see Geometry): looks up, counts, inserts and removes one key, if
// the block has not spilled and does not spill now; ranked_counts.hpp has the other cases.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kit/ranked_slice.hpp"
#include "kit/shared_words.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// Slice j of a block as it is now, and one of its positions.
SCBF_INLINE RankedSlice ranked_slice(const std::uint64_t* line, unsigned j,
                                     unsigned position) noexcept {
  return {{load_word(line + j), load_word(line + kRankedSlices + j)}, position};
}

/// How many positions of slice j of a block are in use.
SCBF_INLINE unsigned positions_in_use(const std::uint64_t* line, unsigned j,
                                      const RankedShape& shape) noexcept {
  return detail::bits_set(line[j]) + detail::bits_set(line[kRankedSlices + j] & shape.bitmap);
}

SCBF_INLINE std::uint64_t* ranked_line(std::uint64_t* words, std::uint64_t place) noexcept {
  return words + detail::block_of(place) * kWordsPerBlock;
}
SCBF_INLINE const std::uint64_t* ranked_line(const std::uint64_t* words,
                                             std::uint64_t place) noexcept {
  return words + detail::block_of(place) * kWordsPerBlock;
}

/// Are all positions of the key in use? That is the whole lookup, in every block.
SCBF_INLINE bool ranked_holds(const std::uint64_t* line, std::uint64_t place) noexcept {
  bool all = true;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    all &= ranked_slice(line, j, detail::position_of(place, j)).in_use();
  }
  return all;
}

/// Is the block full, or has it spilled? Then it takes no key as it is.
SCBF_INLINE bool is_closed(const std::uint64_t* line) noexcept {
  return (load_word(line + kRankedSlices) & kLast) != 0;
}
/// Have the counts of the block moved to the table, or are they forgotten?
SCBF_INLINE bool is_spilled(const std::uint64_t* line) noexcept {
  return is_closed(line) && (load_word(line + kRankedSlices + 1) & kLast) == 0;
}

/// The smallest of a key's counts, which begin at `begins` in the lists; the block has not spilled.
/// A slice that is damaged, or changes meanwhile, counts 1.
SCBF_INLINE unsigned least_count(const std::uint64_t* line, const std::uint64_t* begins) noexcept {
  const std::uint64_t* const seconds = line + kRankedSlices;
  // A count of 1 ends where it begins. Nearly every key has one, if keys are distinct.
  std::uint64_t ones = 0;
#pragma GCC unroll 4
  for (unsigned j = 0; j < kRankedSlices; ++j) ones |= load_word(seconds + j) & begins[j];
  if (ones != 0) [[likely]]
    return 1;
  unsigned least = kCounterMax;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const std::uint64_t rest = load_word(seconds + j) & (0 - begins[j]);
    const auto from = static_cast<unsigned>(std::countr_zero(begins[j]));
    least =
        std::min(least, rest != 0 ? 1 + static_cast<unsigned>(std::countr_zero(rest)) - from : 1);
  }
  return least;
}

/// The smallest count of a key that the block holds; it has not spilled.
template <class Select>
SCBF_INLINE unsigned ranked_least(const std::uint64_t* line, std::uint64_t place,
                                  const RankedShape& shape) noexcept {
  std::uint64_t begins[kRankedSlices];
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    begins[j] = ranked_slice(line, j, detail::position_of(place, j)).begin<Select>(shape);
  }
  return least_count(line, begins);
}

/// Adds a key to a block that is not closed. Returns how many positions were not in use.
template <class Select>
SCBF_INLINE unsigned ranked_add(std::uint64_t* line, std::uint64_t place,
                                const RankedShape& shape) noexcept {
  unsigned filled = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const RankedSlice slice = ranked_slice(line, j, detail::position_of(place, j));
    const RankedWords with_key = slice.with_key<Select>(shape);
    store_word(line + j, with_key.first);
    store_word(line + kRankedSlices + j, with_key.second);
    filled += !slice.in_use();
  }
  return filled;
}

/// Takes a key from a block that holds it and has not spilled. Returns how many positions are no
/// longer in use.
template <class Select>
SCBF_INLINE unsigned ranked_take(std::uint64_t* line, std::uint64_t place,
                                 const RankedShape& shape) noexcept {
  unsigned emptied = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const RankedSlice slice = ranked_slice(line, j, detail::position_of(place, j));
    const std::uint64_t begin = slice.begin<Select>(shape), list = slice.second;
    const bool last = (list & begin) != 0;
    // Without a branch: whether it is the last of its position cannot be predicted.
    const std::uint64_t all = std::uint64_t{0} - last;
    store_word(line + j, slice.first & ~(slice.low & all));
    store_word(line + kRankedSlices + j,
               ((list & (begin - 1)) | (list & (0 - begin) & ~begin) >> 1) & ~(slice.high & all));
    emptied += last;
  }
  return emptied;
}

}  // namespace scbf
