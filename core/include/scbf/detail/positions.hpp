// SPDX-License-Identifier: Apache-2.0
// From hashes to counters: where in the filter the k counters of a key lie. The arithmetic is in
// formulas.inl.
//
// split_block. For group j the hash is remixed (group 0 takes it as it is) and multiplied by the
// number of blocks. The top 32 bits of the 96-bit product are the block. The next 32 bits are eight
// nibbles, which choose one counter in each of the block's eight words. The nibbles come from the
// fraction that remains after the block is chosen, so the two are independent for every number of
// blocks, powers of two included. Block and nibbles together are one 64-bit number, the *place* of
// a key in a group; places sort by block.
//
// split. For slice i the hash is multiplied by an odd constant of that slice. The product, taken as
// a fraction of 2^64, is scaled to the m counters of the slice.
//
// ranked. As split_block with one group, but the block is followed by a byte for each of the four
// slices, with the position of the key there.
#pragma once

#include <array>
#include <cstdint>

#include "scbf/detail/hash.hpp"
#include "scbf/geometry.hpp"

namespace scbf::detail {

/// The i-th output of SplitMix64 from state 0 (Steele, Lea, Flood 2014), made odd.
SCBF_INLINE constexpr std::uint64_t multiplier(std::uint64_t i) noexcept {
  std::uint64_t z = (i + 1) * 0x9E37'79B9'7F4A'7C15u;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return (z ^ (z >> 31)) | 1u;
}

/// multiplier(i) for slices, and for groups from 1 on.
inline constexpr auto kMultipliers = [] {
  std::array<std::uint64_t, kMaxProbes> table{};
  for (std::uint64_t i = 0; i < kMaxProbes; ++i) table[i] = multiplier(i);
  return table;
}();

/// The same, read from the table on the host; device code computes it, since it cannot index a
/// host's table.
SCBF_INLINE constexpr std::uint64_t multiplier_of(std::uint32_t i) noexcept {
#if defined(__CUDA_ARCH__)
  return multiplier(i);
#else
  return kMultipliers[i];
#endif
}

// ---- places (split_block and ranked) ------------------------------------------------------------

SCBF_INLINE constexpr std::uint64_t block_of(std::uint64_t place) noexcept { return place >> 32; }
/// The bit at which the key's counter begins in word i of the block.
SCBF_INLINE constexpr unsigned shift_of(std::uint64_t place, unsigned i) noexcept {
  return static_cast<unsigned>(place >> (4 * i)) % kCountersPerWord * kCounterBits;
}
/// The same from the place's lower half.
SCBF_INLINE constexpr unsigned shift_of_nibble(std::uint32_t nibbles, unsigned i) noexcept {
  return (nibbles >> (4 * i)) % kCountersPerWord * kCounterBits;
}

/// ranked: the position of the key in slice i of the block.
SCBF_INLINE constexpr unsigned position_of(std::uint64_t place, unsigned i) noexcept {
  return static_cast<unsigned>(place >> (8 * i)) & 0xFFu;
}

/// The bits of the key in word i of its block in a filter of bits, i < 2: one of each sixteen.
SCBF_INLINE constexpr std::uint64_t block_mask(std::uint64_t place, unsigned i) noexcept {
  const auto nibbles = static_cast<std::uint32_t>(place) >> 16 * i;
  const std::uint32_t low = 1u << (nibbles & 15) | 0x1'0000u << (nibbles >> 4 & 15);
  const std::uint32_t high = 1u << (nibbles >> 8 & 15) | 0x1'0000u << (nibbles >> 12 & 15);
  return low | std::uint64_t{high} << 32;
}

// ---- both, one key at a time --------------------------------------------------------------------

/// One counter of a filter: the word that holds it, and the bit where its nibble begins. Or, in a
/// filter of bits, one bit.
struct Probe {
  std::uint64_t word;
  unsigned shift;
};
/// The number of a counter in its filter, padding included. Its bit in a filter of bits, and its
/// row in a bank, have the same number.
SCBF_INLINE constexpr std::uint64_t number_of(const Geometry& geometry, Probe counter) noexcept {
  if (geometry.layout() == Layout::ranked) {
    const std::uint64_t block = counter.word / kWordsPerBlock, word = counter.word % kWordsPerBlock;
    return block * geometry.cells_per_block() + word % kRankedSlices * geometry.positions() +
           word / kRankedSlices * 64 + counter.shift;
  }
  return counter.word * kCountersPerWord + counter.shift / kCounterBits;
}
/// Its inverse.
SCBF_INLINE constexpr Probe probe_of(const Geometry& geometry, std::uint64_t number) noexcept {
  if (geometry.layout() == Layout::ranked) {
    const std::uint64_t slice = number / geometry.positions();
    const auto position = static_cast<unsigned>(number % geometry.positions());
    return {slice / kRankedSlices * kWordsPerBlock + position / 64 * kRankedSlices +
                slice % kRankedSlices,
            position % 64};
  }
  return {number / kCountersPerWord,
          static_cast<unsigned>(number % kCountersPerWord) * kCounterBits};
}
/// The bit that stands for a counter.
SCBF_INLINE constexpr Probe bit_of(const Geometry& geometry, Probe counter) noexcept {
  const std::uint64_t number = number_of(geometry, counter);
  return {number / 64, static_cast<unsigned>(number % 64)};
}
/// The word that holds a counter, or in a filter of bits the bit that stands for it.
SCBF_INLINE constexpr std::uint64_t word_of(const Geometry& geometry, Probe counter) noexcept {
  return geometry.cell() == Cell::bit ? bit_of(geometry, counter).word : counter.word;
}

/// The place of a key in one group of a split_block filter.
SCBF_INLINE constexpr std::uint64_t place_in_group(const Geometry& geometry, std::uint64_t hash,
                                                   std::uint32_t group) noexcept {
  const std::uint64_t h = group == 0 ? hash : group_hash<PlainOps>(hash, multiplier_of(group));
  return place<PlainOps>(h, geometry.blocks_per_group());
}

/// The place of a key in a ranked filter.
SCBF_INLINE constexpr std::uint64_t ranked_place(const Geometry& geometry,
                                                 std::uint64_t hash) noexcept {
  return ranked_place<PlainOps>(hash, geometry.blocks_per_group(), geometry.positions());
}

/// The i-th of a key's k counters, i < k; for a filter of bits see bit_of. For a ranked filter, the
/// bit that says whether the counter is not zero.
SCBF_INLINE constexpr Probe probe(const Geometry& geometry, std::uint64_t hash,
                                  std::uint32_t i) noexcept {
  if (geometry.layout() == Layout::split_block) {
    const std::uint32_t group = i / kWordsPerBlock, word = i % kWordsPerBlock;
    const std::uint64_t where = place_in_group(geometry, hash, group);
    const std::uint64_t block = group * geometry.blocks_per_group() + block_of(where);
    return {block * kWordsPerBlock + word, shift_of(where, word)};
  }
  if (geometry.layout() == Layout::ranked) {
    const std::uint64_t where = ranked_place(geometry, hash);
    const unsigned position = position_of(where, i);
    return {block_of(where) * kWordsPerBlock + position / 64 * kRankedSlices + i, position % 64};
  }
  const std::uint64_t position =
      slice_position<PlainOps, true>(hash, multiplier_of(i), geometry.counters_per_slice());
  return {(i * geometry.slice_stride() + position) / kCountersPerWord,
          static_cast<unsigned>(position % kCountersPerWord) * kCounterBits};
}

/// Calls visit(Probe) for the k counters of a key, in slice order; for bits and ranked see probe().
template <class Visit>
constexpr void for_each_probe(const Geometry& geometry, std::uint64_t hash, Visit visit) {
  if (geometry.layout() == Layout::split_block) {
    for (std::uint32_t j = 0; j < geometry.groups(); ++j) {
      const std::uint64_t where = place_in_group(geometry, hash, j);
      const std::uint64_t block = j * geometry.blocks_per_group() + block_of(where);
      for (unsigned i = 0; i < kWordsPerBlock; ++i) {
        visit(Probe{block * kWordsPerBlock + i, shift_of(where, i)});
      }
    }
  } else {
    for (std::uint32_t i = 0; i < geometry.probes(); ++i) visit(probe(geometry, hash, i));
  }
}

/// Calls visit(word) with a word in each cache line that a key touches in a filter of counters or
/// of bits.
template <class Visit>
SCBF_INLINE constexpr void for_each_line(const Geometry& geometry, std::uint64_t hash,
                                         Visit visit) {
  if (geometry.in_blocks()) {  // ranked chooses the block as split_block does
    for (std::uint32_t j = 0; j < geometry.groups(); ++j) {
      const std::uint64_t block =
          j * geometry.blocks_per_group() + block_of(place_in_group(geometry, hash, j));
      visit(geometry.block_word(block));
      if (64 * kWordsPerBlock % geometry.block_bits() != 0) {  // it may lie across two lines
        visit(((block + 1) * geometry.block_bits() - 1) / 64);
      }
    }
  } else {
    for (std::uint32_t i = 0; i < geometry.probes(); ++i) {
      visit(word_of(geometry, probe(geometry, hash, i)));
    }
  }
}

}  // namespace scbf::detail
