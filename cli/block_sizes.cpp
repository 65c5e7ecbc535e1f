// SPDX-License-Identifier: Apache-2.0
#include "block_sizes.hpp"

#include <algorithm>
#include <cstdint>

#include "free_memory.hpp"

namespace scbf::cli {

std::size_t bulk_block(const Backend& backend) {
  return backend.memory() == kHostMemory ? kSmallBlock : 64 * kSmallBlock;
}

namespace {

constexpr std::size_t kIntegerBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kLineBytes = 64;

}  // namespace

std::size_t window_keys(const FilterBase& filter, double keys_per_line, const RunOptions& run) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const std::uint64_t room =
      std::min(run.scratch_bytes > 0 ? run.scratch_bytes / 2 : kMost, memory_to_spare() / 8);
  const double wanted = keys_per_line * static_cast<double>(filter.bytes() / kLineBytes);
  const auto bytes = kIntegerBytes * static_cast<std::uint64_t>(wanted);
  return std::max<std::uint64_t>(std::min(bytes, room), kSmallBlock) / kIntegerBytes;
}

std::size_t printed_block(const FilterBase& filter, KeyKind kind, double keys_per_line,
                          const RunOptions& run) {
  if (kind == KeyKind::u64) return window_keys(filter, keys_per_line, run) * kIntegerBytes;
  return std::clamp<std::size_t>(filter.bytes() / kLineBytes * 5 / 4 * kIntegerBytes, kSmallBlock,
                                 256 * kSmallBlock);
}

}  // namespace scbf::cli
