// SPDX-License-Identifier: Apache-2.0
// Calls a function that was compiled once per Highway target, for each target that this machine
// runs.
#pragma once

#include <hwy/targets.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scbf {

/// The results of the functions of an HWY_DISPATCH_TABLE, for every target that was compiled and
/// that this machine runs, best first.
template <class Result, std::size_t n>
std::vector<Result> results_by_target(Result (*const (&functions)[n])()) {
  std::vector<Result> results;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if constexpr (n == 1) {  // a single target was compiled
      results.push_back(functions[0]());
    } else {
      // The table is indexed by hand, because Highway's own choice of a target is global to the
      // process.
      hwy::ChosenTarget chosen;
      chosen.Update(target);
      results.push_back(functions[chosen.GetIndex()]());
    }
  }
  return results;
}

}  // namespace scbf
