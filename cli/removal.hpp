// SPDX-License-Identifier: Apache-2.0
// What it costs to remove a key that was never inserted: docs/maths.md, "Removing what was not
// inserted".
#pragma once

#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cli {

/// The expected number of keys that become absent if a false positive is removed from a filter of
/// this geometry with n distinct keys, each inserted once.
double lost_per_false_removal(const Geometry& geometry, double n);
/// The same for a filter of several stages, of which the one that claims the key loses it; n from
/// the fill.
double lost_per_false_removal(const Statistics& statistics, const Filter& filter);

}  // namespace scbf::cli
