// SPDX-License-Identifier: Apache-2.0
// Two blocks of `ranked` filters put together, or one taken from the other, list by list, where
// neither has spilled and the result does not. All others are unpacked (ranked_counts.hpp). What
// costs time is finding a count in the other list; the smaller block's counts are looked up.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kit/ranked_slice.hpp"

namespace scbf {

// Lambdas, too, must be inlined into code for a machine.
#define SCBF_INLINED __attribute__((always_inline))

/// For blocks that have not spilled. A backend may bring its own, compiled for its machine.
struct RankedLists {
  /// into += from. Returns false, changing nothing, if the lists have no room.
  bool (*add)(const RankedShape& shape, std::uint64_t* into, const std::uint64_t* from) noexcept;
  /// How many counts of `what` are larger than those of `from`.
  unsigned (*too_large)(const RankedShape& shape, const std::uint64_t* from,
                        const std::uint64_t* what) noexcept;
  /// from −= what, which is contained in it.
  void (*subtract)(const RankedShape& shape, std::uint64_t* from,
                   const std::uint64_t* what) noexcept;
};

/// A slice whose counts change: two words, and where one of its counts begins.
struct RankedList {
  std::uint64_t first, second;

  SCBF_INLINE RankedList(const std::uint64_t* line, unsigned j) noexcept
      : first(line[j]), second(line[kRankedSlices + j]) {}
  SCBF_INLINE void store(std::uint64_t* line, unsigned j) const noexcept {
    line[j] = first;
    line[kRankedSlices + j] = second;
  }
  SCBF_INLINE bool in_use(bool upper, std::uint64_t one) const noexcept {
    return ((upper ? second : first) & one) != 0;
  }
  SCBF_INLINE void flip(bool upper, std::uint64_t one) noexcept { (upper ? second : first) ^= one; }
  /// As RankedSlice::begin; the position is bit `one` of the second word, or of the first.
  template <class Select>
  SCBF_INLINE std::uint64_t begin(const RankedShape& shape, bool upper,
                                  std::uint64_t one) const noexcept {
    const unsigned rank = upper ? detail::bits_set(first) + detail::bits_set(second & (one - 1))
                                : detail::bits_set(first & (one - 1));
    return Select::select((second & shape.list()) << 1 | (shape.bitmap + 1), rank);
  }
  /// The count that begins there. At least 1, whatever the words are.
  SCBF_INLINE unsigned count(std::uint64_t begin) const noexcept {
    const std::uint64_t rest = second & (0 - begin);
    if (begin == 0 || rest == 0) return 1;
    return static_cast<unsigned>(std::countr_zero(rest) - std::countr_zero(begin)) + 1;
  }
};

/// Calls visit(upper, one, count) for the positions of a slice that are in use: bit `one` of its
/// second word (upper) or of its first. Words that no filter has give counts of at least 1, too.
template <class Visit>
SCBF_INLINE void for_each_listed(const RankedShape& shape, const std::uint64_t* line, unsigned j,
                                 Visit visit) noexcept {
  std::uint64_t list = line[kRankedSlices + j] >> shape.upper;
  for (const bool upper : {false, true}) {
    std::uint64_t used = upper ? line[kRankedSlices + j] & shape.bitmap : line[j];
    for (; used != 0; used &= used - 1) {
      const unsigned zeros = list == 0 ? 0 : detail::zeros_below(list);
      list = list >> zeros >> 1;
      visit(upper, used & (0 - used), zeros + 1);
    }
  }
}

/// Calls visit(position, count) for the counts of a list, in order; see for_each_listed.
template <class Visit>
SCBF_INLINE void for_each_count(const RankedShape& shape, const std::uint64_t* line, unsigned j,
                                Visit visit) {
  for_each_listed(shape, line, j, [&](bool upper, std::uint64_t one, unsigned count) SCBF_INLINED {
    visit(64 * upper + detail::zeros_below(one), count);
  });
}

/// into += from; the lists have room.
template <class Select>
SCBF_INLINE void add_lists(const RankedShape& shape, std::uint64_t* into,
                           const std::uint64_t* from) noexcept {
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    RankedList slice(into, j);
    for_each_listed(
        shape, from, j, [&](bool upper, std::uint64_t one, unsigned count) SCBF_INLINED {
          const std::uint64_t begin = slice.begin<Select>(shape, upper, one);
          // The list from there on moves up. A new count is a one behind zeros; an old one gets
          // zeros.
          const bool used = slice.in_use(upper, one);
          slice.second = (slice.second & (begin - 1)) | (slice.second & (0 - begin)) << count;
          if (!used) {
            slice.second |= begin << (count - 1);
            slice.flip(upper, one);
          }
        });
    slice.store(into, j);
  }
}

template <class Select>
SCBF_INLINE bool add_ranked_lists(const RankedShape& shape, std::uint64_t* into,
                                  const std::uint64_t* from) noexcept {
  const unsigned mine = keys_in_list(shape, into[kRankedSlices]);
  const unsigned theirs = keys_in_list(shape, from[kRankedSlices]);
  if (mine + theirs > shape.most_keys) return false;
  if (mine >= theirs) {
    add_lists<Select>(shape, into, from);
    return true;
  }
  std::uint64_t sum[kWordsPerBlock];
  std::copy_n(from, kWordsPerBlock, sum);
  add_lists<Select>(shape, sum, into);
  std::copy_n(sum, kWordsPerBlock, into);
  return true;
}

template <class Select>
SCBF_INLINE unsigned too_large_in_lists(const RankedShape& shape, const std::uint64_t* from,
                                        const std::uint64_t* what) noexcept {
  unsigned larger = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const RankedList slice(from, j);
    for_each_listed(
        shape, what, j, [&](bool upper, std::uint64_t one, unsigned count) SCBF_INLINED {
          const bool used = slice.in_use(upper, one);
          larger += !used || slice.count(slice.begin<Select>(shape, upper, one)) < count;
        });
  }
  return larger;
}

template <class Select>
SCBF_INLINE void subtract_ranked_lists(const RankedShape& shape, std::uint64_t* from,
                                       const std::uint64_t* what) noexcept {
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    RankedList slice(from, j);
    for_each_listed(
        shape, what, j, [&](bool upper, std::uint64_t one, unsigned count) SCBF_INLINED {
          const std::uint64_t begin = slice.begin<Select>(shape, upper, one);
          const bool last = slice.count(begin) <= count;
          // The list moves down over what is taken.
          const std::uint64_t rest = slice.second & (0 - (begin << count));
          const std::uint64_t kept = last ? rest >> count : (slice.second & (0 - begin)) >> count;
          slice.second = (slice.second & (begin - 1)) | kept;
          if (last) slice.flip(upper, one);
        });
    slice.store(from, j);
  }
}

#undef SCBF_INLINED

}  // namespace scbf
