// SPDX-License-Identifier: Apache-2.0
// The false-positive rate of a stage, from its counters.
#pragma once

#include <cstdint>

#include "scbf/geometry.hpp"

namespace scbf {

/// The share of all hashes that a stage with these words, on the host, claims. As
/// StageView::exact_fpr.
double exact_fpr(const Geometry& geometry, const std::uint64_t* words) noexcept;

}  // namespace scbf
