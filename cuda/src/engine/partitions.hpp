// SPDX-License-Identifier: Apache-2.0
// The partitioned path, for large batches of changes; one array at a time. Positions are sorted by
// partition, a part of the array (sort_by_partition.hpp). One block of threads then finds the
// *demand* on its partition: how much each counter is to change, sixteen packed counters to a word
// as in the filter. The demand is added to the filter or taken from it, word by word, by plain
// loads and stores: no other block of threads works on that partition. (Where insertions on other
// streams may run at the same time, it is added by compare-and-swap, which is exact whatever they
// do.) How a demand is found depends on the layout: slice_parts.hpp, block_parts.hpp.
//
// In filters of bits a demand is the bits that are asked for, sixty-four to a word, and is joined
// with those of the filter.
//
// Skew: several blocks of threads share a partition with more than part_positions positions, a
// *part* each. Since min(15, a + min(15, b)) = min(15, a + b), the saturating demands of the parts
// add up exactly. For insertions they are added to the filter by compare-and-swap. For removals
// they are added to a demand of the whole partition in memory, which is taken from the filter when
// all parts are done.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/array.hpp"
#include "engine/loops.hpp"
#include "engine/marks.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Limits for planning partitions; tests make them small.
struct PartitionLimits {
  /// Words of a partition of a slice: at least 2^3, a line; at most what shared memory holds.
  unsigned least_log2_words, most_log2_words;
  /// Blocks of a partition of a group: at least 2.
  unsigned least_log2_blocks, most_log2_blocks;
  /// Shared memory for the keys of a partition of a group, sorted by block.
  std::size_t sorted_bytes;
  std::uint32_t part_positions;  ///< positions that one block of threads takes
  std::uint32_t tile_positions;  ///< positions that it sorts by a digit at a time
  std::size_t counted_bytes;     ///< of shared memory, for the counts of all partitions
  unsigned digit_bits = 8;       ///< positions are sorted by at most this many bits at a time
  bool narrow = true;            ///< May positions in a slice have 32 bits, if that is enough?
};

/// How an array is cut into partitions of equal size.
struct PartitionPlan {
  unsigned log2_words;       ///< words of a partition
  std::uint64_t partitions;  ///< of an array, the last of them perhaps smaller
  unsigned shift;            ///< position >> shift is the number of its partition
  unsigned bits;             ///< of these numbers
  unsigned digit_bits;       ///< see PartitionLimits

  /// In how many levels positions are sorted, one at least.
  unsigned levels() const noexcept { return std::max(1u, (bits + digit_bits - 1) / digit_bits); }

  std::uint64_t partition_words() const noexcept { return std::uint64_t{1} << log2_words; }
};

/// Does shared memory have room for the counts of all partitions?
inline bool counts_fit(const PartitionPlan& plan, const PartitionLimits& limits) noexcept {
  return plan.partitions * sizeof(std::uint32_t) <= limits.counted_bytes;
}

/// The plan has the fewest levels of sorting and, with that many, the smallest partitions, so that
/// many are worked on at once; or those twice as large, if only the counts of these fit.
inline PartitionPlan plan_partitions(const Array& array, const PartitionLimits& limits) noexcept {
  const auto with = [&](unsigned log2_words) -> PartitionPlan {
    const std::uint64_t size = std::uint64_t{1} << log2_words;
    const std::uint64_t partitions = (array.words() + size - 1) / size;
    return {log2_words, partitions, array.word_bits() + log2_words,
            static_cast<unsigned>(std::bit_width(partitions - 1)), limits.digit_bits};
  };
  unsigned log2_words = limits.least_log2_words, most_log2_words = limits.most_log2_words;
  if (array.in_blocks()) {
    log2_words = limits.least_log2_blocks + array.log2_block_words();
    most_log2_words = limits.most_log2_blocks + array.log2_block_words();
  }
  const unsigned least_levels = with(most_log2_words).levels();
  while (log2_words < most_log2_words && with(log2_words).levels() > least_levels) {
    ++log2_words;
  }
  const bool fits_if_larger = log2_words < most_log2_words &&
                              !counts_fit(with(log2_words), limits) &&
                              counts_fit(with(log2_words + 1), limits);
  return with(log2_words + fits_if_larger);
}

/// Bytes of a position in the array: 4 in a slice, if that is enough, otherwise 8.
inline std::size_t position_bytes(const Array& array, const PartitionPlan& plan,
                                  const PartitionLimits& limits) noexcept {
  return !array.in_blocks() && limits.narrow && plan.shift + plan.bits <= 32 ? 4 : 8;
}

/// How many parts a partition has and, in the upper half, whether it has more than one: two numbers
/// that are summed as one.
class PartCount {
 public:
  SCBF_INLINE static std::uint64_t of(std::uint64_t positions, std::uint32_t part) noexcept {
    const std::uint64_t parts = (positions + part - 1) / part;
    return parts | std::uint64_t{parts > 1} << 32;
  }
  SCBF_INLINE static std::uint32_t parts(std::uint64_t sum) noexcept {
    return static_cast<std::uint32_t>(sum);
  }
  SCBF_INLINE static std::uint32_t divided(std::uint64_t sum) noexcept {
    return static_cast<std::uint32_t>(sum >> 32);
  }
};

/// counts[p] = PartCount of partition p; 0 for p = partitions.
struct CountParts {
  const std::uint64_t* bounds;
  std::uint64_t partitions;
  std::uint32_t part;
  std::uint64_t* counts;

  SCBF_INLINE void operator()(std::size_t p) const noexcept {
    counts[p] = p == partitions ? 0 : PartCount::of(bounds[p + 1] - bounds[p], part);
  }
};

/// The positions that one block of threads works on, all of one partition.
struct Part {
  static constexpr std::uint32_t kWhole = 0xFFFF'FFFFu;

  std::uint64_t first;  ///< of the sorted positions
  std::uint32_t count;  ///< of them
  std::uint32_t partition;
  std::uint32_t divided;  ///< its number among the divided partitions, or kWhole
};

/// Writes part i, if there is one, and with the first part of a divided partition, its number.
/// sums[p] is the sum of PartCounts before partition p.
struct ListParts {
  const std::uint64_t* bounds;
  const std::uint64_t* sums;
  std::uint64_t partitions;
  std::uint32_t part;
  Part* parts;
  std::uint32_t* divided_partitions;

  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    if (i >= PartCount::parts(sums[partitions])) return;
    std::uint64_t p = 0, after = partitions;  // the part is in [p, after)
    while (after - p > 1) {
      const std::uint64_t middle = p + (after - p) / 2;
      (PartCount::parts(sums[middle]) <= i ? p : after) = middle;
    }
    const std::uint64_t number = i - PartCount::parts(sums[p]);
    const bool divided = PartCount::parts(sums[p + 1]) - PartCount::parts(sums[p]) > 1;
    const std::uint32_t which = divided ? PartCount::divided(sums[p]) : Part::kWhole;
    if (divided && number == 0) divided_partitions[which] = static_cast<std::uint32_t>(p);
    const std::uint64_t first = bounds[p] + number * part;
    const std::uint64_t left = bounds[p + 1] - first;
    parts[i] = {first, static_cast<std::uint32_t>(left < part ? left : part),
                static_cast<std::uint32_t>(p), which};
  }
};

/// The words of one array, as partitions.
struct Partitions {
  Array array;
  std::uint64_t* filter_words;
  unsigned log2_words;

  SCBF_INLINE std::uint64_t partition_words() const noexcept {
    return std::uint64_t{1} << log2_words;
  }
  SCBF_INLINE std::uint64_t* words(std::uint32_t partition) const noexcept {
    return filter_words + array.first_word() + (std::uint64_t{partition} << log2_words);
  }
  /// Words of a partition; the last one ends where the array ends.
  SCBF_INLINE std::uint64_t size(std::uint32_t partition) const noexcept {
    const std::uint64_t left = array.words() - (std::uint64_t{partition} << log2_words);
    return left < partition_words() ? left : partition_words();
  }
  /// The number in the filter of line `line` of a partition.
  SCBF_INLINE std::uint64_t line_of(std::uint32_t partition, std::uint64_t line) const noexcept {
    return (array.first_word() + (std::uint64_t{partition} << log2_words)) / kWordsPerBlock + line;
  }
};

/// visit(position) for n positions. Each thread fetches several at once: a multiprocessor has too
/// few threads to wait for them one by one.
template <class Threads, class Position, class Visit>
SCBF_INLINE void each_position(const Threads& threads, const Position* positions, std::uint32_t n,
                               Visit visit) {
  constexpr unsigned kAtOnce = 4;
  threads.each([&](unsigned rank) {
    for (std::uint32_t i = rank; i < n; i += threads.size() * kAtOnce) {
      Position fetched[kAtOnce];
      for (unsigned a = 0; a < kAtOnce; ++a) {
        if (i + a * threads.size() < n) fetched[a] = positions[i + a * threads.size()];
      }
      for (unsigned a = 0; a < kAtOnce; ++a) {
        if (i + a * threads.size() < n) visit(fetched[a]);
      }
    }
  });
}

/// Runs work(rank) by all threads. If counting, *total += the sum of what it returns.
template <bool counting, class Threads, class Work>
SCBF_INLINE void each_or_add_up(const Threads& threads, Work work, std::uint64_t* total) {
  if constexpr (counting) {
    threads.add_up(total, work);
  } else {
    threads.each(work);
  }
}

/// Takes a partition's demand from its counters, line by line. A line in which a counter would fall
/// below zero is left as it is, and marked. If counting, *emptied += how many counters became 0.
template <bool counting, class Threads>
SCBF_INLINE void take_demand(const Threads& threads, const Partitions& partitions,
                             std::uint32_t partition, const std::uint64_t* demand,
                             const Marks& marks, std::uint64_t* emptied) {
  std::uint64_t* words = partitions.words(partition);
  const std::uint64_t lines = partitions.size(partition) / kWordsPerBlock;
  const auto take = [&](unsigned rank) {
    std::uint32_t mine = 0;
    for (std::uint64_t line = rank; line < lines; line += threads.size()) {
      // Neighbouring threads begin at different words, because shared memory has 32 banks of four
      // bytes.
      const auto word = [=](unsigned i) {
        return line * kWordsPerBlock + (i + rank) % kWordsPerBlock;
      };
      std::uint64_t below = 0, wanted = 0;
      SCBF_NOT_UNROLLED
      for (unsigned i = 0; i < kWordsPerBlock; ++i) {
        wanted |= demand[word(i)];
        below |= detail::subtracted(words[word(i)], demand[word(i)]).below;
      }
      if (wanted == 0) continue;
      if (below != 0) {
        marks.mark(partitions.line_of(partition, line));
        continue;
      }
      SCBF_NOT_UNROLLED
      for (unsigned i = 0; i < kWordsPerBlock; ++i) {
        const std::uint64_t before = words[word(i)];
        const std::uint64_t after = detail::subtracted(before, demand[word(i)]).word;
        words[word(i)] = after;
        if (counting) mine += CounterCells::nonzero_only_in(before, after);
      }
    }
    return mine;
  };
  each_or_add_up<counting>(threads, take, emptied);
}

/// filter −= demand for the partitions that were divided.
template <bool counting>
struct TakeDivided {
  Partitions partitions;
  const std::uint32_t* divided_partitions;
  const std::uint64_t* total;
  const std::uint64_t* divided_demand;
  Marks marks;
  std::uint64_t* emptied;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index, std::uint64_t*) const {
    if (index >= PartCount::divided(*total)) return;
    take_demand<counting>(threads, partitions, divided_partitions[index],
                          divided_demand + (std::uint64_t{index} << partitions.log2_words), marks,
                          emptied);
  }
};

}  // namespace scbf::cuda
