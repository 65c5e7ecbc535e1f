// SPDX-License-Identifier: Apache-2.0
// Which filters can be members of a bank, of counters or of bits: those of its growth and seed,
// whose stages all belong to this growth.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "filter/stage.hpp"
#include "scbf/growth.hpp"

namespace scbf {

/// A stage of a filter: its index in the growth, or kForeignStage, and its shape.
struct StageOfGrowth {
  std::uint32_t index;
  StageShape shape;
};

/// Those of anything that has indices and shapes.
template <class Stages>
std::vector<StageOfGrowth> stages_of_growth(const Stages& stages) {
  std::vector<StageOfGrowth> all;
  all.reserve(stages.size());
  for (const auto& stage : stages) all.push_back({stage.index, stage.shape});
  return all;
}

class MemberFit {
 public:
  MemberFit(const Growth& growth, std::uint64_t seed) : growth_(growth), seed_(seed) {}

  /// The shape of stage `index` of the growth; computed once. Throws as Growth::stage.
  const StageShape& shape(std::uint32_t index);
  /// Why such a filter cannot be a member; nothing if it can.
  std::optional<std::string> misfit(const Growth& growth, std::uint64_t seed,
                                    std::span<const StageOfGrowth> stages);

 private:
  Growth growth_;
  std::uint64_t seed_;
  std::map<std::uint32_t, StageShape> shapes_;
};

}  // namespace scbf
