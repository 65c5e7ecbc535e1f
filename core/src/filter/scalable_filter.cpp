// SPDX-License-Identifier: Apache-2.0
// ScalableFilter: batches cut where stages fill, questions to all stages, removal from the one that
// claims a key; how these two go through the stages is stage_walk.hpp. Whole filters are
// scalable_whole.cpp.
#include "scbf/scalable_filter.hpp"

#include <algorithm>
#include <new>

#include "filter/filter_access.hpp"
#include "filter/one_key.hpp"
#include "filter/stage_walk.hpp"
#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"
#include "kit/key_windows.hpp"

namespace scbf {

namespace {

KeyBatch batch_of(std::span<const std::uint64_t> hashes) { return KeyBatch::from_hashes(hashes); }

}  // namespace

ScalableFilter::ScalableFilter(const Growth& growth, const FilterOptions& options)
    : growth_(growth), seed_(options.seed), backend_(&find_backend(options.backend)) {
  stages_.push_back(make_stage(0));
}

ScalableFilter::ScalableFilter(std::uint64_t first_capacity, double fpr,
                               const FilterOptions& options)
    : ScalableFilter(Growth::tightening(first_capacity, fpr), options) {}

ScalableFilter::Stage ScalableFilter::make_stage(std::uint32_t index) const {
  const StageShape shape = growth_.stage(index);
  return {Filter(shape.geometry, {.seed = seed_, .backend = backend_->name()}), shape, index};
}

std::uint32_t ScalableFilter::next_index() const noexcept {
  std::uint32_t next = 0;
  for (const Stage& stage : stages_) {
    if (stage.index != kForeign) next = std::max(next, stage.index + 1);
  }
  return next;
}

void ScalableFilter::check_writable() const {
  if (read_only()) {
    throw ReadOnly("the filter is mapped from a file, read-only: load the file to change it");
  }
}

// ---- insertion ----------------------------------------------------------------------------------

/// The stages as stage_walk.hpp wants them.
struct ScalableFilter::OwnStages {
  ScalableFilter& of;

  std::size_t size() const noexcept { return of.stages_.size(); }
  const Growth& growth() const noexcept { return of.growth_; }
  const StageShape& shape(std::size_t i) const noexcept { return of.stages_[i].shape; }
  const Filter& filter(std::size_t i) const noexcept { return of.stages_[i].filter; }
  std::uint64_t& at_most(std::size_t i) noexcept { return of.stages_[i].at_most; }
  void add() { of.stages_.push_back(of.make_stage(of.next_index())); }
  RemoveReport remove(std::size_t i, const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                      const BatchOptions& options) {
    return of.stages_[i].filter.remove(keys, verdicts, options);
  }
};

InsertReport ScalableFilter::insert(const KeyBatch& keys, const BatchOptions& options) {
  check_writable();
  OwnStages stages{*this};
  InsertReport report;
  for (std::size_t first = 0; first < keys.size();) {
    const KeyBatch rest = keys.slice(first, keys.size() - first);
    const InsertStep step = next_insert_step(stages, rest, first, report);
    if (step.stage != InsertStep::kNowhere) {
      try {
        stages_[step.stage].filter.insert(rest.slice(0, step.count), options);
      } catch (const std::bad_alloc&) {  // before the first counter was changed
        if (first == 0) throw;
        throw_full("memory is short", first, report);
      }
    }
    report.inserted += step.valid;
    report.nulls += step.count - step.valid;
    first += step.count;
  }
  return report;
}

// ---- questions ----------------------------------------------------------------------------------

ContainsReport ScalableFilter::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                        const BatchOptions& options) const {
  if (stages_.size() == 1) return stages_[0].filter.contains(keys, out, options);
  check_answers(keys.size(), out.size(), "out");
  // The newest holds most.
  std::vector<ConstCounterView> newest_first;
  newest_first.reserve(stages_.size());
  for (std::size_t s = stages_.size(); s-- > 0;) {
    newest_first.push_back(FilterAccess::view(stages_[s].filter));
  }
  backend_->contains_any(newest_first, keys, out.data(), options);
  return {count_hits(out), keys.nulls()};
}

CountReport ScalableFilter::count(const KeyBatch& keys, std::span<std::uint8_t> out,
                                  const BatchOptions& options) const {
  if (stages_.size() == 1) return stages_[0].filter.count(keys, out, options);
  check_answers(keys.size(), out.size(), "out");
  std::uint64_t largest = 0;
  for (const Stage& stage : stages_) largest = std::max(largest, stage.shape.geometry.bytes());
  for_each_window(
      ask_in_bulk(*backend_, largest, keys, options), keys, options,
      [&](KeyWindow& window, std::size_t first, std::size_t count, const BatchOptions& inside) {
        std::uint8_t* sums = &out[first];
        const std::size_t valid = backend_->hash(keys, first, count, seed_, window.hashes.data());
        std::fill_n(sums, valid, std::uint8_t{0});
        const std::span<std::uint8_t> answers(window.answers.data(), valid);
        for (const Stage& stage : stages_) {
          stage.filter.count(batch_of({window.hashes.data(), valid}), answers, inside);
          for (std::size_t i = 0; i < valid; ++i) {
            sums[i] =
                static_cast<std::uint8_t>(std::min<unsigned>(sums[i] + answers[i], kCounterMax));
          }
        }
        spread_answers(keys, first, count, sums);
      });
  return {keys.nulls()};
}

ContainsReport ScalableFilter::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                             const BatchOptions& options) const {
  return contains_as_bits(*this, keys, bits, options);
}
ContainsReport ScalableFilter::find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                                    const BatchOptions& options) const {
  return contains_as_indices(*this, keys, indices, options);
}

// ---- removal ------------------------------------------------------------------------------------

ScalableRemoveReport ScalableFilter::remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                                            const BatchOptions& options) {
  check_writable();
  if (!verdicts.empty()) check_answers(keys.size(), verdicts.size(), "verdicts");
  OwnStages stages{*this};
  return remove_from_stages(stages, *backend_, seed_, keys, verdicts, options);
}

// ---- one key ------------------------------------------------------------------------------------

/// The stages as few_keys.hpp wants them. The newest holds most.
struct ScalableFilter::NewestFirst {
  const std::vector<Stage>& stages;

  std::size_t size() const noexcept { return stages.size(); }
  ConstCounterView operator[](std::size_t i) const noexcept {
    return FilterAccess::view(stages[stages.size() - 1 - i].filter);
  }
};

namespace {

template <class Key>
Removal remove_one(ScalableFilter& filter, const Key& key) {
  std::uint8_t verdict = 0;
  filter.remove(one(key), {&verdict, 1}, kOneKey);
  return static_cast<Removal>(verdict);
}

}  // namespace

void ScalableFilter::insert(std::uint64_t key) { insert(one(key), kOneKey); }
void ScalableFilter::insert(std::string_view key) { insert(one(key), kOneKey); }
bool ScalableFilter::contains(std::uint64_t key) const {
  return contains_one(*this, NewestFirst{stages_}, key);
}
bool ScalableFilter::contains(std::string_view key) const {
  return contains_one(*this, NewestFirst{stages_}, key);
}
Removal ScalableFilter::remove(std::uint64_t key) { return remove_one(*this, key); }
Removal ScalableFilter::remove(std::string_view key) { return remove_one(*this, key); }
unsigned ScalableFilter::count(std::uint64_t key) const {
  return count_one(*this, NewestFirst{stages_}, key);
}
unsigned ScalableFilter::count(std::string_view key) const {
  return count_one(*this, NewestFirst{stages_}, key);
}

}  // namespace scbf
