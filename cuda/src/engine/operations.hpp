// SPDX-License-Identifier: Apache-2.0
// The operations, as sequences of kernels. They are written over a policy Device, which is a stream
// of a GPU (gpu.cuh) or, in tests, the host (tests/support/host_device.hpp):
//   for_each(n, f)                  f(0) … f(n − 1)
//   for_warps(n, f)                 f(warp, first) for first = 0, 32, 64 … below n
//   for_thread_blocks(n, bytes, f)  f(threads, i, shared) for i < n with shared memory each; the
//                                   policy Threads has each(f) for f(rank), add_up(total, f) for
//                                   *total += f(0) + … + f(size() − 1), where other blocks add,
//                                   too, allot(next, amount, place) for place(rank, first), where
//                                   first + [0, amount(rank)) is the rank's own share of what is
//                                   counted by *next, in shared memory, each_warp(f) for f(warp,
//                                   index), kept(f) for f(rank), which each thread keeps for
//                                   itself, size() and sync()
//   thread_blocks_at_once(bytes)    how many of these are at work at a time
//   for_grid(f)                     f(grid), see decide_in_order
//   exclusive_sum(in, out, n)
//   select(n, f, out, count)        the i < n with f(i), ascending, and how many
//   reduce(n, f)                    f(0) + … + f(n − 1); waits for it
//   fill(words, n, value)           value is 0 or all ones
//   temporary<T>(n)                 memory for n of T, given back when destroyed; get()
//   sum_bytes(n), select_bytes(n, f)
//                                   temporary memory that these algorithms take
//   reserve(bytes)                  asks for it now, instead of when they run
// All except reduce return before the work is done. Memory is allocated before anything is changed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "engine/block_parts.hpp"
#include "engine/device_tuning.hpp"
#include "engine/direct.hpp"
#include "engine/look.hpp"
#include "engine/marks.hpp"
#include "engine/new_keys.hpp"
#include "engine/partitions.hpp"
#include "engine/ranked_insertion.hpp"
#include "engine/removal_from_one.hpp"
#include "engine/removal_from_several.hpp"
#include "engine/reservations.hpp"
#include "engine/slice_parts.hpp"
#include "engine/sort_by_partition.hpp"
#include "engine/statistics.hpp"
#include "engine/value_keys.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/cells.hpp"

namespace scbf::cuda {

/// Calls use(CounterCells()) or use(BitCells()), whichever the filter has.
template <class Use>
void with_cells(const Geometry& geometry, Use use) {
  if (geometry.cell() == Cell::bit) {
    use(BitCells());
  } else {
    use(CounterCells());
  }
}

/// Calls use(std::true_type()) if there is a place to count at, otherwise use(std::false_type()).
template <class Use>
void with_counting(const std::uint64_t* count, Use use) {
  if (count != nullptr) {
    use(std::true_type());
  } else {
    use(std::false_type());
  }
}
/// The same with the kind of cells, as by with_cells.
template <class Use>
void with_cells_and_counting(const Geometry& geometry, const std::uint64_t* count, Use use) {
  with_cells(geometry, [&](auto cells) {
    with_counting(count, [&](auto counting) { use(cells, counting); });
  });
}

/// Partitioned changes of a filter for batches of up to `most_keys`: array by array, sorts
/// positions by partition and counts demands. Owns the memory for this.
template <class Device>
class PartitionedChanges {
 public:
  PartitionedChanges(Device& device, const FilterRef& filter, std::size_t most_keys, bool takes,
                     const PartitionLimits& limits)
      : device_(device),
        filter_(filter),
        limits_(limits),
        plan_(plan_partitions(Array(filter.geometry(), 0), limits)),
        sorting_(device, plan_, most_keys, bytes_of_position(), limits),
        parts_(device, plan_.partitions, most_keys, limits.part_positions),
        demand_(device.template temporary<std::uint64_t>(
            takes ? most_keys / limits.part_positions << plan_.log2_words : 0)) {}

  /// The bytes to pass to device.reserve, so that no memory is allocated in the middle of changes.
  std::size_t algorithm_bytes() const {
    return SortByPartition<Device>::algorithm_bytes(device_, plan_);
  }

  /// Adds the keys' demands to the filter; `alone` as in Tuning, `filled` as in insert().
  void add(const ValueKeys& keys, bool alone, std::uint64_t* filled) {
    with_cells_and_counting(filter_.geometry(), filled, [&](auto cells, auto counting) {
      each_array([&](const Partitions& partitions, auto any_position) {
        const auto* sorted = sort<decltype(any_position)>(partitions.array, keys, nullptr);
        add_sorted<decltype(cells), counting()>(partitions, keys.n, sorted, alone, filled);
      });
    });
  }

  /// Takes the demands of the keys with verdict 1 from the filter. Lines in which a counter would
  /// fall below zero are marked instead. `emptied` as in remove().
  void take(const ValueKeys& keys, const std::uint8_t* verdicts, const Marks& marks,
            std::uint64_t* emptied) {
    const std::size_t divided = keys.n / limits_.part_positions;
    with_counting(emptied, [&](auto counting) {
      each_array([&](const Partitions& partitions, auto any_position) {
        const auto* sorted = sort<decltype(any_position)>(partitions.array, keys, verdicts);
        device_.fill(demand_.get(), divided << plan_.log2_words, 0);
        take_sorted<counting()>(partitions, keys.n, sorted, marks, emptied);
        device_.for_thread_blocks(
            divided, 0,
            TakeDivided<counting()>{partitions, parts_.divided(), parts_.total(), demand_.get(),
                                    marks, emptied});
      });
    });
  }

 private:
  /// use(Position()) with the smallest type that holds positions.
  template <class Use>
  void with_position(Use use) {
    if (bytes_of_position() == sizeof(std::uint32_t)) {
      use(std::uint32_t{});
    } else {
      use(std::uint64_t{});
    }
  }
  std::size_t bytes_of_position() const {
    return position_bytes(Array(filter_.geometry(), 0), plan_, limits_);
  }
  /// use(partitions, Position()) for each array.
  template <class Use>
  void each_array(Use use) {
    with_position([&](auto any_position) {
      for (std::uint32_t a = 0; a < Array::count(filter_.geometry()); ++a) {
        use(Partitions{Array(filter_.geometry(), a), filter_.words(), plan_.log2_words},
            any_position);
      }
    });
  }

  /// Sorts the positions in the array of the keys with only[i] = 1 or, if `only` is null, of all
  /// valid keys; and lists the parts.
  template <class Position>
  const Position* sort(const Array& array, const ValueKeys& keys, const std::uint8_t* only) {
    const PositionsOfKeys<Position, Array> positions{filter_, array, keys, only};
    const Position* sorted = sorting_.sort(positions, keys.n);
    parts_.list(sorting_.bounds(), plan_.partitions, keys.n);
    return sorted;
  }

  template <class Cells, bool counting, class Position>
  void add_sorted(const Partitions& partitions, std::size_t n, const Position* sorted, bool alone,
                  std::uint64_t* filled) {
    if constexpr (std::is_same_v<Position, std::uint64_t>) {
      if (partitions.array.in_blocks()) {
        const ChunkPlan chunk = chunk_plan<Cells>(n);
        const AddToBlocks<Cells, counting> work{partitions, sorted, parts_.parts(), parts_.total(),
                                                chunk.keys, alone,  filled};
        return device_.for_thread_blocks(parts_of(n), chunk.bytes, work);
      }
    }
    const AddToSlice<Cells, counting, Position> work{partitions,     sorted, parts_.parts(),
                                                     parts_.total(), alone,  filled};
    device_.for_thread_blocks(parts_of(n), partition_bytes(), work);
  }
  template <bool counting, class Position>
  void take_sorted(const Partitions& partitions, std::size_t n, const Position* sorted,
                   const Marks& marks, std::uint64_t* emptied) {
    if constexpr (std::is_same_v<Position, std::uint64_t>) {
      if (partitions.array.in_blocks()) {
        const ChunkPlan chunk = chunk_plan<CounterCells>(n);
        const TakeFromBlocks<counting> work{partitions,     sorted,     parts_.parts(),
                                            parts_.total(), chunk.keys, demand_.get(),
                                            marks,          emptied};
        return device_.for_thread_blocks(parts_of(n), chunk.bytes, work);
      }
    }
    const TakeFromSlice<counting, Position> work{
        partitions, sorted, parts_.parts(), parts_.total(), demand_.get(), marks, emptied};
    device_.for_thread_blocks(parts_of(n), partition_bytes(), work);
  }

  std::size_t parts_of(std::size_t n) const {
    return plan_.partitions + n / limits_.part_positions;
  }
  std::size_t partition_bytes() const { return sizeof(std::uint64_t) << plan_.log2_words; }
  template <class Cells>
  ChunkPlan chunk_plan(std::size_t n) const {
    return ChunkPlan::of<Cells>(plan_, n / plan_.partitions, limits_.sorted_bytes);
  }

  template <class T>
  using Temporary = decltype(std::declval<Device&>().template temporary<T>(0));

  Device& device_;
  FilterRef filter_;
  PartitionLimits limits_;
  PartitionPlan plan_;
  SortByPartition<Device> sorting_;
  PartList<Device> parts_;
  Temporary<std::uint64_t> demand_;
};

/// The most of bytes_for(n) over the parts that n keys are cut into: parts of `most`, and the rest.
/// (Algorithms need not take less for fewer keys.)
template <class BytesFor>
std::size_t most_bytes(std::size_t n, std::size_t most, BytesFor bytes_for) {
  const std::size_t rest = n % most;
  return rest == 0 ? bytes_for(most) : std::max(bytes_for(most), bytes_for(rest));
}

/// *filled += how many positions were not in use and are now, unless `filled` is null.
template <class Device>
void insert_into_ranked(Device& device, const FilterRef& filter, const ValueKeys& keys,
                        const Tuning& tuning, std::uint64_t* filled) {
  const std::size_t most = tuning.keys_of_pass(filter.geometry(), keys.n);
  RankedInsertion<Device> insertion(device, filter, most, tuning.limits);
  device.reserve(insertion.algorithm_bytes());
  for (std::size_t first = 0; first < keys.n; first += most) {
    insertion.add(keys.part(first, std::min(most, keys.n - first)), nullptr, filled);
  }
}

/// *filled += how many counters, or bits, were 0 and are not any more, unless `filled` is null.
template <class Device>
void insert(Device& device, const FilterRef& filter, const ValueKeys& keys, const Tuning& tuning,
            std::uint64_t* filled) {
  if (keys.n == 0) return;
  if (filter.is_ranked()) return insert_into_ranked(device, filter, keys, tuning, filled);
  if (!tuning.should_partition(filter.geometry(), keys.n, false)) {
    with_cells_and_counting(filter.geometry(), filled, [&](auto cells, auto counting) {
      device.for_warps(keys.n, AddDirect<decltype(cells), counting()>{filter, keys, filled});
    });
    return;
  }
  const std::size_t most = tuning.keys_of_pass(filter.geometry(), keys.n);
  PartitionedChanges<Device> partitioned(device, filter, most, false, tuning.limits);
  device.reserve(partitioned.algorithm_bytes());
  for (std::size_t first = 0; first < keys.n; first += most) {
    partitioned.add(keys.part(first, std::min(most, keys.n - first)), tuning.alone, filled);
  }
}

/// Inserts keys one after another, each if it is absent at its turn: verdicts[i] = 1 if key i was
/// inserted, else 0. *filled as by insert().
template <class Device>
void insert_new(Device& device, const FilterRef& filter, const ValueKeys& keys,
                std::uint8_t* verdicts, const Tuning& tuning, std::uint64_t* filled) {
  if (keys.n == 0) return;
  const Geometry& geometry = filter.geometry();
  const bool by_block = geometry.layout() == Layout::split_block && geometry.groups() == 1;
  const std::size_t most = tuning.new_keys_at_once(geometry, keys.n);
  const std::size_t all_entries = std::size_t{1}
                                  << Owners::log2_entries_for(most * geometry.probes());
  const auto entries = device.template temporary<std::uint64_t>(all_entries);
  const auto left = device.template temporary<std::uint64_t>(1);
  const Owners of_blocks{entries.get(), Owners::log2_entries_for(most)};
  const OwnersOfCells of_cells{entries.get(), geometry.probes(), most,
                               by_block ? left.get() : nullptr};
  const auto free_entries = [&] {
    const std::size_t threads = std::min(all_entries, FreeEntries::kMostThreads);
    device.for_each(threads, FreeEntries{of_cells, threads});
  };
  std::optional<RankedInsertion<Device>> ranked;
  if (filter.is_ranked()) {
    ranked.emplace(device, filter, most, tuning.limits);
    device.reserve(ranked->algorithm_bytes());
  }
  for (std::size_t first = 0; first < keys.n; first += most) {
    const ValueKeys part = keys.part(first, std::min(most, keys.n - first));
    std::uint8_t* verdict = verdicts + first;
    if (ranked) {
      free_entries();
      device.for_warps(part.n, ClaimCells<RankedCells>{filter, part, verdict, of_cells, false});
      device.for_warps(part.n,
                       AddOwners<RankedCells, false>{filter, part, verdict, of_cells, nullptr});
      ranked->add(part, verdict, filled);
      continue;
    }
    with_cells_and_counting(geometry, filled, [&](auto cells, auto counting) {
      using Cells = decltype(cells);
      if (by_block) {
        device.fill(entries.get(), std::size_t{1} << of_blocks.log2_entries, Owners::kFree);
        device.fill(left.get(), 1, 0);
        device.for_warps(part.n, ClaimBlocks<Cells>{filter, part, verdict, of_blocks});
        device.for_warps(part.n, AddOwnersOfBlocks<Cells, counting()>{
                                     filter, part, verdict, of_blocks, left.get(), filled});
      }
      free_entries();
      device.for_warps(part.n, ClaimCells<Cells>{filter, part, verdict, of_cells, by_block});
      device.for_warps(part.n,
                       AddOwners<Cells, counting()>{filter, part, verdict, of_cells, filled});
    });
  }
}

/// Owns the memory for deciding keys in order.
template <class Device>
class OrderMemory {
 public:
  OrderMemory(Device& device, const Tuning& tuning, std::uint32_t lines_per_key,
              std::size_t most_keys)
      : device_(device),
        lines_per_key_(lines_per_key),
        log2_entries_(tuning.log2_reservations(lines_per_key, most_keys)),
        contested_(device.template temporary<std::uint32_t>(most_keys)),
        entries_(device.template temporary<std::uint64_t>(std::size_t{1} << log2_entries_)),
        numbers_(device.template temporary<std::uint64_t>(1 + InOrder::kNumbers)) {}

  /// To be filled by device.select, and then decided.
  std::uint32_t* contested() const { return contested_.get(); }
  std::uint64_t* how_many() const { return numbers_.get(); }
  /// Clears the memory for the contested keys of one pass.
  InOrder cleared() {
    device_.fill(entries_.get(), std::size_t{1} << log2_entries_, ~std::uint64_t{0});
    device_.fill(numbers_.get() + 1, InOrder::kNumbers, 0);
    return {{entries_.get(), log2_entries_},
            Tuning::window(lines_per_key_, log2_entries_),
            numbers_.get() + 1};
  }

 private:
  template <class T>
  using Temporary = decltype(std::declval<Device&>().template temporary<T>(0));

  Device& device_;
  std::uint32_t lines_per_key_;
  unsigned log2_entries_;
  Temporary<std::uint32_t> contested_;
  Temporary<std::uint64_t> entries_, numbers_;
};

/// book += the number of i < n with holds(i).
template <class Device, class Holds>
void book_those(Device& device, std::size_t n, Holds holds, std::uint64_t* book) {
  device.for_warps(std::min(n, BookThose<Holds>::kThreads), BookThose<Holds>{holds, n, book});
}

/// Counting is not for counters in the layout ranked.
template <bool counting, class Device, class Answers>
void look(Device& device, const FilterRef& filter, const ValueKeys& keys, const Answers& answers) {
  if constexpr (!counting) {
    if (filter.is_ranked()) {
      device.for_warps(keys.n, Look<false, RankedCells, Answers>{filter, keys, answers});
      return;
    }
  }
  with_cells(filter.geometry(), [&](auto cells) {
    device.for_warps(keys.n, Look<counting, decltype(cells), Answers>{filter, keys, answers});
  });
}

/// verdicts[i] = 1 if key i was removed, else 0. *emptied += how many counters became 0, unless
/// `emptied` is null.
template <class Device>
void remove(Device& device, const FilterRef& filter, const ValueKeys& keys, std::uint8_t* verdicts,
            const Tuning& tuning, std::uint64_t* emptied) {
  if (keys.n == 0) return;
  const Geometry& geometry = filter.geometry();
  const bool by_partition = tuning.should_partition(geometry, keys.n, true);
  const std::size_t most = tuning.keys_of_pass(geometry, keys.n);
  const std::size_t mark_words = Marks::words_for(geometry);
  auto mark_memory = device.template temporary<std::uint64_t>(mark_words);
  OrderMemory<Device> in_order(device, tuning, geometry.cache_lines_per_key(), most);
  std::optional<PartitionedChanges<Device>> partitioned;
  if (by_partition) partitioned.emplace(device, filter, most, true, tuning.limits);

  const Marks marks(mark_memory.get());
  device.reserve(most_bytes(keys.n, most, [&](std::size_t n) {
    const std::size_t bytes = device.select_bytes(static_cast<std::uint32_t>(n),
                                                  IsContested{filter, keys, verdicts, marks});
    return by_partition ? std::max(bytes, partitioned->algorithm_bytes()) : bytes;
  }));
  for (std::size_t first = 0; first < keys.n; first += most) {
    const ValueKeys part = keys.part(first, std::min(most, keys.n - first));
    std::uint8_t* verdict = verdicts + first;
    device.fill(mark_memory.get(), mark_words, 0);
    look<false>(device, filter, part, ByteAnswers{verdict});
    if (by_partition) {
      partitioned->take(part, verdict, marks, emptied);
    } else {
      with_counting(emptied, [&](auto counting) {
        device.for_warps(part.n, TakeDirect<counting()>{filter, part, verdict, marks, emptied});
      });
    }
    device.select(static_cast<std::uint32_t>(part.n), IsContested{filter, part, verdict, marks},
                  in_order.contested(), in_order.how_many());
    device.for_grid(Resolve{filter, part, verdict, marks, by_partition, in_order.contested(),
                            in_order.how_many(), emptied, in_order.cleared()});
  }
}

/// Removes each key from the one filter that claims it at its turn. verdicts[i] is a Removal;
/// removed[f] += how many keys were removed from filter f, emptied[f] += how many of its counters
/// became 0, *ambiguous += how many keys several claim. All filters have the same seed.
template <class Device>
void remove_from_several(Device& device, std::span<const FilterRef> filters, const ValueKeys& keys,
                         std::uint8_t* verdicts, std::uint64_t* removed, std::uint64_t* emptied,
                         std::uint64_t* ambiguous, const Tuning& tuning) {
  if (keys.n == 0) return;
  const auto how_many_filters = static_cast<std::uint32_t>(filters.size());
  std::uint32_t most_lines = 0;
  for (const FilterRef& filter : filters) most_lines = std::max(most_lines, filter.lines());
  const std::size_t most = std::min(keys.n, tuning.claimed_keys);
  auto filters_there = device.template temporary<FilterRef>(filters.size());
  auto claimers = device.template temporary<std::uint32_t>(most);
  OrderMemory<Device> in_order(device, tuning, most_lines, most);
  device.reserve(most_bytes(keys.n, most, [&](std::size_t n) {
    return device.select_bytes(static_cast<std::uint32_t>(n), IsHit{verdicts});
  }));
  for (std::uint32_t f = 0; f < how_many_filters; ++f) {
    device.for_each(1, Put<FilterRef>{filters[f], filters_there.get() + f});
  }
  for (std::size_t first = 0; first < keys.n; first += most) {
    const ValueKeys part = keys.part(first, std::min(most, keys.n - first));
    std::uint8_t* verdict = verdicts + first;
    for (std::uint32_t f = 0; f < how_many_filters; ++f) {
      device.for_warps(part.n, Look<false, CounterCells, ClaimAnswers>{
                                   filters[f], part, {f, claimers.get(), verdict}});
    }
    device.select(static_cast<std::uint32_t>(part.n), IsHit{verdict}, in_order.contested(),
                  in_order.how_many());
    device.for_grid(ClaimedKeys{filters_there.get(), how_many_filters, part, claimers.get(),
                                verdict, in_order.contested(), in_order.how_many(), emptied,
                                in_order.cleared()});
    for (std::uint32_t f = 0; f < how_many_filters; ++f) {
      book_those(device, part.n, IsRemovedFrom{verdict, claimers.get(), f}, removed + f);
    }
    book_those(device, part.n, HasVerdict{verdict, kAmbiguous}, ambiguous);
  }
}

/// indices = those of the keys that may be present, ascending; *hits = how many there are.
template <class Device>
void find(Device& device, const FilterRef& filter, const ValueKeys& keys, std::uint64_t* indices,
          std::uint64_t* hits) {
  auto answers = device.template temporary<std::uint8_t>(keys.n);
  look<false>(device, filter, keys, ByteAnswers{answers.get()});
  device.select(std::uint64_t{keys.n}, IsHit{answers.get()}, indices, hits);
}

/// Histograms of all slices, one after another, of sixteen values each. Padding counts as zeros.
template <class Device>
void count_values(Device& device, const FilterRef& filter, std::uint64_t* histograms) {
  const Geometry& geometry = filter.geometry();
  device.fill(histograms, geometry.probes() * kValues, 0);
  with_cells(geometry, [&](auto cells) {
    using Count = CountValues<decltype(cells)>;
    for (std::uint32_t a = 0; a < Array::count(geometry); ++a) {
      const Array array(geometry, a);
      const Count count{array, filter.words(), histograms + a * array.slices() * kValues};
      device.for_thread_blocks(count.tasks(), Count::kShared * sizeof(std::uint64_t), count);
    }
  });
}

}  // namespace scbf::cuda
