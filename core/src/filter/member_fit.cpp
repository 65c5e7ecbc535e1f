// SPDX-License-Identifier: Apache-2.0
#include "filter/member_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scbf/errors.hpp"

namespace scbf {

namespace {

/// Are they equal but for the last digits of logarithms, which another C library may have computed?
bool about(const StageShape& a, const StageShape& b) {
  const auto [less, more] = std::minmax(a.full_at, b.full_at);
  return a.geometry == b.geometry && more - less <= 1 && std::abs(a.fpr - b.fpr) <= 1e-9 * b.fpr;
}

}  // namespace

const StageShape& MemberFit::shape(std::uint32_t index) {
  const auto known = shapes_.find(index);
  return known != shapes_.end() ? known->second
                                : shapes_.emplace(index, growth_.stage(index)).first->second;
}

std::optional<std::string> MemberFit::misfit(const Growth& growth, std::uint64_t seed,
                                             std::span<const StageOfGrowth> stages) {
  if (!(growth == growth_)) {
    return fmt::format("the growths differ: the bank's is {}, the filter's {}", growth_.describe(),
                       growth.describe());
  }
  if (seed != seed_) {
    return fmt::format("the seeds differ: the bank's is {}, the filter's {}", seed_, seed);
  }
  const auto fits = [&](const StageOfGrowth& stage) {
    try {
      return about(stage.shape, shape(stage.index));
    } catch (const InvalidArgument&) {  // the growth has no such stage
      return false;
    }
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].index == kForeignStage) {
      return fmt::format(
          "stage {} of the filter does not belong to its growth: merge added it from a filter "
          "that grows differently",
          i);
    }
    if (!fits(stages[i]) || (i == 0 && stages[i].index != 0)) {
      return fmt::format("stage {} of the filter differs from stage {} of its growth ({})", i,
                         stages[i].index, growth.describe());
    }
  }
  return {};
}

}  // namespace scbf
