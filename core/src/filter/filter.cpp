// SPDX-License-Identifier: Apache-2.0
// Filter: checks arguments, cuts batches where stages fill, looks keys up in all stages, removes a
// key from the stage that claims it. walk.hpp decides which keys go to which stage; operations on
// whole filters are in whole.cpp, files in files/filter_files.cpp.
#include "scbf/filter.hpp"

#include <fmt/format.h>

#include "filter/all_or_nothing.hpp"
#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "kit/answer_forms.hpp"
#include "kit/few_keys.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

namespace {

/// The stages, in the form that few_keys.hpp asks for. The newest stage is likely to hold most
/// keys.
struct NewestFirst {
  const std::vector<Stage>& stages;

  std::size_t size() const noexcept { return stages.size(); }
  ConstCounterView operator[](std::size_t i) const noexcept {
    return stages[stages.size() - 1 - i].view();
  }
};

}  // namespace

Filter::Filter(std::unique_ptr<FilterState> state) noexcept : state_(std::move(state)) {}

Filter::Filter(const Growth& growth, const FilterOptions& options)
    : state_(std::make_unique<FilterState>(
          FilterState{growth, options.seed, &find_backend(options.backend)})) {
  state_->stages.push_back(state_->make_stage(0));
}

Filter::Filter(const Geometry& geometry, const FilterOptions& options)
    : Filter(Growth::one(geometry), options) {}

Filter::Filter(std::uint64_t capacity, double fpr, const FilterOptions& options)
    : Filter(plan({.capacity = capacity, .fpr = fpr}).geometry, options) {}

Filter::Filter(const Filter& other) : state_(std::make_unique<FilterState>(*other.state_)) {}
Filter& Filter::operator=(const Filter& other) {
  if (this != &other) *this = Filter(other);
  return *this;
}
Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;
Filter::~Filter() = default;

// ---- insertion ----------------------------------------------------------------------------------

InsertReport Filter::insert(const KeyBatch& keys, const BatchOptions& options) {
  FilterState& state = *state_;
  state.check_writable();
  return insert_in_steps(
      state, keys, [](const KeyBatch&) {},
      [&](std::size_t stage, const KeyBatch& some) {
        return state.stages[stage].insert(some, options);
      });
}

// ---- questions ----------------------------------------------------------------------------------

namespace {

/// Calls ask(views) with views of all stages, the newest first.
template <class Ask>
std::uint64_t ask_stages(const std::vector<Stage>& stages, Ask ask) {
  if (stages.size() == 1) {
    const ConstCounterView view = stages[0].view();
    return ask(std::span(&view, 1));
  }
  const NewestFirst newest_first{stages};
  std::vector<ConstCounterView> views;
  views.reserve(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) views.push_back(newest_first[i]);
  return ask(std::span<const ConstCounterView>(views));
}

}  // namespace

ContainsReport Filter::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  const std::uint64_t hits = ask_stages(state_->stages, [&](auto views) {
    return state_->backend->contains(views, keys, out.data(), options);
  });
  return {hits, keys.nulls()};
}

CountReport Filter::count(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  const std::uint64_t hits = ask_stages(state_->stages, [&](auto views) {
    return state_->backend->count(views, keys, out.data(), options);
  });
  return {hits, keys.nulls()};
}

ContainsReport Filter::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                     const BatchOptions& options) const {
  return contains_as_bits(*this, keys, bits, options);
}
ContainsReport Filter::find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                            const BatchOptions& options) const {
  return contains_as_indices(*this, keys, indices, options);
}

// ---- removal ------------------------------------------------------------------------------------

RemoveReport Filter::remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                            const BatchOptions& options) {
  FilterState& state = *state_;
  state.check_writable();
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

bool on_host(const FilterState& state) { return state.stages[0].store->on_host(); }

template <class Key>
void insert_one(FilterState& state, Filter& filter, const Key& key) {
  if (!on_host(state)) {
    filter.insert(one(key), kOneKey);
    return;
  }
  state.check_writable();
  std::size_t s = 0;
  if (state.growth.policy() != Growth::Policy::one) {
    OwnStages stages{state};
    s = stage_with_room(stages, 0, {});
    book_key(state.stages[s]);
  }
  state.stages[s].insert_one(hash_of(key, state.seed));
}

template <class Key>
bool contains_one(const FilterState& state, const Filter& filter, const Key& key) {
  if (!on_host(state)) {
    std::uint8_t answer = 0;
    return filter.contains(one(key), {&answer, 1}, kOneKey).hits == 1;
  }
  const std::uint64_t hash = hash_of(key, state.seed);
  const HoldsKey holds = state.backend->one_key().holds;
  const Stage& first = state.stages[0];
  if (state.stages.size() == 1) return holds(first.geometry(), first.store->words(), hash);
  const NewestFirst stages{state.stages};
  fetch_keys(stages, {&hash, 1});
  return any_holds(stages, hash, holds);
}

template <class Key>
unsigned count_one(const FilterState& state, const Filter& filter, const Key& key) {
  if (!on_host(state)) {
    std::uint8_t answer = 0;
    filter.count(one(key), {&answer, 1}, kOneKey);
    return answer;
  }
  const std::uint64_t hash = hash_of(key, state.seed);
  const CountKey count = state.backend->one_key().count;
  const Stage& first = state.stages[0];
  if (state.stages.size() == 1) return count(first.geometry(), first.store->words(), hash);
  const NewestFirst stages{state.stages};
  fetch_keys(stages, {&hash, 1});
  return sum_of_counts(stages, hash, count);
}

template <class Key>
Removal remove_one(FilterState& state, Filter& filter, const Key& key) {
  if (!on_host(state)) {
    std::uint8_t verdict = 0;
    filter.remove(one(key), {&verdict, 1}, kOneKey);
    return static_cast<Removal>(verdict);
  }
  state.check_writable();
  const std::uint64_t hash = hash_of(key, state.seed);
  if (state.stages.size() == 1) {
    return state.stages[0].remove_one(hash) ? Removal::removed : Removal::absent;
  }
  const HoldsKey holds = state.backend->one_key().holds;
  const NewestFirst newest_first{state.stages};
  fetch_keys(newest_first, {&hash, 1});
  Stage* claimant = nullptr;
  for (Stage& stage : state.stages) {
    if (!holds(stage.geometry(), stage.store->words(), hash)) continue;
    if (claimant != nullptr) return Removal::ambiguous;
    claimant = &stage;
  }
  if (claimant == nullptr) return Removal::absent;
  claimant->remove_one(hash);
  return Removal::removed;
}

}  // namespace

void Filter::insert(std::uint64_t key) { insert_one(*state_, *this, key); }
void Filter::insert(std::string_view key) { insert_one(*state_, *this, key); }
bool Filter::contains(std::uint64_t key) const { return contains_one(*state_, *this, key); }
bool Filter::contains(std::string_view key) const { return contains_one(*state_, *this, key); }
Removal Filter::remove(std::uint64_t key) { return remove_one(*state_, *this, key); }
Removal Filter::remove(std::string_view key) { return remove_one(*state_, *this, key); }
unsigned Filter::count(std::uint64_t key) const { return count_one(*state_, *this, key); }
unsigned Filter::count(std::string_view key) const { return count_one(*state_, *this, key); }

namespace {

/// The only stage of a filter on the host.
template <class State>
auto& stage_to_view(State& state) {
  if (state.growth.policy() != Growth::Policy::one) {
    throw InvalidArgument(
        "ref: the filter grows, and a view is of one stage: use insert, contains "
        "and remove of the filter");
  }
  if (!on_host(state)) {
    throw NotOnHost(
        fmt::format("ref: the counters are in the memory of {}: move the filter with to(\"simd\")",
                    state.backend->memory()));
  }
  return state.stages[0];
}

}  // namespace

FilterRef Filter::ref() {
  Stage& stage = stage_to_view(*state_);
  state_->check_writable();
  return {stage.geometry(),
          stage.seed,
          stage.store->words(),
          stage.backend->one_key(),
          {&stage.keys_inserted, &stage.keys_removed, &stage.known_nonzero}};
}

ConstFilterRef Filter::ref() const {
  const FilterState& state = *state_;
  const Stage& stage = stage_to_view(state);
  return {stage.geometry(), stage.seed, stage.store->words(), stage.backend->one_key()};
}

}  // namespace scbf
