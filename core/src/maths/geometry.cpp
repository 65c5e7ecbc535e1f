// SPDX-License-Identifier: Apache-2.0
#include "scbf/geometry.hpp"
#include "scbf/detail/in_quotes.hpp"

#include <fmt/format.h>

#include "kit/counted.hpp"
#include "scbf/errors.hpp"

namespace scbf {

std::string_view to_string(Layout layout) noexcept {
  switch (layout) {
    case Layout::split:
      return "split";
    case Layout::split_block:
      return "split_block";
    case Layout::ranked:
      break;
  }
  return "ranked";
}

std::string_view to_string(Cell cell) noexcept { return cell == Cell::counter ? "counter" : "bit"; }

Layout layout_from_string(std::string_view name) {
  if (name == "split") return Layout::split;
  if (name == "split_block") return Layout::split_block;
  if (name == "ranked") return Layout::ranked;
  throw InvalidArgument(fmt::format("layout {}: must be 'split', 'split_block' or 'ranked'",
                                    detail::in_quotes(name)));
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
  return {Layout::split_block, groups * kWordsPerBlock, blocks_per_group, kCountersPerWord};
}

Geometry Geometry::ranked(std::uint32_t positions, std::uint64_t blocks,
                          std::uint64_t spill_slots) {
  if (positions < kMinRankedPositions || positions > kMaxRankedPositions) {
    throw InvalidArgument(fmt::format("positions {}: must be {} to {}", positions,
                                      kMinRankedPositions, kMaxRankedPositions));
  }
  if (blocks < 1 || blocks > kMaxBlocksPerGroup) {
    throw InvalidArgument(fmt::format("blocks {}: must be 1 to {}", blocks, kMaxBlocksPerGroup));
  }
  if (spill_slots > kMaxSpillSlots) {
    throw InvalidArgument(fmt::format("slots for spilled blocks {}: must be at most {}",
                                      spill_slots, kMaxSpillSlots));
  }
  return {Layout::ranked, kRankedSlices, blocks, positions, spill_slots};
}

std::string Geometry::describe() const {
  const bool bits = cell_ == Cell::bit;
  switch (layout_) {
    case Layout::split:
      return fmt::format("split, {} of {}", counted(probes_, "slice"),
                         counted(extent_, bits ? "bit" : "counter"));
    case Layout::split_block:
      return fmt::format("split_block, {} of {}{}", counted(groups(), "group"),
                         counted(extent_, "block"), bits ? " of bits" : "");
    case Layout::ranked:
      break;
  }
  return fmt::format("ranked, {} of {} times {} {}, {} may spill", counted(extent_, "block"),
                     kRankedSlices, positions_, bits ? "bits" : "positions", spill_slots_);
}

}  // namespace scbf
