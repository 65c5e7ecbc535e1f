// SPDX-License-Identifier: Apache-2.0
// Lookups. A warp looks up 32 keys at a time. Each lane hashes one of them. In blocks of counters,
// four lanes then share the 64 bytes of a key's block, so that one access of the warp covers eight
// whole blocks, and each lane has four accesses under way at once. So they do in a ranked block,
// where each of the four looks into one slice. Elsewhere each lane follows its own key, and stops
// at the first counter or block of bits that lacks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/value_keys.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// Four counters, or four answers 0 or 1, one in each byte.
using FourBytes = std::uint32_t;

/// The smaller one in each byte.
template <bool counting>
struct LeastOfEach {
  SCBF_INLINE FourBytes operator()(FourBytes a, FourBytes b) const noexcept {
    if (!counting) return a & b;
    constexpr FourBytes kHigh = 0x8080'8080u;
    const FourBytes not_less = ((a | kHigh) - b) & kHigh;  // where a ≥ b; no byte borrows
    const FourBytes take_b = (not_less >> 7) * 0xFF;
    return (b & take_b) | (a & ~take_b);
  }
};

/// The smallest counter of each lane's key or, if not counting, whether that is not 0.
template <bool counting, class Warp>
SCBF_INLINE auto least_in_blocks(const Warp& warp, const FilterRef& filter,
                                 const typename Warp::template PerLane<std::uint64_t>& hash) {
  constexpr unsigned kSharers = 4;
  constexpr unsigned kWords = kWordsPerBlock / kSharers;
  static_assert(kWords == 2, "a WordPair each");
  const Geometry& geometry = filter.geometry();
  // A byte for the key of each of four neighbours.
  auto least =
      warp.each([](unsigned) { return FourBytes{0x0101'0101u} * (counting ? kCounterMax : 1u); });
  for (std::uint32_t group = 0; group < geometry.groups(); ++group) {
    const auto place =
        warp.each([&](unsigned l) { return detail::place_in_group(geometry, hash[l], group); });
    const auto block = warp.each(
        [&](unsigned l) { return static_cast<std::uint32_t>(detail::block_of(place[l])); });
    const auto nibbles =
        warp.each([&](unsigned l) { return static_cast<std::uint32_t>(place[l]); });
    const std::uint64_t* words =
        filter.words() + group * geometry.blocks_per_group() * kWordsPerBlock;
    typename Warp::template PerLane<std::uint32_t> blocks[kSharers], all_nibbles[kSharers];
    for (unsigned s = 0; s < kSharers; ++s) {
      blocks[s] = warp.template of_neighbour<kSharers>(block, s);
      all_nibbles[s] = warp.template of_neighbour<kSharers>(nibbles, s);
    }
    least = warp.each([&](unsigned l) {
      WordPair pairs[kSharers];
      for (unsigned s = 0; s < kSharers; ++s) {
        pairs[s] = load_pair_uncached(words + l % kSharers * kWords +
                                      std::uint64_t{blocks[s][l]} * kWordsPerBlock);
      }
      FourBytes four = 0;
      for (unsigned s = 0; s < kSharers; ++s) {
        const std::uint32_t mine = all_nibbles[s][l] >> l % kSharers * kWords * kCounterBits;
        const unsigned a = detail::counter_at(pairs[s].low, detail::shift_of_nibble(mine, 0));
        const unsigned b = detail::counter_at(pairs[s].high, detail::shift_of_nibble(mine, 1));
        const unsigned smaller = a < b ? a : b;
        four |= FourBytes{counting ? smaller : unsigned{smaller != 0}} << 8 * s;
      }
      return LeastOfEach<counting>()(least[l], four);
    });
  }
  least = warp.template joined_among<kSharers>(least, LeastOfEach<counting>());
  return warp.each([&](unsigned l) { return least[l] >> 8 * (l % kSharers) & kCounterMax; });
}

/// Whether a ranked block holds each lane's key. Lane l of four neighbours reads slice l of the
/// blocks of all four.
template <class Warp>
SCBF_INLINE auto held_in_ranked(const Warp& warp, const FilterRef& filter,
                                const typename Warp::template PerLane<std::uint64_t>& hash) {
  constexpr unsigned kSharers = kRankedSlices;
  const auto place =
      warp.each([&](unsigned l) { return detail::ranked_place(filter.geometry(), hash[l]); });
  const auto block =
      warp.each([&](unsigned l) { return static_cast<std::uint32_t>(detail::block_of(place[l])); });
  const auto positions =
      warp.each([&](unsigned l) { return static_cast<std::uint32_t>(place[l]); });
  typename Warp::template PerLane<std::uint32_t> blocks[kSharers], all_positions[kSharers];
  for (unsigned s = 0; s < kSharers; ++s) {
    blocks[s] = warp.template of_neighbour<kSharers>(block, s);
    all_positions[s] = warp.template of_neighbour<kSharers>(positions, s);
  }
  auto held = warp.each([&](unsigned l) {
    RankedCells::Share shares[kSharers];
    std::uint64_t words[kSharers];
    for (unsigned s = 0; s < kSharers; ++s) {
      shares[s] = RankedCells::in_block(blocks[s][l], all_positions[s][l], l % kSharers);
      words[s] = load_uncached(filter.words() + shares[s].word);
    }
    FourBytes four = 0;
    for (unsigned s = 0; s < kSharers; ++s) {
      four |= FourBytes{RankedCells::has(words[s], shares[s])} << 8 * s;
    }
    return four;
  });
  held = warp.template joined_among<kSharers>(held, LeastOfEach<false>());
  return warp.each([&](unsigned l) { return held[l] >> 8 * (l % kSharers) & 1; });
}

/// Writes an answer as a byte per key.
struct ByteAnswers {
  std::uint8_t* out;

  template <class Warp, class Answers>
  SCBF_INLINE void put(const Warp& warp, std::size_t first, std::size_t n,
                       const Answers& answers) const {
    warp.each([&](unsigned l) {
      if (first + l < n) store_streaming(out + first + l, static_cast<std::uint8_t>(answers[l]));
    });
  }
};
/// Writes an answer as a bit per key: bit i of byte i/8, least significant first.
struct BitAnswers {
  std::uint8_t* out;

  template <class Warp, class Answers>
  SCBF_INLINE void put(const Warp& warp, std::size_t first, std::size_t n,
                       const Answers& answers) const {
    const std::uint32_t bits = warp.ballot(answers);
    warp.each([&](unsigned l) {
      if (l % 8 == 0 && first + l < n) {
        out[(first + l) / 8] = static_cast<std::uint8_t>(bits >> l);
      }
    });
  }
};

/// Joins an answer with the byte that earlier filters wrote for the key: whether any filter holds
/// it, or the sum of its counts, at most 15.
template <bool counting>
struct JoinedAnswers {
  std::uint8_t* out;

  template <class Warp, class Answers>
  SCBF_INLINE void put(const Warp& warp, std::size_t first, std::size_t n,
                       const Answers& answers) const {
    warp.each([&](unsigned l) {
      if (first + l >= n) return;
      const unsigned before = out[first + l], answer = answers[l];
      const unsigned sum = before + answer < kCounterMax ? before + answer : kCounterMax;
      out[first + l] = static_cast<std::uint8_t>(counting ? sum : before | answer);
    });
  }
};

/// The smallest counter of each lane's hash or, if not counting, whether that is not 0.
template <bool counting, class Cells, class Warp>
SCBF_INLINE auto least_by(const Warp& warp, const FilterRef& filter,
                          const typename Warp::template PerLane<std::uint64_t>& hash) {
  if constexpr (std::is_same_v<Cells, RankedCells>) {
    return held_in_ranked(warp, filter, hash);
  } else {
    return Cells::kCell == Cell::counter && filter.geometry().layout() == Layout::split_block
               ? least_in_blocks<counting>(warp, filter, hash)
               : warp.each([&](unsigned l) {
                   return counting ? filter.least<Cells>(hash[l])
                                   : unsigned{filter.holds<Cells>(hash[l])};
                 });
  }
}

/// Looks up keys first … first + 31, as far as they exist: the smallest counter of each (counting),
/// or whether that is not 0. RankedCells have no counts.
template <bool counting, class Cells, class Warp>
SCBF_INLINE auto look_up(const Warp& warp, const FilterRef& filter, const ValueKeys& keys,
                         std::size_t first) {
  static_assert(!counting || !std::is_same_v<Cells, RankedCells>);
  const auto there = valid_keys(warp, keys, first);
  const auto hash = hashes_of(warp, filter, keys, first, there);
  const auto least = least_by<counting, Cells>(warp, filter, hash);
  return warp.each([&](unsigned l) {
    const unsigned a = there[l] ? least[l] : 0;
    return counting ? a : unsigned{a != 0};
  });
}

/// In blocks of counters, 48 registers hold all that four loads bring. (See blocks_for.)
template <class Cells>
inline constexpr unsigned kBlocksOfLookups = Cells::kCell == Cell::counter ? 5 : 0;

/// answer i = that of key i.
template <bool counting, class Cells, class Answers>
struct Look {
  static constexpr unsigned kBlocksPerProcessor = kBlocksOfLookups<Cells>;

  FilterRef filter;
  ValueKeys keys;
  Answers answers;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    answers.put(warp, first, keys.n, look_up<counting, Cells>(warp, filter, keys, first));
  }
};

/// Is answer i a hit?
struct IsHit {
  const std::uint8_t* answers;
  SCBF_INLINE bool operator()(std::uint64_t i) const noexcept { return answers[i] != 0; }
};

}  // namespace scbf::cuda
