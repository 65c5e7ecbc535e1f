// SPDX-License-Identifier: Apache-2.0
// Sorts positions by partition, a digit of its number at a time, the most significant digit first.
// Positions whose leading digits are equal then lie together, as a *stretch*, and the next level
// sorts each stretch by the next digit. The stretches of the last level are the partitions. A block
// of threads takes a *tile* of a stretch.
//   count    how many positions each partition has, if the counts of all partitions fit into
//            shared memory; otherwise, before each level, how many each of its stretches has
//   sum      so each stretch has its place
//   scatter  level by level: sorts each tile by digit in shared memory, and writes what it has of a
//            digit as one run into that digit's stretch, where the next places there are free
// In which order a stretch has its positions is left open, since the tiles take their places as
// they come. So a level moves each position once, and the first one moves it out of the key.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/array.hpp"
#include "engine/loops.hpp"
#include "engine/partitions.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// One digit of a partition's number, and where it lies in a position.
struct Digit {
  unsigned shift, bits;

  SCBF_INLINE std::uint32_t of(std::uint64_t position) const noexcept {
    return static_cast<std::uint32_t>(position >> shift) & (values() - 1);
  }
  SCBF_INLINE std::uint32_t values() const noexcept { return 1u << bits; }

  /// The digit of a level. Their lengths differ by one bit at most.
  static Digit of_level(const PartitionPlan& plan, unsigned level) noexcept {
    unsigned left = plan.bits, bits = 0;
    for (unsigned l = 0; l <= level; ++l) {
      bits = (left + plan.levels() - l - 1) / (plan.levels() - l);
      left -= bits;
    }
    return {plan.shift + left, bits};
  }
  /// How many stretches there are after this level.
  std::uint64_t stretches(const PartitionPlan& plan) const noexcept {
    return ((plan.partitions - 1) >> (shift - plan.shift)) + 1;
  }
};

/// A thread takes this many positions at once, and so has as many loads under way.
inline constexpr unsigned kPositionsAtOnce = 8;

/// Which of `first`, first + step, … are less than n: bit a is set if first + a · step is.
SCBF_INLINE std::uint32_t which_exist(std::uint32_t first, std::uint32_t step,
                                      std::uint32_t n) noexcept {
  std::uint32_t which = 0;
  for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
    which |= std::uint32_t{first + a * step < n} << a;
  }
  return which;
}

/// Positions of keys. Null keys have none; if `only` is not null, nor do keys without only[i] = 1.
template <class PositionOfKey, class ArrayOfLayout>
struct PositionsOfKeys {
  using Position = PositionOfKey;

  FilterRef filter;
  ArrayOfLayout array;
  ValueKeys keys;
  const std::uint8_t* only;

  /// Among the n > 0 keys from `begin` on: positions[a] = the position of key first + a · step.
  /// Returns which have one. Loads come together, and what all keys have in common is asked for
  /// once.
  SCBF_INLINE std::uint32_t fetch(std::uint64_t begin, std::uint32_t first, std::uint32_t step,
                                  std::uint32_t n,
                                  Position (&positions)[kPositionsAtOnce]) const noexcept {
    const auto index = [&](unsigned a) {
      const std::uint32_t i = first + a * step;
      return i < n ? i : n - 1;
    };
    std::uint32_t which = which_exist(first, step, n);
    if (only != nullptr) {
      std::uint8_t marks[kPositionsAtOnce];
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) marks[a] = only[begin + index(a)];
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
        which &= ~(std::uint32_t{marks[a] != 1} << a);
      }
    }
    std::uint64_t values[kPositionsAtOnce];
    if (keys.validity) {  // null keys are not read
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
        which &= ~(std::uint32_t{!keys.valid(begin + index(a))} << a);
        values[a] = (which >> a & 1) != 0 ? load_streaming(keys.values + begin + index(a)) : 0;
      }
    } else {
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
        values[a] = load_streaming(keys.values + begin + index(a));
      }
    }
    if (!keys.hashed) {
      for (std::uint64_t& value : values) value = filter.hash(value);
    }
    array.to_positions(values);
    for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
      positions[a] = static_cast<Position>(values[a]);
    }
    return which;
  }
};

/// Positions that an earlier level has written.
template <class PositionThere>
struct PositionsInMemory {
  using Position = PositionThere;

  const Position* there;

  SCBF_INLINE std::uint32_t fetch(std::uint64_t begin, std::uint32_t first, std::uint32_t step,
                                  std::uint32_t n,
                                  Position (&positions)[kPositionsAtOnce]) const noexcept {
    for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
      const std::uint32_t i = first + a * step;
      positions[a] = load_streaming(there + begin + (i < n ? i : n - 1));
    }
    return which_exist(first, step, n);
  }
};

/// The tiles of all stretches, listed as their parts, or of the one that there is at first.
struct Tiles {
  const Part* parts;           ///< null for one stretch
  const std::uint64_t* total;  ///< PartCount of all parts
  std::uint64_t most;          ///< tiles, at most
  std::uint64_t n;             ///< positions
  std::uint32_t size;          ///< positions of a tile, at most

  /// Has no positions if there are fewer tiles. Neighbouring tiles are at work at a time and write
  /// to the same few stretches, so that what they write meets in the cache.
  SCBF_INLINE Part tile(std::size_t index) const noexcept {
    if (parts != nullptr) {
      return index < PartCount::parts(*total) ? parts[index] : Part{0, 0, 0, Part::kWhole};
    }
    const std::uint64_t first = std::uint64_t{index} * size;
    const std::uint64_t left = n - first;
    return {first, static_cast<std::uint32_t>(left < size ? left : size), 0, Part::kWhole};
  }
};

/// counts[v] += how many positions have digit v; for later stretches, counts come one stretch after
/// another.
template <class Source>
struct CountDigits {
  Source source;
  Tiles tiles;
  Digit digit;
  std::uint32_t values;  ///< of the digit
  std::uint64_t* counts;

  static std::size_t shared_bytes(std::uint32_t values) noexcept {
    return (std::size_t{values} + 1) / 2 * sizeof(std::uint64_t);
  }

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* shared) const {
    const Part tile = tiles.tile(index);
    if (tile.count == 0) return;
    auto* const found = reinterpret_cast<std::uint32_t*>(shared);
    threads.each([&](unsigned rank) {
      for (std::uint32_t d = rank; d < values; d += threads.size()) found[d] = 0;
    });
    threads.sync();
    threads.each([&](unsigned rank) {
      SCBF_NOT_UNROLLED
      for (std::uint32_t i = rank; i < tile.count; i += threads.size() * kPositionsAtOnce) {
        typename Source::Position positions[kPositionsAtOnce];
        const std::uint32_t which =
            source.fetch(tile.first, i, threads.size(), tile.count, positions);
        for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
          if ((which >> a & 1) != 0) Atomic().next(found + digit.of(positions[a]));
        }
      }
    });
    threads.sync();
    std::uint64_t* const there = counts + (std::uint64_t{tile.partition} << digit.bits);
    threads.each([&](unsigned rank) {
      for (std::uint32_t d = rank; d < values; d += threads.size()) {
        if (found[d] != 0) Atomic().add(there + d, found[d]);
      }
    });
  }
};

/// Finds where a level's stretches begin: where the first of the 2^log2_smaller smaller ones in
/// each begins. `next` starts there, too, and is raised as stretches are filled.
struct TakeBounds {
  const std::uint64_t* bounds;
  unsigned log2_smaller;
  std::uint64_t last;  ///< of the bounds
  std::uint64_t* begins;
  std::uint64_t* next;

  SCBF_INLINE void operator()(std::size_t s) const noexcept {
    const std::uint64_t smaller = std::uint64_t{s} << log2_smaller;
    const std::uint64_t begin = bounds[smaller < last ? smaller : last];
    begins[s] = begin;
    next[s] = begin;
  }
};

/// Moves each position into its stretch s, to out[next[s]] and following places.
template <class Source>
struct ScatterDigits {
  /// So few that each thread has registers for all that it holds. (See blocks_for.)
  static constexpr unsigned kBlocksPerProcessor = 2;
  using Position = typename Source::Position;

  Source source;
  Tiles tiles;
  Digit digit;
  std::uint64_t* next;
  Position* out;

  static std::size_t shared_bytes(const Digit& digit, std::size_t tile) noexcept {
    // Shifts; counts, begins, and what is taken; the positions.
    return (2 * digit.values() + 1) * sizeof(std::uint64_t) +
           (tile * sizeof(Position) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) *
               sizeof(std::uint64_t);
  }

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* shared) const {
    const Part tile = tiles.tile(index);
    const std::uint32_t at_once = threads.size() * kPositionsAtOnce;
    // One round on a GPU, where tiles are made for its threads.
    SCBF_NOT_UNROLLED
    for (std::uint32_t first = 0; first < tile.count; first += at_once) {
      const std::uint32_t left = tile.count - first;
      scatter(threads, tile.first + first, left < at_once ? left : at_once, tile.partition, shared);
    }
  }

 private:
  /// What a thread keeps in registers: positions, and the number of each among those of its digit.
  struct Held {
    std::uint32_t which;
    Position position[kPositionsAtOnce];
    std::uint32_t number[kPositionsAtOnce];

    SCBF_INLINE bool has(unsigned a) const noexcept { return (which >> a & 1) != 0; }
  };

  template <class Threads>
  SCBF_INLINE void scatter(const Threads& threads, std::uint64_t first, std::uint32_t n,
                           std::uint32_t stretch, std::uint64_t* shared) const {
    const std::uint32_t values = digit.values();
    std::uint64_t* const shifts = shared;  // from a position's place in `sorted` to that in `out`
    auto* const found = reinterpret_cast<std::uint32_t*>(shifts + values);
    std::uint32_t* const begins = found + values;  // of each digit's positions in `sorted`
    std::uint32_t* const taken = begins + values;
    auto* const sorted = reinterpret_cast<Position*>(taken + 2);

    // Loads and atomic additions are issued a step before their results are used.
    auto held = threads.kept([&](unsigned rank) {
      Held mine;
      mine.which = source.fetch(first, rank, threads.size(), n, mine.position);
      return mine;
    });
    threads.sync();
    threads.each([&](unsigned rank) {
      for (std::uint32_t d = rank; d < values; d += threads.size()) found[d] = 0;
      if (rank == 0) *taken = 0;
    });
    threads.sync();
    threads.each([&](unsigned rank) {
      Held& mine = held[rank];
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
        if (mine.has(a)) mine.number[a] = Atomic().next(found + digit.of(mine.position[a]));
      }
    });
    threads.sync();
    for (std::uint32_t from = 0; from < values; from += threads.size()) {
      threads.allot(
          taken, [&](unsigned rank) { return from + rank < values ? found[from + rank] : 0; },
          [&](unsigned rank, std::uint32_t begin) {
            if (from + rank < values) begins[from + rank] = begin;
          });
    }
    threads.sync();
    threads.each([&](unsigned rank) {
      std::uint64_t* const next_of = next + (std::uint64_t{stretch} << digit.bits);
      const auto take = [&](std::uint32_t d) -> std::uint64_t {
        return found[d] == 0 ? 0 : Atomic().advance(next_of + d, found[d]);
      };
      const std::uint64_t place = rank < values ? take(rank) : 0;
      for (std::uint32_t d = rank + threads.size(); d < values; d += threads.size()) {
        shifts[d] = take(d) - begins[d];
      }
      const Held& mine = held[rank];
      for (unsigned a = 0; a < kPositionsAtOnce; ++a) {
        if (!mine.has(a)) continue;
        sorted[begins[digit.of(mine.position[a])] + mine.number[a]] = mine.position[a];
      }
      if (rank < values) shifts[rank] = place - begins[rank];
    });
    threads.sync();
    threads.each([&](unsigned rank) {
      const std::uint32_t there = *taken;
      for (std::uint32_t i = rank; i < there; i += threads.size()) {
        const Position position = sorted[i];
        out[shifts[digit.of(position)] + i] = position;
      }
    });
  }
};

/// Lists the parts of stretches. Owns the memory for the list.
template <class Device>
class PartList {
 public:
  /// For up to `most_stretches` with up to `most_keys` positions in all, in parts of `part`.
  PartList(Device& device, std::uint64_t most_stretches, std::size_t most_keys, std::uint32_t part)
      : device_(device),
        part_(part),
        counts_(device.template temporary<std::uint64_t>(most_stretches + 1)),
        sums_(device.template temporary<std::uint64_t>(most_stretches + 1)),
        parts_(device.template temporary<Part>(most_stretches + most_keys / part)),
        divided_(device.template temporary<std::uint32_t>(most_keys / part)) {}

  /// bounds[s] is where stretch s begins, bounds[stretches] where the last one ends; n positions at
  /// most.
  void list(const std::uint64_t* bounds, std::uint64_t stretches, std::size_t n) {
    device_.for_each(stretches + 1, CountParts{bounds, stretches, part_, counts_.get()});
    device_.exclusive_sum(counts_.get(), sums_.get(), stretches + 1);
    device_.for_each(stretches + n / part_, ListParts{bounds, sums_.get(), stretches, part_,
                                                      parts_.get(), divided_.get()});
    total_ = sums_.get() + stretches;
  }
  const Part* parts() const { return parts_.get(); }
  const std::uint32_t* divided() const { return divided_.get(); }
  /// PartCount of all parts.
  const std::uint64_t* total() const { return total_; }

 private:
  template <class T>
  using Temporary = decltype(std::declval<Device&>().template temporary<T>(0));

  Device& device_;
  std::uint32_t part_;
  Temporary<std::uint64_t> counts_, sums_;
  Temporary<Part> parts_;
  Temporary<std::uint32_t> divided_;
  const std::uint64_t* total_ = nullptr;
};

/// Sorts the positions of up to `most_keys` keys by partition. Owns the memory for them.
template <class Device>
class SortByPartition {
 public:
  SortByPartition(Device& device, const PartitionPlan& plan, std::size_t most_keys,
                  std::size_t position_bytes, const PartitionLimits& limits)
      : device_(device),
        plan_(plan),
        tile_(limits.tile_positions),
        counts_all_(counts_fit(plan, limits)),
        a_(device.template temporary<std::uint64_t>(words_of(most_keys, position_bytes))),
        b_(device.template temporary<std::uint64_t>(words_of(most_keys, position_bytes))),
        counts_(device.template temporary<std::uint64_t>(plan.partitions + 1)),
        bounds_(device.template temporary<std::uint64_t>(plan.partitions + 1)),
        begins_(device.template temporary<std::uint64_t>(plan.partitions + 1)),
        tiles_(device, most_stretches_in_tiles(), most_keys, tile_) {}

  /// The bytes to pass to device.reserve, so that no memory is allocated in the middle of changes.
  static std::size_t algorithm_bytes(Device& device, const PartitionPlan& plan) {
    std::size_t bytes = 1;
    for (unsigned level = 0; level < plan.levels(); ++level) {
      bytes = std::max(bytes, device.sum_bytes(Digit::of_level(plan, level).stretches(plan) + 1));
    }
    return bytes;
  }

  /// Sorts the positions of all of n > 0 keys that have one.
  template <class Source>
  const typename Source::Position* sort(const Source& keys, std::size_t n) {
    using Position = typename Source::Position;
    Position* out = reinterpret_cast<Position*>(a_.get());
    Position* other = reinterpret_cast<Position*>(b_.get());
    if (counts_all_) {
      count(keys, one_stretch(n), {plan_.shift, plan_.bits},
            static_cast<std::uint32_t>(plan_.partitions), plan_.partitions);
    }
    scatter(keys, one_stretch(n), 0, out);
    for (unsigned level = 1; level < plan_.levels(); ++level) {
      const std::uint64_t stretches = Digit::of_level(plan_, level - 1).stretches(plan_);
      tiles_.list(begins_.get(), stretches, n);
      scatter(PositionsInMemory<Position>{out},
              {tiles_.parts(), tiles_.total(), stretches + n / tile_, n, tile_}, level, other);
      std::swap(out, other);
    }
    return out;
  }
  /// After sort(): where partition p begins, and for p = partitions, where the last one ends.
  const std::uint64_t* bounds() const { return bounds_.get(); }
  /// After sort(): as much memory as there is for the sorted positions, not used any more.
  std::uint64_t* free_memory() const { return (plan_.levels() % 2 == 1 ? b_ : a_).get(); }

 private:
  static std::size_t words_of(std::size_t keys, std::size_t position_bytes) {
    return (keys * position_bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  }
  /// How many stretches are cut into tiles for the last level.
  std::uint64_t most_stretches_in_tiles() const {
    const unsigned levels = plan_.levels();
    return levels == 1 ? 1 : Digit::of_level(plan_, levels - 2).stretches(plan_);
  }
  Tiles one_stretch(std::size_t n) const {
    return {nullptr, nullptr, (n + tile_ - 1) / tile_, n, tile_};
  }

  /// Counts positions by a digit of `values` values, and finds the bounds of the stretches.
  template <class Source>
  void count(const Source& source, Tiles tiles, const Digit& digit, std::uint32_t values,
             std::uint64_t stretches) {
    const std::size_t bytes = CountDigits<Source>::shared_bytes(values);
    if (tiles.parts == nullptr) {
      // As few tiles as there are blocks of threads at once, since each adds all of its counts to
      // the same ones.
      const std::uint64_t at_once = device_.thread_blocks_at_once(bytes);
      const std::uint64_t size = std::max<std::uint64_t>((tiles.n + at_once - 1) / at_once, tile_);
      tiles = {nullptr, nullptr, (tiles.n + size - 1) / size, tiles.n,
               static_cast<std::uint32_t>(size)};
    }
    device_.fill(counts_.get(), stretches + 1, 0);
    device_.for_thread_blocks(tiles.most, bytes,
                              CountDigits<Source>{source, tiles, digit, values, counts_.get()});
    device_.exclusive_sum(counts_.get(), bounds_.get(), stretches + 1);
  }

  template <class Source>
  void scatter(const Source& source, const Tiles& tiles, unsigned level,
               typename Source::Position* out) {
    const Digit digit = Digit::of_level(plan_, level);
    const std::uint64_t stretches = digit.stretches(plan_);
    if (!counts_all_) count(source, tiles, digit, digit.values(), stretches);
    std::uint64_t* const next = counts_.get();
    if (counts_all_) {
      device_.for_each(stretches + 1, TakeBounds{bounds_.get(), digit.shift - plan_.shift,
                                                 plan_.partitions, begins_.get(), next});
    } else {
      device_.for_each(stretches + 1, TakeBounds{bounds_.get(), 0, stretches, begins_.get(), next});
    }
    device_.for_thread_blocks(tiles.most, ScatterDigits<Source>::shared_bytes(digit, tile_),
                              ScatterDigits<Source>{source, tiles, digit, next, out});
  }

  template <class T>
  using Temporary = decltype(std::declval<Device&>().template temporary<T>(0));

  Device& device_;
  PartitionPlan plan_;
  std::uint32_t tile_;
  bool counts_all_;  ///< the positions of all partitions, at once
  Temporary<std::uint64_t> a_, b_, counts_, bounds_, begins_;
  PartList<Device> tiles_;
};

}  // namespace scbf::cuda
