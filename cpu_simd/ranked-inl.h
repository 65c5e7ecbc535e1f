// SPDX-License-Identifier: Apache-2.0
// Kernels of the ranked layout. Included once per target.
//
// A lookup needs the bitmaps alone: two loads, variable shifts that turn the key's four positions
// into bits, one comparison. A change finds the key's counts by rank and select, which machines do
// on words; all else is done for the four slices together. Where vectors cannot be shifted by
// different distances, each slice is worked on by itself (ranked_block.hpp).
#if defined(SCBF_RANKED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_RANKED_INL
#undef SCBF_RANKED_INL
#else
#define SCBF_RANKED_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cpu_simd/block-inl.h"
#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/slice-inl.h"
#include "cpu_simd/walk-inl.h"
#include "kit/ranked_counts.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
using Select = SelectByDeposit;
#else
using Select = SelectBySearch;
#endif

inline void RankedLocate(const Array& array, const std::uint64_t* hashes, std::size_t n,
                         std::uint64_t* places) noexcept {
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto blocks = hn::Set(tag, array.extent), positions = hn::Set(tag, array.positions);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(ranked_place<VectorOps>(hn::LoadU(tag, hashes + i), blocks, positions), tag,
               places + i);
  }
  for (; i < n; ++i) {
    places[i] = detail::ranked_place<detail::PlainOps>(hashes[i], array.extent, array.positions);
  }
}

/// Calls visit(i) for keys 0 … n − 1, in order.
template <class Visit>
HWY_INLINE void for_each_ranked(const std::uint64_t* words, const std::uint64_t* places,
                                std::size_t n, const Fetch& fetch, Visit visit) noexcept {
  walk<1>(
      n, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return ranked_line(words, places[i]); },
      Nothing(), visit);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

using RankedTag = hn::FixedTag<std::uint64_t, kRankedSlices>;
using RankedVector = hn::Vec<RankedTag>;

/// A block and a key: a lane for each slice.
struct RankedBlock {
  /// The place by its address: a load that spreads bytes is faster than a move from a register.
  HWY_INLINE RankedBlock(const std::uint64_t* line, const std::uint64_t* place) noexcept
      : first(hn::Load(RankedTag(), line)),
        second(hn::Load(RankedTag(), line + kRankedSlices)),
        positions{_mm256_cvtepu8_epi64(_mm_loadu_si32(place))} {}

  // The bit of the key's position is in one of the two. (These machines shift out what they shift
  // by 64 or more, and so by less than nothing.)
  HWY_INLINE RankedVector first_bit() const noexcept {
    return hn::Shl(hn::Set(RankedTag(), 1), positions);
  }
  HWY_INLINE RankedVector second_bit() const noexcept {
    return hn::Shl(hn::Set(RankedTag(), 1), hn::Sub(positions, hn::Set(RankedTag(), 64)));
  }
  /// Lanes that are not 0: the position is not in use.
  HWY_INLINE RankedVector missing() const noexcept {
    return hn::Or(hn::AndNot(first, first_bit()), hn::AndNot(second, second_bit()));
  }
  HWY_INLINE bool holds() const noexcept {
    return hn::AllTrue(RankedTag(), hn::Eq(missing(), hn::Zero(RankedTag())));
  }

  RankedVector first, second, positions;
};

/// On the way from a block to where the counts of a key begin: for each slice the positions in use
/// before the key's own, and the places in the list where counts begin, or would.
struct RankedSearch {
  HWY_INLINE void look(const RankedBlock& block, const RankedShape& shape) noexcept {
    const RankedTag tag;
    const hn::Repartition<std::uint16_t, RankedTag> tag16;
    const auto ones = hn::Set(tag, ~std::uint64_t{0});
    const auto from = hn::BitCast(tag, hn::SaturatedSub(hn::BitCast(tag16, block.positions),
                                                        hn::BitCast(tag16, hn::Set(tag, 64))));
    hn::Store(hn::AndNot(hn::Shl(ones, block.positions), block.first), tag, before_first);
    hn::Store(hn::AndNot(hn::Shl(ones, from), block.second), tag, before_second);
    const auto moved =
        hn::And(hn::Add(block.second, block.second), hn::Set(tag, shape.list() << 1));
    hn::Store(hn::Or(moved, hn::Set(tag, shape.bitmap + 1)), tag, begins);
  }
  HWY_INLINE std::uint64_t select(unsigned slice) const noexcept {
    const unsigned rank =
        detail::bits_set(before_first[slice]) + detail::bits_set(before_second[slice]);
    return Select::select(begins[slice], rank);
  }

  alignas(32) std::uint64_t before_first[kRankedSlices];
  alignas(32) std::uint64_t before_second[kRankedSlices];
  alignas(32) std::uint64_t begins[kRankedSlices];
};

/// ranked_add, where the counts begin at `begin`.
HWY_INLINE unsigned add_to_ranked(std::uint64_t* line, const RankedBlock& block,
                                  RankedVector begin) noexcept {
  const RankedTag tag;
  const auto first_bit = block.first_bit(), second_bit = block.second_bit();
  const auto hit = hn::Or(hn::And(block.first, first_bit), hn::And(block.second, second_bit));
  const auto unused = hn::Eq(hit, hn::Zero(tag));
  const auto moved = hn::Add(block.second, hn::And(block.second, hn::Sub(hn::Zero(tag), begin)));
  const auto list = hn::Add(moved, hn::IfThenElseZero(unused, begin));
  hn::Store(hn::Or(block.first, first_bit), tag, line);
  hn::Store(hn::Or(list, second_bit), tag, line + kRankedSlices);
  return static_cast<unsigned>(hn::CountTrue(tag, unused));
}
/// ranked_take; leaves the block as it is unless it holds the key.
HWY_INLINE unsigned take_from_ranked(std::uint64_t* line, const RankedBlock& block,
                                     RankedVector begin, bool& held) noexcept {
  const RankedTag tag;
  const auto zero = hn::Zero(tag);
  held = block.holds();
  begin = held ? begin : zero;  // at none: nothing moves
  const auto last = hn::AndNot(hn::VecFromMask(tag, hn::Eq(hn::And(block.second, begin), zero)),
                               hn::Set(tag, ~std::uint64_t{0}));
  const auto stay = hn::And(block.second, hn::Sub(begin, hn::Set(tag, 1)));
  const auto move = hn::AndNot(begin, hn::And(block.second, hn::Sub(zero, begin)));
  const auto list = hn::Or(stay, hn::ShiftRight<1>(move));
  hn::Store(hn::AndNot(hn::And(block.first_bit(), last), block.first), tag, line);
  hn::Store(hn::AndNot(hn::And(block.second_bit(), last), list), tag, line + kRankedSlices);
  return static_cast<unsigned>(hn::CountTrue(tag, hn::MaskFromVec(last)));
}

/// Where the counts of one key begin.
HWY_INLINE RankedVector begin_in(const RankedBlock& block, const RankedShape& shape) noexcept {
  RankedSearch search;
  search.look(block, shape);
  // Through memory: g++ would take the vectors apart lane by lane, which is slower.
  asm("" : "+m"(search));
  return RankedVector{_mm256_setr_epi64x(
      static_cast<long long>(search.select(0)), static_cast<long long>(search.select(1)),
      static_cast<long long>(search.select(2)), static_cast<long long>(search.select(3)))};
}

/// Keys that are changed together. What a key needs takes long, one step waiting for the other, and
/// a core looks ahead at two or three such keys only. So each step is done for several keys.
inline constexpr std::size_t kRankedGroup = 8;

/// Are two of them in one block?
HWY_INLINE bool share_a_block(const std::uint64_t* places) noexcept {
  static_assert(kRankedGroup == 8);
  const auto load = [&](std::size_t i) HWY_ATTR {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(places + i)));
  };
  // The upper halves, in some order; and the same turned by 1 to 4: all pairs meet.
  const __m256i blocks = _mm256_castps_si256(_mm256_shuffle_ps(load(0), load(4), 0xDD));
  const auto turned = [&](int a, int b, int c, int d, int e, int f, int g, int h) HWY_ATTR {
    const __m256i order = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
    return _mm256_cmpeq_epi32(blocks, _mm256_permutevar8x32_epi32(blocks, order));
  };
  const __m256i equal = _mm256_or_si256(
      _mm256_or_si256(turned(1, 2, 3, 4, 5, 6, 7, 0), turned(2, 3, 4, 5, 6, 7, 0, 1)),
      _mm256_or_si256(turned(3, 4, 5, 6, 7, 0, 1, 2), turned(4, 5, 6, 7, 0, 1, 2, 3)));
  return _mm256_testz_si256(equal, equal) == 0;
}

/// Finds where the counts of a group's keys begin: for key i of it in begins[i]. Returns false if
/// the keys must be taken one by one: two share a block, or a block is closed.
HWY_INLINE bool begins_of_group(const std::uint64_t* words, const std::uint64_t* places,
                                const RankedShape& shape,
                                std::uint64_t (*begins)[kRankedSlices]) noexcept {
  if (HWY_UNLIKELY(share_a_block(places))) return false;
  RankedSearch searches[kRankedGroup];
  auto closed = hn::Zero(RankedTag());
  for (std::size_t i = 0; i < kRankedGroup; ++i) {
    const RankedBlock block(ranked_line(words, places[i]), places + i);
    searches[i].look(block, shape);
    closed = hn::Or(closed, block.second);
  }
  if (HWY_UNLIKELY((_mm256_movemask_pd(_mm256_castsi256_pd(closed.raw)) & 1) != 0)) return false;
  asm("" : "+m"(searches));
  for (std::size_t i = 0; i < kRankedGroup; ++i) {
    for (unsigned j = 0; j < kRankedSlices; ++j) begins[i][j] = searches[i].select(j);
  }
  return true;
}

/// Calls group(first) for each whole group of keys, and alone(i) for keys behind the last one; all
/// in order.
template <class Group, class Alone>
HWY_INLINE void for_each_group(const std::uint64_t* words, const std::uint64_t* places,
                               std::size_t n, const Fetch& fetch, Group group,
                               Alone alone) noexcept {
  const std::size_t whole = n / kRankedGroup * kRankedGroup;
  walk<kRankedGroup>(
      whole, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return ranked_line(words, places[i]); },
      Nothing(), group);
  for (std::size_t i = whole; i < n; ++i) alone(i);
}

/// Calls alone(i) for keys that are changed one by one, and together(i, begin) for the others; all
/// in order within a block.
template <class Alone, class Together>
HWY_INLINE void for_each_change(const std::uint64_t* words, const std::uint64_t* places,
                                std::size_t n, const Fetch& fetch, const RankedShape& shape,
                                Alone alone, Together together) noexcept {
  alignas(32) std::uint64_t begins[kRankedGroup][kRankedSlices];
  const auto group = [&](std::size_t first) HWY_ATTR {
    if (begins_of_group(words, places + first, shape, begins)) {
      asm("" : "+m"(begins));
      for (std::size_t i = 0; i < kRankedGroup; ++i) {
        together(first + i, hn::Load(RankedTag(), begins[i]));
      }
    } else {
      for (std::size_t i = first; i < first + kRankedGroup; ++i) alone(i);
    }
  };
  for_each_group(words, places, n, fetch, group, alone);
}

#else

/// A block and a key.
struct RankedBlock {
  HWY_INLINE bool holds() const noexcept { return ranked_holds(line, *place); }

  const std::uint64_t* line;
  const std::uint64_t* place;
};

template <class Alone>
HWY_INLINE void for_each_change(const std::uint64_t* words, const std::uint64_t* places,
                                std::size_t n, const Fetch& fetch, const RankedShape&, Alone alone,
                                Nothing) noexcept {
  for_each_ranked(words, places, n, fetch, alone);
}

#endif

inline void RankedTest(const Geometry&, const std::uint64_t* words, const std::uint64_t* places,
                       std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  answer_stretches<std::uint8_t>(
      words, places, n, fetch, answers,
      [&](std::size_t i, Spread, std::uint8_t* missing) HWY_ATTR {
        const auto lanes = RankedBlock{ranked_line(words, places[i]), places + i}.missing();
        *missing = static_cast<std::uint8_t>(_mm256_test_epi64_mask(lanes.raw, lanes.raw));
      },
      answers_of);
#else
  for_each_ranked(words, places, n, fetch, [&](std::size_t i) HWY_ATTR {
    answers[i] = RankedBlock{ranked_line(words, places[i]), places + i}.holds();
  });
#endif
}

inline void RankedLeast(const Geometry& geometry, const std::uint64_t* words,
                        const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                        std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  const auto alone = [&](std::size_t i) HWY_ATTR {
    const std::uint64_t* const line = ranked_line(words, places[i]);
    unsigned least = 0;
    if (RankedBlock{line, places + i}.holds()) {
      least = HWY_UNLIKELY(is_spilled(line)) ? least_of_spilled(geometry, words, places[i])
                                             : ranked_least<Select>(line, places[i], shape);
    }
    answers[i] = static_cast<std::uint8_t>(least);
  };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const auto group = [&](std::size_t first) HWY_ATTR {
    RankedSearch searches[kRankedGroup];
    unsigned held = 0;  // a bit for each key
    for (std::size_t i = 0; i < kRankedGroup; ++i) {
      const RankedBlock block(ranked_line(words, places[first + i]), places + first + i);
      searches[i].look(block, shape);
      held |= static_cast<unsigned>(block.holds()) << i;
    }
    asm("" : "+m"(searches));
    std::fill_n(answers + first, kRankedGroup, std::uint8_t{0});
    for (; held != 0; held &= held - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(held));
      const std::uint64_t* const line = ranked_line(words, places[first + i]);
      std::uint64_t begins[kRankedSlices];
      for (unsigned j = 0; j < kRankedSlices; ++j) begins[j] = searches[i].select(j);
      const unsigned least = HWY_UNLIKELY(is_spilled(line))
                                 ? least_of_spilled(geometry, words, places[first + i])
                                 : least_count(line, begins);
      answers[first + i] = static_cast<std::uint8_t>(least);
    }
  };
  for_each_group(words, places, n, fetch, group, alone);
#else
  for_each_ranked(words, places, n, fetch, alone);
#endif
}

/// Adds one key.
HWY_INLINE unsigned add_ranked(const Geometry& geometry, std::uint64_t* words, std::uint64_t place,
                               const RankedShape& shape) noexcept {
  std::uint64_t* const line = ranked_line(words, place);
  if (HWY_UNLIKELY(is_closed(line))) return add_to_closed(geometry, words, place);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const RankedBlock block(line, &place);
  return add_to_ranked(line, block, begin_in(block, shape));
#else
  return ranked_add<Select>(line, place, shape);
#endif
}
/// Takes one key away, if it is there.
HWY_INLINE unsigned take_ranked(const Geometry& geometry, std::uint64_t* words, std::uint64_t place,
                                const RankedShape& shape, bool& held) noexcept {
  std::uint64_t* const line = ranked_line(words, place);
  const RankedBlock block{line, &place};
  held = block.holds();
  if (!held) return 0;
  if (HWY_UNLIKELY(is_spilled(line))) return take_from_spilled(geometry, words, place);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return take_from_ranked(line, block, begin_in(block, shape), held);
#else
  return ranked_take<Select>(line, place, shape);
#endif
}

inline std::uint64_t RankedAdd(const Geometry& geometry, std::uint64_t* words,
                               const std::uint64_t* places, std::size_t n,
                               const Fetch& fetch) noexcept {
  const RankedShape shape(geometry);
  std::uint64_t filled = 0;
  const auto alone = [&](std::size_t i)
                         HWY_ATTR { filled += add_ranked(geometry, words, places[i], shape); };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  for_each_change(words, places, n, fetch, shape, alone,
                  [&](std::size_t i, RankedVector begin) HWY_ATTR {
                    std::uint64_t* const line = ranked_line(words, places[i]);
                    filled += add_to_ranked(line, RankedBlock(line, places + i), begin);
                  });
#else
  for_each_change(words, places, n, fetch, shape, alone, Nothing());
#endif
  return filled;
}

inline std::uint64_t RankedTakePresent(const Geometry& geometry, std::uint64_t* words,
                                       const Located& keys, const Fetch& fetch,
                                       std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  const std::uint64_t* const places = keys.positions;
  std::uint64_t emptied = 0;
  const auto alone = [&](std::size_t i) HWY_ATTR {
    bool held = false;
    emptied += take_ranked(geometry, words, places[i], shape, held);
    answers[i] = held;
  };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  for_each_change(words, places, keys.keys, fetch, shape, alone,
                  [&](std::size_t i, RankedVector begin) HWY_ATTR {
                    std::uint64_t* const line = ranked_line(words, places[i]);
                    bool held = false;
                    emptied += take_from_ranked(line, RankedBlock(line, places + i), begin, held);
                    answers[i] = held;
                  });
#else
  for_each_change(words, places, keys.keys, fetch, shape, alone, Nothing());
#endif
  return emptied;
}

// ---- blocks of two filters ----------------------------------------------------------------------

inline bool AddLists(const RankedShape& shape, std::uint64_t* into,
                     const std::uint64_t* from) noexcept {
  return add_ranked_lists<Select>(shape, into, from);
}
inline unsigned TooLargeInLists(const RankedShape& shape, const std::uint64_t* from,
                                const std::uint64_t* what) noexcept {
  return too_large_in_lists<Select>(shape, from, what);
}
inline void SubtractLists(const RankedShape& shape, std::uint64_t* from,
                          const std::uint64_t* what) noexcept {
  subtract_ranked_lists<Select>(shape, from, what);
}

// ---- a single key -------------------------------------------------------------------------------

HWY_INLINE bool holds_ranked_key(const Geometry& geometry, const std::uint64_t* words,
                                 std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  return RankedBlock{ranked_line(words, place), &place}.holds();
}
HWY_INLINE std::uint32_t add_ranked_key(const Geometry& geometry, std::uint64_t* words,
                                        std::uint64_t hash) noexcept {
  return add_ranked(geometry, words, detail::ranked_place(geometry, hash), RankedShape(geometry));
}
HWY_INLINE std::uint32_t take_ranked_key(const Geometry& geometry, std::uint64_t* words,
                                         std::uint64_t hash) noexcept {
  bool held = false;
  const unsigned emptied = take_ranked(geometry, words, detail::ranked_place(geometry, hash),
                                       RankedShape(geometry), held);
  return held ? emptied : OneKey::kNotThere;
}

/// All keys have a single line, so `take` is not needed.
inline constexpr ArrayKernels kRankedKernels = {RankedLocate, RankedTest,        RankedLeast,
                                                RankedAdd,    RankedTakePresent, nullptr};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
