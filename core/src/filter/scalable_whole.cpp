// SPDX-License-Identifier: Apache-2.0
// ScalableFilter as a whole: merged, subtracted, compared, moved, described. What can fail works on
// a copy, so that nothing is half done.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "filter/filter_access.hpp"
#include "scbf/scalable_filter.hpp"

namespace scbf {

namespace {

void check_seeds(const ScalableFilter& a, const ScalableFilter& b) {
  if (a.seed() == b.seed()) return;
  throw Incompatible(fmt::format("the seeds differ: {} and {}", a.seed(), b.seed()));
}

bool is_empty(const Filter& filter) { return filter.keys_inserted() == 0 && filter.nonzero() == 0; }

/// The most non-zero counters that insertion leaves.
std::uint64_t most_nonzero(const StageShape& shape) {
  return shape.full_at + shape.geometry.probes() - 1;
}

}  // namespace

bool ScalableFilter::read_only() const noexcept {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.filter.read_only(); });
}

const Filter& ScalableFilter::stage(std::size_t i) const {
  if (i >= stages_.size()) {
    throw InvalidArgument(fmt::format("stage {}: there are {}", i, stages_.size()));
  }
  return stages_[i].filter;
}

const StageShape& ScalableFilter::shape(std::size_t i) const {
  stage(i);
  return stages_[i].shape;
}

std::uint64_t ScalableFilter::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Stage& stage : stages_) bytes += stage.shape.geometry.bytes();
  return bytes;
}

std::uint64_t ScalableFilter::keys_inserted() const noexcept {
  std::uint64_t keys = 0;
  for (const Stage& stage : stages_) keys += stage.filter.keys_inserted();
  return keys;
}

std::uint64_t ScalableFilter::keys_removed() const noexcept {
  std::uint64_t keys = 0;
  for (const Stage& stage : stages_) keys += stage.filter.keys_removed();
  return keys;
}

double ScalableFilter::fpr_bound() const {
  std::vector<StageLoad> loads;
  for (const Stage& stage : stages_) loads.push_back({0, stage.shape.fpr});
  return compound_fpr(loads);
}

ScalableFilter& ScalableFilter::to(std::string_view name) {
  const Backend& backend = find_backend(name);
  if (backend.memory() != backend_->memory()) {
    std::vector<Filter> moved;
    moved.reserve(stages_.size());
    for (const Stage& stage : stages_)
      moved.push_back(FilterAccess::copy_on(stage.filter, backend));
    for (std::size_t i = 0; i < moved.size(); ++i) stages_[i].filter = std::move(moved[i]);
  } else {
    for (Stage& stage : stages_) stage.filter.to(name);
  }
  backend_ = &backend;
  return *this;
}

void ScalableFilter::merge(const ScalableFilter& other, const BatchOptions& options) {
  check_writable();
  check_seeds(*this, other);
  ScalableFilter next = *this;
  for (const Stage& theirs : other.stages_) {
    if (is_empty(theirs.filter)) continue;
    const std::uint64_t most = most_nonzero(theirs.shape);
    const auto joined = [&](Stage& mine) {
      if (!(mine.shape == theirs.shape)) return false;
      const std::uint64_t a = mine.filter.nonzero(options), b = theirs.filter.nonzero(options);
      if (std::max(a, b) > most) return false;
      if (a + b <= most) {
        mine.filter.merge(theirs.filter, options);
      } else {
        // Keys that both hold, or counters that they share, may still make it fit.
        Filter sum = mine.filter;
        sum.merge(theirs.filter, options);
        if (sum.nonzero(options) > most) return false;
        mine.filter = std::move(sum);
      }
      mine.at_most = mine.filter.nonzero(options);
      return true;
    };
    if (std::any_of(next.stages_.begin(), next.stages_.end(), joined)) continue;
    if (next.stages_.size() >= growth_.most_stages()) {
      throw Incompatible(fmt::format(
          "together they need more than {} stages, which is the most that this filter may have",
          growth_.most_stages()));
    }
    next.stages_.push_back({FilterAccess::copy_on(theirs.filter, *backend_), theirs.shape,
                            growth_ == other.growth_ ? theirs.index : kForeign,
                            theirs.filter.nonzero(options)});
  }
  *this = std::move(next);
}

SubtractReport ScalableFilter::subtract(const ScalableFilter& other, const BatchOptions& options) {
  check_writable();
  check_seeds(*this, other);
  ScalableFilter next = *this;
  SubtractReport report;
  for (std::size_t t = 0; t < other.stages_.size(); ++t) {
    const Filter& theirs = other.stages_[t].filter;
    if (is_empty(theirs)) continue;
    Stage* container = nullptr;
    SubtractReport inexact;
    std::optional<Filter> rest;
    for (Stage& mine : next.stages_) {
      if (mine.shape.geometry != theirs.geometry()) continue;
      Filter trial = mine.filter;
      SubtractReport trial_report;
      try {
        trial_report = trial.subtract(theirs, options);
      } catch (const Incompatible&) {
        continue;  // not contained in this one
      }
      if (container == nullptr) {
        container = &mine;
        rest = std::move(trial);
        inexact = trial_report;
      } else if (!(container->filter == mine.filter)) {
        throw Incompatible(fmt::format(
            "stage {} of the filter to subtract is contained in several stages that differ: it "
            "cannot be told from which to take it",
            t));
      }
    }
    if (container == nullptr) {
      throw Incompatible(fmt::format(
          "stage {} of the filter to subtract is contained in no stage of this one", t));
    }
    container->filter = std::move(*rest);
    container->at_most = container->filter.nonzero(options);
    report.inexact_counters += inexact.inexact_counters;
  }
  *this = std::move(next);
  return report;
}

void ScalableFilter::clear() {
  check_writable();
  std::vector<Stage> one;
  one.push_back(make_stage(0));
  stages_ = std::move(one);
}

bool operator==(const ScalableFilter& a, const ScalableFilter& b) {
  return a.seed_ == b.seed_ && a.growth_ == b.growth_ &&
         std::equal(a.stages_.begin(), a.stages_.end(), b.stages_.begin(), b.stages_.end(),
                    [](const auto& x, const auto& y) {
                      return x.shape == y.shape && x.filter == y.filter;
                    });
}

ScalableStatistics ScalableFilter::statistics(const BatchOptions& options) const {
  ScalableStatistics result;
  std::vector<StageLoad> loads;
  for (const Stage& stage : stages_) {
    Statistics s = stage.filter.statistics(options);
    result.counters += stage.shape.geometry.counters();
    result.bytes += stage.shape.geometry.bytes();
    result.nonzero += s.nonzero;
    result.saturated += s.saturated;
    result.keys_inserted += s.keys_inserted;
    result.keys_removed += s.keys_removed;
    result.estimated_keys += s.estimated_keys;
    loads.push_back({s.estimated_keys, s.estimated_fpr});
    result.stages.push_back({stage.shape, std::move(s)});
  }
  result.estimated_fpr = compound_fpr(loads);
  result.fpr_bound = fpr_bound();
  result.ambiguous_share = ambiguous_share(loads);
  return result;
}

void ScalableFilter::set_metadata(std::string metadata) {
  FilterAccess::check_metadata(metadata);
  metadata_ = std::move(metadata);
}

}  // namespace scbf
