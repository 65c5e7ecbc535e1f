// SPDX-License-Identifier: Apache-2.0
// The memory of the partitioned path: how an array is cut into partitions, how many keys fit into
// the scratch memory at once, and each thread's share of that memory (a *shard*). Within a shard,
// the positions of one partition are a chain of segments.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_simd/kernels.hpp"
#include "kit/scratch.hpp"
#include "scbf/backend.hpp"

namespace scbf {

/// What an operation needs in scratch memory besides positions.
struct ScratchNeeds {
  bool answers;  ///< for replay: the partition of each key, and each partition's next answers
  bool hashes;   ///< of the keys that go on to the next array
  bool index;    ///< of those keys in the batch
  bool added_by = false;  ///< for each key, which arrays have added it
};

/// Most arrays of a filter whose keys each array adds by itself: there is a bit for each.
inline constexpr std::uint32_t kMostArraysByPosition = 32;

/// How an array is cut into partitions, and how much of a batch is worked on at once (a *window*).
struct PartitionPlan {
  PartitionShift shift;           ///< partition of a position: position >> shift
  std::uint64_t partitions;       ///< partitions in an array
  std::uint64_t partition_words;  ///< words of the filter per partition (the last may be smaller)
  std::size_t keys_per_shard;     ///< of a window; a multiple of kSegmentEntries
  std::uint32_t segments;         ///< per shard: enough for keys_per_shard keys, however skewed
  std::size_t shard_bytes;
};

/// Plans for a batch of `keys` keys. The threads share scratch_bytes. The plan stays below that,
/// but it always has room for one segment of keys per thread (some 64 KiB).
PartitionPlan plan_partitions(const Geometry& geometry, std::size_t keys, unsigned threads,
                              std::size_t scratch_bytes, ScratchNeeds needs) noexcept;

/// The same for hashes, which are positions in [0, 2^64): partitions are equal shares of that
/// range. `bytes` is the memory of all filters that is looked at together.
PartitionPlan plan_hash_partitions(std::uint64_t bytes, std::size_t keys, unsigned threads,
                                   std::size_t scratch_bytes, ScratchNeeds needs) noexcept;

/// The scratch memory that the caller allows, or what would suit, within bounds.
std::size_t scratch_budget(std::uint64_t suitable, const BatchOptions& options) noexcept;

/// One thread's share of a window.
struct Shard {
  Scatter scatter;
  std::uint64_t* starts;     ///< per partition: its first entry
  std::uint64_t* hands;      ///< per partition: its next answers (answers.hpp), if needed
  std::uint64_t* cursors;    ///< per partition: the byte of `entries` where further answers lie
  std::uint64_t* hashes;     ///< of the keys in play, if needed
  std::uint32_t* index;      ///< of those among the shard's valid keys, if needed
  std::uint32_t* added_by;   ///< per key in play: a bit for each array that has added it, if needed
  std::size_t kept;          ///< how many keys are in play
  std::size_t first, count;  ///< keys of the batch

  /// Empties all partitions and gives each a first segment. Starts are staggered; otherwise
  /// partitions that fill evenly would all need a new segment, and use the same cache sets, at the
  /// same time.
  void begin_array(std::uint64_t partitions) noexcept;
};

/// Scratch memory cut into shards.
class Shards {
 public:
  /// Throws std::bad_alloc.
  Shards(const PartitionPlan& plan, unsigned threads, ScratchNeeds needs);
  Shard& operator[](std::size_t thread) noexcept { return shards_[thread]; }
  std::size_t size() const noexcept { return shards_.size(); }
  auto begin() noexcept { return shards_.begin(); }
  auto end() noexcept { return shards_.end(); }

 private:
  Scratch memory_;
  std::vector<Shard> shards_;
};

}  // namespace scbf
