// SPDX-License-Identifier: Apache-2.0
// Kernels of a bank's rows of bits (kit/row_kernels.hpp). Included once per Highway target by
// kernels.cpp.
#if defined(SCBF_CPU_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_CPU_SIMD_ROWS_INL_H_
#undef SCBF_CPU_SIMD_ROWS_INL_H_
#else
#define SCBF_CPU_SIMD_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "cpu_simd/block-inl.h"
#include "cpu_simd/ranked-inl.h"
#include "cpu_simd/slice-inl.h"
#include "cpu_simd/tuning.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

// ---- locate -------------------------------------------------------------------------------------

/// Locates keys, a strip at a time, in each array of a filter. Calls visit(array, first, positions)
/// for the keys from `first` on.
template <class Visit>
HWY_INLINE void for_each_array(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
                               Visit visit) noexcept {
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  const std::uint32_t arrays = geometry.cache_lines_per_key();
  const std::uint64_t extent =
      geometry.in_blocks() ? geometry.blocks_per_group() : geometry.counters_per_slice();
  const std::uint64_t array_words = geometry.words() / arrays;
  const auto locate = geometry.layout() == Layout::split_block ? BlockLocate
                      : geometry.layout() == Layout::ranked    ? RankedLocate
                                                               : SliceLocate;
  for (std::size_t first = 0; first < n; first += kStripKeys) {
    const std::size_t keys = std::min(kStripKeys, n - first);
    for (std::uint32_t a = 0; a < arrays; ++a) {
      const Array array = {a, extent, a * array_words, geometry.positions()};
      locate(array, hashes + first, keys, positions.data());
      visit(array, first, std::span<const std::uint64_t>(positions.data(), keys));
    }
  }
}

inline void LocateRows(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
                       std::uint64_t* rows) noexcept {
  const std::uint32_t k = geometry.probes();
  const bool blocks = geometry.layout() == Layout::split_block;
  if (geometry.layout() == Layout::ranked) {
    const RankedBits bits(geometry);
    return for_each_array(geometry, hashes, n,
                          [&](const Array&, std::size_t, std::span<const std::uint64_t> places) {
                            for (const std::uint64_t place : places) {
                              for (unsigned j = 0; j < k; ++j) *rows++ = bits.number(place, j);
                            }
                          });
  }
  for_each_array(
      geometry, hashes, n,
      [&](const Array& array, std::size_t first, std::span<const std::uint64_t> positions) {
        const std::uint64_t first_row = array.first_word * kCountersPerWord;
        std::uint64_t* to = rows + first * k + array.index * (blocks ? kWordsPerBlock : 1);
        for (const std::uint64_t position : positions) {
          if (blocks) {
            const std::uint64_t row = first_row + detail::block_of(position) * kCountersPerBlock;
            for (unsigned w = 0; w < kWordsPerBlock; ++w) {
              to[w] = row + w * kCountersPerWord + (position >> (4 * w)) % kCountersPerWord;
            }
          } else {
            *to = first_row + position;
          }
          to += k;
        }
      });
}

// ---- zero rows ----------------------------------------------------------------------------------

/// The members of a bank take turns, so even a small one's counters are rarely in cache.
inline constexpr Fetch kCountersAhead = {.distance = kNearDistance};

HWY_INLINE std::size_t zero_rows_of_blocks(const std::uint64_t* words, std::uint64_t first_row,
                                           std::span<const std::uint64_t> positions,
                                           std::uint64_t* rows) noexcept {
  const Block::Tag tag;
  const auto fifteen = hn::Set(tag, 15);
  const auto lane_rows = hn::Mul(hn::Iota(tag, 0), hn::Set(tag, kCountersPerWord));
  std::size_t zeros = 0;
  for_each_block(words, positions.data(), positions.size(), kCountersAhead,
                 [&](std::size_t i, Spread key) HWY_ATTR {
                   const std::uint64_t* block = Block::words_of(words, positions[i]);
                   const std::uint64_t row =
                       first_row + detail::block_of(positions[i]) * kCountersPerBlock;
                   for (std::size_t part = 0; part < Block::parts; ++part) {
                     const auto shifts = Block::shifts(key, part);
                     const auto zero = disjoint(tag, hn::Load(tag, block + part * Block::lanes),
                                                hn::Shl(fifteen, shifts));
                     const auto base = hn::Set(tag, row + part * Block::lanes * kCountersPerWord);
                     const auto here = hn::Add(hn::Add(base, lane_rows), hn::ShiftRight<2>(shifts));
                     zeros += store_chosen(tag, here, zero, rows + zeros);
                   }
                 });
  return zeros;
}

HWY_INLINE std::size_t zero_rows_of_slices(const std::uint64_t* words, std::uint64_t first_row,
                                           std::span<const std::uint64_t> positions,
                                           std::uint64_t* rows) noexcept {
  std::size_t zeros = 0;
  walk<1>(
      positions.size(), kCountersAhead, 1,
      [&](std::size_t i, std::uint32_t) { return words + positions[i] / kCountersPerWord; },
      Nothing(),
      [&](std::size_t i) {
        const std::uint64_t position = positions[i];
        rows[zeros] = first_row + position;  // no branch: about half of the counters are zero
        zeros += detail::counter_at(words[position / kCountersPerWord],
                                    position % kCountersPerWord * kCounterBits) == 0;
      });
  return zeros;
}

HWY_INLINE std::size_t zero_rows_of_ranked(const RankedBits& bits, const std::uint64_t* words,
                                           std::span<const std::uint64_t> places,
                                           std::uint64_t* rows) noexcept {
  std::size_t zeros = 0;
  for_each_ranked(words, places.data(), places.size(), kCountersAhead, [&](std::size_t i) HWY_ATTR {
    const std::uint64_t* const line = ranked_line(words, places[i]);
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      rows[zeros] = bits.number(places[i], j);
      zeros += !ranked_slice(line, j, detail::position_of(places[i], j)).in_use();
    }
  });
  return zeros;
}

inline std::size_t ZeroRows(const Geometry& geometry, const std::uint64_t* words,
                            const std::uint64_t* hashes, std::size_t n,
                            std::uint64_t* rows) noexcept {
  const bool blocks = geometry.layout() == Layout::split_block;
  std::size_t zeros = 0;
  if (geometry.layout() == Layout::ranked) {
    const RankedBits bits(geometry);
    for_each_array(geometry, hashes, n,
                   [&](const Array&, std::size_t, std::span<const std::uint64_t> places) HWY_ATTR {
                     zeros += zero_rows_of_ranked(bits, words, places, rows + zeros);
                   });
    return zeros;
  }
  for_each_array(
      geometry, hashes, n,
      [&](const Array& array, std::size_t, std::span<const std::uint64_t> positions) HWY_ATTR {
        const std::uint64_t first_row = array.first_word * kCountersPerWord;
        const auto of_array = blocks ? zero_rows_of_blocks : zero_rows_of_slices;
        zeros += of_array(words + array.first_word, first_row, positions, rows + zeros);
      });
  return zeros;
}

// ---- intersect ----------------------------------------------------------------------------------

inline constexpr std::uint64_t kLineBytes = 64;
/// Cache lines between a prefetch and its use: about as many as a core can have under way.
inline constexpr std::uint64_t kLinesAhead = 48;
/// Bytes of a row that are prefetched; the hardware prefetches the rest of a long row.
inline constexpr std::uint64_t kMostPrefetched = 4 * kLineBytes;
/// Rows between two checks whether any bit is left.
inline constexpr std::uint32_t kRowsPerLook = 8;

/// Intersects one key's rows, each of one or more whole vectors.
template <class D>
HWY_INLINE void intersect_vectors(D d, const std::uint8_t* bytes, std::uint64_t stride,
                                  const std::uint64_t* rows, std::uint32_t k, std::uint64_t from,
                                  std::uint64_t to, const std::uint8_t* always,
                                  std::uint8_t* out) noexcept {
  const std::uint64_t step = hn::Lanes(d);
  for (std::uint64_t b = from; b + step <= to; b += step) {
    auto common = hn::LoadU(d, bytes + rows[0] * stride + b);
    for (std::uint32_t j = 1; j < k;) {
      const std::uint32_t look = std::min(k, j + kRowsPerLook - 1);
      for (; j < look; ++j) common = hn::And(common, hn::LoadU(d, bytes + rows[j] * stride + b));
      if (j < k && hn::AllTrue(d, hn::Eq(common, hn::Zero(d)))) break;
    }
    hn::StoreU(hn::Or(common, hn::LoadU(d, always + b)), d, out + b);
  }
}

/// Intersects one key's rows, each no longer than a word.
template <class Word>
HWY_INLINE void intersect_words(const std::uint8_t* bytes, const std::uint64_t* rows,
                                std::uint32_t k, const std::uint8_t* always,
                                std::uint8_t* out) noexcept {
  const auto word_at = [](const std::uint8_t* at) HWY_ATTR {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
  };
  Word common = word_at(bytes + rows[0] * sizeof(Word));
  for (std::uint32_t j = 1; j < k;) {
    const std::uint32_t look = std::min(k, j + kRowsPerLook - 1);
    for (; j < look; ++j) {
      common = static_cast<Word>(common & word_at(bytes + rows[j] * sizeof(Word)));
    }
    if (common == 0) break;
  }
  common = static_cast<Word>(common | word_at(always));
  std::memcpy(out, &common, sizeof common);
}

/// Calls one(i) for each key, and prefetches the rows of keys ahead.
template <class One>
HWY_INLINE void for_each_key(const RowsView& view, const std::uint64_t* rows, std::uint32_t k,
                             std::size_t n, One one) noexcept {
  const std::uint64_t fetched = std::min(view.stride, kMostPrefetched);
  const std::uint64_t lines = k * ((fetched + kLineBytes - 1) / kLineBytes);
  const std::size_t distance = std::max<std::uint64_t>(1, kLinesAhead / lines);
  // Past the end, the last key is prefetched again.
  for (std::size_t i = 0; i < n + distance; ++i) {
    const std::uint64_t* ahead = rows + std::min(i, n - 1) * k;
    for (std::uint32_t j = 0; j < k; ++j) {
      const std::uint8_t* row = view.bytes + ahead[j] * view.stride;
      for (std::uint64_t b = 0; b < fetched; b += kLineBytes) hwy::Prefetch(row + b);
    }
    if (i >= distance) one(i - distance);
  }
}

inline void Intersect(const RowsView& view, const std::uint64_t* rows, std::uint32_t k,
                      std::size_t n, const std::uint8_t* always, std::uint8_t* out) noexcept {
  if (n == 0) return;
  const std::uint8_t* bytes = view.bytes;
  const std::uint64_t stride = view.stride;
  const auto words = [&](auto word) HWY_ATTR {
    using Word = decltype(word);
    for_each_key(view, rows, k, n, [&](std::size_t i) HWY_ATTR {
      intersect_words<Word>(bytes, rows + i * k, k, always, out + i * sizeof(Word));
    });
  };
  switch (stride) {
    case 1:
      return words(std::uint8_t{});
    case 2:
      return words(std::uint16_t{});
    case 4:
      return words(std::uint32_t{});
    case 8:
      return words(std::uint64_t{});
    default:
      break;
  }
  for_each_key(view, rows, k, n, [&](std::size_t i) HWY_ATTR {
    // Whole vectors, then the rest of a stride of 16, 32 or an odd multiple of 32 bytes.
    const hn::ScalableTag<std::uint8_t> d;
    const hn::CappedTag<std::uint8_t, 16> rest;
    const std::uint64_t* of_key = rows + i * k;
    std::uint8_t* answer = out + i * stride;
    const std::uint64_t whole = stride / hn::Lanes(d) * hn::Lanes(d);
    intersect_vectors(d, bytes, stride, of_key, k, 0, whole, always, answer);
    intersect_vectors(rest, bytes, stride, of_key, k, whole, stride, always, answer);
  });
}

// ---- gather -------------------------------------------------------------------------------------
// The sixteen counters of a word become sixteen bits, one in each nibble, and the bits of four
// members fill the nibbles. Sixteen such words, with members 4q … 4q + 3 in word q, are a matrix of
// 16 × 16 nibbles. It is transposed; word c then holds the bits of all 64 members for counter c.
// The eight words of a line are processed side by side, in the lanes of vectors.

/// Sets the lowest bit of each nibble that is not 0, and clears all other bits.
template <class V>
HWY_INLINE V nonzero(V word, V low_bits) noexcept {
  word = hn::Or(word, hn::ShiftRight<1>(word));
  word = hn::Or(word, hn::ShiftRight<2>(word));
  return hn::And(word, low_bits);
}

/// In each field of 2 · bits bits, swaps the upper half of a with the lower half of b.
template <int bits, class V>
HWY_INLINE void exchange(V& a, V& b, V lower) noexcept {
  const V change = hn::And(hn::Xor(hn::ShiftRight<bits>(a), b), lower);
  b = hn::Xor(b, change);
  a = hn::Xor(a, hn::ShiftLeft<bits>(change));
}

HWY_INLINE void gather_counters(const std::array<const std::uint64_t*, kGatherMembers>& lines,
                                std::uint64_t* bits) noexcept {
  const hn::CappedTag<std::uint64_t, kWordsPerBlock> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::uint32_t kMembersPerNibble = 4;
  const std::uint32_t lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  const V low_bits = hn::Set(d, 0x1111'1111'1111'1111u);
  const V lower32 = hn::Set(d, 0x0000'0000'FFFF'FFFFu),
          lower16 = hn::Set(d, 0x0000'FFFF'0000'FFFFu);
  const V lower8 = hn::Set(d, 0x00FF'00FF'00FF'00FFu), lower4 = hn::Set(d, 0x0F0F'0F0F'0F0F'0F0Fu);
  alignas(64) std::array<std::uint64_t, kCountersPerBlock> by_counter;  // [counter in word][word]
  for (std::uint32_t word = 0; word < kWordsPerBlock; word += lanes) {
    V rows[kCountersPerWord];
    for (std::uint32_t q = 0; q < kCountersPerWord; ++q) {
      const std::uint64_t* const* four = &lines[q * kMembersPerNibble];
      V sum = hn::Zero(d);
      if (four[0]) sum = nonzero(hn::LoadU(d, four[0] + word), low_bits);
      if (four[1]) {
        sum = hn::Or(sum, hn::ShiftLeft<1>(nonzero(hn::LoadU(d, four[1] + word), low_bits)));
      }
      if (four[2]) {
        sum = hn::Or(sum, hn::ShiftLeft<2>(nonzero(hn::LoadU(d, four[2] + word), low_bits)));
      }
      if (four[3]) {
        sum = hn::Or(sum, hn::ShiftLeft<3>(nonzero(hn::LoadU(d, four[3] + word), low_bits)));
      }
      rows[q] = sum;
    }
    for (std::uint32_t q = 0; q < 8; ++q) exchange<32>(rows[q], rows[q + 8], lower32);
    for (std::uint32_t q = 0; q < 16; ++q) {
      if ((q & 4) == 0) exchange<16>(rows[q], rows[q + 4], lower16);
    }
    for (std::uint32_t q = 0; q < 16; ++q) {
      if ((q & 2) == 0) exchange<8>(rows[q], rows[q + 2], lower8);
    }
    for (std::uint32_t q = 0; q < 16; q += 2) exchange<4>(rows[q], rows[q + 1], lower4);
    for (std::uint32_t c = 0; c < kCountersPerWord; ++c) {
      hn::StoreU(rows[c], d, by_counter.data() + c * kWordsPerBlock + word);
    }
  }
  for (std::uint32_t word = 0; word < kWordsPerBlock; ++word) {
    for (std::uint32_t c = 0; c < kCountersPerWord; ++c) {
      bits[word * kCountersPerWord + c] = by_counter[c * kWordsPerBlock + word];
    }
  }
}

// The words of ranked lines and of filters of bits are bits already, and those of 64 members are a
// matrix of 64 × 64 bits: it is transposed where it lies, again eight words side by side.

/// [position in word][word]
using WordMatrix = std::array<std::uint64_t, kGatherMembers * kWordsPerBlock>;

template <int bits, class D>
HWY_INLINE void exchange_rows(D d, std::uint64_t* matrix, std::uint64_t lower) noexcept {
  for (std::uint32_t m = 0; m < kGatherMembers; ++m) {
    if ((m & bits) != 0) continue;
    for (std::size_t word = 0; word < kWordsPerBlock; word += hn::Lanes(d)) {
      std::uint64_t* const first = matrix + m * kWordsPerBlock + word;
      std::uint64_t* const second = first + bits * kWordsPerBlock;
      auto a = hn::Load(d, first), b = hn::Load(d, second);
      exchange<bits>(a, b, hn::Set(d, lower));
      hn::Store(a, d, first);
      hn::Store(b, d, second);
    }
  }
}

/// Bit m of matrix[p · 8 + w] becomes bit p of word w of lines[m], for the first `words` words.
HWY_INLINE void transpose(const std::array<const std::uint64_t*, kGatherMembers>& lines,
                          std::uint64_t words, WordMatrix& matrix) noexcept {
  const hn::CappedTag<std::uint64_t, kWordsPerBlock> d;
  if (words < kWordsPerBlock) matrix.fill(0);
  for (std::uint32_t m = 0; m < kGatherMembers; ++m) {
    std::uint64_t* const to = matrix.data() + m * kWordsPerBlock;
    if (lines[m] == nullptr) {
      std::fill_n(to, kWordsPerBlock, std::uint64_t{0});
    } else {
      std::copy_n(lines[m], words, to);
    }
  }
  exchange_rows<32>(d, matrix.data(), 0x0000'0000'FFFF'FFFFu);
  exchange_rows<16>(d, matrix.data(), 0x0000'FFFF'0000'FFFFu);
  exchange_rows<8>(d, matrix.data(), 0x00FF'00FF'00FF'00FFu);
  exchange_rows<4>(d, matrix.data(), 0x0F0F'0F0F'0F0F'0F0Fu);
  exchange_rows<2>(d, matrix.data(), 0x3333'3333'3333'3333u);
  exchange_rows<1>(d, matrix.data(), 0x5555'5555'5555'5555u);
}

HWY_INLINE void gather_ranked(const Geometry& geometry,
                              const std::array<const std::uint64_t*, kGatherMembers>& lines,
                              std::uint64_t* bits) noexcept {
  alignas(64) WordMatrix matrix;
  transpose(lines, kWordsPerBlock, matrix);
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    for (unsigned position = 0; position < geometry.positions(); ++position) {
      const unsigned word = position / 64 * kRankedSlices + j;
      *bits++ = matrix[position % 64 * kWordsPerBlock + word];
    }
  }
}

inline void Gather(const Geometry& geometry,
                   const std::array<const std::uint64_t*, kGatherMembers>& lines,
                   std::uint64_t* bits) noexcept {
  return geometry.layout() == Layout::ranked ? gather_ranked(geometry, lines, bits)
                                             : gather_counters(lines, bits);
}

inline void GatherBits(const std::array<const std::uint64_t*, kGatherMembers>& lines,
                       std::uint64_t words, std::uint64_t* bits) noexcept {
  alignas(64) WordMatrix matrix;
  transpose(lines, words, matrix);
  for (std::uint64_t word = 0; word < words; ++word) {
    for (unsigned position = 0; position < 64; ++position) {
      *bits++ = matrix[position * kWordsPerBlock + word];
    }
  }
}

inline constexpr RowKernels row_kernels(const HashKernels& hashes) noexcept {
  return {hashes, LocateRows, ZeroRows, Intersect, Gather, GatherBits};
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
