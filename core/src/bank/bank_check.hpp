// SPDX-License-Identifier: Apache-2.0
// For tests only: does a bank's projection say what its counters say? Not installed.
#pragma once

#include <optional>
#include <string>

#include "scbf/filter_bank.hpp"
#include "scbf/scalable_bank.hpp"

namespace scbf {

struct BankCheck {
  /// What is wrong first, or nothing. Cost: all counters, one at a time.
  static std::optional<std::string> difference(const FilterBank& bank);
  /// The same of all stages; and whether the map of stages says where they are.
  static std::optional<std::string> difference(const ScalableBank& bank);
};

}  // namespace scbf
