// SPDX-License-Identifier: Apache-2.0
// Shared by the inverses (sizing.cpp), the planner (planner.cpp) and growths (growth.cpp): a search
// that returns nothing if a limit is exceeded, the rule for taking another group, checks of
// arguments, and what the parts of a layout are. Not installed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kit/counted.hpp"
#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"

namespace scbf::sizing {

/// Another group costs every key another cache line, so it must save this share of the memory.
inline constexpr double kGroupMustSave = 0.1;

// Parts are the slices of split or the groups of split_block; ranked has none to choose.
constexpr std::uint32_t most_parts(Layout layout) noexcept {
  return layout == Layout::split ? kMaxProbes : kMaxGroups;
}
/// For messages: "7 slices", "1 group".
inline std::string counted_parts(Layout layout, std::uint32_t parts) {
  return counted(parts, layout == Layout::split ? "slice" : "group");
}

/// Throws InvalidArgument unless 0 < fpr < 1 (NaN does not pass).
void check_fpr(double fpr);

/// The smallest geometry with exactly `parts` slices or groups that holds n keys at fpr; nothing if
/// that exceeds the limits of Geometry. Arguments have been checked.
std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts);
/// The same with the k that takes the fewest counters (split), the number of groups by the rule
/// below (split_block), or the positions that take the fewest bytes (ranked).
std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr);
/// For `ranked`; 0 positions: those that take the fewest bytes.
std::optional<Geometry> smallest_ranked(std::uint64_t n, double fpr, std::uint32_t positions);

/// Starting from `first` groups, adds groups while each saves enough. saving(g) is the share of the
/// memory that g + 1 groups save over g; nothing if g + 1 groups are not possible.
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

/// Throws InvalidArgument: n keys at fpr exceed the limits of the layout (with `parts`; 0 = any).
/// The message says how many keys the layout can hold.
[[noreturn]] void refuse_capacity(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts);

}  // namespace scbf::sizing
