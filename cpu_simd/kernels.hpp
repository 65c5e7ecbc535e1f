// SPDX-License-Identifier: Apache-2.0
// The interface between the engine (plain C++, compiled once) and the kernels (Highway, compiled
// once per target): tables of functions. An *array* is what one choice addresses: a group of
// split_block, a slice of split. A key's *position* in an array is one 64-bit number that sorts by
// memory: its place (block, and nibbles or bytes) in a group, its counter in a slice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kit/few_keys.hpp"
#include "kit/ranked_lists.hpp"
#include "kit/row_kernels.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

/// Entries in a segment of the partitioned path: 4 KiB of positions.
inline constexpr std::uint32_t kSegmentEntries = 512;
inline constexpr std::uint32_t kEntriesPerLine = 8;
inline constexpr std::uint64_t kSegmentBytes = kSegmentEntries * sizeof(std::uint64_t);

/// Where an array lies in the filter.
struct Array {
  std::uint32_t index;       ///< group or slice
  std::uint64_t extent;      ///< blocks of the group, or counters of the slice
  std::uint64_t first_word;  ///< of the array, in the filter
  std::uint32_t positions;   ///< of a slice in a block
};

/// Where one thread's scattered positions go. Entry e lies in segment e / kSegmentEntries; a
/// partition is a chain of segments. The caller provides enough segments for all that is scattered.
struct Scatter {
  std::uint64_t* entries;       ///< all segments; aligned to one
  std::uint64_t** ends;         ///< per partition: where its next entry goes
  std::uint32_t* next_segment;  ///< per segment: the next in its chain, or itself if it is the last
  std::uint32_t used_segments;
  std::uint16_t* partition_of;  ///< per key, in the order scattered; null if not needed
  std::size_t keys;             ///< scattered so far
};

/// The partition of a position is position >> shift.
using PartitionShift = std::uint32_t;

/// Consecutive cache lines.
struct Lines {
  const std::uint64_t* at = nullptr;
  std::size_t count = 0;

  /// Splits off the first of them, at most `most`.
  Lines take(std::size_t most) noexcept {
    const Lines taken = {at, most < count ? most : count};
    at += taken.count * kWordsPerBlock;
    count -= taken.count;
    return taken;
  }
};

/// What a kernel fetches while it works.
struct Fetch {
  std::size_t distance = 0;  ///< fetch counters this many keys ahead; 0: they are expected in L1
  Lines ahead[2] = {};       ///< lines needed after the call; fetched evenly in its course
};

/// Keys located in one or more neighbouring arrays.
struct Located {
  const std::uint64_t* positions;  ///< array by array
  std::size_t stride;              ///< from a key's position in an array to that in the next
  std::size_t keys;
  std::uint32_t arrays;
  std::uint64_t array_words;  ///< from one array to the next, in the filter

  std::uint64_t position(std::uint32_t array, std::size_t key) const noexcept {
    return positions[array * stride + key];
  }
};

/// What `take` found.
struct Taken {
  std::size_t underflows = 0;  ///< counters that were already 0
  std::uint64_t emptied = 0;   ///< counters that became zero
};

/// Most keys per call of a kernel that changes counters, or reads them: more would overflow the
/// sums in which changes are counted (nibble_steps.hpp). `ranked` also keeps the keys that it has
/// found, to look for their counts, in arrays of this size.
inline constexpr std::size_t kMostKeys = 1024;
static_assert(kSegmentEntries <= kMostKeys);

/// The kernels of a layout, of counters or of bits. `geometry` is that of the filter, `words`
/// points to the beginning of the array. With bits there are only `locate`, `test`, `add` and
/// `add_new`.
struct ArrayKernels {
  void (*locate)(const Array& array, const std::uint64_t* hashes, std::size_t n,
                 std::uint64_t* positions) noexcept;
  /// answers[i] = 1 if all counters of the key in this array are non-zero.
  void (*test)(const Geometry& geometry, const std::uint64_t* words, const std::uint64_t* positions,
               std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept;
  /// answers[i] = the smallest counter of the key in this array; at most kMostKeys keys.
  void (*least)(const Geometry& geometry, const std::uint64_t* words,
                const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                std::uint8_t* answers) noexcept;
  /// Adds keys, at most kMostKeys. Returns how many counters became non-zero.
  std::uint64_t (*add)(const Geometry& geometry, std::uint64_t* words,
                       const std::uint64_t* positions, std::size_t n, const Fetch& fetch) noexcept;
  /// Adds keys one after another, at most kMostKeys, each only if answers[i] is 1, not 0, or one of
  /// its counters in this array is 0 at its turn; then answers[i] = 1. Returns how many counters
  /// became non-zero.
  std::uint64_t (*add_new)(const Geometry& geometry, std::uint64_t* words,
                           const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                           std::uint8_t* answers) noexcept;
  /// Takes keys away one after another, at most kMostKeys, each only if it is present in all arrays
  /// at its turn; answers[i] = 1 if it was. `words` is the first array. Returns how many counters
  /// became zero.
  std::uint64_t (*take_present)(const Geometry& geometry, std::uint64_t* words, const Located& keys,
                                const Fetch& fetch, std::uint8_t* answers) noexcept;
  /// Takes keys away, at most kMostKeys. A counter that is already 0 stays 0, and its number within
  /// the array (word · 16 + nibble) is written to `underflows`, which has room for 8·n.
  Taken (*take)(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                const Fetch& fetch, std::uint64_t* underflows) noexcept;
};

/// All kernels of one Highway target.
struct Kernels {
  std::string_view target;
  bool without_deposit;  ///< it would use `pdep`, but not on this machine (deposit.hpp)
  HashKernels hashes;
  OneKeys one_key, one_key_of_bits;
  CountValues count_values;
  /// Packs answers, bytes of 0 or 1, to bits: bit i % 64 of bits[i / 64]; bits after the last are
  /// 0. `answers` must be readable up to a multiple of 64. Returns how many are 1.
  std::size_t (*pack_answers)(const std::uint8_t* answers, std::size_t n,
                              std::uint64_t* bits) noexcept;
  ArrayKernels block, slice, ranked;
  ArrayKernels bit_block, bit_slice, bit_ranked;
  /// Appends positions to the chains of their partitions.
  void (*scatter)(Scatter& to, const std::uint64_t* positions, std::size_t n,
                  PartitionShift shift) noexcept;
  RowKernels rows;
  RankedLists ranked_lists;

  const ArrayKernels& of(const Geometry& geometry) const noexcept {
    const bool bits = geometry.cell() == Cell::bit;
    switch (geometry.layout()) {
      case Layout::split_block:
        return bits ? bit_block : block;
      case Layout::ranked:
        return bits ? bit_ranked : ranked;
      default:
        return bits ? bit_slice : slice;
    }
  }
};

}  // namespace scbf
