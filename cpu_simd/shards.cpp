// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/shards.hpp"

#include <algorithm>
#include <bit>

#include "cpu_simd/caches.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

namespace {

constexpr std::size_t kEntryBytes = sizeof(std::uint64_t);
constexpr std::size_t kLineBytes = 64;

std::size_t round_up(std::size_t value, std::size_t step) noexcept {
  return (value + step - 1) / step * step;
}

// Each part of a shard begins on a cache line of its own.
std::size_t padded_bytes(std::size_t count, std::size_t element) noexcept {
  return round_up(count * element, kLineBytes);
}

std::size_t shard_bytes(std::uint64_t partitions, std::size_t segments, std::size_t keys,
                        ScratchNeeds needs) noexcept {
  std::size_t bytes = segments * kSegmentEntries * kEntryBytes;
  bytes += 2 * padded_bytes(partitions, sizeof(std::uint64_t));
  bytes += padded_bytes(segments, sizeof(std::uint32_t));
  if (needs.answers) {
    bytes += 2 * padded_bytes(partitions, sizeof(std::uint64_t));
    bytes += padded_bytes(keys, sizeof(std::uint16_t));
  }
  if (needs.hashes) bytes += padded_bytes(keys, sizeof(std::uint64_t));
  if (needs.index) bytes += padded_bytes(keys, sizeof(std::uint32_t));
  if (needs.added_by) bytes += padded_bytes(keys, sizeof(std::uint32_t));
  return bytes;
}

// Every partition may have a staggered first segment and a last segment that is not full.
std::size_t segments_for(std::uint64_t partitions, std::size_t keys) noexcept {
  return 2 * partitions + keys / kSegmentEntries;
}

/// Completes a plan whose partitions are set: as many keys as fit into a thread's scratch memory.
void fit_keys(PartitionPlan& plan, std::size_t keys, unsigned threads, std::size_t budget,
              ScratchNeeds needs) noexcept {
  const std::size_t fixed =
      shard_bytes(plan.partitions, segments_for(plan.partitions, 0), 0, needs) + kSegmentBytes;
  const std::size_t segment_of_keys =
      shard_bytes(plan.partitions, segments_for(plan.partitions, kSegmentEntries), kSegmentEntries,
                  needs) -
      shard_bytes(plan.partitions, segments_for(plan.partitions, 0), 0, needs);
  const std::size_t affordable = budget > fixed ? (budget - fixed) / segment_of_keys : 0;
  const std::size_t wanted = round_up((keys + threads - 1) / threads, kSegmentEntries);
  // 2^32 entries or more would not fit the 32-bit indices; no scratch memory is that large.
  const std::size_t most = (std::size_t{1} << 31) / kSegmentEntries;
  plan.keys_per_shard =
      std::min(wanted, std::clamp<std::size_t>(affordable, 1, most) * kSegmentEntries);
  plan.segments = static_cast<std::uint32_t>(segments_for(plan.partitions, plan.keys_per_shard));
  // A multiple of a segment, so that the next shard's entries are aligned to segments.
  plan.shard_bytes = round_up(
      shard_bytes(plan.partitions, plan.segments, plan.keys_per_shard, needs), kSegmentBytes);
}

}  // namespace

std::size_t scratch_budget(std::uint64_t suitable, const BatchOptions& options) noexcept {
  if (options.scratch_bytes != 0) return options.scratch_bytes;
  return std::clamp<std::size_t>(suitable, kMinScratchBytes, kMaxDefaultScratchBytes);
}

PartitionPlan plan_partitions(const Geometry& geometry, std::size_t keys, unsigned threads,
                              std::size_t scratch_bytes, ScratchNeeds needs) noexcept {
  // Units are what positions count: blocks (in their upper halves) or counters.
  const bool blocks = geometry.in_blocks();
  const std::uint64_t units = blocks ? geometry.blocks_per_group() : geometry.counters_per_slice();
  const std::uint64_t bits_per_unit = blocks ? geometry.block_bits() : geometry.cell_bits();
  const auto partitions_at = [&](unsigned bits) { return ((units - 1) >> bits) + 1; };
  // Each partition begins with a cache line, so that no two threads change the same one.
  unsigned least_bits = 0;
  while ((bits_per_unit << least_bits) % (8 * kLineBytes) != 0) ++least_bits;
  const auto partition_bits = [&](std::uint64_t bytes) {
    const auto bits = static_cast<unsigned>(std::bit_width(8 * bytes / bits_per_unit - 1));
    return std::max(bits, least_bits);
  };
  unsigned bits = partition_bits(kMinPartitionBytes);
  while (partitions_at(bits) > kFewPartitions && bits < partition_bits(l2_bytes() / 2)) ++bits;
  while (threads > 1 && partitions_at(bits) < threads * kPartitionsPerThread &&
         bits > partition_bits(kLineBytes)) {
    --bits;
  }
  const std::size_t budget = scratch_bytes / threads;
  // Segments that are not full must not use up the scratch memory: chains should have several
  // segments. A position cannot be shifted by all its 64 bits.
  while (partitions_at(bits) > 1 && bits < 31 &&
         (partitions_at(bits) > kMaxPartitions ||
          shard_bytes(partitions_at(bits), segments_for(partitions_at(bits), 0), 0, needs) >
              budget / 6)) {
    ++bits;
  }

  PartitionPlan plan{};
  plan.partitions = partitions_at(bits);
  plan.shift = bits + (blocks ? 32u : 0u);
  plan.partition_words = (bits_per_unit << bits) / 64;
  fit_keys(plan, keys, threads, budget, needs);
  return plan;
}

PartitionPlan plan_hash_partitions(std::uint64_t bytes, std::size_t keys, unsigned threads,
                                   std::size_t scratch_bytes, ScratchNeeds needs) noexcept {
  const std::size_t budget = scratch_bytes / threads;
  // At least two partitions: shifting by all 64 bits is undefined.
  unsigned bits = 1;
  const auto partitions = [&] { return std::uint64_t{1} << bits; };
  while (partitions() < kMaxPartitions && bytes / partitions() > kMinPartitionBytes &&
         (partitions() < kFewPartitions || bytes / partitions() > l2_bytes() / 2)) {
    ++bits;
  }
  while (bits > 1 &&
         shard_bytes(partitions(), segments_for(partitions(), 0), 0, needs) > budget / 6) {
    --bits;
  }
  PartitionPlan plan{};
  plan.partitions = partitions();
  plan.shift = 64 - bits;
  fit_keys(plan, keys, threads, budget, needs);
  return plan;
}

void Shard::begin_array(std::uint64_t partitions) noexcept {
  for (std::uint64_t p = 0; p < partitions; ++p) {
    starts[p] = p * kSegmentEntries + p * (kLineBytes / kEntryBytes) % kSegmentEntries;
    scatter.ends[p] = scatter.entries + starts[p];
    scatter.next_segment[p] = static_cast<std::uint32_t>(p);
  }
  scatter.used_segments = static_cast<std::uint32_t>(partitions);
  scatter.keys = 0;
}

Shards::Shards(const PartitionPlan& plan, unsigned threads, ScratchNeeds needs)
    : memory_(plan.shard_bytes * threads), shards_(threads) {
  std::byte* at = nullptr;
  const auto take = [&]<class T>(T*& part, std::size_t count) {
    part = reinterpret_cast<T*>(at);
    at += padded_bytes(count, sizeof(T));
  };
  for (unsigned t = 0; t < threads; ++t) {
    Shard& shard = shards_[t];
    shard = {};
    at = static_cast<std::byte*>(memory_.data()) + t * plan.shard_bytes;
    const std::size_t entries = std::size_t{plan.segments} * kSegmentEntries;
    take(shard.scatter.entries, entries);
    take(shard.scatter.ends, plan.partitions);
    take(shard.starts, plan.partitions);
    take(shard.scatter.next_segment, plan.segments);
    if (needs.answers) {
      take(shard.hands, plan.partitions);
      take(shard.cursors, plan.partitions);
      take(shard.scatter.partition_of, plan.keys_per_shard);
    }
    if (needs.hashes) take(shard.hashes, plan.keys_per_shard);
    if (needs.index) take(shard.index, plan.keys_per_shard);
    if (needs.added_by) take(shard.added_by, plan.keys_per_shard);
  }
}

}  // namespace scbf
