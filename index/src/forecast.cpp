// SPDX-License-Identifier: Apache-2.0
#include "forecast.hpp"

#include <algorithm>
#include <cstddef>

#include "scbf/sizing.hpp"

namespace scbf::index {

namespace {

std::uint64_t capacity(const Growth& growth, std::uint32_t stage) {
  return grown_capacity(growth.first_capacity(), growth.growth(), stage);
}

}  // namespace

std::uint32_t stages_for(const Growth& growth, std::uint64_t values) {
  std::uint32_t stages = 1;
  for (std::uint64_t room = capacity(growth, 0); room < values; ++stages) {
    room += capacity(growth, stages);
  }
  return stages;
}

std::size_t Forecast::stages(std::uint64_t values) {
  while (stages_.empty() || stages_.back().room < values) {
    const auto number = static_cast<std::uint32_t>(stages_.size());
    const Stage before = stages_.empty() ? Stage{growth_.first_geometry(), 0, 0} : stages_.back();
    const Geometry geometry = growth_.stage(number).geometry;
    stages_.push_back(
        {geometry, before.room + capacity(growth_, number), before.bytes + geometry.bytes()});
  }
  const auto last = std::partition_point(stages_.begin(), stages_.end(),
                                         [&](const Stage& stage) { return stage.room < values; });
  return static_cast<std::size_t>(last - stages_.begin()) + 1;
}

std::uint64_t Forecast::bytes(std::uint64_t values) { return stages_[stages(values) - 1].bytes; }

double Forecast::fpr(std::uint64_t values) {
  double none = 1;
  std::uint64_t room = 0;
  for (std::size_t count = stages(values), s = 0; s < count; ++s) {
    const std::uint64_t here = std::min(values, stages_[s].room) - room;
    none *= 1 - predicted_fpr(stages_[s].geometry, static_cast<double>(here));
    room = stages_[s].room;
  }
  return 1 - none;
}

}  // namespace scbf::index
