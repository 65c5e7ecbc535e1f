// SPDX-License-Identifier: Apache-2.0
#include "removal.hpp"

#include <cmath>
#include <cstdint>

namespace scbf::cli {

namespace {

/// One group whose blocks hold Poisson(load) keys, in `slices` slices of `positions` counters each.
double lost_in_block(double load, double slices, double positions) {
  const auto last = static_cast<std::uint32_t>(load + 10 * std::sqrt(load) + 40);
  double lost = 0, claimed = 0;
  for (std::uint32_t j = 1; j <= last; ++j) {
    const double mass = std::exp(-load + j * std::log(load) - std::lgamma(j + 1.0));
    const double absent = std::pow(1 - 1 / positions, j);
    const double claims = mass * std::pow(1 - absent, slices);
    // That a given one of the j keys is alone at the counter of one slice, which is not 0.
    const double alone = absent / (1 - 1 / positions) / positions / (1 - absent);
    lost += claims * j * -std::expm1(slices * std::log1p(-alone));
    claimed += claims;
  }
  return lost / claimed;
}

}  // namespace

double lost_per_false_removal(const Geometry& geometry, double n) {
  if (!(n > 0)) return 0;
  if (geometry.layout() == Layout::split) {
    const double load = n / static_cast<double>(geometry.counters_per_slice());
    return geometry.probes() * load / std::expm1(load);
  }
  const std::uint32_t groups = geometry.groups();
  return groups * lost_in_block(n / static_cast<double>(geometry.blocks_per_group()),
                                geometry.probes() / groups, geometry.positions());
}

double lost_per_false_removal(const Statistics& statistics, const Filter& filter) {
  double lost = 0, claimed = 0;
  for (std::size_t i = 0; i < statistics.stages.size(); ++i) {
    const StageStatistics& stage = statistics.stages[i];
    if (!std::isfinite(stage.estimated_keys)) continue;  // too full to say
    lost += stage.estimated_fpr *
            lost_per_false_removal(filter.stage(i).geometry(), stage.estimated_keys);
    claimed += stage.estimated_fpr;
  }
  return claimed > 0 ? lost / claimed : 0;
}

}  // namespace scbf::cli
