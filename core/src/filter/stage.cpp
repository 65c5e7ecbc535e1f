// SPDX-License-Identifier: Apache-2.0
// Stages: pass batches to the backend and keep track of keys and non-zero counters.
#include "filter/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "filter/store_copies.hpp"
#include "kit/answer_forms.hpp"
#include "kit/counted.hpp"
#include "kit/cut_short.hpp"
#include "kit/error_text.hpp"
#include "kit/executor.hpp"
#include "kit/hash_keys.hpp"
#include "kit/piece_room.hpp"
#include "kit/ranked_check.hpp"
#include "kit/ranked_counts.hpp"
#include "kit/removal.hpp"
#include "kit/spill_table.hpp"
#include "kit/word_ops.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

Stage Stage::empty(const StageShape& shape, std::uint32_t index, std::uint64_t seed,
                   const Backend& backend) {
  Stage stage(shape, index, seed, backend, backend.allocate(shape.geometry.words()));
  stage.set_empty();
  return stage;
}

void Stage::set_empty() noexcept {
  known_nonzero.learn(0);
  if (shape.full_at != kNeverFull) nonzero_at_most = 0;
}

Stage Stage::copy_on(const Backend& other) const {
  Stage copy(shape, index, seed, other, copied(*store, geometry().words(), *backend, other));
  copy.take_records_of(*this);
  return copy;
}

void Stage::take_records_of(const Stage& other) {
  records() = other.records();
  metadata = other.metadata;
}

ConstCounterView Stage::view_on(const Backend& other, std::unique_ptr<CounterStore>& copy) const {
  if (backend->memory() == other.memory()) return view();
  copy = copied(*store, geometry().words(), *backend, other);
  return {geometry(), seed, copy->words()};
}

std::span<const std::uint64_t> Stage::words() const {
  if (!store->on_host()) {
    throw NotOnHost(
        fmt::format("words: the counters are in the memory of {}: copy them with read_words, or "
                    "move the filter with to(\"simd\")",
                    backend->memory()));
  }
  return {store->words(), geometry().words()};
}

void Stage::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  const std::uint64_t words = geometry().words();
  if (first > words || out.size() > words - first) {
    throw InvalidArgument(fmt::format("read_words: {} words from word {} on: the filter has {}",
                                      out.size(), first, words));
  }
  if (!out.empty()) store->read(first, out);
}

// ---- batches ------------------------------------------------------------------------------------

InsertReport Stage::insert(const KeyBatch& keys, const BatchOptions& options) {
  detail::KnownCount nonzero = known_nonzero;
  known_nonzero.forget();  // if the backend throws, no wrong number is left
  try {
    nonzero.add(backend->insert(view(), keys, options));
    known_nonzero = nonzero;
  } catch (const CutShort& cut) {
    book(keys.slice(0, cut.keys));
    throw;
  }
  return book(keys);
}

std::uint64_t Stage::insert_new(const KeyBatch& keys, std::uint8_t* out,
                                const BatchOptions& options) {
  detail::KnownCount nonzero = known_nonzero;
  known_nonzero.forget();  // if the backend throws, no wrong number is left
  try {
    const NewKeys added = backend->insert_new(view(), keys, out, options);
    nonzero.add(added.filled);
    known_nonzero = nonzero;
    keys_inserted += added.keys;
    return added.keys;
  } catch (const CutShort& cut) {
    keys_inserted += cut.inserted;
    throw;
  }
}

InsertReport Stage::book(const KeyBatch& inserted) noexcept {
  const std::uint64_t nulls = inserted.nulls();
  keys_inserted += inserted.size() - nulls;
  return {inserted.size() - nulls, nulls};
}

void Stage::insert_again(const KeyBatch& keys, BatchOptions options) {
  std::size_t most = keys.size();
  const auto smaller = [&](std::size_t than) {
    most = than / 2;
    options.path = Path::direct;
  };
  for (std::size_t first = 0; first < keys.size();) {
    const std::size_t n = std::min(most, keys.size() - first);
    try {
      insert(keys.slice(first, n), options);
      first += n;
    } catch (const CutShort& cut) {
      if (n == 1) throw;
      first += cut.keys;
      smaller(n);
    } catch (const std::bad_alloc&) {  // before the first change
      if (n == 1) throw;
      smaller(n);
    }
  }
}

bool Stage::keeps(std::uint64_t hash) const noexcept {
  return has_ranked_counts(geometry()) && holds_one(hash) &&
         is_stuck(geometry(), store->words(), detail::ranked_place(geometry(), hash));
}

namespace {

/// How many removals have met stuck blocks in these stages, and in some others.
std::uint64_t met_stuck(std::span<const Stage> stages) noexcept {
  std::uint64_t sum = 0;
  for (const Stage& stage : stages) {
    if (!has_ranked_counts(stage.geometry()) || !stage.store->on_host()) continue;
    sum += removals_from_stuck(stage.store->words()).load(std::memory_order_relaxed);
  }
  return sum;
}

/// Which of the keys that a backend removed were kept: corrects verdicts and numbers. Exactly one
/// stage claimed each of them. If that stage kept the key, it claims it still, because positions of
/// a stuck block do not change in a removal.
void find_kept(std::span<const Stage> stages, const KeyBatch& keys, std::uint8_t* verdicts,
               RemoveCounts& counts, std::span<RemovalChange> changes,
               const BatchOptions& options) noexcept {
  constexpr std::size_t kTogether = 64, kTask = 256 * kTogether;
  std::mutex mutex;
  const auto find_some = [&](std::size_t first, std::size_t end) {
    std::array<std::size_t, kTogether> removed;
    std::array<std::uint64_t, kTogether> hashes;
    std::size_t n = 0;
    for (std::size_t i = first; i < end; ++i) {
      if (verdicts[i] != static_cast<std::uint8_t>(Removal::removed)) continue;
      hash_keys(keys, i, 1, stages[0].seed, kPlainHashes, &hashes[n]);
      removed[n++] = i;
    }
    for (const Stage& stage : stages) {
      if (!has_ranked_counts(stage.geometry())) continue;
      for (std::size_t i = 0; i < n; ++i) {
        __builtin_prefetch(ranked_line(std::as_const(*stage.store).words(),
                                       detail::ranked_place(stage.geometry(), hashes[i])));
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto keeper =
          std::ranges::find_if(stages, [&](const Stage& stage) { return stage.keeps(hashes[i]); });
      if (keeper == stages.end()) continue;
      verdicts[removed[i]] = static_cast<std::uint8_t>(Removal::kept);
      const std::scoped_lock lock(mutex);
      --changes[static_cast<std::size_t>(keeper - stages.begin())].keys;
      --counts.removed;
      ++counts.kept;
    }
  };
  run_tasks(options, thread_count(options), (keys.size() + kTask - 1) / kTask,
            [&](std::size_t task) {
              const std::size_t end = std::min(keys.size(), (task + 1) * kTask);
              for (std::size_t first = task * kTask; first < end; first += kTogether) {
                find_some(first, std::min(end, first + kTogether));
              }
            });
}

}  // namespace

RemoveReport remove_keys(std::span<Stage> stages, const KeyBatch& keys,
                         std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  const Backend& backend = *stages[0].backend;
  RemoveReport report;
  std::size_t processed = 0;
  const auto book = [&](const RemoveCounts& counts, std::span<const RemovalChange> changes,
                        std::size_t done) {
    report.removed += counts.removed;
    report.ambiguous += counts.ambiguous;
    report.kept += counts.kept;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      stages[i].keys_removed += changes[i].keys;
      stages[i].known_nonzero.subtract(changes[i].emptied);
    }
    processed += done;
  };
  const auto finish_report = [&] {
    report.nulls = keys.slice(0, processed).nulls();
    report.absent = processed - report.nulls - report.removed - report.ambiguous - report.kept;
  };
  const auto stopped = [&](const char* why) {
    finish_report();
    throw RemovalStopped(
        error_text("{}; {} {} processed", why, processed, keys_of_batch_were(processed)), processed,
        report);
  };
  const auto remove_from = [&](std::span<const CounterView> views,
                               std::span<RemovalChange> changes) {
    const auto remove_some = [&](const KeyBatch& some, std::uint8_t* out) {
      const std::uint64_t met_before = met_stuck(stages);
      try {
        RemoveCounts counts = backend.remove(views, some, out, changes, options);
        if (met_stuck(stages) != met_before) {
          find_kept(stages, some, out, counts, changes, options);
        }
        book(counts, changes, some.size());
      } catch (const CutShort& cut) {
        book(cut.removed, changes, cut.keys);
        throw;
      }
    };
    if (!verdicts.empty() || keys.empty()) return remove_some(keys, verdicts.data());
    // Which keys a stuck block has kept is found out from verdicts.
    if (views.size() == 1 && !has_ranked_counts(stages[0].geometry())) {
      if (const auto change = backend.remove_without_verdicts(views[0], keys, options)) {
        return book({.removed = change->keys}, {&*change, 1}, keys.size());
      }
    }
    PieceRoom<std::uint8_t> window(std::min(keys.size(), answer_window(stages[0].geometry())));
    while (processed < keys.size()) {
      remove_some(keys.slice(processed, std::min(window.size(), keys.size() - processed)),
                  window.data());
    }
  };
  try {
    if (stages.size() == 1) {
      const CounterView view = stages[0].view();
      RemovalChange change;
      remove_from({&view, 1}, {&change, 1});
    } else {
      std::vector<CounterView> views;
      views.reserve(stages.size());
      for (Stage& stage : stages) views.push_back(stage.view());
      std::vector<RemovalChange> changes(stages.size());
      remove_from(views, changes);
    }
  } catch (const CutShort& cut) {
    if (processed == 0) std::rethrow_exception(cut.cause);
    stopped(cut.what());
  } catch (const std::bad_alloc&) {  // the last call has changed no counter
    if (processed == 0) throw;
    stopped("memory is short");
  } catch (...) {
    // It is not known which counters were changed.
    for (Stage& stage : stages) stage.known_nonzero.forget();
    throw;
  }
  finish_report();
  return report;
}

// ---- whole stages -------------------------------------------------------------------------------

void Stage::merge(const Stage& other, const BatchOptions& options) {
  // Read the other's numbers first: it may be this same stage.
  const std::uint64_t inserted = other.keys_inserted, removed = other.keys_removed;
  std::unique_ptr<CounterStore> copy;
  const ConstCounterView from = other.view_on(*backend, copy);
  nonzero_at_most = geometry().counters();
  known_nonzero.forget();
  backend->merge(view(), from, options);
  keys_inserted += inserted;
  keys_removed += removed;
}

bool Stage::contains_stage(const Stage& other, const BatchOptions& options) const {
  std::unique_ptr<CounterStore> copy;
  return backend->check_subtract(view(), other.view_on(*backend, copy), options).below == 0;
}

SubtractReport Stage::subtract(const Stage& other, const BatchOptions& options) {
  std::unique_ptr<CounterStore> copy;
  const ConstCounterView what = other.view_on(*backend, copy);
  const SubtractCounts counts = backend->check_subtract(std::as_const(*this).view(), what, options);
  if (counts.below > 0) {
    throw Incompatible(
        fmt::format("{} would fall below zero: the filter to subtract is not contained in this one",
                    counted(counts.below, "counter")));
  }
  const std::uint64_t keys = keys_left(other.keys_inserted, other.keys_removed);
  known_nonzero.forget();
  backend->subtract(view(), what, options);
  keys_removed += keys;
  return {counts.inexact};
}

void Stage::intersect(const Stage& other, const BatchOptions& options) {
  std::unique_ptr<CounterStore> copy;
  const ConstCounterView from = other.view_on(*backend, copy);
  known_nonzero.forget();
  backend->intersect(view(), from, options);
}

std::uint64_t Stage::nonzero_with(const Stage& other, const BatchOptions& options) const {
  std::unique_ptr<CounterStore> copy;
  return backend->count_joined(view(), other.view_on(*backend, copy), options);
}

void Stage::clear() {
  known_nonzero.forget();
  store->clear();
  set_empty();
  keys_inserted = 0;
  keys_removed = 0;
}

void Stage::assign(std::span<const std::uint64_t> words, std::uint64_t inserted,
                   std::uint64_t removed) {
  if (words.size() != geometry().words()) {
    throw InvalidArgument(
        fmt::format("{} words of counters: must be {}", words.size(), geometry().words()));
  }
  if (const auto stray = stray_padding(geometry(), 0, words)) {
    throw InvalidArgument(fmt::format("words: padding after slice {} is not zero, at byte {}",
                                      stray->slice, stray->byte));
  }
  if (has_ranked_counts(geometry())) {
    auto fault = RankedCheck(geometry()).next(words);
    if (!fault) fault = misfit_of_spilled(geometry(), words.data());
    if (fault) {
      throw InvalidArgument(fmt::format("words: {}, at byte {}", fault->what, fault->byte));
    }
  }
  nonzero_at_most = geometry().counters();
  known_nonzero.forget();
  store->write(0, words);
  keys_inserted = inserted;
  keys_removed = removed;
}

std::uint64_t Stage::nonzero(const BatchOptions& options) const {
  if (const auto known = known_nonzero.get()) return *known;
  const std::uint64_t counted = backend->count_nonzero(view(), options);
  known_nonzero.learn(counted);
  return counted;
}

bool Stage::equals(const Stage& other) const {
  return shape == other.shape && seed == other.seed &&
         equal_words(*store, *other.store, geometry().words());
}

StageStatistics Stage::statistics(const BatchOptions& options) const {
  const std::vector<Histogram> slices = backend->histograms(view(), options);
  const auto per_slice = static_cast<double>(geometry().counters_per_slice());
  StageStatistics result{.shape = shape};
  for (const Histogram& slice : slices) {
    std::uint64_t nonzero = 0;
    for (unsigned value = 0; value < slice.size(); ++value) {
      result.histogram[value] += slice[value];
      if (value > 0) nonzero += slice[value];
    }
    result.nonzero += nonzero;
    result.slice_fill.push_back(std::min(1.0, static_cast<double>(nonzero) / per_slice));
  }
  known_nonzero.learn(result.nonzero);
  result.saturated = has_ranked_counts(geometry()) ? saturated_positions(geometry(), store->words())
                                                   : result.histogram[kCounterMax];
  complete(result);
  return result;
}

StageStatistics Stage::summary(std::uint64_t saturated, const BatchOptions& options) const {
  StageStatistics result{.shape = shape, .nonzero = nonzero(options), .saturated = saturated};
  complete(result);
  return result;
}

void Stage::complete(StageStatistics& statistics) const {
  // A mapped file that was overwritten may have padding that is not zero.
  statistics.fill = std::min(
      1.0, static_cast<double>(statistics.nonzero) / static_cast<double>(geometry().counters()));
  statistics.keys_inserted = keys_inserted;
  statistics.keys_removed = keys_removed;
  statistics.estimated_keys =
      keys_for_fill(statistics.fill, static_cast<double>(geometry().counters_per_slice()));
  statistics.estimated_fpr = predicted_fpr(geometry(), statistics.estimated_keys);
}

}  // namespace scbf
