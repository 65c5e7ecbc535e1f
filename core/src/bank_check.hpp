// SPDX-License-Identifier: Apache-2.0
// For tests only: does a bank's projection say what its counters say? Not installed.
#pragma once

#include <optional>
#include <string>

#include "scbf/filter_bank.hpp"

namespace scbf {

struct BankCheck {
  /// What is wrong first, or nothing. Cost: all counters, one at a time.
  static std::optional<std::string> difference(const FilterBank& bank);
};

}  // namespace scbf
