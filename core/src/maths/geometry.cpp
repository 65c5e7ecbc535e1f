// SPDX-License-Identifier: Apache-2.0
#include "scbf/geometry.hpp"
#include "scbf/detail/in_quotes.hpp"

#include <fmt/format.h>

#include "scbf/errors.hpp"

namespace scbf {

std::string_view to_string(Layout layout) noexcept {
  return layout == Layout::split ? "split" : "split_block";
}

std::string_view to_string(Cell cell) noexcept { return cell == Cell::counter ? "counter" : "bit"; }

Layout layout_from_string(std::string_view name) {
  if (name == "split") return Layout::split;
  if (name == "split_block") return Layout::split_block;
  throw InvalidArgument(
      fmt::format("layout {}: must be 'split' or 'split_block'", detail::in_quotes(name)));
}

Geometry Geometry::split(std::uint32_t probes, std::uint64_t counters_per_slice) {
  if (probes < 1 || probes > kMaxProbes) {
    throw InvalidArgument(fmt::format("probes {}: must be 1 to {}", probes, kMaxProbes));
  }
  if (counters_per_slice < 1 || counters_per_slice > kMaxCountersPerSlice) {
    throw InvalidArgument(fmt::format("counters per slice {}: must be 1 to {}", counters_per_slice,
                                      kMaxCountersPerSlice));
  }
  return {Layout::split, probes, counters_per_slice};
}

Geometry Geometry::split_block(std::uint32_t groups, std::uint64_t blocks_per_group) {
  if (groups < 1 || groups > kMaxGroups) {
    throw InvalidArgument(fmt::format("groups {}: must be 1 to {}", groups, kMaxGroups));
  }
  if (blocks_per_group < 1 || blocks_per_group > kMaxBlocksPerGroup) {
    throw InvalidArgument(
        fmt::format("blocks per group {}: must be 1 to {}", blocks_per_group, kMaxBlocksPerGroup));
  }
  return {Layout::split_block, groups * kWordsPerBlock, blocks_per_group};
}

std::string Geometry::describe() const {
  const bool bits = cell_ == Cell::bit;
  return layout_ == Layout::split
             ? fmt::format("split, {} slices of {} {}", probes_, extent_,
                           bits ? "bits" : "counters")
             : fmt::format("split_block, {} group{} of {} blocks{}", groups(),
                           groups() == 1 ? "" : "s", extent_, bits ? " of bits" : "");
}

}  // namespace scbf
