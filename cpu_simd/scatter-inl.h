// SPDX-License-Identifier: Apache-2.0
// Radix partitioning of positions. Included once per target. The way back is in answers.hpp.
//
// Positions are appended to a few hundred to a few thousand partitions. The line at the end of each
// stays in the caches until it is full, which combines the writes. Every append prefetches the line
// after it into L2; otherwise the first store to each line waits for memory, and all later stores
// wait behind it (docs/performance_notes.md). The alternative, to collect lines in a separate
// buffer and stream them past the caches, was measured and is no faster: it saves reading the
// lines, but the branch that flushes them is mispredicted once per line. Partitions are chains of
// small segments, not buffers of a size guessed beforehand: this needs no counting pass and copes
// with any skew.
#if defined(SCBF_SCATTER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_SCATTER_INL
#undef SCBF_SCATTER_INL
#else
#define SCBF_SCATTER_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu_simd/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline void ScatterPositions(Scatter& to, const std::uint64_t* positions, std::size_t n,
                             PartitionShift shift) noexcept {
  if (to.partition_of != nullptr) {
    std::uint16_t* partition_of = to.partition_of + to.keys;
    for (std::size_t i = 0; i < n; ++i) {
      partition_of[i] = static_cast<std::uint16_t>(positions[i] >> shift);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t partition = positions[i] >> shift;
    std::uint64_t* end = to.ends[partition];
    __builtin_prefetch(end + kEntriesPerLine, 1, 2);  // for writing, into L2
    *end++ = positions[i];
    if (HWY_UNLIKELY(reinterpret_cast<std::uintptr_t>(end) % kSegmentBytes == 0)) {
      const auto segment = static_cast<std::size_t>(end - to.entries) / kSegmentEntries - 1;
      const std::uint32_t next = to.used_segments++;
      to.next_segment[segment] = next;
      to.next_segment[next] = next;  // the last of its chain, so far
      end = to.entries + std::uint64_t{next} * kSegmentEntries;
    }
    to.ends[partition] = end;
  }
  to.keys += n;
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
