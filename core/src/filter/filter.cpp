// SPDX-License-Identifier: Apache-2.0
// Filter: counts, removes a key from the stage that claims it, subtracts. Files are in
// files/filter_files.cpp.
#include "scbf/filter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filter/all_or_nothing.hpp"
#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "kit/answer_forms.hpp"
#include "kit/few_keys.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

Filter::Filter(std::unique_ptr<FilterState> state) noexcept : FilterBase(std::move(state)) {}

namespace {

const Geometry& of_counters(const Geometry& geometry) {
  if (geometry.cell() == Cell::counter) return geometry;
  throw InvalidArgument(fmt::format("{}: a Filter needs counters; with bits, make a BloomFilter",
                                    geometry.describe()));
}

}  // namespace

Filter::Filter(const Growth& growth, const FilterOptions& options)
    : FilterBase(FilterState::empty(growth, Cell::counter, options)) {}

Filter::Filter(const Geometry& geometry, const FilterOptions& options)
    : Filter(Growth::one(of_counters(geometry)), options) {}

Filter::Filter(std::uint64_t capacity, double fpr, const FilterOptions& options)
    : Filter(plan({.capacity = capacity, .fpr = fpr}).geometry, options) {}

// ---- batches ------------------------------------------------------------------------------------

CountReport Filter::count(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  const std::uint64_t hits = ask_stages(state_->stages, [&](auto views) {
    return state_->backend->count(views, keys, out.data(), options);
  });
  return {hits, keys.nulls()};
}

RemoveReport Filter::remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                            const BatchOptions& options) {
  FilterState& state = *state_;
  state.begin_change();
  if (!verdicts.empty()) check_answers(keys.size(), verdicts.size(), "verdicts");
  if (options.most_absent == kAnyNumber) return remove_keys(state.stages, keys, verdicts, options);
  return remove_all_or_nothing(
      OwnStages{state}, keys, verdicts, options,
      [&](std::size_t s, const KeyBatch& some, std::span<std::uint8_t> answers,
          const BatchOptions& how) {
        return remove_keys({&state.stages[s], 1}, some, answers, how).removed;
      },
      [&](std::size_t s, const KeyBatch& some) { state.stages[s].insert_again(some, options); });
}

// ---- one key ------------------------------------------------------------------------------------

namespace {

unsigned count_in_stages(const std::vector<Stage>& stages, std::uint64_t hash) {
  fetch_keys(NewestFirst{stages}, {&hash, 1});
  unsigned sum = 0;
  for (const Stage& stage : stages) sum += stage.count_one(hash);
  return std::min(sum, kCounterMax);
}

template <class Key>
unsigned count_one(const FilterState& state, const Filter& filter, const Key& key) {
  if (!state.on_host()) [[unlikely]] {
    return as_batch(key, [&filter](const KeyBatch& keys) {
      std::uint8_t answer = 0;
      filter.count(keys, {&answer, 1}, kOnThisThread);
      return unsigned{answer};
    });
  }
  const std::uint64_t hash = state.hash_of(key);
  if (state.stages.size() == 1) return state.stages[0].count_one(hash);
  return count_in_stages(state.stages, hash);
}

template <class Key>
Removal remove_one(FilterState& state, Filter& filter, const Key& key) {
  if (!state.on_host()) [[unlikely]] {
    return as_batch(key, [&filter](const KeyBatch& keys) {
      std::uint8_t verdict = 0;
      filter.remove(keys, {&verdict, 1}, kOnThisThread);
      return static_cast<Removal>(verdict);
    });
  }
  return state.remove_hash(state.hash_of(key));
}

}  // namespace

Removal Filter::remove(std::uint64_t key) { return remove_one(*state_, *this, key); }
Removal Filter::remove(std::string_view key) { return remove_one(*state_, *this, key); }
unsigned Filter::count(std::uint64_t key) const { return count_one(*state_, *this, key); }
unsigned Filter::count(std::string_view key) const { return count_one(*state_, *this, key); }

FilterRef Filter::ref() { return FilterAccess::view_to_change<FilterRef>(*state_); }
ConstFilterRef Filter::ref() const { return FilterAccess::view(*state_); }

// ---- the whole ----------------------------------------------------------------------------------

Filter& Filter::to(std::string_view backend) {
  state_->move_to(find_backend(backend));
  return *this;
}
void Filter::merge(const Filter& other, const BatchOptions& options) {
  state_->merge(*other.state_, options);
}
bool operator==(const Filter& a, const Filter& b) { return a.state_->equals(*b.state_); }

void Filter::assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
                    std::uint64_t keys_removed) {
  state_->begin_change();
  if (growth().policy() != Growth::Policy::one) {
    throw InvalidArgument(
        fmt::format("assign: the filter grows ({}): only one of a single stage can be assigned",
                    growth().describe()));
  }
  state_->stages[0].assign(words, keys_inserted, keys_removed);
}

namespace {

/// The one stage that contains `theirs`, which is stage `number` of its filter. Throws
/// Incompatible.
Stage& container_of(std::vector<Stage>& stages, const Stage& theirs, std::size_t number,
                    const BatchOptions& options) {
  Stage* container = nullptr;
  for (Stage& mine : stages) {
    if (mine.geometry() != theirs.geometry() || !mine.contains_stage(theirs, options)) continue;
    if (container == nullptr) {
      container = &mine;
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
  return *container;
}

}  // namespace

SubtractReport Filter::subtract(const Filter& other, const BatchOptions& options) {
  state_->begin_change();
  if (check_combines(*state_, *other.state_)) {
    return state_->stages[0].subtract(other.state_->stages[0], options);
  }
  std::vector<Stage> next = state_->stages;
  SubtractReport report;
  for (std::size_t i = 0; i < other.stages(); ++i) {
    const Stage& theirs = other.state_->stages[i];
    if (is_empty(theirs, options)) continue;
    Stage& mine = container_of(next, theirs, i, options);
    report.inexact_counters += mine.subtract(theirs, options).inexact_counters;
    mine.tighten(options);
  }
  state_->stages = std::move(next);
  return report;
}

}  // namespace scbf
