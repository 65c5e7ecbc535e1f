// SPDX-License-Identifier: Apache-2.0
// Numbers that are computed by logarithms: their last digits depend on the C library, so those in a
// file may differ from the ones that are computed here.
#pragma once

#include <algorithm>
#include <cmath>

#include "scbf/growth.hpp"

namespace scbf {

/// Relative difference allowed.
inline constexpr double kClose = 1e-9;

inline bool is_close(double a, double b) { return std::abs(a - b) <= kClose * b; }

/// Are the shapes equal but for last digits?
inline bool is_close(const StageShape& a, const StageShape& b) {
  const auto [less, more] = std::minmax(a.full_at, b.full_at);
  return a.geometry == b.geometry && is_close(a.fpr, b.fpr) && more - less <= 1;
}

}  // namespace scbf
