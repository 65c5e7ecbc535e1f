// SPDX-License-Identifier: Apache-2.0
// Filter: arguments checked, work handed to the backend, books kept. Files are filter_io.cpp.
#include "scbf/filter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "filter/filter_access.hpp"
#include "filter/filter_state.hpp"
#include "filter/one_key.hpp"
#include "filter/store_copies.hpp"
#include "kit/answer_forms.hpp"
#include "kit/word_ops.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

namespace {

constexpr std::size_t kMaxMetadataBytes = 1u << 20;

}  // namespace

std::unique_ptr<CounterStore> Filter::State::store_on(const Backend& other) const {
  return copied(*store, geometry.words(), *backend, other);
}

ConstCounterView Filter::State::view_on(const Backend& other,
                                        std::unique_ptr<CounterStore>& copy) const {
  if (backend->memory() == other.memory()) return const_view();
  copy = store_on(other);
  return {geometry, seed, copy->words()};
}

void Filter::State::change_nonzero(int sign, const std::function<NonzeroChange()>& operation) {
  const std::optional<std::uint64_t> before = nonzero.get();
  nonzero.forget();  // what throws in the middle leaves no number that is wrong
  const NonzeroChange change = operation();
  if (before && change) nonzero.learn(sign > 0 ? *before + *change : *before - *change);
}

void Filter::State::remove(const KeyBatch& keys, std::uint8_t* verdicts,
                           const BatchOptions& options) {
  change_nonzero(-1, [&] { return backend->remove(view(), keys, verdicts, options); });
}

Filter::Filter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Filter::Filter(const Geometry& geometry, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  state_ = std::make_unique<State>(State{geometry,
                                         options.seed,
                                         &backend,
                                         backend.allocate(geometry.words()),
                                         0,
                                         0,
                                         {},
                                         KnownCount(0)});
}

Filter::Filter(std::uint64_t capacity, double fpr, const FilterOptions& options)
    : Filter(plan({.capacity = capacity, .fpr = fpr}).geometry, options) {}

Filter::Filter(const Filter& other)
    : state_(std::make_unique<State>(
          State{other.state_->geometry, other.state_->seed, other.state_->backend,
                other.state_->store_on(*other.state_->backend), other.state_->keys_inserted,
                other.state_->keys_removed, other.state_->metadata, other.state_->nonzero})) {}

Filter& Filter::operator=(const Filter& other) {
  if (this != &other) *this = Filter(other);
  return *this;
}
Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;
Filter::~Filter() = default;

const Geometry& Filter::geometry() const noexcept { return state_->geometry; }
std::uint64_t Filter::seed() const noexcept { return state_->seed; }
const Backend& Filter::backend() const noexcept { return *state_->backend; }
Filter& Filter::to(std::string_view name) {
  const Backend& backend = find_backend(name);
  if (backend.memory() != state_->backend->memory()) state_->store = state_->store_on(backend);
  state_->backend = &backend;
  return *this;
}
bool Filter::read_only() const noexcept { return !state_->store->writable(); }
std::uint64_t Filter::keys_inserted() const noexcept { return state_->keys_inserted; }
std::uint64_t Filter::keys_removed() const noexcept { return state_->keys_removed; }
const std::string& Filter::metadata() const noexcept { return state_->metadata; }

std::span<const std::uint64_t> Filter::words() const {
  if (!state_->store->on_host()) {
    throw NotOnHost(
        fmt::format("words: the counters are in the memory of {}: copy them with read_words, or "
                    "move the filter with to(\"simd\")",
                    state_->backend->memory()));
  }
  return {state_->store->words(), state_->geometry.words()};
}

void Filter::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  const std::uint64_t words = geometry().words();
  if (first > words || out.size() > words - first) {
    throw InvalidArgument(fmt::format("read_words: {} words from word {} on: the filter has {}",
                                      out.size(), first, words));
  }
  if (!out.empty()) state_->store->read(first, out);
}

Filter::State& Filter::mutable_state() {
  if (read_only()) {
    throw ReadOnly("the filter is mapped from a file, read-only: load the file to change it");
  }
  return *state_;
}

InsertReport Filter::insert(const KeyBatch& keys, const BatchOptions& options) {
  State& state = mutable_state();
  state.change_nonzero(+1, [&] { return state.backend->insert(state.view(), keys, options); });
  InsertReport report;
  report.nulls = keys.nulls();
  report.inserted = keys.size() - report.nulls;
  state.keys_inserted += report.inserted;
  return report;
}

ContainsReport Filter::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  state_->backend->contains(state_->const_view(), keys, out.data(), options);
  return {count_hits(out), keys.nulls()};
}

ContainsReport Filter::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                     const BatchOptions& options) const {
  return contains_as_bits(*this, keys, bits, options);
}

ContainsReport Filter::find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                            const BatchOptions& options) const {
  return contains_as_indices(*this, keys, indices, options);
}

RemoveReport Filter::remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                            const BatchOptions& options) {
  State& state = mutable_state();
  RemoveReport report;
  report.nulls = keys.nulls();
  if (!verdicts.empty() || keys.empty()) {
    check_answers(keys.size(), verdicts.size(), "verdicts");
    state.remove(keys, verdicts.data(), options);
    report.removed = count_hits(verdicts);
  } else {
    std::vector<std::uint8_t> window(std::min(keys.size(), kAnswerWindow));
    for (std::size_t first = 0; first < keys.size(); first += kAnswerWindow) {
      const std::size_t count = std::min(kAnswerWindow, keys.size() - first);
      state.remove(keys.slice(first, count), window.data(), options);
      report.removed += count_hits({window.data(), count});
    }
  }
  report.absent = keys.size() - report.nulls - report.removed;
  state.keys_removed += report.removed;
  return report;
}

CountReport Filter::count(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  state_->backend->count(state_->const_view(), keys, out.data(), options);
  return {keys.nulls()};
}

void Filter::insert(std::uint64_t key) { insert(one(key), kOneKey); }
void Filter::insert(std::string_view key) { insert(one(key), kOneKey); }
bool Filter::contains(std::uint64_t key) const {
  const ConstCounterView view = state_->const_view();
  return contains_one(*this, std::span(&view, 1), key);
}
bool Filter::contains(std::string_view key) const {
  const ConstCounterView view = state_->const_view();
  return contains_one(*this, std::span(&view, 1), key);
}
bool Filter::remove(std::uint64_t key) { return remove(one(key), {}, kOneKey).removed == 1; }
bool Filter::remove(std::string_view key) { return remove(one(key), {}, kOneKey).removed == 1; }
unsigned Filter::count(std::uint64_t key) const {
  const ConstCounterView view = state_->const_view();
  return count_one(*this, std::span(&view, 1), key);
}
unsigned Filter::count(std::string_view key) const {
  const ConstCounterView view = state_->const_view();
  return count_one(*this, std::span(&view, 1), key);
}

void Filter::check_compatible(const Filter& other) const {
  if (geometry() != other.geometry()) {
    throw Incompatible(fmt::format("the geometries differ: {} and {}", geometry().describe(),
                                   other.geometry().describe()));
  }
  if (seed() != other.seed()) {
    throw Incompatible(fmt::format("the seeds differ: {} and {}", seed(), other.seed()));
  }
}

void Filter::merge(const Filter& other, const BatchOptions& options) {
  State& state = mutable_state();
  check_compatible(other);
  // The other's books first: it may be this very filter.
  const std::uint64_t inserted = other.keys_inserted(), removed = other.keys_removed();
  std::unique_ptr<CounterStore> copy;
  const ConstCounterView from = other.state_->view_on(*state.backend, copy);
  state.nonzero.forget();
  state.backend->merge(state.view(), from, options);
  state.keys_inserted += inserted;
  state.keys_removed += removed;
}

SubtractReport Filter::subtract(const Filter& other, const BatchOptions& options) {
  State& state = mutable_state();
  check_compatible(other);
  std::unique_ptr<CounterStore> copy;
  const ConstCounterView what = other.state_->view_on(*state.backend, copy);
  const SubtractCounts counts = state.backend->check_subtract(state.const_view(), what, options);
  if (counts.below > 0) {
    throw Incompatible(fmt::format(
        "{} counters would fall below zero: the filter to subtract is not contained in this one",
        counts.below));
  }
  const std::uint64_t keys = keys_left(other.keys_inserted(), other.keys_removed());
  state.nonzero.forget();
  state.backend->subtract(state.view(), what, options);
  state.keys_removed += keys;
  return {counts.inexact};
}

void Filter::clear() {
  State& state = mutable_state();
  state.nonzero.forget();
  state.store->clear();
  state.nonzero.learn(0);
  state.keys_inserted = 0;
  state.keys_removed = 0;
}

bool operator==(const Filter& a, const Filter& b) {
  return a.geometry() == b.geometry() && a.seed() == b.seed() &&
         equal_words(*a.state_->store, *b.state_->store, a.geometry().words());
}

std::uint64_t Filter::nonzero(const BatchOptions& options) const {
  if (const auto known = state_->nonzero.get()) return *known;
  const std::uint64_t counted = state_->backend->count_nonzero(state_->const_view(), options);
  state_->nonzero.learn(counted);
  return counted;
}

double Filter::fill(const BatchOptions& options) const {
  return static_cast<double>(nonzero(options)) / static_cast<double>(geometry().counters());
}

Statistics Filter::statistics(const BatchOptions& options) const {
  const std::vector<Histogram> slices = state_->backend->histograms(state_->const_view(), options);
  const auto per_slice = static_cast<double>(geometry().counters_per_slice());
  Statistics result;
  for (const Histogram& slice : slices) {
    std::uint64_t nonzero = 0;
    for (unsigned value = 0; value < slice.size(); ++value) {
      result.histogram[value] += slice[value];
      if (value > 0) nonzero += slice[value];
    }
    result.nonzero += nonzero;
    result.slice_fill.push_back(static_cast<double>(nonzero) / per_slice);
  }
  result.fill = static_cast<double>(result.nonzero) / static_cast<double>(geometry().counters());
  result.saturated = result.histogram[kCounterMax];
  result.keys_inserted = keys_inserted();
  result.keys_removed = keys_removed();
  result.estimated_keys = keys_for_fill(result.fill, per_slice);
  result.estimated_fpr = predicted_fpr(geometry(), result.estimated_keys);
  return result;
}

void Filter::assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
                    std::uint64_t keys_removed) {
  State& state = mutable_state();
  if (words.size() != state.geometry.words()) {
    throw InvalidArgument(
        fmt::format("{} words of counters: must be {}", words.size(), state.geometry.words()));
  }
  if (const auto slice = slice_with_stray_padding(state.geometry, 0, words)) {
    throw InvalidArgument(fmt::format("words: padding after slice {} is not zero", *slice));
  }
  state.nonzero.forget();
  state.store->write(0, words);
  state.keys_inserted = keys_inserted;
  state.keys_removed = keys_removed;
}

void FilterAccess::check_metadata(const std::string& metadata) {
  if (metadata.size() > kMaxMetadataBytes) {
    throw InvalidArgument(
        fmt::format("metadata of {} bytes: at most {}", metadata.size(), kMaxMetadataBytes));
  }
}

Filter FilterAccess::copy_on(const Filter& filter, const Backend& backend) {
  const Filter::State& from = *filter.state_;
  return Filter(std::make_unique<Filter::State>(
      Filter::State{from.geometry, from.seed, &backend, from.store_on(backend), from.keys_inserted,
                    from.keys_removed, from.metadata, from.nonzero}));
}

void Filter::set_metadata(std::string metadata) {
  FilterAccess::check_metadata(metadata);
  state_->metadata = std::move(metadata);
}

}  // namespace scbf
