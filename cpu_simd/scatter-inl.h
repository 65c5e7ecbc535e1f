// SPDX-License-Identifier: Apache-2.0
// Radix partitioning of positions, and the way back. Included once per target.
//
// Positions are scattered to thousands of partitions. Written straight, each would touch a cache
// line that is read, changed and evicted; so each partition has one cache line in a small array
// (software write-combining), and only full lines leave, past the caches. The array stays in L2.
// Partitions are chains of small chunks rather than arrays of a size guessed beforehand: no pass
// to count, and any skew fits.
//
// Answers come back without an index stored beside each position: the same positions are computed
// once more, in input order, and each takes the next answer of its partition.
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
  using Tag = hn::CappedTag<std::uint64_t, kLineEntries>;
  const Tag tag;
  constexpr std::size_t lanes = hn::MaxLanes(Tag());
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t partition = positions[i] >> shift;
    std::uint64_t end = to.ends[partition];
    std::uint64_t* line = to.lines + partition * kLineEntries;
    line[end % kLineEntries] = positions[i];
    ++end;
    if (HWY_UNLIKELY(end % kLineEntries == 0)) {
      std::uint64_t* out = to.entries + end - kLineEntries;
      for (std::size_t part = 0; part < kLineEntries; part += lanes) {
        hn::Stream(hn::Load(tag, line + part), tag, out + part);
      }
      if (HWY_UNLIKELY(end % kChunkEntries == 0)) {
        to.next_chunk[end / kChunkEntries - 1] = to.used_chunks;
        end = std::uint64_t{to.used_chunks++} * kChunkEntries;
      }
    }
    to.ends[partition] = end;
  }
}

inline void ScatterFlush(Scatter& to, std::size_t partitions) noexcept {
  for (std::size_t partition = 0; partition < partitions; ++partition) {
    const std::uint64_t end = to.ends[partition];
    const std::uint64_t* line = to.lines + partition * kLineEntries;
    for (std::uint64_t entry = end / kLineEntries * kLineEntries; entry < end; ++entry) {
      to.entries[entry] = line[entry % kLineEntries];
    }
  }
  hwy::FlushStream();
}

inline void Replay(const std::uint8_t* results, const std::uint32_t* next_chunk,
                   std::uint64_t* cursors, const std::uint64_t* positions, std::size_t n,
                   PartitionShift shift, std::uint8_t* answers) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t& cursor = cursors[positions[i] >> shift];
    answers[i] = results[cursor];
    ++cursor;
    if (HWY_UNLIKELY(cursor % kChunkEntries == 0)) {
      cursor = std::uint64_t{next_chunk[cursor / kChunkEntries - 1]} * kChunkEntries;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
