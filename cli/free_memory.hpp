// SPDX-License-Identifier: Apache-2.0
// How much memory a command may take.
#pragma once

#include <cstdint>

namespace scbf::cli {

/// Memory that this process can use without crowding others out, in bytes: what is available, and
/// what control groups and `ulimit -v` leave.
std::uint64_t memory_to_spare();

}  // namespace scbf::cli
