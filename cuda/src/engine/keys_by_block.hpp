// SPDX-License-Identifier: Apache-2.0
// The keys of a partition sorted once more, by block of the filter, in shared memory, as many at a
// time as fit there: a *chunk*. Then neighbouring lanes take one block after another, and each does
// in registers what the block's keys ask of its two words. So a key costs two atomic operations in
// shared memory, not one for each of its eight counters.
//
// Keys of crowded blocks, with more than 64 of a chunk, are not sorted, since few lanes would work
// on many keys: what they ask for is added up in shared memory as they come. Counters there are
// soon at 15, and then only read. (In ranked, whose keys cannot be added up so, no block is
// crowded.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/direct.hpp"
#include "engine/loops.hpp"
#include "engine/partitions.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// The keys of a chunk, in shared memory, sorted by block of their partition. The order of the keys
/// of a block is left open.
template <class Cells>
class KeysByBlock {
 public:
  /// Lanes that share a block, with two words each.
  static constexpr unsigned kSharers = Cells::kBlockWords / 2;

  /// How many 32-bit numbers of shared memory it needs for this many blocks and keys. The number of
  /// blocks is even and the memory aligned to 8 bytes, so that sums of 64 bits are aligned, too.
  static constexpr std::size_t numbers(std::size_t blocks, std::size_t keys) noexcept {
    return 2 + 2 * blocks + keys;
  }

  SCBF_INLINE KeysByBlock(std::uint32_t* shared, const Partitions& partitions,
                          std::uint32_t partition) noexcept
      : next_(shared),
        counts_(shared + 2),
        ends_(counts_ + partitions.partition_words() / Cells::kBlockWords),
        nibbles_(ends_ + partitions.partition_words() / Cells::kBlockWords),
        inside_(static_cast<std::uint32_t>(partitions.partition_words() / Cells::kBlockWords) - 1),
        blocks_(static_cast<std::uint32_t>(partitions.size(partition) / Cells::kBlockWords)),
        words_(partitions.words(partition)) {}

  /// Sorts n positions by block. Waits for all threads before and after.
  template <class Threads>
  SCBF_INLINE void sort(const Threads& threads, const std::uint64_t* positions,
                        std::uint32_t n) const {
    threads.sync();
    threads.each([&](unsigned rank) {
      for (std::uint32_t b = rank; b <= inside_; b += threads.size()) counts_[b] = 0;
      if (rank == 0) *next_ = 0;
    });
    threads.sync();
    const auto block_of = [&](std::uint64_t position) {
      return static_cast<std::uint32_t>(detail::block_of(position)) & inside_;
    };
    each_position(threads, positions, n,
                  [&](std::uint64_t p) { Atomic().next(counts_ + block_of(p)); });
    threads.sync();
    for (std::uint32_t first = 0; first <= inside_; first += threads.size()) {
      threads.allot(
          next_, [&](unsigned rank) { return first + rank <= inside_ ? counts_[first + rank] : 0; },
          [&](unsigned rank, std::uint32_t begin) {
            const std::uint32_t b = first + rank;
            if (b > inside_) return;
            ends_[b] = begin;
            if (is_crowded(counts_[b])) empty_crowd(b);
          });
    }
    threads.sync();
    each_position(threads, positions, n, [&](std::uint64_t p) {
      const std::uint32_t b = block_of(p);
      const auto nibbles = static_cast<std::uint32_t>(p);
      if (is_crowded(counts_[b])) {
        add_to_crowd(b, nibbles);
      } else {
        nibbles_[Atomic().next(ends_ + b)] = nibbles;
      }
    });
    threads.sync();
  }

  /// What n keys, all that the chunk has of this block, ask of its words 2·i and 2·i + 1.
  SCBF_INLINE WordPair demand(std::uint32_t block, std::uint32_t n, unsigned i) const noexcept {
    if (is_crowded(n)) return {crowd(block)[2 * i], crowd(block)[2 * i + 1]};
    const std::uint32_t end = ends_[block];
    WordPair demand{0, 0};
    if (n <= kCounterMax) {
      SCBF_NOT_UNROLLED
      for (std::uint32_t k = end - n; k < end; ++k) {
        demand = {Cells::with_next(demand.low, nibbles_[k], 2 * i),
                  Cells::with_next(demand.high, nibbles_[k], 2 * i + 1)};
      }
    } else {
      SCBF_NOT_UNROLLED
      for (std::uint32_t k = end - n; k < end; ++k) {
        demand = {Cells::with_key(demand.low, nibbles_[k], 2 * i),
                  Cells::with_key(demand.high, nibbles_[k], 2 * i + 1)};
      }
    }
    return demand;
  }
  /// The words 2·i and 2·i + 1.
  SCBF_INLINE std::uint64_t* pair(std::uint32_t block, unsigned i) const noexcept {
    return line(block) + 2 * i;
  }
  SCBF_INLINE std::uint64_t* line(std::uint32_t block) const noexcept {
    return words_ + std::uint64_t{block} * Cells::kBlockWords;
  }
  /// The lower half of the position of the k-th of n keys, all that the chunk has of this block,
  /// which is not crowded.
  SCBF_INLINE std::uint32_t key(std::uint32_t block, std::uint32_t n,
                                std::uint32_t k) const noexcept {
    return nibbles_[ends_[block] - n + k];
  }

  /// visit(warp, block, n, before) with each lane's block, how many keys the chunk has of it, and,
  /// if that is not 0 and `wants_before`, what the lane's words of the filter hold. Lane l has pair
  /// l % kSharers of its block, or in ranked the slice of that number. If counting, *total += the
  /// sum of what it returns for all lanes.
  template <bool counting, bool wants_before = true, class Threads, class Visit>
  SCBF_INLINE void each_block(const Threads& threads, std::uint64_t* total, Visit visit) const {
    constexpr unsigned kAtOnce = 2;  // blocks of a lane whose words are fetched together
    const unsigned step = threads.size() / kSharers;
    threads.each_warp([&](const auto& warp, unsigned index) {
      using Warp = std::remove_cvref_t<decltype(warp)>;
      auto counted = warp.each([](unsigned) { return std::int32_t{0}; });
      const std::uint32_t begin = index * (kWarp / kSharers);
      for (std::uint32_t first = begin; first < blocks_; first += step * kAtOnce) {
        typename Warp::template PerLane<std::uint32_t> block[kAtOnce], n[kAtOnce];
        typename Warp::template PerLane<WordPair> before[kAtOnce];
        for (unsigned a = 0; a < kAtOnce; ++a) {
          block[a] = warp.each([&](unsigned l) { return first + a * step + l / kSharers; });
          n[a] = warp.each(
              [&](unsigned l) { return block[a][l] < blocks_ ? counts_[block[a][l]] : 0; });
          before[a] = warp.each([&](unsigned l) {
            return wants_before && n[a][l] != 0 ? load(block[a][l], l % kSharers) : WordPair{0, 0};
          });
        }
        for (unsigned a = 0; a < kAtOnce; ++a) {
          const auto change = visit(warp, block[a], n[a], before[a]);
          if (counting) warp.each([&](unsigned l) { counted[l] += change[l]; });
        }
      }
      if (counting) add_up(warp, counted, total);
    });
  }

 private:
  // The sum of a crowded block's keys lies where their nibbles would, which need more memory.
  static constexpr std::uint32_t kCrowded = 64;
  static_assert(kCrowded >= 2 * Cells::kBlockWords);
  static constexpr bool kHasSums = !std::is_same_v<Cells, RankedCells>;

  SCBF_INLINE static bool is_crowded(std::uint32_t keys) noexcept {
    return kHasSums && keys > kCrowded;
  }

  SCBF_INLINE WordPair load(std::uint32_t block, unsigned i) const noexcept {
    if constexpr (kHasSums) {
      return Atomic().load_pair(pair(block, i));
    } else {
      return {Atomic().load(line(block) + i), Atomic().load(line(block) + kRankedSlices + i)};
    }
  }

  SCBF_INLINE std::uint64_t* crowd(std::uint32_t block) const noexcept {
    return reinterpret_cast<std::uint64_t*>(nibbles_ + (ends_[block] + 1) / 2 * 2);
  }
  SCBF_INLINE void empty_crowd(std::uint32_t block) const noexcept {
    std::uint64_t* sum = crowd(block);
    for (unsigned i = 0; i < Cells::kBlockWords; ++i) sum[i] = 0;
  }
  SCBF_INLINE void add_to_crowd(std::uint32_t block, std::uint32_t nibbles) const noexcept {
    std::uint64_t* sum = crowd(block);
    SCBF_NOT_UNROLLED
    for (unsigned i = 0; i < Cells::kBlockWords; ++i) {
      if constexpr (kHasSums) Cells::add(sum + i, Cells::in_block(0u, nibbles, i));
    }
  }

  std::uint32_t* next_;
  std::uint32_t* counts_;   // of keys, for each block
  std::uint32_t* ends_;     // of its keys among the nibbles; if it is crowded, where its sum begins
  std::uint32_t* nibbles_;  // of the keys
  std::uint32_t inside_, blocks_;
  std::uint64_t* words_;
};

/// How the keys of partitions are sorted by block: how many at once, and what memory that takes.
struct ChunkPlan {
  std::uint32_t keys;
  std::size_t bytes;  ///< of shared memory

  /// For about this many keys in a partition. (If there are more, there are more chunks.)
  template <class Cells>
  static ChunkPlan of(const PartitionPlan& plan, std::uint64_t expected_keys,
                      std::size_t most_bytes) noexcept {
    const std::size_t blocks = plan.partition_words() / Cells::kBlockWords;
    // TakeFromBlocks needs one more number for each block, and two more.
    const std::size_t tables = KeysByBlock<Cells>::numbers(blocks, 0) + blocks + 2;
    const std::size_t numbers = most_bytes / sizeof(std::uint64_t) * 2;  // whole words
    const std::size_t most = std::max(numbers, tables + 1) - tables;
    const auto keys = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(most, kLeastKeys + expected_keys + expected_keys / 8));
    return {keys, (tables + keys + 1) / 2 * sizeof(std::uint64_t)};
  }

 private:
  static constexpr std::uint64_t kLeastKeys = 1024;  // some more than expected, also of few
};

}  // namespace scbf::cuda
