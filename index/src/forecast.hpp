// SPDX-License-Identifier: Apache-2.0
// The memory and the rate of a region's filter for a given number of values, before it is built.
#pragma once

#include <cstdint>
#include <vector>

#include "scbf/growth.hpp"

namespace scbf::index {

/// The fewest stages of a tightening growth that are planned for `values` together; at least 1.
std::uint32_t stages_for(const Growth& growth, std::uint64_t values);

/// Filters of one tightening growth that hold as many values as was planned for their stages.
class Forecast {
 public:
  explicit Forecast(const Growth& growth) : growth_(growth) {}

  /// Bytes of the counters of a filter that is built from `values` distinct values.
  std::uint64_t bytes(std::uint64_t values);
  /// Its false-positive rate.
  double fpr(std::uint64_t values);

 private:
  struct Stage {
    Geometry geometry;
    std::uint64_t room, bytes;  ///< of this stage and those before it
  };
  /// The number of stages for this many values. They are in stages_ then.
  std::size_t stages(std::uint64_t values);

  Growth growth_;
  std::vector<Stage> stages_;  ///< each is computed once
};

}  // namespace scbf::index
