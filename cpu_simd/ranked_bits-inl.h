// SPDX-License-Identifier: Apache-2.0
// Kernels of filters of bits in the ranked layout: the bitmaps alone. Included once per target.
#if defined(SCBF_RANKED_BITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_RANKED_BITS_INL
#undef SCBF_RANKED_BITS_INL
#else
#define SCBF_RANKED_BITS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/ranked-inl.h"
#include "cpu_simd/walk-inl.h"
#include "kit/shared_words.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Where a key's bits are in a filter of bits. A block need not begin with a word, or lie in one
/// cache line.
struct RankedBits {
  std::uint64_t per_slice, per_block;

  HWY_INLINE explicit RankedBits(const Geometry& geometry) noexcept
      : per_slice(geometry.positions()), per_block(geometry.cells_per_block()) {}

  HWY_INLINE std::uint64_t first_of(std::uint64_t place) const noexcept {
    return detail::block_of(place) * per_block;
  }
  HWY_INLINE std::uint64_t number(std::uint64_t place, unsigned slice) const noexcept {
    return first_of(place) + slice * per_slice + detail::position_of(place, slice);
  }
  HWY_INLINE bool has(const std::uint64_t* words, std::uint64_t place) const noexcept {
    std::uint64_t all = 1;
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      const std::uint64_t bit = number(place, j);
      all &= load_word(words + bit / 64) >> bit % 64;
    }
    return (all & 1) != 0;
  }
  /// Returns how many bits were 0.
  HWY_INLINE unsigned add(std::uint64_t* words, std::uint64_t place) const noexcept {
    unsigned filled = 0;
    for (unsigned j = 0; j < kRankedSlices; ++j) filled += set(words, number(place, j));
    return filled;
  }
  /// Returns whether the bit was 0.
  HWY_INLINE static unsigned set(std::uint64_t* words, std::uint64_t bit) noexcept {
    const std::uint64_t word = load_word(words + bit / 64), one = std::uint64_t{1} << bit % 64;
    store_word(words + bit / 64, word | one);
    return (word & one) == 0;
  }
  /// Calls visit(i) for keys 0 … n − 1, in order, `step` at a time; n is a multiple of `step`. Two
  /// lines are fetched for each key, or one twice: those in which its block begins and ends.
  template <std::size_t step, class Visit>
  HWY_INLINE void for_each(const std::uint64_t* words, const std::uint64_t* places, std::size_t n,
                           const Fetch& fetch, Visit visit) const noexcept {
    walk<step>(
        n, fetch, 2,
        [&](std::size_t i, std::uint32_t which)
            HWY_ATTR { return words + (first_of(places[i]) + which * (per_block - 1)) / 64; },
        Nothing(), visit);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

inline constexpr std::size_t kRankedLanes = hn::MaxLanes(Tag64());

/// The numbers of the bits of several keys: a vector for each slice.
struct RankedNumbers {
  hn::Vec<Tag64> of[kRankedSlices];

  HWY_INLINE RankedNumbers(const RankedBits& bits, const std::uint64_t* places) noexcept {
    const Tag64 tag;
    const auto keys = hn::LoadU(tag, places), byte = hn::Set(tag, 0xFF);
    const auto slice = hn::Set(tag, bits.per_slice);
    auto first = VectorOps::mul32(hn::ShiftRight<32>(keys), hn::Set(tag, bits.per_block));
    of[0] = hn::Add(first, hn::And(keys, byte));
    first = hn::Add(first, slice);
    of[1] = hn::Add(first, hn::And(hn::ShiftRight<8>(keys), byte));
    first = hn::Add(first, slice);
    of[2] = hn::Add(first, hn::And(hn::ShiftRight<16>(keys), byte));
    first = hn::Add(first, slice);
    of[3] = hn::Add(first, hn::And(hn::ShiftRight<24>(keys), byte));
  }
};
static_assert(kRankedSlices == 4);

#if HWY_TARGET <= HWY_AVX3

/// A block in one vector: its words of sixteen bits are chosen by the key's positions.
inline void BitRankedTest(const Geometry& geometry, const std::uint64_t* words,
                          const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                          std::uint8_t* answers) noexcept {
  const RankedBits bits(geometry);
  // A block begins at a byte, or in the middle of one. What lies behind the last block is not read.
  const __mmask64 of_block = (std::uint64_t{1} << (bits.per_block + 7) / 8) - 1;
  const auto size = static_cast<short>(bits.per_slice);
  const __m128i slices = _mm_setr_epi16(0, size, static_cast<short>(2 * size),
                                        static_cast<short>(3 * size), 0, 0, 0, 0);
  bits.for_each<1>(words, places, n, fetch, [&](std::size_t i) HWY_ATTR {
    const std::uint64_t first = bits.first_of(places[i]);
    const __m512i block =
        _mm512_maskz_loadu_epi8(of_block, reinterpret_cast<const std::uint8_t*>(words) + first / 8);
    const __m128i positions =
        _mm_add_epi16(_mm_add_epi16(_mm_cvtepu8_epi16(_mm_loadu_si32(places + i)), slices),
                      _mm_set1_epi16(static_cast<short>(first % 8)));
    const __m512i chosen =
        _mm512_permutexvar_epi16(_mm512_castsi128_si512(_mm_srli_epi16(positions, 4)), block);
    const __m128i in_word = _mm_and_si128(positions, _mm_set1_epi16(15));
    const __mmask8 set = _mm_test_epi16_mask(_mm512_castsi512_si128(chosen),
                                             _mm_sllv_epi16(_mm_set1_epi16(1), in_word));
    answers[i] = (~set & 15) == 0;
  });
}

#else

inline void BitRankedTest(const Geometry& geometry, const std::uint64_t* words,
                          const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                          std::uint8_t* answers) noexcept {
  const Tag64 tag;
  const RankedBits bits(geometry);
  const std::size_t whole = n / kRankedLanes * kRankedLanes;
  bits.for_each<kRankedLanes>(words, places, whole, fetch, [&](std::size_t i) HWY_ATTR {
    const RankedNumbers numbers(bits, places + i);
    auto all = hn::Set(tag, 1);
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      const auto word = gather(words, hn::ShiftRight<6>(numbers.of[j]));
      all = hn::And(all, hn::Shr(word, hn::And(numbers.of[j], hn::Set(tag, 63))));
    }
    store_bytes(all, answers + i);
  });
  for (std::size_t i = whole; i < n; ++i) answers[i] = bits.has(words, places[i]);
}

#endif

inline std::uint64_t BitRankedAdd(const Geometry& geometry, std::uint64_t* words,
                                  const std::uint64_t* places, std::size_t n,
                                  const Fetch& fetch) noexcept {
  const RankedBits bits(geometry);
  std::uint64_t filled = 0;
  const std::size_t whole = n / kRankedLanes * kRankedLanes;
  bits.for_each<kRankedLanes>(words, places, whole, fetch, [&](std::size_t i) HWY_ATTR {
    const RankedNumbers numbers(bits, places + i);
    alignas(64) std::uint64_t each[kRankedSlices][kRankedLanes];
    for (unsigned j = 0; j < kRankedSlices; ++j) hn::Store(numbers.of[j], Tag64(), each[j]);
    for (std::size_t key = 0; key < kRankedLanes; ++key) {
      for (unsigned j = 0; j < kRankedSlices; ++j) filled += RankedBits::set(words, each[j][key]);
    }
  });
  for (std::size_t i = whole; i < n; ++i) filled += bits.add(words, places[i]);
  return filled;
}

#else

inline void BitRankedTest(const Geometry& geometry, const std::uint64_t* words,
                          const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                          std::uint8_t* answers) noexcept {
  const RankedBits bits(geometry);
  bits.for_each<1>(words, places, n, fetch,
                   [&](std::size_t i) HWY_ATTR { answers[i] = bits.has(words, places[i]); });
}

inline std::uint64_t BitRankedAdd(const Geometry& geometry, std::uint64_t* words,
                                  const std::uint64_t* places, std::size_t n,
                                  const Fetch& fetch) noexcept {
  const RankedBits bits(geometry);
  std::uint64_t filled = 0;
  bits.for_each<1>(words, places, n, fetch,
                   [&](std::size_t i) HWY_ATTR { filled += bits.add(words, places[i]); });
  return filled;
}

#endif

inline std::uint64_t BitRankedAddNew(const Geometry& geometry, std::uint64_t* words,
                                     const std::uint64_t* places, std::size_t n, const Fetch& fetch,
                                     std::uint8_t* answers) noexcept {
  const RankedBits bits(geometry);
  std::uint64_t filled = 0;
  bits.for_each<1>(words, places, n, fetch, [&](std::size_t i) HWY_ATTR {
    const unsigned own = bits.add(words, places[i]);
    answers[i] |= own > 0;
    filled += own;
  });
  return filled;
}

// A single key.

HWY_INLINE bool holds_ranked_bits(const Geometry& geometry, const std::uint64_t* words,
                                  std::uint64_t hash) noexcept {
  return RankedBits(geometry).has(words, detail::ranked_place(geometry, hash));
}
HWY_INLINE unsigned count_ranked_bits(const Geometry& geometry, const std::uint64_t* words,
                                      std::uint64_t hash) noexcept {
  return holds_ranked_bits(geometry, words, hash);
}
HWY_INLINE std::uint32_t add_ranked_bits(const Geometry& geometry, std::uint64_t* words,
                                         std::uint64_t hash) noexcept {
  return RankedBits(geometry).add(words, detail::ranked_place(geometry, hash));
}

inline constexpr ArrayKernels kBitRankedKernels = {
    RankedLocate, BitRankedTest, nullptr, BitRankedAdd, BitRankedAddNew, nullptr, nullptr};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
