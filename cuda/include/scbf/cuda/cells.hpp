// SPDX-License-Identifier: Apache-2.0
// The kinds of cells that a filter can have, as policies for kernels: what a key has in a word, how
// a thread adds it there, and how words are joined.
//
// A key's *share* of a word is its counter there or, in a filter of bits, all of its bits there.
// So a block of counters has eight shares of a key, and a block of bits has two.
#pragma once

#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/words.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

struct CounterCells {
  static constexpr Cell kCell = Cell::counter;
  static constexpr std::uint32_t kPerWord = kCountersPerWord;
  static constexpr std::uint32_t kBlockWords = kWordsPerBlock;

  using Share = detail::Probe;

  /// How many shares a key has.
  SCBF_INLINE static std::uint32_t shares(const Geometry& geometry) noexcept {
    return geometry.probes();
  }
  /// The i-th of them.
  SCBF_INLINE static Share share(const Geometry& geometry, std::uint64_t hash,
                                 std::uint32_t i) noexcept {
    return detail::probe(geometry, hash, i);
  }
  /// Share i < kBlockWords of a place; its word is counted from the first of the group.
  SCBF_INLINE static Share in_block(std::uint64_t place, std::uint32_t i) noexcept {
    return {detail::block_of(place) * kBlockWords + i, detail::shift_of(place, i)};
  }
  /// The same for a place in halves, but its word is counted from word i of the group, which takes
  /// fewer instructions.
  SCBF_INLINE static Share in_block(std::uint32_t block, std::uint32_t nibbles,
                                    std::uint32_t i) noexcept {
    return {std::uint64_t{block} * kBlockWords, detail::shift_of_nibble(nibbles, i)};
  }
  /// The share of a position in a slice; its word is counted from the first of the slice.
  SCBF_INLINE static Share in_slice(std::uint64_t position) noexcept {
    return {position / kPerWord, static_cast<unsigned>(position % kPerWord) * kCounterBits};
  }

  /// Does the word hold the key's share?
  SCBF_INLINE static bool has(std::uint64_t word, const Share& share) noexcept {
    return detail::counter_at(word, share.shift) != 0;
  }
  /// The lowest bits of the cells that the key lacks in the word.
  SCBF_INLINE static std::uint64_t lacking(std::uint64_t word, const Share& share) noexcept {
    return std::uint64_t{!has(word, share)} << share.shift;
  }
  SCBF_INLINE static void add(std::uint64_t* word, const Share& share) noexcept {
    add_one(Atomic(), word, share.shift);
  }
  /// Adds those of n shares whose bits are set in `wanted`, with n accesses under way at once.
  /// Returns how many cells were 0 and no longer are.
  template <unsigned n>
  SCBF_INLINE static std::uint32_t add(std::uint64_t* words, const Share (&shares)[n],
                                       std::uint32_t wanted) noexcept {
    const Counters<n> counters(words, shares);
    return add_ones(Atomic(), counters.words, counters.shifts, wanted);
  }
  /// Takes 1 from the counters in the same way.
  template <unsigned n>
  SCBF_INLINE static Taken take(std::uint64_t* words, const Share (&shares)[n],
                                std::uint32_t wanted) noexcept {
    const Counters<n> counters(words, shares);
    return take_ones(Atomic(), counters.words, counters.shifts, wanted);
  }
  SCBF_INLINE static std::uint64_t joined(std::uint64_t a, std::uint64_t b) noexcept {
    return added_fast(a, b);
  }
  /// word = joined(word, more), whatever other threads do. Returns what the word was.
  SCBF_INLINE static std::uint64_t join(std::uint64_t* word, std::uint64_t more) noexcept {
    return join(word, more, Atomic().load(word));
  }
  /// The same where the word was `seen` a moment ago.
  SCBF_INLINE static std::uint64_t join(std::uint64_t* word, std::uint64_t more,
                                        std::uint64_t seen) noexcept {
    return add_all_to(Atomic(), word, more, seen);
  }
  /// joined(word, what a key has in word i of its block).
  SCBF_INLINE static std::uint64_t with_key(std::uint64_t word, std::uint32_t nibbles,
                                            std::uint32_t i) noexcept {
    return detail::incremented(word, detail::shift_of_nibble(nibbles, i));
  }
  /// The same for a word that has had fewer than 15 keys.
  SCBF_INLINE static std::uint64_t with_next(std::uint64_t word, std::uint32_t nibbles,
                                             std::uint32_t i) noexcept {
    return word + (std::uint64_t{1} << detail::shift_of_nibble(nibbles, i));
  }
  /// How many cells are non-zero in word a and zero in word b.
  SCBF_INLINE static std::uint32_t nonzero_only_in(std::uint64_t a, std::uint64_t b) noexcept {
    return detail::bits_set(detail::nonzero_bits(a) & ~detail::nonzero_bits(b));
  }
  /// Adds the i-th sixteen cells of a filter, by value, to a histogram.
  SCBF_INLINE static void count_sixteen(const std::uint64_t* words, std::uint64_t i,
                                        std::uint32_t* histogram) noexcept {
    detail::count_values(words[i], histogram);
  }

 private:
  template <unsigned n>
  struct Counters {
    std::uint64_t* words[n];
    unsigned shifts[n];
    SCBF_INLINE Counters(std::uint64_t* first, const Share (&shares)[n]) noexcept {
      for (unsigned i = 0; i < n; ++i) {
        words[i] = first + shares[i].word;
        shifts[i] = shares[i].shift;
      }
    }
  };
};

/// For counters in the layout ranked: whether positions are in use, which is all that a lookup
/// reads. Keys cannot be added one by one.
struct RankedCells {
  static constexpr Cell kCell = Cell::counter;
  static constexpr std::uint32_t kPerWord = 64;  ///< bits that say which positions are in use
  static constexpr std::uint32_t kBlockWords = kWordsPerBlock;

  using Share = detail::Probe;

  SCBF_INLINE static std::uint32_t shares(const Geometry&) noexcept { return kRankedSlices; }
  SCBF_INLINE static Share share(const Geometry& geometry, std::uint64_t hash,
                                 std::uint32_t i) noexcept {
    return detail::probe(geometry, hash, i);
  }
  /// The share in slice i of the block of a place in halves, where `positions` is the lower one.
  SCBF_INLINE static Share in_block(std::uint32_t block, std::uint32_t positions,
                                    std::uint32_t i) noexcept {
    const unsigned position = detail::position_of(positions, i);
    return {std::uint64_t{block} * kWordsPerBlock + position / 64 * kRankedSlices + i,
            position % 64};
  }
  SCBF_INLINE static bool has(std::uint64_t word, const Share& share) noexcept {
    return (word >> share.shift & 1) != 0;
  }
  SCBF_INLINE static std::uint64_t lacking(std::uint64_t word, const Share& share) noexcept {
    return std::uint64_t{!has(word, share)} << share.shift;
  }
};

struct BitCells {
  static constexpr Cell kCell = Cell::bit;
  static constexpr std::uint32_t kPerWord = 64;
  static constexpr std::uint32_t kBlockWords = kCountersPerBlock / kPerWord;

  struct Share {
    std::uint64_t word, bits;
  };

  SCBF_INLINE static std::uint32_t shares(const Geometry& geometry) noexcept {
    return geometry.layout() == Layout::split_block ? geometry.groups() * kBlockWords
                                                    : geometry.probes();
  }
  SCBF_INLINE static Share share(const Geometry& geometry, std::uint64_t hash,
                                 std::uint32_t i) noexcept {
    if (geometry.layout() == Layout::split_block) {
      const std::uint32_t group = i / kBlockWords;
      const Share of_group =
          in_block(detail::place_in_group(geometry, hash, group), i % kBlockWords);
      return {group * geometry.blocks_per_group() * kBlockWords + of_group.word, of_group.bits};
    }
    const detail::Probe bit = detail::bit_of(geometry, detail::probe(geometry, hash, i));
    return {bit.word, std::uint64_t{1} << bit.shift};
  }
  SCBF_INLINE static Share in_block(std::uint64_t place, std::uint32_t i) noexcept {
    return {detail::block_of(place) * kBlockWords + i, detail::block_mask(place, i)};
  }
  SCBF_INLINE static Share in_block(std::uint32_t block, std::uint32_t nibbles,
                                    std::uint32_t i) noexcept {
    return {std::uint64_t{block} * kBlockWords, detail::block_mask(nibbles, i)};
  }
  SCBF_INLINE static Share in_slice(std::uint64_t position) noexcept {
    return {position / kPerWord, std::uint64_t{1} << position % kPerWord};
  }

  SCBF_INLINE static bool has(std::uint64_t word, const Share& share) noexcept {
    return (share.bits & ~word) == 0;
  }
  SCBF_INLINE static std::uint64_t lacking(std::uint64_t word, const Share& share) noexcept {
    return share.bits & ~word;
  }
  SCBF_INLINE static void add(std::uint64_t* word, const Share& share) noexcept {
    Atomic().set_bits(word, share.bits);
  }
  template <unsigned n>
  SCBF_INLINE static std::uint32_t add(std::uint64_t* words, const Share (&shares)[n],
                                       std::uint32_t wanted) noexcept {
    std::uint32_t filled = 0;
    std::uint64_t seen[n];
    for (unsigned i = 0; i < n; ++i) seen[i] = Atomic().load_cached(words + shares[i].word);
    for (unsigned i = 0; i < n; ++i) {
      if ((wanted >> i & 1) != 0 && !has(seen[i], shares[i])) {
        const std::uint64_t before = Atomic().join_bits(words + shares[i].word, shares[i].bits);
        filled += detail::bits_set(shares[i].bits & ~before);
      }
    }
    return filled;
  }
  SCBF_INLINE static std::uint64_t joined(std::uint64_t a, std::uint64_t b) noexcept {
    return a | b;
  }
  SCBF_INLINE static std::uint64_t join(std::uint64_t* word, std::uint64_t more) noexcept {
    return join(word, more, Atomic().load(word));
  }
  SCBF_INLINE static std::uint64_t join(std::uint64_t* word, std::uint64_t more,
                                        std::uint64_t seen) noexcept {
    return (seen & more) == more ? seen : Atomic().join_bits(word, more);
  }
  SCBF_INLINE static std::uint64_t with_key(std::uint64_t word, std::uint32_t nibbles,
                                            std::uint32_t i) noexcept {
    return word | detail::block_mask(nibbles, i);
  }
  SCBF_INLINE static std::uint64_t with_next(std::uint64_t word, std::uint32_t nibbles,
                                             std::uint32_t i) noexcept {
    return with_key(word, nibbles, i);
  }
  SCBF_INLINE static std::uint32_t nonzero_only_in(std::uint64_t a, std::uint64_t b) noexcept {
    return detail::bits_set(a & ~b);
  }
  SCBF_INLINE static void count_sixteen(const std::uint64_t* words, std::uint64_t i,
                                        std::uint32_t* histogram) noexcept {
    const unsigned ones = detail::bits_set(words[i / 4] >> i % 4 * 16 & 0xFFFF);
    histogram[0] += 16 - ones;
    histogram[1] += ones;
  }
};

}  // namespace scbf::cuda
