// SPDX-License-Identifier: Apache-2.0
// What the machine says about its caches, within bounds, which also serve where it says nothing.
#pragma once

#include <cstdint>

namespace scbf {

/// The cache of a core, 1 to 4 MiB.
std::uint64_t l2_bytes() noexcept;
/// The last cache, which cores share: at least twice l2_bytes().
std::uint64_t l3_bytes() noexcept;

}  // namespace scbf
