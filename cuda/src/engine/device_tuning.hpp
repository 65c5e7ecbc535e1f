// SPDX-License-Identifier: Apache-2.0
// The sizes that decide how a batch is worked on, all in one place. Those that were measured were
// measured on an H200 (docs/cuda.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/owners.hpp"
#include "engine/partitions.hpp"
#include "scbf/backend.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

struct Tuning {
  Path path = Path::automatic;
  /// Temporary memory of the partitioned path; 0 = the filter's own size, kLeastScratch at least.
  std::size_t scratch_bytes = 0;
  /// Does nothing else change the filter during an insertion? Then the partitioned path needs no
  /// atomic operations on the filter.
  bool alone = true;
  /// Changes of filters up to this size are direct, since much of them lies in the second-level
  /// cache. There, partitions are up to half as fast again for different keys, but several times
  /// slower for few keys that are repeated often.
  std::uint64_t cached_bytes = std::uint64_t{100} << 20;
  PartitionLimits limits{.least_log2_words = 11,
                         .most_log2_words = 13,
                         .least_log2_blocks = 9,
                         .most_log2_blocks = 12,
                         .sorted_bytes = std::size_t{96} << 10,
                         .part_positions = 1u << 16,
                         .tile_positions = 1u << 12,
                         .counted_bytes = std::size_t{96} << 10};
  /// Log2 of the most reservations of keys that are decided in order: 8 MiB of them.
  unsigned most_log2_reservations = 20;
  /// Keys of a removal from several filters that are looked up, and then decided, together.
  std::size_t claimed_keys = std::size_t{1} << 20;
  /// Log2 of the most entries in the table of owners of an insertion of new keys: 64 MiB of them.
  unsigned most_log2_owners = 23;

  static constexpr std::size_t kLeastScratch = std::size_t{64} << 20;
  /// From this many keys per line of an array on, the pass over the filter pays: sorting moves a
  /// position once for each digit, while a direct change moves a whole line both ways. The figures
  /// come from the rows with keys_per_call of gpu_bench on one H200; for bits, from counting bytes.
  double least_keys_per_line(const Geometry& geometry, bool removes) const noexcept {
    if (geometry.cell() == Cell::bit) return 2;
    if (geometry.layout() == Layout::split) return removes ? 0.95 : 0.6;
    return removes ? 0.55 : alone ? 0.45 : 1.1;
  }
  /// Two copies of the position and, except for ranked, a share of the demands of divided
  /// partitions.
  std::size_t scratch_per_key(const Geometry& geometry) const noexcept {
    const Array array(geometry, 0);
    return 2 * position_bytes(array, plan_partitions(array, limits), limits) +
           (geometry.layout() == Layout::ranked ? 0 : 4);
  }

  /// Whether to partition an insertion or a removal of this many keys, one at least. (Insertions
  /// into counters in the layout ranked are always partitioned: ranked_insertion.hpp.)
  bool should_partition(const Geometry& geometry, std::size_t keys, bool removes) const noexcept {
    if (geometry.layout() == Layout::ranked) return false;  // bits: blocks share words
    const Array array(geometry, 0);
    if (path == Path::direct) return false;
    if (path == Path::partitioned) return true;
    const double lines = static_cast<double>(array.words() / kWordsPerBlock);
    return geometry.bytes() > cached_bytes && static_cast<double>(keys_of_pass(geometry, keys)) >=
                                                  least_keys_per_line(geometry, removes) * lines;
  }

  /// How many of n > 0 keys one pass takes, so that all passes take about as many.
  std::size_t keys_of_pass(const Geometry& geometry, std::size_t n) const noexcept {
    const std::size_t most = keys_at_once(geometry);
    const std::size_t passes = (n + most - 1) / most;
    return (n + passes - 1) / passes;
  }
  /// How many keys one pass takes at most; fewer than 2^32.
  std::size_t keys_at_once(const Geometry& geometry) const noexcept {
    const std::size_t budget =
        scratch_bytes > 0 ? scratch_bytes : std::max<std::size_t>(geometry.bytes(), kLeastScratch);
    return std::clamp<std::size_t>(budget / scratch_per_key(geometry), limits.part_positions,
                                   std::size_t{1} << 31);
  }

  /// Eight entries in the table of reservations for each line that a key reserves, so that few keys
  /// wait for a key that shares no line with them.
  unsigned log2_reservations(std::uint32_t lines_per_key, std::size_t keys) const noexcept {
    const std::size_t wanted = 8 * keys * lines_per_key;
    return std::min<unsigned>(most_log2_reservations,
                              std::max<unsigned>(static_cast<unsigned>(std::bit_width(wanted)), 6));
  }
  /// How many of n > 0 keys are decided together in an insertion of new keys: so many that the
  /// table of owners has two entries for each cell.
  std::size_t new_keys_at_once(const Geometry& geometry, std::size_t n) const noexcept {
    const std::size_t most = (std::size_t{1} << most_log2_owners) / 2 / geometry.probes();
    return std::min(n, std::clamp<std::size_t>(most, 1, std::size_t{1} << Owners::kKeyBits));
  }
  /// Keys that are decided together, of those that are decided in order.
  static std::uint32_t window(std::uint32_t lines_per_key, unsigned log2_reservations) noexcept {
    return std::max(1u, (1u << log2_reservations) / 8 / lines_per_key);
  }
};

}  // namespace scbf::cuda
