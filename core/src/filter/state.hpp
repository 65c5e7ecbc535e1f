// SPDX-License-Identifier: Apache-2.0
// What a Filter and a BloomFilter are made of and have in common; and the way in for files and
// banks, which take filters apart and put them together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filter/stage.hpp"
#include "kit/answer_forms.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// Calls ask with a batch of one key. Out of line, so that a call for one key on the host, which is
/// short, reserves no stack for a batch.
template <class Key, class Ask>
[[gnu::noinline]] auto as_batch(Key key, Ask ask) {
  return ask(one(key));
}

/// What a filter is made of. Functions have the contracts of FilterBase's, Filter's and
/// BloomFilter's.
struct FilterState {
  static constexpr const char* kOwner = "filter";

  Growth growth;
  std::uint64_t seed;
  const Backend* backend;
  std::vector<Stage> stages = {};  ///< oldest first; not empty
  std::string metadata = {};
  Cell cell = Cell::counter;  ///< of all stages
  Epoch epoch = {};           ///< of bits whose changes travel; none after any other change
  std::uint64_t seed_mask = detail::u64_seed_mask(seed);  ///< of `seed`, for integers

  /// A filter of one empty stage. Throws BackendUnavailable, or what the backend throws if there is
  /// too little memory.
  static std::unique_ptr<FilterState> empty(const Growth& growth, Cell cell,
                                            const FilterOptions& options);

  /// All stages are mapped, or none.
  bool read_only() const noexcept { return stages[0].read_only(); }
  /// Throws ReadOnly.
  void check_writable() const {
    if (read_only()) [[unlikely]] {
      throw_read_only();
    }
  }
  /// The same, before a change. Bits that change lose their epoch, unless a delta changes them.
  void begin_change() {
    check_writable();
    epoch = {};
  }
  /// Are the counters in the memory of the process?
  bool on_host() const noexcept { return stages[0].store->on_host(); }
  /// Makes an empty stage of the growth's shape for this index.
  Stage make_stage(std::uint32_t index) const;

  // ---- keys

  std::uint64_t hash_of(std::uint64_t key) const noexcept {
    return detail::hash_u64<detail::PlainOps>(key, seed_mask);
  }
  std::uint64_t hash_of(std::string_view key) const noexcept {
    return detail::hash_of_bytes(key, seed);
  }

  InsertReport insert(const KeyBatch& keys, const BatchOptions& options);
  InsertNewReport insert_new(const KeyBatch& keys, std::span<std::uint8_t> out,
                             const BatchOptions& options);
  std::uint64_t contains(const KeyBatch& keys, std::uint8_t* out,
                         const BatchOptions& options) const;
  std::uint64_t count_present(const KeyBatch& keys, const BatchOptions& options) const;
  // One key: a std::uint64_t or a std::string_view.
  template <class Key>
  void insert_key(const Key& key) {
    if (!on_host()) [[unlikely]] {
      as_batch(key, [this](const KeyBatch& keys) { insert(keys, kOnThisThread); });
      return;
    }
    insert_hash(hash_of(key));
  }
  template <class Key>
  bool insert_new_key(const Key& key) {
    if (!on_host()) [[unlikely]] {
      return as_batch(key, [this](const KeyBatch& keys) {
        return insert_new(keys, {}, kOnThisThread).inserted == 1;
      });
    }
    check_writable();
    const std::uint64_t hash = hash_of(key);
    if (contains_hash(hash)) return false;
    insert_hash(hash);
    return true;
  }
  template <class Key>
  bool contains_key(const Key& key) const {
    if (!on_host()) [[unlikely]] {
      return as_batch(key, [this](const KeyBatch& keys) {
        std::uint8_t answer = 0;
        return contains(keys, &answer, kOnThisThread) == 1;
      });
    }
    return contains_hash(hash_of(key));
  }
  // The same by its hash, on the host.
  void insert_hash(std::uint64_t hash) {
    begin_change();
    if (growth.policy() == Growth::Policy::one) return stages[0].insert_one(hash);
    insert_growing(hash);
  }
  bool contains_hash(std::uint64_t hash) const {
    if (stages.size() == 1) return stages[0].holds_one(hash);
    return any_stage_holds(hash);
  }
  Removal remove_hash(std::uint64_t hash) {  // from counters
    begin_change();
    if (stages.size() == 1) return stages[0].remove_one(hash);
    return remove_from_claimer(hash);
  }

  // The only stage of a filter on the host, for a view. Both throw as Filter::ref does.
  const Stage& stage_to_view() const;
  Stage& stage_to_change_by_view();

  // ---- the whole

  template <class Of>
  std::uint64_t sum(Of of) const {
    std::uint64_t total = 0;
    for (const Stage& stage : stages) total += of(stage);
    return total;
  }
  std::uint64_t bytes() const;
  std::uint64_t counters() const;
  std::uint64_t keys_inserted() const;
  std::uint64_t keys_removed() const;
  std::uint64_t nonzero(const BatchOptions& options) const;
  double fill(const BatchOptions& options) const;
  double fpr_bound() const;
  Statistics statistics(const BatchOptions& options) const;
  /// Stage::summary of all stages; their saturated counters, in their order.
  Statistics summary(std::span<const std::uint64_t> saturated, const BatchOptions& options) const;
  StageView stage(std::size_t i) const;

  void set_metadata(std::string text);
  void move_to(const Backend& other);
  void clear();
  void merge(const FilterState& other, const BatchOptions& options);
  bool equals(const FilterState& other) const;

 private:
  [[noreturn]] static void throw_read_only();
  void insert_growing(std::uint64_t hash);
  bool any_stage_holds(std::uint64_t hash) const;
  Removal remove_from_claimer(std::uint64_t hash) noexcept;
  Statistics together(std::vector<StageStatistics> of_stages) const;
};

/// Throws BackendUnavailable if the backend cannot work on such filters.
void check_supports(const Backend& backend, Cell cell);
/// The same for filters of this layout.
void check_supports(const Backend& backend, Layout layout, Cell cell);
/// Throws Incompatible unless the filters can be combined at all. Returns true if both have a
/// single stage that is never full, of equal geometry.
bool check_combines(const FilterState& a, const FilterState& b);
/// Has nothing been inserted into the stage?
bool is_empty(const Stage& stage, const BatchOptions& options);

/// The stages, in the form that few_keys.hpp asks for. The newest stage is likely to hold most
/// keys.
struct NewestFirst {
  const std::vector<Stage>& stages;

  std::size_t size() const noexcept { return stages.size(); }
  ConstCounterView operator[](std::size_t i) const noexcept {
    return stages[stages.size() - 1 - i].view();
  }
};

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

/// Lets files and banks take filters apart and put them together, and makes views.
struct FilterAccess {
  static FilterState& state(FilterBase& filter) { return *filter.state_; }
  static const FilterState& state(const FilterBase& filter) { return *filter.state_; }
  static Filter make(std::unique_ptr<FilterState> state) noexcept {
    return Filter(std::move(state));
  }
  static BloomFilter make_bits(std::unique_ptr<FilterState> state) noexcept {
    return BloomFilter(std::move(state));
  }
  // Views, with the contracts of Filter::ref and BloomFilter::ref.
  template <class View>
  static View view_to_change(FilterState& state) {
    Stage& stage = state.stage_to_change_by_view();
    return View(stage.geometry(), stage.seed, stage.store->words(), *stage.one_key,
                stage.numbers());
  }
  static ConstFilterRef view(const FilterState& state) {
    const Stage& stage = state.stage_to_view();
    return ConstFilterRef(stage.geometry(), stage.seed, stage.store->words(), *stage.one_key);
  }
};

/// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
void check_metadata(const std::string& metadata);

}  // namespace scbf
