// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/bulk.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "cpu_simd/change.hpp"
#include "cpu_simd/choose.hpp"
#include "cpu_simd/pass.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

namespace {

/// The partitions of a change, and the keys of many batches on their way to them.
class BulkPass {
 public:
  BulkPass(Operation operation, const FilterArrays& filter, const BatchOptions& options)
      : filter_(filter),
        options_(options),
        operation_(operation),
        choice_(choose_bulk(operation, filter.view.geometry, options)) {
    while (choice_.way != Way::direct && !has_scratch()) halve_scratch();
    if (pass_) begin();
  }
  BulkPass(const BulkPass&) = delete;  // the pass refers to filter and options
  BulkPass& operator=(const BulkPass&) = delete;

  const FilterArrays& filter() const noexcept { return filter_; }
  const BatchOptions& options() const noexcept { return options_; }
  /// Direct, unless there are partitions.
  Choice& choice() noexcept { return choice_; }
  bool has_partitions() const noexcept { return pass_.has_value(); }

  /// Scatters the keys of a batch. Whenever the partitions are full, calls drain(pass).
  template <class Drain>
  void accept(const KeyBatch& keys, Drain drain) noexcept {
    for (std::size_t first = 0; first < keys.size();) {
      const std::size_t accepted = accept_some(keys, first);
      first += accepted;
      if (accepted == 0) empty(drain);
    }
  }
  /// Calls drain(pass) unless the partitions are empty.
  template <class Drain>
  void empty(Drain drain) noexcept {
    if (std::ranges::all_of(pass_->shards(), [](const Shard& s) { return s.kept == 0; })) return;
    drain(*pass_);
    begin();
  }

 private:
  bool has_scratch() noexcept {
    try {
      pass_.emplace(filter_, choice_, options_);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  /// Plans for half of the scratch memory; for the direct path if no plan needs less.
  void halve_scratch() noexcept {
    const auto planned = [&] { return choice_.plan.shard_bytes * choice_.threads; };
    const std::size_t before = planned();
    options_.scratch_bytes = std::max(before / 2, kMinScratchBytes);
    choice_ = choose_bulk(operation_, filter_.view.geometry, options_);
    if (planned() >= before) choice_.way = Way::direct;
  }

  void begin() noexcept {
    for (Shard& shard : pass_->shards()) pass_->begin(shard);
  }

  /// Accepts keys from `first` on, as many as the shards have room for. Returns how many there
  /// were.
  ///
  /// Keys that are inserted may come in any order. If there are enough, threads share them;
  /// otherwise they go to the first shard with room, whose partitions are in cache. A removal needs
  /// its order: earlier shards, which are drained first, hold earlier keys. So it goes on in the
  /// last shard that holds any, even if null keys have left room before.
  std::size_t accept_some(const KeyBatch& keys, std::size_t first) noexcept {
    Shards& shards = pass_->shards();
    const std::size_t left = keys.size() - first;
    const bool in_order = is_removal(operation_);
    const bool are_many = left >= shards.size() * kBulkTaskKeys;
    const std::size_t most_each =
        are_many && !in_order ? (left + shards.size() - 1) / shards.size() : left;
    std::size_t begin = 0;
    for (std::size_t t = 0; in_order && t < shards.size(); ++t) {
      if (shards[t].kept > 0) begin = t;
    }
    std::size_t accepted = 0;
    for (std::size_t t = 0; t < shards.size(); ++t) {
      Shard& shard = shards[t];
      const std::size_t room = t < begin ? 0 : pass_->plan().keys_per_shard - shard.kept;
      shard.first = first + accepted;
      shard.count = std::min({most_each, left - accepted, room});
      accepted += shard.count;
    }
    const auto take_in = [&](Shard& shard) { pass_->take_in(shard, keys); };
    if (are_many) {
      pass_->for_each_shard(take_in);
    } else {
      std::ranges::for_each(shards, take_in);
    }
    return accepted;
  }

  FilterArrays filter_;
  BatchOptions options_;
  Operation operation_;
  Choice choice_;
  std::optional<ChangePass> pass_;  // refers to the filter and the options above
};

class PartitionedInsertion final : public BulkInsertion {
  auto drain() noexcept {
    return [this](ChangePass& pass) { filled_ += add_taken_in(pass_.filter(), pass); };
  }

 public:
  PartitionedInsertion(const FilterArrays& filter, const BatchOptions& options)
      : pass_(Operation::insert, filter, options) {}

  void accept(const KeyBatch& keys) noexcept override {
    if (pass_.has_partitions()) {
      pass_.accept(keys, drain());
    } else {
      filled_ += add_keys(pass_.filter(), keys, pass_.choice(), pass_.options());
    }
  }
  NonzeroChange finish() noexcept override {
    if (pass_.has_partitions()) pass_.empty(drain());
    return std::exchange(filled_, 0);
  }

 private:
  BulkPass pass_;
  std::uint64_t filled_ = 0;
};

class PartitionedRemoval final : public BulkRemoval {
  auto drain() noexcept {
    return [this](ChangePass& pass) { removed_ += remove_taken_in(pass_.filter(), pass); };
  }

 public:
  PartitionedRemoval(const FilterArrays& filter, const BatchOptions& options)
      : pass_(Operation::remove_without_verdicts, filter, options) {}

  void accept(const KeyBatch& keys) noexcept override {
    if (pass_.has_partitions()) {
      pass_.accept(keys, drain());
    } else {
      removed_ += take_keys(pass_.filter(), keys, nullptr, pass_.choice(), pass_.options());
    }
  }
  RemovalChange finish() noexcept override {
    if (pass_.has_partitions()) pass_.empty(drain());
    const ChangedKeys removed = std::exchange(removed_, {});
    return {removed.keys, removed.turned};
  }

 private:
  BulkPass pass_;
  ChangedKeys removed_;
};

}  // namespace

std::unique_ptr<BulkInsertion> begin_bulk_insertion(const FilterArrays& filter,
                                                    const BatchOptions& options) {
  return std::make_unique<PartitionedInsertion>(filter, options);
}

std::unique_ptr<BulkRemoval> begin_bulk_removal(const FilterArrays& filter,
                                                const BatchOptions& options) {
  return std::make_unique<PartitionedRemoval>(filter, options);
}

}  // namespace scbf
