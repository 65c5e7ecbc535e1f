// SPDX-License-Identifier: Apache-2.0
// One slice of a block of a `ranked` filter (see Geometry), as two words by value, on host and
// device; ranked_block.hpp has whole blocks.
//
// Counts are found by rank and select. The rank of a position is how many before it are in use:
// that many ones of the list end the counts before its own.
#pragma once

#include <cstdint>

#include "scbf/detail/hash.hpp"
#include "scbf/detail/packed.hpp"
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

  SCBF_INLINE std::uint64_t list() const noexcept { return ~bitmap; }
  /// The index of the count of a position of slice j in an entry of the table.
  SCBF_INLINE unsigned index_of(unsigned j, unsigned position) const noexcept {
    return j * positions + position;
  }
};

// Given the number of a one in a word, below 128, returns that one alone. A word with fewer ones,
// which only damage or a concurrent change can show, gives any single bit, or 0.

/// For devices, which count ones in an instruction.
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

/// For any machine: all bytes of a word at once (Vigna, "Broadword Implementation of Rank/Select
/// Queries", 2008).
struct SelectByBytes {
  SCBF_INLINE static std::uint64_t select(std::uint64_t word, unsigned rank) noexcept {
    // In each byte, the ones up to its end.
    std::uint64_t ones = word - (word >> 1 & 0x5555'5555'5555'5555);
    ones = (ones & 0x3333'3333'3333'3333) + (ones >> 2 & 0x3333'3333'3333'3333);
    ones = ((ones + (ones >> 4)) & 0x0F0F'0F0F'0F0F'0F0F) * kEach;
    const unsigned base = 8 * first_above(ones, rank);
    if (base == 64) return 0;
    rank -= static_cast<unsigned>(ones << 8 >> base & 0xFF);
    // The same for the bits of that byte: each goes to a byte of its own.
    const std::uint64_t bits = (word >> base & 0xFF) * kEach & 0x8040'2010'0804'0201;
    const std::uint64_t is_one = (bits + 0x7F * kEach) >> 7 & kEach;
    return std::uint64_t{1} << base << first_above(is_one * kEach, rank);
  }

 private:
  static constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;

  /// The first byte that is larger than `rank`, which is below 128; 8 if there is none. Bytes are
  /// at most 64, and none is smaller than one before it.
  SCBF_INLINE static unsigned first_above(std::uint64_t bytes, unsigned rank) noexcept {
    const std::uint64_t not_above = ((rank * kEach | 0x80 * kEach) - bytes) >> 7 & kEach;
    return static_cast<unsigned>(not_above * kEach >> 56);
  }
};

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
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

/// The words of one slice of a block.
struct RankedWords {
  std::uint64_t first, second;  ///< positions from 0 on; from 64 on, and the list
};

/// A slice, and one of its positions.
struct RankedSlice : RankedWords {
  std::uint64_t low, high;  ///< the position, in one of the two words

  SCBF_INLINE RankedSlice(const RankedWords& words, unsigned position) noexcept
      : RankedWords(words) {
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
  /// The slice with one key more; the list must have room.
  template <class Select>
  SCBF_INLINE RankedWords with_key(const RankedShape& shape) const noexcept {
    const std::uint64_t begin_here = begin<Select>(shape);
    // The list from there on moves up by one. A new count is a one, a longer one has a zero more.
    const std::uint64_t ends = in_use() ? 0 : begin_here;
    return {first | low, (second + (second & (0 - begin_here)) + ends) | high};
  }
};

/// The highest bit of a word: in the second word of a slice the last of its list.
inline constexpr std::uint64_t kLast = std::uint64_t{1} << 63;

/// How many keys a list holds; all four of a block that has not spilled hold as many.
SCBF_INLINE unsigned keys_in_list(const RankedShape& shape, std::uint64_t second) noexcept {
  return detail::bits_up_to_highest(second >> shape.upper);
}

}  // namespace scbf
