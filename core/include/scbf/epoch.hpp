// SPDX-License-Identifier: Apache-2.0
// Epoch: a moment in the history of a filter of bits whose changes are sent to readers; see
// delta.hpp.
#pragma once

#include <cstdint>

namespace scbf {

/// Filters of bits with equal epochs, other than none, have equal bits.
struct Epoch {
  std::uint64_t number = 0;  ///< 1, 2, 3 …; 0: none
  /// A hash chained over all changes up to this epoch, so that histories that begin alike and then
  /// diverge are not mistaken for each other.
  std::uint64_t history = 0;

  explicit operator bool() const noexcept { return number != 0; }
  friend bool operator==(const Epoch&, const Epoch&) = default;
};

}  // namespace scbf
