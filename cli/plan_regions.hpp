// SPDX-License-Identifier: Apache-2.0
// scbf plan --regions: the memory and the requests of a secondary index, planned in advance.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "command_line.hpp"
#include "scbf/sizing.hpp"

namespace scbf::cli {

struct RegionOptions {
  std::optional<std::uint32_t> regions;
  std::optional<std::uint64_t> servers, rows, values;
  std::vector<std::uint64_t> holding;

  void add_to(CommandLine& line);
  /// Throws UsageError if any of these options is given without --regions.
  void refuse_rest() const;
};

/// Prints the plan. `shape` gives the rate, the layout and the memory of a machine. Throws
/// UsageError for options that cannot be combined.
int plan_regions(const RegionOptions& options, const PlanRequest& shape, bool json);

}  // namespace scbf::cli
