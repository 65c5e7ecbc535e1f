// SPDX-License-Identifier: Apache-2.0
// The partitioned path, for large batches of changes; one array at a time. Positions are sorted by
// partition, a part of the array that fits into the shared memory of a multiprocessor. One block of
// threads then counts in shared memory, from zero, the *demand* on its partition: how much each
// counter is to change, sixteen packed counters to a word as in the filter. At the end the demand
// is added to the filter or taken from it, word by word, by plain loads and stores: no other block
// of threads works on that partition. (Where insertions on other streams may run at the same time,
// it is added by compare-and-swap, which is exact whatever they do.)
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
#include "engine/value_keys.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Limits for planning partitions; tests make them small.
struct PartitionLimits {
  unsigned least_log2_words;     ///< of a partition; ≥ 3, a line
  unsigned most_log2_words;      ///< what shared memory holds
  std::uint32_t part_positions;  ///< positions that one block of threads takes
};

/// How an array is cut into partitions of equal size.
struct PartitionPlan {
  unsigned log2_words;       ///< words of a partition
  std::uint64_t partitions;  ///< of an array, the last of them perhaps smaller
  unsigned shift;            ///< position >> shift is the number of its partition
  unsigned bits;             ///< of these numbers; `partitions` itself, for no partition, included

  std::uint64_t partition_words() const noexcept { return std::uint64_t{1} << log2_words; }
  /// The position of keys that have none.
  std::uint64_t nowhere() const noexcept { return partitions << shift; }
};

/// Positions are sorted eight bits at a time. The plan has the fewest sorting passes and, with that
/// many, the smallest partitions, so that many are worked on at once.
inline PartitionPlan plan_partitions(const Array& array, const PartitionLimits& limits) noexcept {
  constexpr unsigned kBitsPerPass = 8;
  const auto with = [&](unsigned log2_words) -> PartitionPlan {
    const std::uint64_t size = std::uint64_t{1} << log2_words;
    const std::uint64_t partitions = (array.words() + size - 1) / size;
    return {log2_words, partitions, array.word_bits() + log2_words,
            static_cast<unsigned>(std::bit_width(partitions))};
  };
  const auto passes = [](const PartitionPlan& plan) {
    return (plan.bits + kBitsPerPass - 1) / kBitsPerPass;
  };
  const unsigned least_passes = passes(with(limits.most_log2_words));
  for (unsigned log2_words = limits.least_log2_words; log2_words < limits.most_log2_words;
       ++log2_words) {
    if (passes(with(log2_words)) <= least_passes) return with(log2_words);
  }
  return with(limits.most_log2_words);
}

/// Do all positions, nowhere() included, fit into 64 bits?
inline bool fits(const PartitionPlan& plan) noexcept { return plan.shift + plan.bits <= 64; }

/// positions[i] = the position of key i if it is valid and `only` is null or only[i] = 1; else
/// nowhere.
struct LocateKeys {
  FilterRef filter;
  Array array;
  ValueKeys keys;
  const std::uint8_t* only;
  std::uint64_t nowhere;
  std::uint64_t* positions;

  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    const bool wanted = keys.valid(i) && (only == nullptr || only[i] == 1);
    positions[i] = wanted ? array.position(keys.hash(filter, i)) : nowhere;
  }
};

/// bounds[p] = the index of the first of n sorted positions that is in partition p or a later one.
struct FindBounds {
  const std::uint64_t* positions;
  std::size_t n;
  unsigned shift;
  std::uint64_t* bounds;

  SCBF_INLINE void operator()(std::size_t partition) const noexcept {
    std::size_t first = 0, last = n;
    while (first < last) {
      const std::size_t middle = first + (last - first) / 2;
      if (positions[middle] >> shift < partition) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    bounds[partition] = first;
  }
};

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

/// Writes the parts of partition p, and its number if it is divided. sums[p] is the sum of
/// PartCounts before p.
struct ListParts {
  const std::uint64_t* bounds;
  const std::uint64_t* sums;
  std::uint32_t part;
  Part* parts;
  std::uint32_t* divided_partitions;

  SCBF_INLINE void operator()(std::size_t p) const noexcept {
    const std::uint32_t from = PartCount::parts(sums[p]);
    const std::uint32_t count = PartCount::parts(sums[p + 1]) - from;
    const bool divided = count > 1;
    const std::uint32_t number = divided ? PartCount::divided(sums[p]) : Part::kWhole;
    if (divided) divided_partitions[number] = static_cast<std::uint32_t>(p);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t first = bounds[p] + std::uint64_t{i} * part;
      const std::uint64_t left = bounds[p + 1] - first;
      parts[from + i] = {first, static_cast<std::uint32_t>(left < part ? left : part),
                         static_cast<std::uint32_t>(p), number};
    }
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

  /// Counts the demand of a part in shared memory. The caller must sync() before it reads the
  /// demand.
  template <class Cells, class Threads>
  SCBF_INLINE void count_demand(const Threads& threads, const std::uint64_t* positions,
                                const Part& part, std::uint64_t* demand) const {
    const std::uint64_t inside = partition_words() - 1;
    threads.each([&](unsigned rank) {
      for (std::uint64_t w = rank; w <= inside; w += threads.size()) demand[w] = 0;
    });
    threads.sync();
    // Threads that share a position touch neighbouring words. Each thread fetches several positions
    // at once: a multiprocessor has too few threads to wait for them one by one.
    constexpr unsigned kAtOnce = 4;
    const std::uint32_t sharers = array.shares<Cells>();
    const std::uint32_t step = threads.size() / sharers;
    threads.each([&](unsigned rank) {
      for (std::uint32_t i = rank / sharers; i < part.count; i += step * kAtOnce) {
        std::uint64_t fetched[kAtOnce];
        for (unsigned a = 0; a < kAtOnce; ++a) {
          if (i + a * step < part.count) fetched[a] = positions[part.first + i + a * step];
        }
        for (unsigned a = 0; a < kAtOnce; ++a) {
          if (i + a * step >= part.count) break;
          const auto share = array.share<Cells>(fetched[a], rank % sharers);
          Cells::add(demand + (share.word & inside), share);
        }
      }
    });
  }
};

/// Runs work(rank) by all threads. If counting, *total += the sum of what it returns.
template <bool counting, class Threads, class Work>
SCBF_INLINE void each_or_add_up(const Threads& threads, Work work, std::uint64_t* total) {
  if constexpr (counting) {
    threads.add_up(total, work);
  } else {
    threads.each(work);
  }
}

/// filter += demand, part by part. If counting, *filled += how many cells were 0 and are not any
/// more.
template <class Cells, bool counting>
struct AddParts {
  Partitions partitions;
  const std::uint64_t* positions;
  const Part* parts;
  const std::uint64_t* total;  ///< PartCount of all parts
  bool alone;                  ///< see Tuning
  std::uint64_t* filled;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* demand) const {
    if (index >= PartCount::parts(*total)) return;
    const Part part = parts[index];
    partitions.count_demand<Cells>(threads, positions, part, demand);
    threads.sync();
    const bool owns = alone && part.divided == Part::kWhole;
    std::uint64_t* words = partitions.words(part.partition);
    const std::uint64_t size = partitions.size(part.partition);
    const auto add = [&](unsigned rank) {
      std::uint32_t mine = 0;
      for (std::uint64_t w = rank; w < size; w += threads.size()) {
        if (demand[w] == 0) continue;
        std::uint64_t before;
        if (owns) {
          before = words[w];
          words[w] = Cells::joined(before, demand[w]);
        } else {
          before = Cells::join(words + w, demand[w]);
        }
        if (counting) mine += Cells::nonzero_only_in(demand[w], before);
      }
      return mine;
    };
    each_or_add_up<counting>(threads, add, filled);
  }
};

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

/// filter −= demand for partitions that are not divided. The parts of divided ones are added up in
/// `divided_demand`, zeroed before, with partition_words() words for each. Counters that become 0
/// are counted as by take_demand.
template <bool counting>
struct TakeParts {
  Partitions partitions;
  const std::uint64_t* positions;
  const Part* parts;
  const std::uint64_t* total;
  std::uint64_t* divided_demand;
  Marks marks;
  std::uint64_t* emptied;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* demand) const {
    if (index >= PartCount::parts(*total)) return;
    const Part part = parts[index];
    partitions.count_demand<CounterCells>(threads, positions, part, demand);
    threads.sync();
    if (part.divided == Part::kWhole) {
      take_demand<counting>(threads, partitions, part.partition, demand, marks, emptied);
    } else {
      std::uint64_t* all = divided_demand + (std::uint64_t{part.divided} << partitions.log2_words);
      threads.each([&](unsigned rank) {
        for (std::uint64_t w = rank; w < partitions.partition_words(); w += threads.size()) {
          if (demand[w] != 0) add_all(Atomic(), all + w, demand[w]);
        }
      });
    }
  }
};

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
