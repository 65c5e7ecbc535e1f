// SPDX-License-Identifier: Apache-2.0
// Radix partitioning of positions, and the way back. Included once per target.
//
// Positions are appended to a few hundred to a few thousand partitions. The line at the end of
// each stays in the caches until it is full; that is the write-combining. The line after it is
// fetched into L2 with every append: otherwise the first store to each line waits for memory, and
// all later stores behind it (docs/performance.md). Lines staged in
// an array of their own and streamed past the caches were measured, too, and are no faster: they
// spare memory a read, but mispredict the branch that flushes once per line. Partitions are
// chains of small chunks rather than arrays of a size guessed beforehand: no pass to count, and
// any skew fits.
//
// Answers come back without an index stored beside each position: two bytes per key remember its
// partition, and in batch order each key takes the next answer of its partition.
#if defined(SCBF_SCATTER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_SCATTER_INL
#undef SCBF_SCATTER_INL
#else
#define SCBF_SCATTER_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>

#include "cpu_simd/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool remember>
HWY_INLINE void scatter_positions(Scatter& to, const std::uint64_t* positions, std::size_t n,
                                  PartitionShift shift) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t partition = positions[i] >> shift;
    if constexpr (remember) to.partition_of[to.keys + i] = static_cast<std::uint16_t>(partition);
    std::uint64_t end = to.ends[partition];
    __builtin_prefetch(to.entries + end + kEntriesPerLine, 1, 2);  // to be written; into L2
    to.entries[end++] = positions[i];
    if (HWY_UNLIKELY(end % kChunkEntries == 0)) {
      to.next_chunk[end / kChunkEntries - 1] = to.used_chunks;
      to.next_chunk[to.used_chunks] = to.used_chunks;  // the last of its chain, so far
      end = std::uint64_t{to.used_chunks++} * kChunkEntries;
    }
    to.ends[partition] = end;
  }
  to.keys += n;
}

inline void ScatterPositions(Scatter& to, const std::uint64_t* positions, std::size_t n,
                             PartitionShift shift) noexcept {
  if (to.partition_of != nullptr) {
    scatter_positions<true>(to, positions, n, shift);
  } else {
    scatter_positions<false>(to, positions, n, shift);
  }
}

inline constexpr std::uint64_t kResultsPerLine = 64;

inline void Replay(const std::uint8_t* results, const std::uint32_t* next_chunk,
                   std::uint64_t* cursors, const std::uint16_t* partition_of, std::size_t n,
                   std::uint8_t* answers) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t cursor = cursors[partition_of[i]];
    answers[i] = results[cursor];
    ++cursor;
    if (HWY_UNLIKELY(cursor % kResultsPerLine == 0)) {
      // Thousands of streams are too many for the hardware to see: fetch the line after next.
      if (cursor % kChunkEntries == 0) {
        cursor = std::uint64_t{next_chunk[cursor / kChunkEntries - 1]} * kChunkEntries;
      }
      const std::uint64_t next = cursor + kResultsPerLine;
      hwy::Prefetch(results +
                    (next % kChunkEntries != 0
                         ? next
                         : std::uint64_t{next_chunk[cursor / kChunkEntries]} * kChunkEntries));
    }
    cursors[partition_of[i]] = cursor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
