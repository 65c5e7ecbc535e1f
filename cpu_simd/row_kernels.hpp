// SPDX-License-Identifier: Apache-2.0
// The face between SimdRowEngine and its kernels, which are compiled once per Highway target.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kit/row_engine.hpp"

namespace scbf {

/// The kernels of one target; see RowEngine.
struct RowKernels {
  void (*intersect)(const RowsView& view, const std::uint64_t* rows, std::uint32_t k, std::size_t n,
                    const std::uint8_t* always, std::uint8_t* out) noexcept;
  void (*gather)(const std::array<const std::uint64_t*, kGatherMembers>& lines,
                 std::uint64_t* bits) noexcept;
};

/// In the order of kernel_tables().
std::vector<const RowKernels*> row_kernel_tables();

}  // namespace scbf
