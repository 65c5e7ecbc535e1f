// SPDX-License-Identifier: Apache-2.0
// Epochs as Python has them.
#pragma once

#include <cstdint>
#include <optional>

#include "scbf/epoch.hpp"

namespace scbf::python {

/// An epoch's number, and whether there is one.
inline std::optional<std::uint64_t> number_of(const Epoch& epoch) {
  return epoch ? std::optional(epoch.number) : std::nullopt;
}

}  // namespace scbf::python
