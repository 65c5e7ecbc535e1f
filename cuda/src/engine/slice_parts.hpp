// SPDX-License-Identifier: Apache-2.0
// Demands on a slice of split: one counter, or bit, of each key. They are counted in shared memory,
// packed as in the filter.
#pragma once

#include <cstdint>

#include "engine/marks.hpp"
#include "engine/partitions.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Counts the demand of a part in shared memory. The caller must sync() before it reads the demand.
template <class Cells, class Threads, class Position>
SCBF_INLINE void count_demand(const Threads& threads, const Partitions& partitions,
                              const Position* positions, const Part& part, std::uint64_t* demand) {
  const std::uint64_t inside = partitions.partition_words() - 1;
  threads.each([&](unsigned rank) {
    for (std::uint64_t w = rank; w <= inside; w += threads.size()) demand[w] = 0;
  });
  threads.sync();
  each_position(threads, positions + part.first, part.count, [&](Position position) {
    const auto share = Cells::in_slice(position);
    Cells::add(demand + (share.word & inside), share);
  });
}

/// slice += demand, part by part. If counting, *filled += how many cells were 0 and are not any
/// more.
template <class Cells, bool counting, class Position>
struct AddToSlice {
  Partitions partitions;
  const Position* positions;
  const Part* parts;
  const std::uint64_t* total;  ///< PartCount of all parts
  bool alone;                  ///< see Tuning
  std::uint64_t* filled;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* demand) const {
    if (index >= PartCount::parts(*total)) return;
    const Part part = parts[index];
    count_demand<Cells>(threads, partitions, positions, part, demand);
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

/// slice −= demand for partitions that are not divided. The parts of divided ones are added up in
/// `divided_demand`, zeroed before, with partition_words() words for each. Counters that become 0
/// are counted as by take_demand.
template <bool counting, class Position>
struct TakeFromSlice {
  Partitions partitions;
  const Position* positions;
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
    count_demand<CounterCells>(threads, partitions, positions, part, demand);
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

}  // namespace scbf::cuda
