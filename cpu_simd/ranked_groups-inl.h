// SPDX-License-Identifier: Apache-2.0
// Blocks of the ranked layout: a key's bits, where its counts begin, and several keys searched, or
// changed, together. Included once per target.
//
// A lookup needs the bitmaps alone: two loads, variable shifts that turn the key's four positions
// into bits, one comparison. A change finds the key's counts by rank and select, which machines do
// on words; the rest is done for the four slices together. Where vectors cannot be shifted by
// different distances, each slice is worked on by itself (ranked_block.hpp).
#if defined(SCBF_RANKED_GROUPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_RANKED_GROUPS_INL
#undef SCBF_RANKED_GROUPS_INL
#else
#define SCBF_RANKED_GROUPS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/walk-inl.h"
#include "kit/ranked_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
using FastSelect = SelectByDeposit;
#else
using FastSelect = SelectByBytes;
#endif

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

/// An object on the stack, by an address of its own rather than relative to the stack pointer. Zen
/// 5 takes up to twice as long where both arrays of search_group are addressed relative to it.
/// (From such addresses it predicts which store a load reads from, and seems to confuse the two.)
template <class T>
HWY_INLINE T& by_address(T& on_stack) noexcept {
  T* address = &on_stack;
  asm("" : "+r"(address));
  return *address;
}

/// The blocks of some keys: a lane for each slice of each.
template <std::size_t keys>
struct RankedBlocks {
  using Tag = hn::FixedTag<std::uint64_t, keys * kRankedSlices>;
  using Vector = hn::Vec<Tag>;

  RankedBlocks() = default;
  /// The places by their address: a load that spreads bytes is faster than a move from a register.
  HWY_INLINE RankedBlocks(const std::uint64_t* words, const std::uint64_t* places) noexcept
      : first(load(words, places)),
        second(load(words + kRankedSlices, places)),
        positions(positions_at(places)) {}

  // The bit of the key's position is in one of the two. (On these machines, shifting by 64 or more,
  // and so by a negative number, gives 0.)
  HWY_INLINE Vector first_bit() const noexcept { return hn::Shl(hn::Set(Tag(), 1), positions); }
  HWY_INLINE Vector second_bit() const noexcept {
    return hn::Shl(hn::Set(Tag(), 1), hn::Sub(positions, hn::Set(Tag(), 64)));
  }
  /// Lanes that are not 0: the position is not in use.
  HWY_INLINE Vector missing() const noexcept {
    return hn::Or(hn::AndNot(first, first_bit()), hn::AndNot(second, second_bit()));
  }

  HWY_INLINE static Vector load(const std::uint64_t* words, const std::uint64_t* places) noexcept {
    if constexpr (keys == 1) {
      return hn::Load(Tag(), ranked_line(words, places[0]));
    } else {
      const hn::Half<Tag> half;
      return hn::Combine(Tag(), hn::Load(half, ranked_line(words, places[1])),
                         hn::Load(half, ranked_line(words, places[0])));
    }
  }
  /// Writes the blocks. (Their addresses are computed first: for all g++ knows, a block could
  /// overlap the places.)
  HWY_INLINE static void store(Vector first, Vector second, std::uint64_t* words,
                               const std::uint64_t* places) noexcept {
    std::uint64_t* const line = ranked_line(words, places[0]);
    if constexpr (keys == 1) {
      hn::Store(first, Tag(), line);
      hn::Store(second, Tag(), line + kRankedSlices);
    } else {
      const hn::Half<Tag> half;
      std::uint64_t* const other = ranked_line(words, places[1]);
      hn::Store(hn::LowerHalf(half, first), half, line);
      hn::Store(hn::LowerHalf(half, second), half, line + kRankedSlices);
      hn::Store(hn::UpperHalf(half, first), half, other);
      hn::Store(hn::UpperHalf(half, second), half, other + kRankedSlices);
    }
  }
  HWY_INLINE static Vector positions_at(const std::uint64_t* places) noexcept {
    if constexpr (keys == 1) {
      return Vector{_mm256_cvtepu8_epi64(_mm_loadu_si32(places))};
    }
#if HWY_TARGET <= HWY_AVX3
    else {
      const auto pair =
          _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(places)));
      const auto bytes = _mm512_setr_epi64(0, 1, 2, 3, 8, 9, 10, 11);  // those of the positions
      constexpr __mmask64 kLowest = 0x0101'0101'0101'0101;             // of each lane
      return Vector{_mm512_maskz_shuffle_epi8(kLowest, pair, bytes)};
    }
#endif
  }

  Vector first, second, positions;
};

/// Which of the keys have a lane that is not 0: a bit for each.
template <std::size_t keys, class Vector = typename RankedBlocks<keys>::Vector>
HWY_INLINE unsigned have_any(Vector lanes) noexcept {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (keys == 2) {
    const unsigned which = _mm512_test_epi64_mask(lanes.raw, lanes.raw);
    return ((which & 15) != 0 ? 1u : 0u) | (which > 15 ? 2u : 0u);
  }
#endif
  const typename RankedBlocks<keys>::Tag tag;
  return !hn::AllTrue(tag, hn::Eq(lanes, hn::Zero(tag)));
}
/// Which of the keys are held: a bit for each whose positions are all in use.
template <std::size_t keys>
HWY_INLINE unsigned held_in(const RankedBlocks<keys>& blocks) noexcept {
  return have_any<keys>(blocks.missing()) ^ ((1u << keys) - 1);
}

/// From blocks to where the counts of their keys begin. Holds, for each slice, the positions in use
/// before the key's own, and the places in the list where counts begin, or would.
template <std::size_t keys>
struct RankedSearch {
  static constexpr std::size_t kLanes = keys * kRankedSlices;

  HWY_INLINE void look(const RankedBlocks<keys>& blocks, const RankedShape& shape) noexcept {
    const typename RankedBlocks<keys>::Tag tag;
    const hn::Repartition<std::uint16_t, decltype(tag)> tag16;
    const auto ones = hn::Set(tag, ~std::uint64_t{0});
    const auto from = hn::BitCast(tag, hn::SaturatedSub(hn::BitCast(tag16, blocks.positions),
                                                        hn::BitCast(tag16, hn::Set(tag, 64))));
    const auto in_first = hn::AndNot(hn::Shl(ones, blocks.positions), blocks.first);
    const auto in_second = hn::AndNot(hn::Shl(ones, from), blocks.second);
#if HWY_TARGET <= HWY_AVX3_DL
    const auto rank = hn::Add(hn::PopulationCount(in_first), hn::PopulationCount(in_second));
    hn::Store(hn::Shl(hn::Set(tag, 1), rank), tag, number);
#else
    hn::Store(in_first, tag, before_first);
    hn::Store(in_second, tag, before_second);
#endif
    const auto moved =
        hn::And(hn::Add(blocks.second, blocks.second), hn::Set(tag, shape.list() << 1));
    hn::Store(hn::Or(moved, hn::Set(tag, shape.bitmap + 1)), tag, begins);
  }
  template <class Select>
  HWY_INLINE std::uint64_t select(std::size_t lane) const noexcept {
#if HWY_TARGET <= HWY_AVX3_DL
    return Select::deposit(number[lane], begins[lane]);
#else
    const unsigned rank =
        detail::bits_set(before_first[lane]) + detail::bits_set(before_second[lane]);
    return Select::select(begins[lane], rank);
#endif
  }

#if HWY_TARGET <= HWY_AVX3_DL
  alignas(64) std::uint64_t number[kLanes];  // of the place that is looked for, as a single bit
#else
  alignas(64) std::uint64_t before_first[kLanes];
  alignas(64) std::uint64_t before_second[kLanes];
#endif
  alignas(64) std::uint64_t begins[kLanes];
};

/// ranked_add, where the counts begin at `begin`.
template <std::size_t keys, class Vector = typename RankedBlocks<keys>::Vector>
HWY_INLINE unsigned add_to_ranked(std::uint64_t* words, const std::uint64_t* places,
                                  const RankedBlocks<keys>& blocks, Vector begin) noexcept {
  const typename RankedBlocks<keys>::Tag tag;
  const auto first_bit = blocks.first_bit(), second_bit = blocks.second_bit();
  const auto hit = hn::Or(hn::And(blocks.first, first_bit), hn::And(blocks.second, second_bit));
  const auto unused = hn::Eq(hit, hn::Zero(tag));
  const auto moved = hn::Add(blocks.second, hn::And(blocks.second, hn::Sub(hn::Zero(tag), begin)));
  const auto list = hn::Add(moved, hn::IfThenElseZero(unused, begin));
  blocks.store(hn::Or(blocks.first, first_bit), hn::Or(list, second_bit), words, places);
  return static_cast<unsigned>(hn::CountTrue(tag, unused));
}
/// Where counts begin, for the keys whose bits are in `which`; for others nowhere, so nothing
/// moves.
template <std::size_t keys, class Vector>
HWY_INLINE Vector begin_of(unsigned which, Vector begin) noexcept {
#if HWY_TARGET <= HWY_AVX3
  const unsigned lanes = (which & 1) * 15 | (which >> 1) * 240;
  if constexpr (keys == 2) {
    begin.raw = _mm512_maskz_mov_epi64(static_cast<__mmask8>(lanes), begin.raw);
  } else {
    begin.raw = _mm256_maskz_mov_epi64(static_cast<__mmask8>(lanes), begin.raw);
  }
  return begin;
#else
  return which != 0 ? begin : hn::Zero(typename RankedBlocks<keys>::Tag());
#endif
}
/// ranked_take from the blocks that hold their keys, as the bits of `held` say.
template <std::size_t keys, class Vector = typename RankedBlocks<keys>::Vector>
HWY_INLINE unsigned take_from_ranked(std::uint64_t* words, const std::uint64_t* places,
                                     const RankedBlocks<keys>& blocks, Vector begin,
                                     unsigned held) noexcept {
  const typename RankedBlocks<keys>::Tag tag;
  const auto zero = hn::Zero(tag);
  begin = begin_of<keys>(held, begin);
  const auto last = hn::AndNot(hn::VecFromMask(tag, hn::Eq(hn::And(blocks.second, begin), zero)),
                               hn::Set(tag, ~std::uint64_t{0}));
  const auto stay = hn::And(blocks.second, hn::Sub(begin, hn::Set(tag, 1)));
  const auto move = hn::AndNot(begin, hn::And(blocks.second, hn::Sub(zero, begin)));
  const auto list = hn::Or(stay, hn::ShiftRight<1>(move));
  blocks.store(hn::AndNot(hn::And(blocks.first_bit(), last), blocks.first),
               hn::AndNot(hn::And(blocks.second_bit(), last), list), words, places);
  return static_cast<unsigned>(hn::CountTrue(tag, hn::MaskFromVec(last)));
}

/// Where the counts of one key begin.
template <class Select>
HWY_INLINE RankedBlocks<1>::Vector begin_in(const RankedBlocks<1>& block,
                                            const RankedShape& shape) noexcept {
  RankedSearch<1> search;
  search.look(block, shape);
  // Through memory: g++ would take the vectors apart lane by lane, which is slower.
  asm("" : "+m"(search));
  return {_mm256_setr_epi64x(static_cast<long long>(search.select<Select>(0)),
                             static_cast<long long>(search.select<Select>(1)),
                             static_cast<long long>(search.select<Select>(2)),
                             static_cast<long long>(search.select<Select>(3)))};
}

/// Keys whose blocks are in one vector.
inline constexpr std::size_t kRankedPack = hn::MaxLanes(Tag64()) / kRankedSlices;
using RankedPack = RankedBlocks<kRankedPack>;
/// Keys that are changed, or counted, together. A key takes long, since each step waits for the one
/// before, and a core looks ahead at only two or three such keys. So each step is done for several
/// keys; where two keys share a vector, for twice as many.
inline constexpr std::size_t kRankedGroup = 8;
inline constexpr std::size_t kSearchedTogether = kRankedGroup * kRankedPack;

/// Are two of some keys in one block? Of sixteen keys, only 16 bits of each block's number are
/// compared, so the answer may, rarely, be a wrong yes.
template <std::size_t keys>
HWY_INLINE bool share_a_block(const std::uint64_t* places) noexcept {
  // Their blocks (the upper halves), in some order, and the same turned by 1 to keys / 2, so that
  // all pairs meet.
#if HWY_TARGET <= HWY_AVX3
  if constexpr (keys == 16) {
    // The lowest 16 bits of the blocks: to begin with in every other word.
    const __m512i all = _mm512_mask_mov_epi32(_mm512_srli_epi64(_mm512_loadu_si512(places), 32),
                                              0xAAAA, _mm512_loadu_si512(places + 8));
    const auto turned = [&](unsigned by, unsigned other) HWY_ATTR {
      alignas(64) static constexpr std::uint16_t kEven[32] = {
          0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
          0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
      const __m512i turn = _mm512_inserti64x4(_mm512_set1_epi16(static_cast<short>(2 * by)),
                                              _mm256_set1_epi16(static_cast<short>(2 * other)), 1);
      return _mm512_permutexvar_epi16(_mm512_add_epi16(_mm512_load_si512(kEven), turn), all);
    };
    const __m512i blocks = turned(0, 0);
    const auto differs = [&](unsigned by)
                             HWY_ATTR { return _mm512_xor_si512(blocks, turned(by, by + 1)); };
    const __m512i least = _mm512_min_epu16(_mm512_min_epu16(differs(1), differs(3)),
                                           _mm512_min_epu16(differs(5), differs(7)));
    return _mm512_testn_epi16_mask(least, least) != 0;
  } else {
    const __m512i all = _mm512_loadu_si512(places);
    const auto turned = [&](int by, int other) HWY_ATTR {
      const __m512i first = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
      const __m512i turn =
          _mm512_inserti64x4(_mm512_set1_epi32(2 * by), _mm256_set1_epi32(2 * other), 1);
      return _mm512_permutexvar_epi32(
          _mm512_and_si512(_mm512_add_epi32(first, turn), _mm512_set1_epi32(15)), all);
    };
    const __m512i blocks = turned(0, 0);
    return (_mm512_cmpeq_epi32_mask(blocks, turned(1, 2)) |
            _mm512_cmpeq_epi32_mask(blocks, turned(3, 4))) != 0;
  }
#else
  static_assert(keys == 8);
  const auto load = [&](std::size_t i) HWY_ATTR {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(places + i)));
  };
  const __m256i blocks = _mm256_castps_si256(_mm256_shuffle_ps(load(0), load(4), 0xDD));
  const auto turned = [&](int a, int b, int c, int d, int e, int f, int g, int h) HWY_ATTR {
    const __m256i order = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
    return _mm256_cmpeq_epi32(blocks, _mm256_permutevar8x32_epi32(blocks, order));
  };
  const __m256i equal = _mm256_or_si256(
      _mm256_or_si256(turned(1, 2, 3, 4, 5, 6, 7, 0), turned(2, 3, 4, 5, 6, 7, 0, 1)),
      _mm256_or_si256(turned(3, 4, 5, 6, 7, 0, 1, 2), turned(4, 5, 6, 7, 0, 1, 2, 3)));
  return _mm256_testz_si256(equal, equal) == 0;
#endif
}

/// Calls group(first) for each whole group of `keys` keys, and alone(i) for keys behind the last
/// one; all in order.
template <std::size_t keys, class Group, class Alone>
HWY_INLINE void for_each_group(const std::uint64_t* words, const std::uint64_t* places,
                               std::size_t n, const Fetch& fetch, Group group,
                               Alone alone) noexcept {
  const std::size_t whole = n / keys * keys;
  walk<keys>(
      whole, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return ranked_line(words, places[i]); },
      Nothing(), group);
  for (std::size_t i = whole; i < n; ++i) alone(i);
}

/// Is any block closed?
template <std::size_t packs>
HWY_INLINE bool any_is_closed(const RankedPack (&blocks)[packs]) noexcept {
  auto seconds = blocks[0].second;
#pragma GCC unroll 8
  for (std::size_t p = 1; p < packs; ++p) seconds = hn::Or(seconds, blocks[p].second);
#if HWY_TARGET <= HWY_AVX3
  return (_mm512_movepi64_mask(seconds.raw) & 0x11) != 0;
#else
  return (_mm256_movemask_pd(_mm256_castsi256_pd(seconds.raw)) & 1) != 0;
#endif
}

/// Finds where the counts of keys first … first + keys − 1 begin, and calls together(i, blocks,
/// begin) for those of a vector at a time. Before that calls stop(packs) with all blocks; if that
/// returns true, does nothing and returns false. Meanwhile fetches the blocks of the keys from
/// `later` on, unless that is 0 (walk).
template <class Select, std::size_t keys, class Stop, class Together>
HWY_INLINE bool search_group(const std::uint64_t* words, const std::uint64_t* places,
                             std::size_t first, std::size_t later, const RankedShape& shape,
                             Stop stop, Together together) noexcept {
  constexpr std::size_t kPacks = keys / kRankedPack;
  const RankedPack::Tag tag;
  RankedPack packs[kPacks];
  RankedSearch<kRankedPack> searches_on_stack[kPacks];
  auto& searches = by_address(searches_on_stack);
#pragma GCC unroll 8
  for (std::size_t p = 0; p < kPacks; ++p) {
    packs[p] = RankedPack(words, places + first + p * kRankedPack);
    searches[p].look(packs[p], shape);
    if (later != 0) hwy::Prefetch(ranked_line(words, places[later + p * kRankedPack]));
  }
  if (stop(packs)) [[unlikely]]
    return false;
  asm("" : "+m"(searches));
  alignas(64) std::uint64_t begins_on_stack[kPacks][kRankedPack * kRankedSlices];
  auto& begins = by_address(begins_on_stack);
#pragma GCC unroll 8
  for (std::size_t p = 0; p < kPacks; ++p) {
#pragma GCC unroll 8
    for (std::size_t lane = 0; lane < kRankedPack * kRankedSlices; ++lane) {
      begins[p][lane] = searches[p].template select<Select>(lane);
    }
    if (kRankedPack == 2 && later != 0) {
      hwy::Prefetch(ranked_line(words, places[later + p * kRankedPack + 1]));
    }
  }
  asm("" : "+m"(begins));
#pragma GCC unroll 8
  for (std::size_t p = 0; p < kPacks; ++p) {
    const std::size_t i = first + p * kRankedPack;
    if constexpr (kRankedPack == 1) packs[p] = RankedPack(words, places + i);  // few registers
    together(i, packs[p], hn::Load(tag, begins[p]));
  }
  return true;
}

/// search_group for keys that are changed. If two share a block, or a block is closed, does nothing
/// and returns false.
template <class Select, std::size_t keys, class Together>
HWY_INLINE bool change_group(const std::uint64_t* words, const std::uint64_t* places,
                             std::size_t first, std::size_t later, const RankedShape& shape,
                             Together together) noexcept {
  if (HWY_UNLIKELY(share_a_block<keys>(places + first))) return false;
  return search_group<Select, keys>(
      words, places, first, later, shape,
      [](const auto& packs) HWY_ATTR { return any_is_closed(packs); }, together);
}

/// Calls alone(i) for keys that are changed one by one, and together(i, blocks, begin) for the
/// others, those of a vector at a time. All in order within a block.
template <class Select, class Alone, class Together>
HWY_INLINE void for_each_change(const std::uint64_t* words, const std::uint64_t* places,
                                std::size_t n, const Fetch& fetch, const RankedShape& shape,
                                Alone alone, Together together) noexcept {
  // (Inlined; otherwise the constants are made again for each group.)
  const auto group = [&](std::size_t first, std::size_t later) HWY_ATTR
      __attribute__((always_inline)) {
    constexpr std::size_t kAll = kSearchedTogether;
    if (change_group<Select, kAll>(words, places, first, later, shape, together)) [[likely]]
      return;
    for (std::size_t i = first; i < first + kAll; i += kRankedGroup) {
      const std::size_t later_here = later != 0 ? later + (i - first) : 0;
      if (kAll > kRankedGroup &&
          change_group<Select, kRankedGroup>(words, places, i, later_here, shape, together)) {
        continue;
      }
      for (std::size_t j = i; j < i + kRankedGroup; ++j) alone(j);
    }
  };
  for_each_group<kSearchedTogether>(words, places, n, fetch, group, alone);
}

HWY_INLINE bool holds_ranked(const std::uint64_t* words, const std::uint64_t* place) noexcept {
  return held_in(RankedBlocks<1>(words, place)) != 0;
}

#else

HWY_INLINE bool holds_ranked(const std::uint64_t* words, const std::uint64_t* place) noexcept {
  return ranked_holds(ranked_line(words, *place), *place);
}

template <class Select, class Alone>
HWY_INLINE void for_each_change(const std::uint64_t* words, const std::uint64_t* places,
                                std::size_t n, const Fetch& fetch, const RankedShape&, Alone alone,
                                Nothing) noexcept {
  for_each_ranked(words, places, n, fetch, alone);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
