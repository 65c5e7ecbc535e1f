// SPDX-License-Identifier: Apache-2.0
// Kernels of the ranked layout. Included once per target.
#if defined(SCBF_RANKED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_RANKED_INL
#undef SCBF_RANKED_INL
#else
#define SCBF_RANKED_INL
#endif

#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cstdint>

#include "cpu_simd/block-inl.h"
#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/ranked_groups-inl.h"
#include "cpu_simd/slice-inl.h"
#include "cpu_simd/walk-inl.h"
#include "kit/ranked_counts.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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

inline void RankedTest(const Geometry&, const std::uint64_t* words, const std::uint64_t* places,
                       std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  constexpr std::size_t kUnrolled = 4;  // docs/performance_notes.md, "The direct path"
  answer_stretches<std::uint8_t, Place, kUnrolled>(
      words, places, n, fetch, answers,
      [&](std::size_t i, Place, std::uint8_t* missing) HWY_ATTR {
        const auto lanes = RankedBlocks<1>(words, places + i).missing();
        *missing = static_cast<std::uint8_t>(_mm256_test_epi64_mask(lanes.raw, lanes.raw));
      },
      answers_of);
#else
  for_each_ranked(words, places, n, fetch,
                  [&](std::size_t i) HWY_ATTR { answers[i] = holds_ranked(words, places + i); });
#endif
}

/// The smallest count of a key that is there.
template <class Select>
HWY_INLINE unsigned least_of_held(const Geometry& geometry, const std::uint64_t* words,
                                  std::uint64_t place, const RankedShape& shape) noexcept {
  const std::uint64_t* const line = ranked_line(words, place);
  return HWY_UNLIKELY(is_spilled(line)) ? least_of_spilled(geometry, words, place)
                                        : ranked_least<Select>(line, place, shape);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

template <class Select>
void RankedLeast(const Geometry& geometry, const std::uint64_t* words, const std::uint64_t* places,
                 std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  // Counts are looked for in keys that are there.
  RankedTest(geometry, words, places, n, fetch, answers);
  std::array<std::uint64_t, kMostKeys> held;
  std::array<std::uint16_t, kMostKeys> index;
  static_assert(kMostKeys <= 1u << 16);
  std::size_t keys = 0;
  for (std::size_t i = 0; i < n; ++i) {
    held[keys] = places[i];
    index[keys] = static_cast<std::uint16_t>(i);
    keys += answers[i];
  }
  // Most have a slice that counts them once, which is the answer that they have already.
  const auto group = [&](std::size_t first, std::size_t later) HWY_ATTR
      __attribute__((always_inline)) {
    unsigned others = 0;  // a bit for each key
    alignas(64) std::uint64_t begins[kSearchedTogether][kRankedSlices];
    search_group<Select, kSearchedTogether>(
        words, held.data(), first, later, shape, [](const auto&) { return false; },
        [&](std::size_t i, const RankedPack& pack, RankedPack::Vector begin) HWY_ATTR {
          // In a block that has spilled, none does: only the last bit of one list is set, and no
          // count begins there.
          const unsigned once = have_any<kRankedPack>(hn::And(pack.second, begin));
          others |= (once ^ ((1u << kRankedPack) - 1)) << (i - first);
          hn::Store(begin, RankedPack::Tag(), begins[i - first]);
        });
    for (; others != 0; others &= others - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(others));
      const std::uint64_t place = held[first + i];
      const std::uint64_t* const line = ranked_line(words, place);
      answers[index[first + i]] =
          static_cast<std::uint8_t>(is_spilled(line) ? least_of_spilled(geometry, words, place)
                                                     : least_count(line, begins[i]));
    }
  };
  const auto alone = [&](std::size_t i) HWY_ATTR {
    answers[index[i]] =
        static_cast<std::uint8_t>(least_of_held<Select>(geometry, words, held[i], shape));
  };
  // The lines were fetched for the test; by now some are no nearer than L2.
  const Fetch again = {.distance = fetch.distance > 0 ? kNearDistance : 0};
  for_each_group<kSearchedTogether>(words, held.data(), keys, again, group, alone);
}

#else

template <class Select>
void RankedLeast(const Geometry& geometry, const std::uint64_t* words, const std::uint64_t* places,
                 std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  for_each_ranked(words, places, n, fetch, [&](std::size_t i) HWY_ATTR {
    answers[i] =
        holds_ranked(words, places + i)
            ? static_cast<std::uint8_t>(least_of_held<Select>(geometry, words, places[i], shape))
            : std::uint8_t{0};
  });
}

#endif

/// Adds one key.
template <class Select>
HWY_INLINE unsigned add_ranked(const Geometry& geometry, std::uint64_t* words, std::uint64_t place,
                               const RankedShape& shape) noexcept {
  std::uint64_t* const line = ranked_line(words, place);
  if (HWY_UNLIKELY(is_closed(line))) return add_to_closed(geometry, words, place);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const RankedBlocks<1> block(words, &place);
  return add_to_ranked(words, &place, block, begin_in<Select>(block, shape));
#else
  return ranked_add<Select>(line, place, shape);
#endif
}
/// Takes one key away, if it is there.
template <class Select>
HWY_INLINE unsigned take_ranked(const Geometry& geometry, std::uint64_t* words, std::uint64_t place,
                                const RankedShape& shape, bool& held) noexcept {
  std::uint64_t* const line = ranked_line(words, place);
  held = holds_ranked(words, &place);
  if (!held) return 0;
  if (HWY_UNLIKELY(is_spilled(line))) return take_from_spilled(geometry, words, place);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const RankedBlocks<1> block(words, &place);
  return take_from_ranked(words, &place, block, begin_in<Select>(block, shape), 1);
#else
  return ranked_take<Select>(line, place, shape);
#endif
}

template <class Select>
std::uint64_t RankedAdd(const Geometry& geometry, std::uint64_t* words, const std::uint64_t* places,
                        std::size_t n, const Fetch& fetch) noexcept {
  const RankedShape shape(geometry);
  std::uint64_t filled = 0;
  const auto alone = [&](std::size_t i) HWY_ATTR {
    filled += add_ranked<Select>(geometry, words, places[i], shape);
  };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  for_each_change<Select>(
      words, places, n, fetch, shape, alone,
      [&](std::size_t i, const RankedPack& pack, RankedPack::Vector begin)
          HWY_ATTR { filled += add_to_ranked(words, places + i, pack, begin); });
#else
  for_each_change<Select>(words, places, n, fetch, shape, alone, Nothing());
#endif
  return filled;
}

template <class Select>
std::uint64_t RankedAddNew(const Geometry& geometry, std::uint64_t* words,
                           const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                           std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  std::uint64_t filled = 0;
  const auto alone = [&](std::size_t i) HWY_ATTR {
    answers[i] |= !holds_ranked(words, places + i);
    if (answers[i] != 0) filled += add_ranked<Select>(geometry, words, places[i], shape);
  };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  for_each_change<Select>(
      words, places, n, fetch, shape, alone,
      [&](std::size_t i, const RankedPack& pack, RankedPack::Vector begin) HWY_ATTR {
        unsigned is_new = held_in(pack) ^ ((1u << kRankedPack) - 1);
        for (std::size_t key = 0; key < kRankedPack; ++key) {
          is_new |= unsigned{answers[i + key]} << key;
        }
        filled += add_to_ranked(words, places + i, pack, begin_of<kRankedPack>(is_new, begin));
        for (std::size_t key = 0; key < kRankedPack; ++key) {
          answers[i + key] = is_new >> key & 1;
        }
      });
#else
  for_each_change<Select>(words, places, n, fetch, shape, alone, Nothing());
#endif
  return filled;
}

template <class Select>
std::uint64_t RankedTakePresent(const Geometry& geometry, std::uint64_t* words, const Located& keys,
                                const Fetch& fetch, std::uint8_t* answers) noexcept {
  const RankedShape shape(geometry);
  const std::uint64_t* const places = keys.positions;
  std::uint64_t emptied = 0;
  const auto alone = [&](std::size_t i) HWY_ATTR {
    bool held = false;
    emptied += take_ranked<Select>(geometry, words, places[i], shape, held);
    answers[i] = held;
  };
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  for_each_change<Select>(words, places, keys.keys, fetch, shape, alone,
                          [&](std::size_t i, const RankedPack& pack, RankedPack::Vector begin)
                              HWY_ATTR {
                                const unsigned held = held_in(pack);
                                emptied += take_from_ranked(words, places + i, pack, begin, held);
                                for (std::size_t key = 0; key < kRankedPack; ++key) {
                                  answers[i + key] = held >> key & 1;
                                }
                              });
#else
  for_each_change<Select>(words, places, keys.keys, fetch, shape, alone, Nothing());
#endif
  return emptied;
}

// ---- blocks of two filters ----------------------------------------------------------------------

template <class Select>
bool AddLists(const RankedShape& shape, std::uint64_t* into, const std::uint64_t* from) noexcept {
  return add_ranked_lists<Select>(shape, into, from);
}
template <class Select>
unsigned TooLargeInLists(const RankedShape& shape, const std::uint64_t* from,
                         const std::uint64_t* what) noexcept {
  return too_large_in_lists<Select>(shape, from, what);
}
template <class Select>
void SubtractLists(const RankedShape& shape, std::uint64_t* from,
                   const std::uint64_t* what) noexcept {
  subtract_ranked_lists<Select>(shape, from, what);
}

// ---- a single key -------------------------------------------------------------------------------

HWY_INLINE bool holds_ranked_key(const Geometry& geometry, const std::uint64_t* words,
                                 std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(geometry, hash);
  return holds_ranked(words, &place);
}
template <class Select>
HWY_INLINE std::uint32_t add_ranked_key(const Geometry& geometry, std::uint64_t* words,
                                        std::uint64_t hash) noexcept {
  return add_ranked<Select>(geometry, words, detail::ranked_place(geometry, hash),
                            RankedShape(geometry));
}
template <class Select>
HWY_INLINE std::uint32_t take_ranked_key(const Geometry& geometry, std::uint64_t* words,
                                         std::uint64_t hash) noexcept {
  bool held = false;
  const unsigned emptied = take_ranked<Select>(
      geometry, words, detail::ranked_place(geometry, hash), RankedShape(geometry), held);
  return held ? emptied : OneKey::kNotThere;
}

/// Each key has a single line, so `take` is not needed.
template <class Select>
inline constexpr ArrayKernels kRankedKernels = {RankedLocate,
                                                RankedTest,
                                                RankedLeast<Select>,
                                                RankedAdd<Select>,
                                                RankedAddNew<Select>,
                                                RankedTakePresent<Select>,
                                                nullptr};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
