// SPDX-License-Identifier: Apache-2.0
#include "filter/member_fit.hpp"

#include <fmt/format.h>

#include "filter/last_digits.hpp"
#include "scbf/errors.hpp"

namespace scbf {

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
      return is_close(stage.shape.with(Cell::counter), shape(stage.index));
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
