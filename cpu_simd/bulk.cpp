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

class PartitionedBulk final : public BulkInsertion {
 public:
  PartitionedBulk(const FilterArrays& filter, const BatchOptions& options)
      : filter_(filter), options_(options), choice_(choose_bulk(filter.view.geometry, options)) {
    while (choice_.way != Way::direct && !has_scratch()) halve_scratch();
    if (pass_) begin();
  }

  void take(const KeyBatch& keys) noexcept override {
    if (!pass_) {
      filled_ += add_keys(filter_, keys, choice_, options_);
      return;
    }
    for (std::size_t first = 0; first < keys.size();) {
      const std::size_t taken = take_some(keys, first);
      first += taken;
      if (taken == 0) drain();
    }
  }

  NonzeroChange finish() noexcept override {
    if (pass_) drain();
    return std::exchange(filled_, 0);
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
    choice_ = choose_bulk(filter_.view.geometry, options_);
    if (planned() >= before) choice_.way = Way::direct;
  }

  void begin() noexcept {
    for (Shard& shard : pass_->shards()) pass_->begin(shard);
  }

  void drain() noexcept {
    if (std::ranges::all_of(pass_->shards(), [](const Shard& s) { return s.kept == 0; })) return;
    filled_ += add_taken_in(filter_, *pass_);
    begin();
  }

  /// Takes keys from `first` on, as many as the shards have room for. Threads share them if there
  /// are enough; otherwise they go to the first shard with room, whose partitions are in cache.
  /// Returns how many there were.
  std::size_t take_some(const KeyBatch& keys, std::size_t first) noexcept {
    Shards& shards = pass_->shards();
    const std::size_t left = keys.size() - first;
    const bool shared = left >= shards.size() * kBulkTaskKeys;
    const std::size_t most_each = shared ? (left + shards.size() - 1) / shards.size() : left;
    std::size_t taken = 0;
    for (Shard& shard : shards) {
      const std::size_t room = pass_->plan().keys_per_shard - shard.kept;
      shard.first = first + taken;
      shard.count = std::min({most_each, left - taken, room});
      taken += shard.count;
    }
    const auto take_in = [&](Shard& shard) { pass_->take_in(shard, keys); };
    if (shared) {
      pass_->for_each_shard(take_in);
    } else {
      std::ranges::for_each(shards, take_in);
    }
    return taken;
  }

  FilterArrays filter_;
  BatchOptions options_;
  Choice choice_;
  std::optional<ChangePass> pass_;  // refers to the filter and the options above
  std::uint64_t filled_ = 0;
};

}  // namespace

std::unique_ptr<BulkInsertion> begin_bulk_insertion(const FilterArrays& filter,
                                                    const BatchOptions& options) {
  return std::make_unique<PartitionedBulk>(filter, options);
}

}  // namespace scbf
