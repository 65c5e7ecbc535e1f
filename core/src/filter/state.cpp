// SPDX-License-Identifier: Apache-2.0
// What filters of counters and of bits share: insert, look up, describe, move, merge, compare. An
// operation that can fail in the middle works on a copy, so that nothing is left half done.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "kit/exact_fpr.hpp"
#include "kit/executor.hpp"
#include "kit/few_keys.hpp"
#include "kit/removal.hpp"

namespace scbf {

// ---- state --------------------------------------------------------------------------------------

void FilterState::throw_read_only() {
  throw ReadOnly("the filter is mapped, read-only: copy it, or load the file, to change it");
}

Stage FilterState::make_stage(std::uint32_t index) const {
  return Stage::empty(growth.stage(index).with(cell), index, seed, *backend);
}

void check_supports(const Backend& backend, Cell cell) {
  if (backend.supports(cell)) return;
  throw BackendUnavailable(fmt::format("backend '{}' does not work on filters of {}s: use 'auto'",
                                       backend.name(), to_string(cell)));
}

void check_supports(const Backend& backend, Layout layout, Cell cell) {
  check_supports(backend, cell);
  if (!backend.supports(layout)) {
    throw BackendUnavailable(
        fmt::format("backend '{}' does not work on filters of layout {}: use "
                    "'auto', or layout split_block",
                    backend.name(), to_string(layout)));
  }
}

std::unique_ptr<FilterState> FilterState::empty(const Growth& growth, Cell cell,
                                                const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, growth.layout(), cell);
  auto state = std::make_unique<FilterState>(FilterState{growth, options.seed, &backend});
  state->cell = cell;
  state->stages.push_back(state->make_stage(0));
  return state;
}

// ---- keys ---------------------------------------------------------------------------------------

InsertReport FilterState::insert(const KeyBatch& keys, const BatchOptions& options) {
  check_writable();
  if (keys.nulls() < keys.size()) begin_change();
  return insert_in_steps(
      *this, keys, options, [](const KeyBatch&) {},
      [&](std::size_t number, const KeyBatch& some) {
        return stages[number].insert(some, options);
      });
}

std::uint64_t FilterState::contains(const KeyBatch& keys, std::uint8_t* out,
                                    const BatchOptions& options) const {
  return ask_stages(stages,
                    [&](auto views) { return backend->contains(views, keys, out, options); });
}

std::uint64_t FilterState::count_present(const KeyBatch& keys, const BatchOptions& options) const {
  return ask_stages(stages,
                    [&](auto views) { return backend->count_present(views, keys, options); });
}

void FilterState::insert_growing(std::uint64_t hash) {
  OwnStages own{*this};
  Stage& stage = stages[stage_with_room(own, 0, {}, kOnThisThread)];
  book_key(stage);
  stage.insert_one(hash);
}

bool FilterState::any_stage_holds(std::uint64_t hash) const {
  fetch_keys(NewestFirst{stages}, {&hash, 1});
  return std::any_of(stages.rbegin(), stages.rend(),
                     [&](const Stage& stage) { return stage.holds_one(hash); });
}

Removal FilterState::remove_from_claimer(std::uint64_t hash) noexcept {
  fetch_keys(NewestFirst{stages}, {&hash, 1});
  const std::uint32_t claimer =
      claimer_among(stages.size(), [&](std::size_t s) { return stages[s].holds_one(hash); });
  if (claimer == kSeveralClaim) return Removal::ambiguous;
  if (claimer == kNoClaimer) return Removal::absent;
  return stages[claimer].remove_one(hash);
}

const Stage& FilterState::stage_to_view() const {
  if (growth.policy() != Growth::Policy::one) {
    throw InvalidArgument(
        "ref: the filter grows, and a view is of one stage: call insert, contains and the like of "
        "the filter itself");
  }
  if (!on_host()) {
    throw NotOnHost(fmt::format("ref: the filter is in the memory of {}: move it with to(\"simd\")",
                                backend->memory()));
  }
  return stages[0];
}

Stage& FilterState::stage_to_change_by_view() {
  stage_to_view();
  begin_change();
  return stages[0];
}

// ---- what a filter is ---------------------------------------------------------------------------

const StageShape& StageView::shape() const noexcept { return stage_->shape; }
std::uint64_t StageView::keys_inserted() const noexcept { return stage_->keys_inserted; }
std::uint64_t StageView::keys_removed() const noexcept { return stage_->keys_removed; }
std::uint64_t StageView::nonzero(const BatchOptions& options) const {
  return stage_->nonzero(options);
}
double StageView::fill(const BatchOptions& options) const {
  return static_cast<double>(nonzero(options)) / static_cast<double>(geometry().counters());
}
double StageView::exact_fpr() const {
  if (stage_->store->on_host()) return scbf::exact_fpr(geometry(), stage_->store->words());
  std::vector<std::uint64_t> words(geometry().words());
  read_words(0, words);
  return scbf::exact_fpr(geometry(), words.data());
}
std::span<const std::uint64_t> StageView::words() const { return stage_->words(); }
void StageView::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  stage_->read_words(first, out);
}

bool operator==(const StageView& a, const StageView& b) { return a.stage_->equals(*b.stage_); }

StageView FilterState::stage(std::size_t i) const {
  if (i >= stages.size()) {
    throw InvalidArgument(fmt::format("stage {}: there are {}", i, stages.size()));
  }
  return StageView(stages[i]);
}

std::uint64_t FilterState::bytes() const {
  return sum([](const Stage& stage) { return stage.geometry().bytes(); });
}
std::uint64_t FilterState::counters() const {
  return sum([](const Stage& stage) { return stage.geometry().counters(); });
}
std::uint64_t FilterState::keys_inserted() const {
  return sum([](const Stage& stage) { return stage.keys_inserted; });
}
std::uint64_t FilterState::keys_removed() const {
  return sum([](const Stage& stage) { return stage.keys_removed; });
}
std::uint64_t FilterState::nonzero(const BatchOptions& options) const {
  return sum([&](const Stage& stage) { return stage.nonzero(options); });
}
double FilterState::fill(const BatchOptions& options) const {
  return static_cast<double>(nonzero(options)) / static_cast<double>(counters());
}

double FilterState::fpr_bound() const {
  std::vector<StageLoad> loads;
  for (const Stage& stage : stages) loads.push_back({0, stage.shape.fpr});
  return compound_fpr(loads);
}

Statistics FilterState::statistics(const BatchOptions& options) const {
  std::vector<StageStatistics> of_stages;
  for (const Stage& stage : stages) of_stages.push_back(stage.statistics(options));
  return together(std::move(of_stages));
}

Statistics FilterState::summary(std::span<const std::uint64_t> saturated,
                                const BatchOptions& options) const {
  std::vector<StageStatistics> of_stages;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    of_stages.push_back(stages[i].summary(saturated[i], options));
  }
  return together(std::move(of_stages));
}

Statistics FilterState::together(std::vector<StageStatistics> of_stages) const {
  Statistics result{.stages = std::move(of_stages)};
  std::vector<StageLoad> loads;
  for (const StageStatistics& s : result.stages) {
    result.bytes += s.shape.geometry.bytes();
    result.counters += s.shape.geometry.counters();
    result.nonzero += s.nonzero;
    result.saturated += s.saturated;
    result.keys_inserted += s.keys_inserted;
    result.keys_removed += s.keys_removed;
    result.estimated_keys += s.estimated_keys;
    loads.push_back({s.estimated_keys, s.estimated_fpr});
  }
  result.fill = static_cast<double>(result.nonzero) / static_cast<double>(result.counters);
  // A single stage's rate is taken as it is: compound_fpr goes through logarithms and would lose
  // its last digits.
  result.estimated_fpr = loads.size() == 1 ? loads[0].fpr : compound_fpr(loads);
  result.fpr_bound = fpr_bound();
  if (cell == Cell::counter) result.ambiguous_share = ambiguous_share(loads);  // bits stay
  return result;
}

void check_metadata(const std::string& metadata) {
  if (metadata.size() > kMaxMetadataBytes) {
    throw InvalidArgument(
        fmt::format("metadata of {} bytes: at most {}", metadata.size(), kMaxMetadataBytes));
  }
}

void FilterState::set_metadata(std::string text) {
  check_metadata(text);
  metadata = std::move(text);
}

// ---- changes of the whole -----------------------------------------------------------------------

void FilterState::move_to(const Backend& other) {
  check_supports(other, growth.layout(), cell);
  if (other.memory() != backend->memory()) {
    std::vector<Stage> moved;
    moved.reserve(stages.size());
    for (const Stage& stage : stages) moved.push_back(stage.copy_on(other));
    stages = std::move(moved);
  }
  for (Stage& stage : stages) stage.use(other);
  backend = &other;
}

void FilterState::clear() {
  begin_change();
  if (growth.policy() == Growth::Policy::one) return stages[0].clear();
  std::vector<Stage> one;
  one.push_back(make_stage(0));
  stages = std::move(one);
}

bool FilterState::equals(const FilterState& other) const {
  return seed == other.seed && growth == other.growth &&
         std::ranges::equal(stages, other.stages, &Stage::equals);
}

bool check_combines(const FilterState& a, const FilterState& b) {
  const bool a_is_one = a.growth.policy() == Growth::Policy::one;
  const bool b_is_one = b.growth.policy() == Growth::Policy::one;
  if (a_is_one != b_is_one) {
    throw Incompatible(fmt::format("one grows by stages, the other has a single stage: {} and {}",
                                   a.growth.describe(), b.growth.describe()));
  }
  const Geometry &of_a = a.stages[0].geometry(), &of_b = b.stages[0].geometry();
  if (a_is_one && of_a != of_b) {
    throw Incompatible(
        fmt::format("the geometries differ: {} and {}", of_a.describe(), of_b.describe()));
  }
  if ((of_a.layout() == Layout::ranked) != (of_b.layout() == Layout::ranked)) {
    throw Incompatible(fmt::format("the layouts differ: {} and {}", to_string(of_a.layout()),
                                   to_string(of_b.layout())));
  }
  if (a.seed != b.seed) {
    throw Incompatible(fmt::format("the seeds differ: {} and {}", a.seed, b.seed));
  }
  return a_is_one;
}

bool is_empty(const Stage& stage, const BatchOptions& options) {
  return stage.keys_inserted == 0 && stage.nonzero(options) == 0;
}

namespace {

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
  } else if (has_ranked_counts(mine.geometry())) {
    return false;  // keys that both have would take the room of two: blocks would spill
  } else {
    // The sum may still fit, since both may hold the same keys or share counters.
    Stage sum = mine;
    sum.merge(theirs, options);
    if (sum.nonzero(options) > most) return false;
    mine = std::move(sum);
  }
  mine.tighten(options);
  return true;
}

}  // namespace

void FilterState::merge(const FilterState& other, const BatchOptions& options) {
  check_writable();
  if (check_combines(*this, other)) {
    begin_change();
    return stages[0].merge(other.stages[0], options);
  }
  std::vector<Stage> next = stages;
  for (const Stage& theirs : other.stages) {
    if (is_empty(theirs, options)) continue;
    if (std::ranges::any_of(next, [&](Stage& mine) { return join(mine, theirs, options); })) {
      continue;
    }
    if (next.size() >= growth.most_stages()) {
      throw Incompatible(fmt::format(
          "together they need more than {} stages, which is the most that this filter may have",
          growth.most_stages()));
    }
    next.push_back(theirs.copy_on(*backend));
    if (!(growth == other.growth)) next.back().index = kForeignStage;
    next.back().tighten(options);
  }
  begin_change();
  stages = std::move(next);
}

}  // namespace scbf
