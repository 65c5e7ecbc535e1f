// SPDX-License-Identifier: Apache-2.0
// For tests only: do a bank's rows agree with its counters? Not installed.
#pragma once

#include <optional>
#include <string>

#include "scbf/bank.hpp"

namespace scbf {

struct BankCheck {
  /// The first error found, or nothing: a row that disagrees with the counters, or a stage that is
  /// not in the slot that the map of stages gives it. Cost: reads all counters one at a time.
  static std::optional<std::string> difference(const Bank& bank);
};

}  // namespace scbf
