// SPDX-License-Identifier: Apache-2.0
// One block of a `ranked` filter (see Geometry): looks up, counts, inserts and removes one key,
// where the block has not spilled and does not spill by it; ranked_counts.hpp has the others.
//
// Counts are found by rank and select. The rank of a position is how many before it are in use:
// that many ones of the list end the counts before its own.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kit/shared_words.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// What blocks look like, computed from the geometry once.
struct RankedShape {
  std::uint64_t blocks;
  std::uint64_t bitmap;  ///< of the second word of a slice: the bits that are positions
  unsigned upper;        ///< how many these are
  unsigned positions;    ///< S
  unsigned most_keys;    ///< that fit into the lists

  explicit RankedShape(const Geometry& g) noexcept
      : blocks(g.blocks_per_group()),
        bitmap((std::uint64_t{1} << (g.positions() - 64)) - 1),
        upper(g.positions() - 64),
        positions(g.positions()),
        most_keys(128 - g.positions()) {}

  std::uint64_t list() const noexcept { return ~bitmap; }
};

// The number of a one in a word → that one alone. A word with fewer ones, which only damage or a
// change at the same time can show, gives any single bit, or 0.

struct SelectBySearch {
  SCBF_INLINE static std::uint64_t select(std::uint64_t word, unsigned rank) noexcept {
    unsigned base = 0;
    for (unsigned step = 32; step > 0; step /= 2) {
      const unsigned below = detail::bits_set(word >> base & ((std::uint64_t{1} << step) - 1));
      if (below > rank) continue;
      rank -= below;
      base += step;
    }
    return word & std::uint64_t{1} << base;
  }
};

#if defined(__x86_64__)
/// For machines with BMI2.
struct SelectByDeposit {
  SCBF_INLINE static std::uint64_t select(std::uint64_t word, unsigned rank) noexcept {
    return deposit(std::uint64_t{1} << rank % 64, word);
  }
  /// The same, where the number is given as the bit 1 << rank.
  SCBF_INLINE static std::uint64_t deposit(std::uint64_t number, std::uint64_t word) noexcept {
    std::uint64_t place;  // in assembly: intrinsics are not inlined into code for any machine
    asm("pdep %2, %1, %0" : "=r"(place) : "r"(number), "rm"(word));
    return place;
  }
};
#endif

/// Slice j of a block: two words, as they were when it was made.
struct RankedSlice {
  std::uint64_t first, second;  ///< positions from 0 on; from 64 on, and the list
  std::uint64_t low, high;      ///< the key's position, in one of the two

  SCBF_INLINE RankedSlice(const std::uint64_t* line, unsigned j, unsigned position) noexcept
      : first(load_word(line + j)), second(load_word(line + kRankedSlices + j)) {
    const std::uint64_t in_second = std::uint64_t{0} - (position >> 6),
                        one = std::uint64_t{1} << (position & 63);
    low = one & ~in_second;
    high = one & in_second;
  }
  SCBF_INLINE bool in_use() const noexcept { return ((first & low) | (second & high)) != 0; }
  /// Positions in use before this one.
  SCBF_INLINE unsigned rank() const noexcept {
    const std::uint64_t before = low != 0 ? low - 1 : ~std::uint64_t{0};
    const std::uint64_t before_in_second = high != 0 ? high - 1 : 0;
    return detail::bits_set(first & before) + detail::bits_set(second & before_in_second);
  }
  /// Where in the second word the count of the position begins, or would: at the beginning of the
  /// list, or after the one that ends the count before. Nothing if the slice is damaged.
  template <class Select>
  SCBF_INLINE std::uint64_t begin(const RankedShape& shape) const noexcept {
    const std::uint64_t begins = (second & shape.list()) << 1 | (shape.bitmap + 1);
    return Select::select(begins, rank());
  }
};

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

/// Are all positions of the key in use? That is all of a lookup, in every block.
SCBF_INLINE bool ranked_holds(const std::uint64_t* line, std::uint64_t place) noexcept {
  bool all = true;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    all &= RankedSlice(line, j, detail::position_of(place, j)).in_use();
  }
  return all;
}

/// The highest bit of a word: in the second word of a slice the last of its list.
inline constexpr std::uint64_t kLast = std::uint64_t{1} << 63;

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
    begins[j] = RankedSlice(line, j, detail::position_of(place, j)).begin<Select>(shape);
  }
  return least_count(line, begins);
}

/// One key more, in a block that is not closed. Returns how many positions were not in use.
template <class Select>
SCBF_INLINE unsigned ranked_add(std::uint64_t* line, std::uint64_t place,
                                const RankedShape& shape) noexcept {
  unsigned filled = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const RankedSlice slice(line, j, detail::position_of(place, j));
    const std::uint64_t begin = slice.begin<Select>(shape), list = slice.second;
    const bool used = slice.in_use();
    // The list from there on moves up by one. A new count is a one, a longer one has a zero more.
    const std::uint64_t ends = used ? 0 : begin;
    store_word(line + j, slice.first | slice.low);
    store_word(line + kRankedSlices + j, (list + (list & (0 - begin)) + ends) | slice.high);
    filled += !used;
  }
  return filled;
}

/// One key less, in a block that holds it and has not spilled. Returns how many positions are no
/// longer in use.
template <class Select>
SCBF_INLINE unsigned ranked_take(std::uint64_t* line, std::uint64_t place,
                                 const RankedShape& shape) noexcept {
  unsigned emptied = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const RankedSlice slice(line, j, detail::position_of(place, j));
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
