// SPDX-License-Identifier: Apache-2.0
#include "forecast.hpp"

#include <algorithm>

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

const Geometry& Forecast::stage(std::uint32_t index) {
  while (stages_.size() <= index) {
    stages_.push_back(growth_.stage(static_cast<std::uint32_t>(stages_.size())).geometry);
  }
  return stages_[index];
}

std::uint64_t Forecast::bytes(std::uint64_t values) {
  std::uint64_t bytes = 0;
  for (std::uint32_t s = stages_for(growth_, values); s > 0; --s) bytes += stage(s - 1).bytes();
  return bytes;
}

double Forecast::fpr(std::uint64_t values) {
  double none = 1;
  const std::uint32_t stages = stages_for(growth_, values);
  for (std::uint32_t s = 0; s < stages; ++s) {
    const std::uint64_t here = std::min(values, capacity(growth_, s));
    none *= 1 - predicted_fpr(stage(s), static_cast<double>(here));
    values -= here;
  }
  return 1 - none;
}

}  // namespace scbf::index
