// SPDX-License-Identifier: Apache-2.0
// scbf plan --regions: what a secondary index takes and saves, before there is one.
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
  /// Throws UsageError if any of them is given but --regions.
  void refuse_rest() const;
};

/// Prints the plan. `shape` gives rate, layout and the memory of a machine. Throws UsageError for
/// what does not go together.
int plan_regions(const RegionOptions& options, const PlanRequest& shape, bool json);

}  // namespace scbf::cli
