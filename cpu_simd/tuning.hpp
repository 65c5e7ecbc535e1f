// SPDX-License-Identifier: Apache-2.0
// The sizes that decide how this backend works on a batch. Each was measured;
// docs/performance_notes.md has the results. (Those for few keys are in core/src/kit/few_keys.hpp;
// banks and insertion of new keys, which work with any backend, have theirs beside their code.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace scbf {

/// Keys between the prefetch of a counter and its use, where counters come from L2 or L3.
inline constexpr std::size_t kNearDistance = 32;
/// The same where counters come from memory, unless the library has found out that the machine is
/// faster at kNearDistance (fetch_distance.hpp). Some out-of-order cores look 32 keys ahead by
/// themselves, so that prefetching at that distance gains nothing.
inline constexpr std::size_t kFarDistance = 128;
/// Keys that are worked on to find out what one distance costs.
inline constexpr std::size_t kTryKeys = 2048;
/// Keys after which both distances are tried again.
inline constexpr std::size_t kKeysBetweenTries = 512 * 1024;
/// With few keys, lines of further filters are prefetched until this many are under way.
inline constexpr std::size_t kLinesAhead = 256;
/// Keys that are hashed and located together (a *strip*); their positions stay in L1.
inline constexpr std::size_t kStripKeys = 1024;
/// Positions per strip where keys are located in all arrays at once; they stay in L1, too.
inline constexpr std::size_t kStripPositions = 4096;
/// Keys per task when a lookup on the direct path is shared among threads.
inline constexpr std::size_t kTaskKeys = 64 * 1024;

/// A batch of a change in bulk with at least this many keys per thread is shared among threads.
inline constexpr std::size_t kBulkTaskKeys = 8 * 1024;

/// Filters up to this size are assumed to lie in cache: no prefetching, no partitioning.
inline constexpr std::uint64_t kNearBytes = 1u << 20;
/// Filters above this size are assumed to lie in memory.
inline constexpr std::uint64_t kFarBytes = 4u << 20;
/// Fetch::distance for a filter of this size.
constexpr std::size_t distance_for(std::uint64_t bytes) noexcept {
  return bytes > kFarBytes ? kFarDistance : bytes > kNearBytes ? kNearDistance : 0;
}
/// Keys per timed sample of the direct path, how many samples are taken at either end of a batch,
/// and how many samples long it must be, so that timing costs little.
inline constexpr std::size_t kSampleKeys = 64 * 1024, kLeastSampleKeys = 16 * 1024;
inline constexpr unsigned kSamples = 3;
inline constexpr std::size_t kBatchOfSamples = 16;
/// Keys of a window of a removal that are looked up to see whether nearly all of them are present.
inline constexpr std::size_t kRemovalSample = 1024;
/// The largest share of absent keys with which nearly all count as present.
inline constexpr double kFewAbsent = 0.01;
/// Partitioning reads the whole filter once. It pays if the batch has at least this many keys per
/// cache line of the filter.
inline constexpr double kKeysPerLine = 1.0;
/// A lookup in several filters goes in the order of the hashes if at least two of the first arrays
/// lie in memory (each above kFarBytes) and the batch has at least this many keys per cache line of
/// all first arrays together. Bringing an answer back costs about two lines from memory; the order
/// of the hashes must save more than that.
constexpr double any_keys_per_line(std::size_t far_filters) noexcept {
  return far_filters > 2 ? 0.5 : 1.25;
}
/// Bytes of counters in a partition: chosen to give kFewPartitions partitions, but at least this
/// many, and at most half an L2 cache, since the next partition is fetched at the same time.
inline constexpr std::uint64_t kMinPartitionBytes = 8u << 10;
/// Size of the first-level cache.
inline constexpr std::uint64_t kL1Bytes = 32u << 10;
/// With far fewer partitions, successive keys often go to the same one, and each append waits for
/// the one before. With far more, the lines at their ends no longer stay in L1 and the nearer half
/// of L2.
inline constexpr std::uint64_t kFewPartitions = 512;
/// The most partitions; beyond that, partitions grow larger, even than L2, rather than more
/// numerous. Must stay below 2^16, the range of Scatter::partition_of.
inline constexpr std::uint64_t kMaxPartitions = 4096;
/// With several threads there are at least this many partitions per thread, so that the work is
/// shared evenly.
inline constexpr std::uint64_t kPartitionsPerThread = 8;

/// Default temporary memory of the partitioned path: what suits the filter's size (choose.cpp),
/// within these bounds.
inline constexpr std::size_t kMinScratchBytes = 1u << 20;
inline constexpr std::size_t kMaxDefaultScratchBytes = 1u << 30;

}  // namespace scbf
