// SPDX-License-Identifier: Apache-2.0
// For tests only: does a bank's projection say what its counters say? Not installed.
#pragma once

#include <optional>
#include <string>

#include "scbf/bank.hpp"

namespace scbf {

struct BankCheck {
  /// What is wrong first, or nothing: rows that are not what the counters say, or stages that are
  /// not where the map of stages says. Cost: all counters, one at a time.
  static std::optional<std::string> difference(const Bank& bank);
};

}  // namespace scbf
