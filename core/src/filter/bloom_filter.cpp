// SPDX-License-Identifier: Apache-2.0
// BloomFilter: makes bits from counters, intersects, and estimates numbers of keys.
#include "scbf/bloom_filter.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "filter/state.hpp"
#include "kit/answer_forms.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

namespace {

/// The bits of a stage of counters, on a backend that works on bits.
Stage bits_of(const Stage& counters, const Backend& on, const BatchOptions& options) {
  const StageShape shape = counters.shape.with(Cell::bit);
  Stage bits(shape, counters.index, counters.seed, on, on.allocate(shape.geometry.words()));
  if (counters.backend->memory() == on.memory()) {
    on.project(bits.view(), counters.view(), options);
  } else {
    const Stage copy = counters.copy_on(on);
    on.project(bits.view(), copy.view(), options);
  }
  bits.take_records_of(counters);
  return bits;
}

std::unique_ptr<FilterState> bits_of(const FilterState& of, const BatchOptions& options) {
  const Backend& on = of.backend->supports(Cell::bit) ? *of.backend : find_backend();
  check_supports(on, of.growth.layout(), Cell::bit);
  auto state = std::make_unique<FilterState>(FilterState{of.growth, of.seed, &on});
  state->cell = Cell::bit;
  state->metadata = of.metadata;
  state->stages.reserve(of.stages.size());
  for (const Stage& stage : of.stages) state->stages.push_back(bits_of(stage, on, options));
  return state;
}

}  // namespace

BloomFilter::BloomFilter(const Growth& growth, const FilterOptions& options)
    : FilterBase(FilterState::empty(growth, Cell::bit, options)) {}

BloomFilter::BloomFilter(const Geometry& geometry, const FilterOptions& options)
    : BloomFilter(Growth::one(geometry), options) {}

BloomFilter::BloomFilter(std::uint64_t capacity, double fpr, const FilterOptions& options)
    : BloomFilter(plan({.capacity = capacity, .fpr = fpr}).geometry, options) {}

BloomFilter::BloomFilter(const Filter& counters, const BatchOptions& options)
    : FilterBase(bits_of(FilterAccess::state(counters), options)) {}
BloomFilter::BloomFilter(std::unique_ptr<FilterState> state) noexcept
    : FilterBase(std::move(state)) {}

BloomFilterRef BloomFilter::ref() { return FilterAccess::view_to_change<BloomFilterRef>(*state_); }
ConstFilterRef BloomFilter::ref() const { return FilterAccess::view(*state_); }

// ---- the whole ----------------------------------------------------------------------------------

BloomFilter& BloomFilter::to(std::string_view backend) {
  state_->move_to(find_backend(backend));
  return *this;
}
bool operator==(const BloomFilter& a, const BloomFilter& b) { return a.state_->equals(*b.state_); }

void BloomFilter::merge(const BloomFilter& other, const BatchOptions& options) {
  state_->merge(*other.state_, options);
}

namespace {

/// Throws Incompatible unless the filters have one stage each, of equal geometry and seed.
void check_single(const FilterState& a, const FilterState& b, const char* what) {
  if (check_combines(a, b)) return;
  throw Incompatible(std::string(what) +
                     ": the filters grow by stages, and only filters of a single stage have bits "
                     "that stand for the same keys");
}

KeyEstimate estimate(const Geometry& geometry, std::uint64_t ones) {
  const double fill = static_cast<double>(ones) / static_cast<double>(geometry.counters());
  const double keys = keys_for_fill(fill, static_cast<double>(geometry.counters_per_slice()));
  return {keys, std::sqrt(estimate_covariance(geometry, keys))};
}

}  // namespace

void BloomFilter::intersect(const BloomFilter& other, const BatchOptions& options) {
  state_->check_writable();
  check_single(*state_, *other.state_, "intersect");
  state_->begin_change();
  state_->stages[0].intersect(other.state_->stages[0], options);
}

KeyEstimate BloomFilter::estimated_keys(const BatchOptions& options) const {
  KeyEstimate sum{0, 0};
  double variance = 0;
  for (const Stage& stage : state_->stages) {
    const KeyEstimate of_stage = estimate(stage.geometry(), stage.nonzero(options));
    sum.keys += of_stage.keys;
    variance += of_stage.standard_error * of_stage.standard_error;
  }
  sum.standard_error = std::sqrt(variance);
  return sum;
}

KeyEstimate BloomFilter::estimated_union(const BloomFilter& other,
                                         const BatchOptions& options) const {
  check_single(*state_, *other.state_, "estimated_union");
  const Stage &mine = state_->stages[0], &theirs = other.state_->stages[0];
  return estimate(geometry(), mine.nonzero_with(theirs, options));
}

KeyEstimate BloomFilter::estimated_intersection(const BloomFilter& other,
                                                const BatchOptions& options) const {
  check_single(*state_, *other.state_, "estimated_intersection");
  const Stage &mine = state_->stages[0], &theirs = other.state_->stages[0];
  const double a = estimate(geometry(), mine.nonzero(options)).keys;
  const double b = estimate(geometry(), theirs.nonzero(options)).keys;
  const double either = estimate(geometry(), mine.nonzero_with(theirs, options)).keys;
  const double common = std::max(0.0, a + b - either);
  if (!std::isfinite(either)) return {either, either};
  // The variance of â + b̂ − û. The set of û contains those of â and b̂, and has them in common
  // with each.
  const auto covariance = [&](double keys) { return estimate_covariance(geometry(), keys); };
  const double variance =
      covariance(either) - covariance(a) - covariance(b) + 2 * covariance(common);
  return {common, std::sqrt(std::max(0.0, variance))};
}

}  // namespace scbf
