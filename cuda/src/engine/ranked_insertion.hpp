// SPDX-License-Identifier: Apache-2.0
// Insertion into a filter of layout ranked, as a sequence of kernels (ranked_parts.hpp). It is
// always partitioned: a block must not be changed by two threads at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/array.hpp"
#include "engine/device_tuning.hpp"
#include "engine/marks.hpp"
#include "engine/partitions.hpp"
#include "engine/ranked_parts.hpp"
#include "engine/sort_by_partition.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// Insertions of batches of up to `most_keys`. Owns the memory for them.
template <class Device>
class RankedInsertion {
 public:
  RankedInsertion(Device& device, const FilterRef& filter, std::size_t most_keys,
                  const PartitionLimits& limits)
      : device_(device),
        filter_(filter),
        array_(filter.geometry()),
        limits_(limits),
        plan_(plan_partitions(array_, limits)),
        shape_(filter.geometry()),
        table_(filter.geometry(), filter.words()),
        sorting_(device, plan_, most_keys, sizeof(std::uint64_t), limits),
        numbers_(device.template temporary<std::uint64_t>(kNumbers)),
        marks_(device.template temporary<std::uint64_t>(mark_words())),
        listed_(device.template temporary<std::uint32_t>(blocks())),
        slots_(device.template temporary<std::uint32_t>(blocks())),
        away_(device.template temporary<std::uint64_t>(table_words())) {}

  /// The bytes to pass to device.reserve, so that no memory is allocated in the middle of changes.
  std::size_t algorithm_bytes() const {
    return std::max(SortByPartition<Device>::algorithm_bytes(device_, plan_),
                    device_.select_bytes(blocks(), IsMarked{marks()}));
  }

  /// Adds the keys with only[i] = 1 or, if `only` is null, all valid ones. *filled += how many
  /// positions of the filter were not in use and are now, unless `filled` is null.
  void add(const ValueKeys& keys, const std::uint8_t* only, std::uint64_t* filled) {
    if (filled != nullptr) {
      add<true>(keys, only, filled);
    } else {
      add<false>(keys, only, filled);
    }
  }

 private:
  enum Number : std::size_t { kLeftOver, kListed, kNumbers };

  template <bool counting>
  void add(const ValueKeys& keys, const std::uint8_t* only, std::uint64_t* filled) {
    const PositionsOfKeys<std::uint64_t, RankedArray> positions{filter_, array_, keys, only};
    const std::uint64_t* sorted = sorting_.sort(positions, keys.n);
    device_.fill(numbers_.get(), kNumbers, 0);
    device_.fill(marks_.get(), mark_words(), 0);
    const LeftOver left_over{sorting_.free_memory(), numbers_.get() + kLeftOver};
    const ChunkPlan chunk =
        ChunkPlan::of<RankedCells>(plan_, keys.n / plan_.partitions, limits_.sorted_bytes);
    device_.for_thread_blocks(plan_.partitions, chunk.bytes,
                              AddToLists<counting>{{array_, filter_.words(), plan_.log2_words},
                                                   sorted,
                                                   sorting_.bounds(),
                                                   shape_,
                                                   chunk.keys,
                                                   left_over,
                                                   marks(),
                                                   filled});
    lay_out_table();
    device_.for_each(kThreadsOfList,
                     AddLeftOver<counting>{table_, left_over, shape_, filter_.words(), filled});
  }

  /// Gives entries to the blocks that are marked. The table is left as it is until most of what
  /// could fail to start has started.
  void lay_out_table() {
    const EntryList list{listed_.get(), numbers_.get() + kListed, slots_.get()};
    device_.for_each(table_.slots(), MarkEntry{table_, marks()});
    device_.select(blocks(), IsMarked{marks()}, listed_.get(), numbers_.get() + kListed);
    device_.for_thread_blocks(1, PlaceEntries::kSharedWords * sizeof(std::uint64_t),
                              PlaceEntries{table_, list});
    device_.for_each(table_words(), MoveAway{table_, away_.get(), marks()});
    device_.for_each(kThreadsOfList, WriteEntries{table_, table_.with_entries_at(away_.get()), list,
                                                  shape_, filter_.words()});
  }

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(shape_.blocks); }
  std::size_t table_words() const { return table_.slots() * table_.entry_words(); }
  std::size_t mark_words() const { return Marks::words_for(filter_.geometry()); }
  Marks marks() const { return Marks(marks_.get()); }

  template <class T>
  using Temporary = decltype(std::declval<Device&>().template temporary<T>(0));

  Device& device_;
  FilterRef filter_;
  RankedArray array_;
  PartitionLimits limits_;
  PartitionPlan plan_;
  RankedShape shape_;
  SpillTable table_;
  SortByPartition<Device> sorting_;
  Temporary<std::uint64_t> numbers_, marks_;
  Temporary<std::uint32_t> listed_, slots_;
  Temporary<std::uint64_t> away_;
};

}  // namespace scbf::cuda
