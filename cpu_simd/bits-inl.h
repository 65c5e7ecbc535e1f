// SPDX-License-Identifier: Apache-2.0
// Kernels of `split_block` and `split` for filters of bits. Included once per target.
//
// A block is 128 bits: eight lanes of sixteen, one for each slice. The nibbles in the lower half of
// a key's place choose one bit in each lane. AVX-512 can shift each lane of sixteen bits by a
// number of its own: each nibble is brought to its lane, and a one is shifted by it. Other targets
// take the bit from a table: one byte shuffle brings the nibble to both bytes of its lane, another
// looks the bit up, by the nibble for the lower byte and by the nibble minus eight for the upper
// one. The key is held unless the block lacks one of its bits. With vectors of 512 bits, four keys
// share every step but the loads of their blocks.
#if defined(SCBF_BITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_BITS_INL
#undef SCBF_BITS_INL
#else
#define SCBF_BITS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu_simd/block-inl.h"
#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/slice-inl.h"
#include "cpu_simd/walk-inl.h"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Words of a block of bits.
inline constexpr std::size_t kBitBlockWords = 2;

template <class Word>
HWY_INLINE Word* bit_block_of(Word* words, std::uint64_t place) noexcept {
  return words + detail::block_of(place) * kBitBlockWords;
}

#if HWY_TARGET == HWY_SCALAR

/// The bits of a key in its block, as two words.
struct KeyBits {
  std::uint64_t word[kBitBlockWords] = {};
};
HWY_INLINE KeyBits key_bits(std::uint64_t place) noexcept {
  return {{detail::block_mask(place, 0), detail::block_mask(place, 1)}};
}
HWY_INLINE bool block_has(const std::uint64_t* block, std::uint64_t place) noexcept {
  const KeyBits bits = key_bits(place);
  return ((bits.word[0] & ~block[0]) | (bits.word[1] & ~block[1])) == 0;
}
/// Counts the bits that were 0.
struct BitTally {
  HWY_INLINE void add(std::uint64_t* block, std::uint64_t place) noexcept {
    const KeyBits bits = key_bits(place);
    for (std::size_t w = 0; w < kBitBlockWords; ++w) {
      sum += static_cast<unsigned>(__builtin_popcountll(bits.word[w] & ~block[w]));
      block[w] |= bits.word[w];
    }
  }
  std::uint64_t total() const noexcept { return sum; }
  std::uint64_t sum = 0;
};

#else

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

/// Nibble i of a place, and above it other bits, in lane i. The place is in both words.
template <class V>
HWY_INLINE V nibbles_in_lanes(V places) noexcept {
  const hn::DFromV<V> tag;
  const hn::Repartition<std::uint8_t, decltype(tag)> tag8;
#if HWY_TARGET <= HWY_AVX3_DL
  // For each byte, where in its word the eight bits begin.
  alignas(16) static constexpr std::uint8_t kFrom[16] = {0,  0, 4,  0, 8,  0, 12, 0,
                                                         16, 0, 20, 0, 24, 0, 28, 0};
  const auto from = hn::LoadDup128(tag8, kFrom);
  if constexpr (sizeof(V) == 64) {
    return V{_mm512_multishift_epi64_epi8(from.raw, places.raw)};
  } else {
    return V{_mm_multishift_epi64_epi8(from.raw, places.raw)};
  }
#else
  const hn::Repartition<std::uint16_t, decltype(tag)> tag16;
  alignas(16) static constexpr std::uint8_t kBytes[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                          2, 2, 2, 2, 3, 3, 3, 3};
  alignas(16) static constexpr std::uint16_t kOdd[8] = {0, 4, 0, 4, 0, 4, 0, 4};
  const auto bytes = hn::TableLookupBytes(hn::BitCast(tag8, places), hn::LoadDup128(tag8, kBytes));
  return hn::BitCast(tag, hn::Shr(hn::BitCast(tag16, bytes), hn::LoadDup128(tag16, kOdd)));
#endif
}

/// The bits of keys whose places are in both words of each 128-bit block of a vector.
template <class V>
HWY_INLINE V bits_of_places(V places) noexcept {
  const hn::DFromV<V> tag;
  const hn::Repartition<std::uint16_t, decltype(tag)> tag16;
  const auto nibbles =
      hn::And(hn::BitCast(tag16, nibbles_in_lanes(places)), hn::Set(tag16, kCountersPerWord - 1));
  return hn::BitCast(tag, hn::Shl(hn::Set(tag16, 1), nibbles));
}

#else

template <class V>
HWY_INLINE V bits_of_places(V places) noexcept {
  const hn::DFromV<V> tag;
  const hn::Repartition<std::uint8_t, decltype(tag)> tag8;
  // A byte for each nibble: those of even lanes in the lower half, those of odd lanes in the upper.
  const auto low = hn::Set(tag, 0x0F0F'0F0Fu);
  const auto odd = hn::And(hn::ShiftRight<4>(places), low);
  const auto nibbles = hn::Or(hn::And(places, low), hn::ShiftLeft<32>(odd));
  alignas(16) static constexpr std::uint8_t kLanes[16] = {0, 0, 4, 4, 1, 1, 5, 5,
                                                          2, 2, 6, 6, 3, 3, 7, 7};
  alignas(16) static constexpr std::uint8_t kUpper[16] = {0, 8, 0, 8, 0, 8, 0, 8,
                                                          0, 8, 0, 8, 0, 8, 0, 8};
  alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto lanes = hn::TableLookupBytes(hn::BitCast(tag8, nibbles), hn::LoadDup128(tag8, kLanes));
  return hn::BitCast(tag, hn::TableLookupBytes(hn::LoadDup128(tag8, kBit),
                                               hn::Xor(lanes, hn::LoadDup128(tag8, kUpper))));
}

#endif

using BitTag = hn::FixedTag<std::uint64_t, kBitBlockWords>;
using BitVector = hn::Vec<BitTag>;

/// The bits of a key in its block.
HWY_INLINE BitVector key_bits(std::uint64_t place) noexcept {
  return bits_of_places(hn::Set(BitTag(), place));
}
HWY_INLINE bool block_has(const std::uint64_t* block, std::uint64_t place) noexcept {
  const BitTag tag;
  const auto missing = hn::AndNot(hn::Load(tag, block), key_bits(place));
  return hn::AllTrue(tag, hn::Eq(missing, hn::Zero(tag)));
}
/// Counts the bits that were 0, for at most kMostKeys keys.
struct BitTally {
  using Tag16 = hn::Repartition<std::uint16_t, BitTag>;

  HWY_INLINE BitTally() noexcept : lanes(hn::Zero(Tag16())) {}
  HWY_INLINE void add(std::uint64_t* block, std::uint64_t place) noexcept {
    add(block, key_bits(place));
  }
  HWY_INLINE void add(std::uint64_t* block, BitVector bits) noexcept {
    const BitTag tag;
    const auto before = hn::Load(tag, block);
    hn::Store(hn::Or(before, bits), tag, block);
    const auto lacks = hn::Eq(hn::BitCast(Tag16(), hn::And(before, bits)), hn::Zero(Tag16()));
    lanes = hn::Sub(lanes, hn::VecFromMask(Tag16(), lacks));
  }
  HWY_INLINE std::uint64_t total() const noexcept {
    alignas(16) std::uint16_t each[kWordsPerBlock];
    hn::Store(lanes, Tag16(), each);
    std::uint64_t sum = 0;
    for (const std::uint16_t one : each) sum += one;
    return sum;
  }
  hn::Vec<Tag16> lanes;
};
static_assert(kMostKeys <= 0xFFFF);

#endif  // HWY_TARGET == HWY_SCALAR

/// Calls visit(i) for keys 0 … n − 1, in order, `step` at a time; n is a multiple of `step`.
template <std::size_t step, class Visit>
HWY_INLINE void for_each_bit_block(const std::uint64_t* words, const std::uint64_t* positions,
                                   std::size_t n, const Fetch& fetch, Visit visit) noexcept {
  walk<step>(
      n, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return bit_block_of(words, positions[i]); },
      Nothing(), visit);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

inline constexpr std::size_t kKeysAtOnce = 8;

/// The bits of eight keys, four to a vector.
struct BitsOfEight {
  hn::Vec<Tag64> of[2];

  HWY_INLINE explicit BitsOfEight(const std::uint64_t* places) noexcept {
    const Tag64 tag;
    alignas(64) static constexpr std::uint64_t kTwice[2][kKeysAtOnce] = {{0, 0, 1, 1, 2, 2, 3, 3},
                                                                         {4, 4, 5, 5, 6, 6, 7, 7}};
    const auto all = hn::LoadU(tag, places);
    for (std::size_t half = 0; half < 2; ++half) {
      of[half] = bits_of_places(hn::TableLookupLanes(all, hn::SetTableIndices(tag, kTwice[half])));
    }
  }
};

/// Do the blocks of four keys lack some of their bits? Two answers for each key: one for each word.
HWY_INLINE unsigned lacks(const std::uint64_t* words, const std::uint64_t* places,
                          hn::Vec<Tag64> bits) noexcept {
  const auto block = [&](std::size_t i) HWY_ATTR {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bit_block_of(words, places[i])));
  };
  __m512i blocks = _mm512_castsi128_si512(block(0));
  blocks = _mm512_inserti64x2(blocks, block(1), 1);
  blocks = _mm512_inserti64x2(blocks, block(2), 2);
  blocks = _mm512_inserti64x2(blocks, block(3), 3);
  const __m512i missing = _mm512_andnot_si512(blocks, bits.raw);
  return _mm512_test_epi64_mask(missing, missing);
}

/// Eight bytes of 1, but 0 for keys that lack bits, two of `lacking` for each.
HWY_INLINE void store_answers(unsigned lacking, std::uint8_t* answers) noexcept {
  const __m128i both = _mm_movm_epi8(static_cast<__mmask16>(lacking));
  const __mmask8 present = _mm_cmpeq_epi16_mask(both, _mm_setzero_si128());
  _mm_storel_epi64(reinterpret_cast<__m128i*>(answers), _mm_maskz_set1_epi8(present, 1));
}

inline void BitBlockTest(const Geometry&, const std::uint64_t* words,
                         const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                         std::uint8_t* answers) noexcept {
  const std::size_t whole = n / kKeysAtOnce * kKeysAtOnce;
  for_each_bit_block<kKeysAtOnce>(words, positions, whole, fetch, [&](std::size_t i) HWY_ATTR {
    const BitsOfEight bits(positions + i);
    const unsigned low = lacks(words, positions + i, bits.of[0]);
    const unsigned high = lacks(words, positions + i + 4, bits.of[1]);
    store_answers(low | high << 8, answers + i);
  });
  for (std::size_t i = whole; i < n; ++i) {
    answers[i] = block_has(bit_block_of(words, positions[i]), positions[i]);
  }
}

inline std::uint64_t BitBlockAdd(const Geometry&, std::uint64_t* words,
                                 const std::uint64_t* positions, std::size_t n,
                                 const Fetch& fetch) noexcept {
  BitTally filled;
  const std::size_t whole = n / kKeysAtOnce * kKeysAtOnce;
  for_each_bit_block<kKeysAtOnce>(words, positions, whole, fetch, [&](std::size_t i) HWY_ATTR {
    const BitsOfEight bits(positions + i);
    alignas(64) std::uint64_t each[kKeysAtOnce * kBitBlockWords];
    hn::Store(bits.of[0], Tag64(), each);
    hn::Store(bits.of[1], Tag64(), each + kKeysAtOnce);
    for (std::size_t j = 0; j < kKeysAtOnce; ++j) {
      filled.add(bit_block_of(words, positions[i + j]),
                 hn::Load(BitTag(), each + j * kBitBlockWords));
    }
  });
  for (std::size_t i = whole; i < n; ++i) {
    filled.add(bit_block_of(words, positions[i]), positions[i]);
  }
  return filled.total();
}

#else

inline void BitBlockTest(const Geometry&, const std::uint64_t* words,
                         const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                         std::uint8_t* answers) noexcept {
  for_each_bit_block<1>(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    answers[i] = block_has(bit_block_of(words, positions[i]), positions[i]);
  });
}

inline std::uint64_t BitBlockAdd(const Geometry&, std::uint64_t* words,
                                 const std::uint64_t* positions, std::size_t n,
                                 const Fetch& fetch) noexcept {
  BitTally filled;
  for_each_bit_block<1>(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    filled.add(bit_block_of(words, positions[i]), positions[i]);
  });
  return filled.total();
}

#endif

/// A key that a block holds has no bit that is 0 there, so that adding it changes nothing.
inline std::uint64_t BitBlockAddNew(const Geometry&, std::uint64_t* words,
                                    const std::uint64_t* positions, std::size_t n,
                                    const Fetch& fetch, std::uint8_t* answers) noexcept {
  BitTally filled;
  for_each_bit_block<1>(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    std::uint64_t* const block = bit_block_of(words, positions[i]);
    answers[i] |= !block_has(block, positions[i]);
    filled.add(block, positions[i]);
  });
  return filled.total();
}

// ---- a single key, as in block-inl.h ------------------------------------------------------------

/// The key's place in one group of the filter, and its block there.
template <class Word>
struct KeyBitBlock {
  HWY_INLINE KeyBitBlock(const Geometry& geometry, Word* words, std::uint64_t hash,
                         std::uint32_t group) noexcept
      : place(detail::place_in_group(geometry, hash, group)),
        block(bit_block_of(words + group * geometry.blocks_per_group() * kBitBlockWords, place)) {}
  std::uint64_t place;
  Word* block;
};

HWY_INLINE bool holds_bits_in(std::uint32_t groups, const Geometry& geometry,
                              const std::uint64_t* words, std::uint64_t hash) noexcept {
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBitBlock key(geometry, words, hash, j);
    if (!block_has(key.block, key.place)) return false;
  }
  return true;
}

HWY_INLINE unsigned count_bits_in(std::uint32_t groups, const Geometry& geometry,
                                  const std::uint64_t* words, std::uint64_t hash) noexcept {
  return holds_bits_in(groups, geometry, words, hash);
}

HWY_INLINE std::uint32_t add_bits_in(std::uint32_t groups, const Geometry& geometry,
                                     std::uint64_t* words, std::uint64_t hash) noexcept {
  BitTally filled;
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBitBlock key(geometry, words, hash, j);
    filled.add(key.block, key.place);
  }
  return static_cast<std::uint32_t>(filled.total());
}

// ---- slices -------------------------------------------------------------------------------------

inline void BitSliceTest(const Geometry&, const std::uint64_t* words,
                         const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                         std::uint8_t* answers) noexcept {
  std::size_t done = 0;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  done = for_each_vector<Cell::bit>(words, positions, n, fetch,
                                    [&](std::size_t i, auto bits)
                                        HWY_ATTR { store_bytes(bits, answers + i); });
#endif
  for_each_counter<Cell::bit>(
      words, positions + done, n - done, rest_of(fetch, done), [&](std::size_t i) HWY_ATTR {
        const std::uint64_t position = positions[done + i];
        answers[done + i] = detail::bit_at(words[position / 64], position % 64);
      });
}

/// Sets a bit. Returns whether it was 0.
HWY_INLINE bool set_bit(std::uint64_t* words, std::uint64_t position) noexcept {
  std::uint64_t& word = words[position / 64];
  const unsigned shift = position % 64;
  const bool filled = !detail::bit_at(word, shift);
  word |= std::uint64_t{1} << shift;
  return filled;
}

inline std::uint64_t BitSliceAdd(const Geometry&, std::uint64_t* words,
                                 const std::uint64_t* positions, std::size_t n,
                                 const Fetch& fetch) noexcept {
  std::uint64_t filled = 0;
  for_each_counter<Cell::bit>(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    filled += set_bit(words, positions[i]);
  });
  return filled;
}

inline std::uint64_t BitSliceAddNew(const Geometry&, std::uint64_t* words,
                                    const std::uint64_t* positions, std::size_t n,
                                    const Fetch& fetch, std::uint8_t* answers) noexcept {
  std::uint64_t filled = 0;
  for_each_counter<Cell::bit>(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    const bool absent = set_bit(words, positions[i]);
    answers[i] |= absent;
    filled += absent;
  });
  return filled;
}

inline constexpr ArrayKernels kBitBlockKernels = {
    BlockLocate, BitBlockTest, nullptr, BitBlockAdd, BitBlockAddNew, nullptr, nullptr};
inline constexpr ArrayKernels kBitSliceKernels = {
    SliceLocate, BitSliceTest, nullptr, BitSliceAdd, BitSliceAddNew, nullptr, nullptr};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
