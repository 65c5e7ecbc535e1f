// SPDX-License-Identifier: Apache-2.0
// Numbers of things, for messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace scbf {

/// "1 group", "2 groups".
inline std::string counted(std::uint64_t n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace scbf
