// SPDX-License-Identifier: Apache-2.0
// Kinds of work for which the library keeps separate times: the operation, the filter (one array,
// several, or ranked; counters or bits; its size to a power of two) and the threads (one, two, or
// more).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "cpu_simd/choose.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

inline constexpr std::size_t kOperations =
    static_cast<std::size_t>(Operation::remove_without_verdicts) + 1;
inline constexpr std::size_t kArrayShapes = 6, kThreadKinds = 3, kSizeKinds = 65;
inline constexpr std::size_t kWorkKinds = kOperations * kArrayShapes * kThreadKinds * kSizeKinds;

/// The number of a kind, below kWorkKinds.
inline std::size_t work_kind(Operation operation, const Geometry& geometry,
                             unsigned threads) noexcept {
  const std::size_t shape =
      3 * (geometry.cell() == Cell::bit) + (geometry.layout() == Layout::ranked  ? 2
                                            : geometry.cache_lines_per_key() > 1 ? 1
                                                                                 : 0);
  const std::size_t shared = std::min(threads, 3u) - 1;
  const auto size = static_cast<std::size_t>(std::bit_width(geometry.bytes()));
  return ((static_cast<std::size_t>(operation) * kArrayShapes + shape) * kThreadKinds + shared) *
             kSizeKinds +
         size;
}

}  // namespace scbf
