// SPDX-License-Identifier: Apache-2.0
// What the inverses (sizing.cpp) and the planner (planner.cpp) share: a search that reports a
// passed limit as "none", the rule for taking another group, and checks of arguments.
// Not installed.
#pragma once

#include <cstdint>
#include <optional>

#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"

namespace scbf::sizing {

/// Another group costs every key another cache line, so it must save this share of the memory.
inline constexpr double kGroupMustSave = 0.1;

/// Throws InvalidArgument unless 0 < fpr < 1 (NaN does not pass).
void check_fpr(double fpr);

/// The smallest geometry with exactly `parts` slices or groups that holds n keys at fpr, or none
/// if that passes the limits of Geometry. Arguments are checked already.
std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts);
/// The same with the k of fewest counters, or the g of the rule.
std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr);

/// From `first` groups on, adds groups while each saves enough. saving(g) is the share of the
/// memory that g + 1 groups save over g, none if g + 1 are not possible.
template <class Saving>
std::uint32_t groups_worth_taking(std::uint32_t first, const Saving& saving) {
  std::uint32_t groups = first;
  while (groups < kMaxGroups) {
    const std::optional<double> saved = saving(groups);
    if (!saved || *saved < kGroupMustSave) break;
    ++groups;
  }
  return groups;
}

/// Throws: n keys at fpr pass the limits of the layout (with `parts`, 0 = any). Says how many
/// keys it does hold.
[[noreturn]] void refuse_capacity(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts);

}  // namespace scbf::sizing
