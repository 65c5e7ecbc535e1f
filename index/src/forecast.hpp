// SPDX-License-Identifier: Apache-2.0
// What the filter of a region takes that holds a given number of values, before it is built.
#pragma once

#include <cstdint>
#include <vector>

#include "scbf/growth.hpp"

namespace scbf::index {

/// The fewest stages of a tightening growth that are planned for `values` together; at least 1.
std::uint32_t stages_for(const Growth& growth, std::uint64_t values);

/// The shapes of the stages of a tightening growth, each computed once.
class Forecast {
 public:
  explicit Forecast(const Growth& growth) : growth_(growth) {}

  /// Bytes of the counters of a filter built from `values` distinct values.
  std::uint64_t bytes(std::uint64_t values);
  /// Its false-positive rate.
  double fpr(std::uint64_t values);

 private:
  const Geometry& stage(std::uint32_t index);

  Growth growth_;
  std::vector<Geometry> stages_;
};

}  // namespace scbf::index
