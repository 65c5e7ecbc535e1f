// SPDX-License-Identifier: Apache-2.0
// Operations on whole filters: describe, move, merge, subtract, compare. An operation that can fail
// in the middle works on a copy, so that nothing is left half done.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "filter/state.hpp"

namespace scbf {

// ---- state --------------------------------------------------------------------------------------

bool FilterState::read_only() const noexcept {
  return std::ranges::any_of(stages, &Stage::read_only);
}

void FilterState::check_writable() const {
  if (read_only()) {
    throw ReadOnly("the filter is mapped from a file, read-only: load the file to change it");
  }
}

Stage FilterState::make_stage(std::uint32_t index) const {
  return Stage::empty(growth.stage(index), index, seed, *backend);
}

// ---- what a filter is ---------------------------------------------------------------------------

const Growth& Filter::growth() const { return state_->growth; }
std::uint64_t Filter::seed() const { return state_->seed; }
const Backend& Filter::backend() const { return *state_->backend; }
bool Filter::read_only() const { return state_->read_only(); }
std::size_t Filter::stages() const { return state_->stages.size(); }
const Geometry& Filter::geometry() const { return state_->stages.front().geometry(); }
const std::string& Filter::metadata() const { return state_->metadata; }

const StageShape& StageView::shape() const noexcept { return stage_->shape; }
std::uint64_t StageView::keys_inserted() const noexcept { return stage_->keys_inserted; }
std::uint64_t StageView::keys_removed() const noexcept { return stage_->keys_removed; }
std::uint64_t StageView::nonzero(const BatchOptions& options) const {
  return stage_->nonzero(options);
}
double StageView::fill(const BatchOptions& options) const {
  return static_cast<double>(nonzero(options)) / static_cast<double>(geometry().counters());
}
std::span<const std::uint64_t> StageView::words() const { return stage_->words(); }
void StageView::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  stage_->read_words(first, out);
}

bool operator==(const StageView& a, const StageView& b) { return a.stage_->equals(*b.stage_); }

StageView Filter::stage(std::size_t i) const {
  if (i >= stages()) throw InvalidArgument(fmt::format("stage {}: there are {}", i, stages()));
  return StageView(state_->stages[i]);
}

namespace {

/// The sum over all stages.
template <class Of>
std::uint64_t sum(const std::vector<Stage>& stages, Of of) {
  std::uint64_t total = 0;
  for (const Stage& stage : stages) total += of(stage);
  return total;
}

std::uint64_t counters_of(const Stage& stage) { return stage.geometry().counters(); }

}  // namespace

std::uint64_t Filter::bytes() const {
  return sum(state_->stages, [](const Stage& stage) { return stage.geometry().bytes(); });
}
std::uint64_t Filter::keys_inserted() const {
  return sum(state_->stages, [](const Stage& stage) { return stage.keys_inserted; });
}
std::uint64_t Filter::keys_removed() const {
  return sum(state_->stages, [](const Stage& stage) { return stage.keys_removed; });
}
std::uint64_t Filter::nonzero(const BatchOptions& options) const {
  return sum(state_->stages, [&](const Stage& stage) { return stage.nonzero(options); });
}
double Filter::fill(const BatchOptions& options) const {
  return static_cast<double>(nonzero(options)) /
         static_cast<double>(sum(state_->stages, counters_of));
}
std::span<const std::uint64_t> Filter::words() const { return state_->stages.front().words(); }
void Filter::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  state_->stages.front().read_words(first, out);
}

double Filter::fpr_bound() const {
  std::vector<StageLoad> loads;
  for (const Stage& stage : state_->stages) loads.push_back({0, stage.shape.fpr});
  return compound_fpr(loads);
}

Statistics Filter::statistics(const BatchOptions& options) const {
  Statistics result;
  std::vector<StageLoad> loads;
  for (const Stage& stage : state_->stages) {
    StageStatistics s = stage.statistics(options);
    result.bytes += stage.geometry().bytes();
    result.counters += counters_of(stage);
    result.nonzero += s.nonzero;
    result.saturated += s.saturated;
    result.keys_inserted += s.keys_inserted;
    result.keys_removed += s.keys_removed;
    result.estimated_keys += s.estimated_keys;
    loads.push_back({s.estimated_keys, s.estimated_fpr});
    result.stages.push_back(std::move(s));
  }
  result.fill = static_cast<double>(result.nonzero) / static_cast<double>(result.counters);
  // A single stage's rate is taken as it is: compound_fpr goes through logarithms and would lose
  // its last digits.
  result.estimated_fpr = loads.size() == 1 ? loads[0].fpr : compound_fpr(loads);
  result.fpr_bound = fpr_bound();
  result.ambiguous_share = ambiguous_share(loads);
  return result;
}

void check_metadata(const std::string& metadata) {
  if (metadata.size() > kMaxMetadataBytes) {
    throw InvalidArgument(
        fmt::format("metadata of {} bytes: at most {}", metadata.size(), kMaxMetadataBytes));
  }
}

void Filter::set_metadata(std::string metadata) {
  check_metadata(metadata);
  state_->metadata = std::move(metadata);
}

// ---- changes of the whole -----------------------------------------------------------------------

Filter& Filter::to(std::string_view name) {
  const Backend& backend = find_backend(name);
  std::vector<Stage>& stages = state_->stages;
  if (backend.memory() != state_->backend->memory()) {
    std::vector<Stage> moved;
    moved.reserve(stages.size());
    for (const Stage& stage : stages) moved.push_back(stage.copy_on(backend));
    stages = std::move(moved);
  }
  for (Stage& stage : stages) stage.backend = &backend;
  state_->backend = &backend;
  return *this;
}

void Filter::clear() {
  state_->check_writable();
  std::vector<Stage>& stages = state_->stages;
  if (state_->growth.policy() == Growth::Policy::one) return stages[0].clear();
  std::vector<Stage> one;
  one.push_back(state_->make_stage(0));
  stages = std::move(one);
}

void Filter::assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
                    std::uint64_t keys_removed) {
  state_->check_writable();
  if (state_->growth.policy() != Growth::Policy::one) {
    throw InvalidArgument(
        fmt::format("assign: the filter grows ({}): only one of a single stage can be assigned",
                    state_->growth.describe()));
  }
  state_->stages[0].assign(words, keys_inserted, keys_removed);
}

bool operator==(const Filter& a, const Filter& b) {
  return a.seed() == b.seed() && a.growth() == b.growth() &&
         std::ranges::equal(a.state_->stages, b.state_->stages, &Stage::equals);
}

namespace {

/// Throws Incompatible unless the filters can be merged or subtracted at all. Returns true if both
/// have a single stage that is never full, of equal geometry.
bool check_combines(const Filter& a, const Filter& b) {
  const bool a_is_one = a.growth().policy() == Growth::Policy::one;
  const bool b_is_one = b.growth().policy() == Growth::Policy::one;
  if (a_is_one != b_is_one) {
    throw Incompatible(fmt::format("one grows by stages, the other has a single stage: {} and {}",
                                   a.growth().describe(), b.growth().describe()));
  }
  if (a_is_one && a.geometry() != b.geometry()) {
    throw Incompatible(fmt::format("the geometries differ: {} and {}", a.geometry().describe(),
                                   b.geometry().describe()));
  }
  if (a.seed() != b.seed()) {
    throw Incompatible(fmt::format("the seeds differ: {} and {}", a.seed(), b.seed()));
  }
  return a_is_one;
}

bool is_empty(const Stage& stage) { return stage.keys_inserted == 0 && stage.nonzero() == 0; }

/// The most non-zero counters that a stage can have after insertions.
std::uint64_t most_nonzero(const StageShape& shape) {
  return shape.full_at + shape.geometry.probes() - 1;
}

/// Merges a stage into one of equal shape, unless the sum is too full. Returns whether it did.
bool join(Stage& mine, const Stage& theirs, const BatchOptions& options) {
  if (!(mine.shape == theirs.shape)) return false;
  const std::uint64_t most = most_nonzero(mine.shape);
  const std::uint64_t a = mine.nonzero(options), b = theirs.nonzero(options);
  if (std::max(a, b) > most) return false;
  if (a + b <= most) {
    mine.merge(theirs, options);
  } else {
    // The sum may still fit, since both may hold the same keys or share counters.
    Stage sum = mine;
    sum.merge(theirs, options);
    if (sum.nonzero(options) > most) return false;
    mine = std::move(sum);
  }
  mine.at_most = mine.nonzero(options);
  return true;
}

}  // namespace

void Filter::merge(const Filter& other, const BatchOptions& options) {
  state_->check_writable();
  if (check_combines(*this, other)) {
    return state_->stages[0].merge(other.state_->stages[0], options);
  }
  std::vector<Stage> next = state_->stages;
  for (const Stage& theirs : other.state_->stages) {
    if (is_empty(theirs)) continue;
    if (std::ranges::any_of(next, [&](Stage& mine) { return join(mine, theirs, options); })) {
      continue;
    }
    if (next.size() >= growth().most_stages()) {
      throw Incompatible(fmt::format(
          "together they need more than {} stages, which is the most that this filter may have",
          growth().most_stages()));
    }
    next.push_back(theirs.copy_on(backend()));
    if (!(growth() == other.growth())) next.back().index = kForeignStage;
    next.back().at_most = next.back().nonzero(options);
  }
  state_->stages = std::move(next);
}

namespace {

/// Subtracts a stage, number `number` of its filter, from the one stage that contains it.
SubtractReport subtract_stage(std::vector<Stage>& stages, const Stage& theirs, std::size_t number,
                              const BatchOptions& options) {
  Stage* container = nullptr;
  SubtractReport report;
  std::optional<Stage> rest;
  for (Stage& mine : stages) {
    if (mine.geometry() != theirs.geometry()) continue;
    Stage trial = mine;
    SubtractReport trial_report;
    try {
      trial_report = trial.subtract(theirs, options);
    } catch (const Incompatible&) {
      continue;  // not contained in this one
    }
    if (container == nullptr) {
      container = &mine;
      rest = std::move(trial);
      report = trial_report;
    } else if (!container->equals(mine)) {
      throw Incompatible(fmt::format(
          "stage {} of the filter to subtract is contained in several stages that differ, so "
          "it is not clear which of them to subtract it from",
          number));
    }
  }
  if (container == nullptr) {
    throw Incompatible(fmt::format(
        "stage {} of the filter to subtract is contained in no stage of this one", number));
  }
  *container = std::move(*rest);
  container->at_most = container->nonzero(options);
  return report;
}

}  // namespace

SubtractReport Filter::subtract(const Filter& other, const BatchOptions& options) {
  state_->check_writable();
  if (check_combines(*this, other)) {
    return state_->stages[0].subtract(other.state_->stages[0], options);
  }
  std::vector<Stage> next = state_->stages;
  SubtractReport report;
  for (std::size_t i = 0; i < other.stages(); ++i) {
    const Stage& theirs = other.state_->stages[i];
    if (is_empty(theirs)) continue;
    report.inexact_counters += subtract_stage(next, theirs, i, options).inexact_counters;
  }
  state_->stages = std::move(next);
  return report;
}

}  // namespace scbf
