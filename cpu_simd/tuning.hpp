// SPDX-License-Identifier: Apache-2.0
// Sizes that decide how a batch is worked on, all in one place (but for batches of few keys, whose
// sizes are in core/src/kit/few_keys.hpp). Each was measured; what was seen is in
// docs/performance.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace scbf {

/// Keys between the prefetch of a counter and its use, where counters come from L2 or L3.
inline constexpr std::size_t kNearDistance = 32;
/// The same where they come from memory. An out-of-order core reaches some 32 keys ahead by
/// itself; what is prefetched nearer than that is asked for no earlier than without.
inline constexpr std::size_t kFarDistance = 128;
/// With few keys, lines of further filters are asked for ahead until so many are under way.
inline constexpr std::size_t kLinesAhead = 256;
/// Keys that are hashed and located together; their positions stay in L1.
inline constexpr std::size_t kStripKeys = 1024;
/// Positions of keys that are located in all arrays at once; they stay in L1, too.
inline constexpr std::size_t kStripPositions = 4096;
/// Keys per task when a lookup on the direct path is shared among threads.
inline constexpr std::size_t kTaskKeys = 64 * 1024;

/// Filters up to this size are taken to lie in cache: no prefetching, no partitioning.
inline constexpr std::uint64_t kNearBytes = 1u << 20;
/// Filters above this size are taken to lie in memory.
inline constexpr std::uint64_t kFarBytes = 4u << 20;
/// Fetch::distance for counters of so many bytes.
constexpr std::size_t distance_for(std::uint64_t bytes) noexcept {
  return bytes > kFarBytes ? kFarDistance : bytes > kNearBytes ? kNearDistance : 0;
}
/// Filters up to this size gain nothing from partitioning on one thread: insertions, and what has
/// answers to bring back.
inline constexpr std::uint64_t kDirectInsertBytes = 32u << 20;
inline constexpr std::uint64_t kDirectAnswerBytes = 512u << 20;
/// In filters up to this size, partitioned changes cost about twice the direct ones: two threads
/// gain nothing by sharing them. More threads share from kNearBytes on (not measured).
inline constexpr std::uint64_t kShareBytes = 8u << 20;
/// Removal from filters of several arrays: partitioned, it is twice the work, which two threads
/// make up for only in filters above this size.
inline constexpr std::uint64_t kShareRemoveOfSeveralBytes = 96u << 20;
/// Partitioning reads the whole filter once: the batch must have this many keys per cache line
/// of it to pay for that.
inline constexpr double kKeysPerLine = 1.0;
/// A batch asked of several filters goes through them in the order of its hashes if at least two of
/// their first arrays lie in memory (above kFarBytes each), and there are so many keys per cache
/// line of all first arrays together. The way back costs about two lines from memory: what the
/// order saves must be more.
constexpr double any_keys_per_line(std::size_t far_filters) noexcept {
  return far_filters > 2 ? 0.5 : 1.25;
}
/// Counters of one partition in bytes: as many as give kFewPartitions, from this many up to half an
/// L2 cache, as the next partition is fetched beside. The bounds of that half hold where the
/// machine does not say how large its L2 is, too.
inline constexpr std::uint64_t kMinPartitionBytes = 8u << 10;
inline constexpr std::uint64_t kMinHalfL2Bytes = 512u << 10;
inline constexpr std::uint64_t kMaxHalfL2Bytes = 2048u << 10;
/// Of the first-level cache.
inline constexpr std::uint64_t kL1Bytes = 32u << 10;
/// With far fewer partitions, successive keys meet in the same one, and each append waits for the
/// one before; with far more, their last lines no longer stay in L1 and the nearer half of L2.
inline constexpr std::uint64_t kFewPartitions = 512;
/// Above this, partitions outgrow L2 rather than partitions growing more. Must stay below 2^16, the
/// range of Scatter::partition_of.
inline constexpr std::uint64_t kMaxPartitions = 4096;
/// With several threads there are at least this many partitions for each, to share evenly.
inline constexpr std::uint64_t kPartitionsPerThread = 8;

/// Temporary memory of the partitioned path, when the caller leaves it open: the filter's size
/// within these bounds.
inline constexpr std::size_t kMinScratchBytes = 1u << 20;
inline constexpr std::size_t kMaxDefaultScratchBytes = 1u << 30;

}  // namespace scbf
