// SPDX-License-Identifier: Apache-2.0
// From a function that was compiled once per Highway target to what it returns on this machine.
#pragma once

#include <hwy/targets.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scbf {

/// What the functions of an HWY_DISPATCH_TABLE return: those of every target that was compiled and
/// that this machine runs, best first.
template <class Result, std::size_t n>
std::vector<Result> results_by_target(Result (*const (&functions)[n])()) {
  std::vector<Result> results;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    // Highway's table indexed by hand: its own way to choose a target is global to the process.
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    results.push_back(functions[chosen.GetIndex()]());
  }
  return results;
}

}  // namespace scbf
