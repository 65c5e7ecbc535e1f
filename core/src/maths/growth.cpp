// SPDX-License-Identifier: Apache-2.0
// The maths of several stages, and the shapes that follow from it. Products of 1 − P are computed
// by log1p and expm1; otherwise only four digits would be left at P = 10^-12.
#include "scbf/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "maths/sizing_search.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

namespace {

constexpr double kMostGrowth = 1024;
constexpr double kHalf = 0.5;

void check_tightening(double tightening) {
  if (!(tightening > 0 && tightening < 1)) {
    throw InvalidArgument(fmt::format("tightening {}: must be in (0, 1)", tightening));
  }
}

void check_growth(double growth) {
  if (!(growth >= 1 && growth <= kMostGrowth)) {
    throw InvalidArgument(fmt::format("growth {}: must be in [1, {}]", growth, kMostGrowth));
  }
}

void check_first(std::uint64_t first) {
  if (first == 0) throw InvalidArgument("first capacity 0: must be at least 1");
}

void check_stages(std::uint32_t stages) {
  if (stages < 1 || stages > kMaxStages) {
    throw InvalidArgument(fmt::format("{} stages: must be 1 to {}", stages, kMaxStages));
  }
}
void check_fixed(Layout layout) {
  if (layout == Layout::ranked) {
    throw InvalidArgument(
        "layout ranked: stages of a fixed growth are filled to the half, where most of its blocks "
        "would spill; use a tightening growth, or split_block");
  }
}

/// StageShape::full_at for at most `most` non-zero counters: the stage is full once another key
/// could exceed them. At least one key always fits.
std::uint64_t full_below(const Geometry& geometry, double most) {
  const auto whole = static_cast<std::uint64_t>(most);
  return whole > geometry.probes() ? whole - geometry.probes() + 1 : 1;
}

double at_half_fill(const Geometry& geometry) {
  const auto m = static_cast<double>(geometry.counters_per_slice());
  return predicted_fpr(geometry, keys_for_fill(kHalf, m));
}

}  // namespace

double compound_fpr(double stage_fpr, std::uint32_t stages) {
  sizing::check_fpr(stage_fpr);
  return -std::expm1(stages * std::log1p(-stage_fpr));
}

std::uint32_t stages_within(double stage_fpr, double compound) {
  sizing::check_fpr(stage_fpr);
  sizing::check_fpr(compound);
  const double most = std::log1p(-compound) / std::log1p(-stage_fpr);
  auto stages = static_cast<std::uint32_t>(std::min<double>(kMaxStages, most));
  // Where the quotient is a whole number, rounding of the logarithms may be off by one.
  if (stages < kMaxStages && compound_fpr(stage_fpr, stages + 1) <= compound) ++stages;
  if (stages > 0 && compound_fpr(stage_fpr, stages) > compound) --stages;
  return stages;
}

double stage_fpr_for(double compound, std::uint32_t stages) {
  sizing::check_fpr(compound);
  if (stages == 0) throw InvalidArgument("0 stages: must be at least 1");
  return -std::expm1(std::log1p(-compound) / stages);
}

double tightened_fpr(double fpr, double tightening, std::uint32_t stage) {
  sizing::check_fpr(fpr);
  check_tightening(tightening);
  return fpr * (1 - tightening) * std::pow(tightening, stage);
}

double tightened_sum(double fpr, double tightening, std::uint32_t stages) {
  sizing::check_fpr(fpr);
  check_tightening(tightening);
  return fpr * -std::expm1(stages * std::log(tightening));
}

std::uint64_t grown_capacity(std::uint64_t first, double growth, std::uint32_t stage) {
  check_first(first);
  check_growth(growth);
  const double keys = std::ceil(static_cast<double>(first) * std::pow(growth, stage));
  constexpr double kMost = 9.2e18;  // below 2^63
  if (!(keys <= kMost)) {
    throw InvalidArgument(fmt::format("stage {} of {} keys, × {} each: {} keys, at most {}", stage,
                                      first, growth, keys, kMost));
  }
  return static_cast<std::uint64_t>(keys);
}

namespace {

void check_loads(std::span<const StageLoad> stages) {
  for (const StageLoad& stage : stages) {
    if (!(stage.fpr >= 0 && stage.fpr <= 1)) {
      throw InvalidArgument(fmt::format("fpr {} of a stage: must be in [0, 1]", stage.fpr));
    }
    if (!(stage.keys >= 0)) {
      throw InvalidArgument(fmt::format("{} keys of a stage: must be at least 0", stage.keys));
    }
  }
}

/// 1 − Π(1 − P_j) over all stages but number `without`.
double claimed_by_any(std::span<const StageLoad> stages, std::size_t without) {
  double log_absent = 0;
  for (std::size_t j = 0; j < stages.size(); ++j) {
    if (j != without) log_absent += std::log1p(-stages[j].fpr);
  }
  return 0 - std::expm1(log_absent);  // −x would be −0 for empty stages
}

}  // namespace

double compound_fpr(std::span<const StageLoad> stages) {
  check_loads(stages);
  return claimed_by_any(stages, stages.size());
}

double ambiguous_share(std::span<const StageLoad> stages) {
  check_loads(stages);
  const bool unbounded =
      std::ranges::any_of(stages, [](const StageLoad& stage) { return std::isinf(stage.keys); });
  double keys = 0, ambiguous = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const double weight = unbounded ? std::isinf(stages[i].keys) : stages[i].keys;
    keys += weight;
    ambiguous += weight * claimed_by_any(stages, i);
  }
  return keys > 0 ? std::min(ambiguous / keys, 1.0) : 0;
}

std::string_view to_string(Growth::Policy policy) noexcept {
  switch (policy) {
    case Growth::Policy::one:
      return "one";
    case Growth::Policy::fixed:
      return "fixed";
    case Growth::Policy::tightening:
      break;
  }
  return "tightening";
}

Growth Growth::one(const Geometry& stage) noexcept {
  Growth growth(Policy::one, stage);
  growth.most_stages_ = 1;
  growth.first_capacity_ = 0;
  growth.fpr_ = 1;
  return growth;
}

Growth Growth::fixed(const Geometry& stage, std::uint32_t most_stages) {
  check_stages(most_stages);
  check_fixed(stage.layout());
  if (stage.counters_per_slice() < 2) {
    throw InvalidArgument(
        fmt::format("{}: a slice needs at least 2 counters to be half full", stage.describe()));
  }
  Growth growth(Policy::fixed, stage);
  growth.most_stages_ = most_stages;
  const auto m = static_cast<double>(stage.counters_per_slice());
  growth.first_capacity_ =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(keys_for_fill(kHalf, m)));
  growth.fpr_ = compound_fpr(growth.stage(0).fpr, most_stages);
  return growth;
}

Growth Growth::tightening(std::uint64_t first_capacity, double fpr, Layout layout, double growth,
                          double tightening) {
  check_first(first_capacity);
  check_growth(growth);
  Growth result(Policy::tightening,
                geometry_for(layout, first_capacity, tightened_fpr(fpr, tightening, 0)));
  result.first_capacity_ = first_capacity;
  result.fpr_ = fpr;
  result.growth_ = growth;
  result.tightening_ = tightening;
  return result;
}

StageShape Growth::stage(std::uint32_t index) const {
  if (index >= most_stages_) {
    throw InvalidArgument(fmt::format("stage {}: there are at most {}", index, most_stages_));
  }
  if (policy_ == Policy::one) return {first_, 1, kNeverFull};
  if (policy_ == Policy::fixed) {
    return {first_, at_half_fill(first_),
            full_below(first_, static_cast<double>(first_.counters()) * kHalf)};
  }
  const double fpr = tightened_fpr(fpr_, tightening_, index);
  const Geometry geometry =
      geometry_for(layout(), grown_capacity(first_capacity_, growth_, index), fpr);
  const auto keys = static_cast<double>(capacity_for(geometry, fpr));
  const double fill = expected_fill(keys, static_cast<double>(geometry.counters_per_slice()));
  return {geometry, fpr, full_below(geometry, fill * static_cast<double>(geometry.counters()))};
}

std::string Growth::describe() const {
  if (policy_ == Policy::one) return fmt::format("one: {}", first_.describe());
  if (policy_ == Policy::fixed) {
    return fmt::format("fixed: at most {} of {}", most_stages_, first_.describe());
  }
  return fmt::format("tightening: {}, × {} each, rate {}, × {} each",
                     counted(first_capacity_, "key"), growth_, fpr_, tightening_);
}

FixedPlan plan_fixed(std::uint64_t stage_bytes, double stage_fpr, double compound, Layout layout,
                     Cell cell) {
  check_fixed(layout);
  const std::uint32_t stages = stages_within(stage_fpr, compound);
  if (stages == 0) {
    throw InvalidArgument(fmt::format(
        "rate {} of a stage: even one passes the rate {} of all; lower the first or raise the "
        "second",
        stage_fpr, compound));
  }
  std::uint32_t parts = 1;
  const std::uint32_t most = sizing::most_parts(layout);
  Geometry geometry = geometry_in(layout, stage_bytes, parts, cell);
  while (at_half_fill(geometry) > stage_fpr) {
    if (parts == most) {
      throw InvalidArgument(fmt::format("rate {}: {} with {} reaches {} at half fill", stage_fpr,
                                        to_string(layout), sizing::counted_parts(layout, most),
                                        at_half_fill(geometry)));
    }
    geometry = geometry_in(layout, stage_bytes, ++parts, cell);
  }
  const Growth growth = Growth::fixed(geometry, stages);
  const double rate = at_half_fill(geometry);
  return {growth, rate, growth.fpr(), growth.first_capacity(), growth.first_capacity() * stages};
}

}  // namespace scbf
