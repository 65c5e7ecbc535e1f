// SPDX-License-Identifier: Apache-2.0
// What ScalableBank needs of a filter in stages beyond its public face: its parts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scbf/scalable_filter.hpp"

namespace scbf {

struct ScalableAccess {
  using Stage = ScalableFilter::Stage;
  static constexpr std::uint32_t kForeign = ScalableFilter::kForeign;

  static std::vector<Stage>& stages(ScalableFilter& filter) noexcept { return filter.stages_; }
  static const std::vector<Stage>& stages(const ScalableFilter& filter) noexcept {
    return filter.stages_;
  }
  /// `stages` are at least one.
  static ScalableFilter assemble(const Growth& growth, std::uint64_t seed, const Backend& backend,
                                 std::vector<Stage> stages, std::string metadata) {
    ScalableFilter filter(ScalableFilter::ForFiles{}, growth, seed, backend);
    filter.stages_ = std::move(stages);
    filter.metadata_ = std::move(metadata);
    return filter;
  }
};

}  // namespace scbf
