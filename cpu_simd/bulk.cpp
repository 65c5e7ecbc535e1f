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
  /// Plans for half of the scratch memory; for the direct path if that is too little.
  void halve_scratch() noexcept {
    const std::size_t used = choice_.plan.shard_bytes * choice_.threads;
    if (used / 2 < kMinScratchBytes) {
      choice_.way = Way::direct;
    } else {
      options_.scratch_bytes = used / 2;
      choice_ = choose_bulk(filter_.view.geometry, options_);
    }
  }

  void begin() noexcept {
    for (std::size_t t = 0; t < pass_->shards().size(); ++t) pass_->begin(pass_->shards()[t]);
  }

  bool is_empty() noexcept {
    for (std::size_t t = 0; t < pass_->shards().size(); ++t) {
      if (pass_->shards()[t].kept > 0) return false;
    }
    return true;
  }

  void drain() noexcept {
    if (is_empty()) return;
    filled_ += add_taken_in(filter_, *pass_);
    begin();
  }

  /// Takes keys from `first` on, as many as the shards have room for. Threads share them if there
  /// are enough; otherwise they go to the shard with the most room. Returns how many there were.
  std::size_t take_some(const KeyBatch& keys, std::size_t first) noexcept {
    Shards& shards = pass_->shards();
    const std::size_t left = keys.size() - first;
    const auto room = [&](std::size_t t) { return pass_->plan().keys_per_shard - shards[t].kept; };
    std::size_t widest = 0;
    for (std::size_t t = 0; t < shards.size(); ++t) {
      shards[t].count = 0;
      if (room(t) > room(widest)) widest = t;
    }
    std::size_t taken = 0;
    if (left < shards.size() * kBulkTaskKeys) {
      shards[widest].first = first;
      taken = shards[widest].count = std::min(left, room(widest));
      pass_->take_in(shards[widest], keys, first, taken);
      return taken;
    }
    const std::size_t share = (left + shards.size() - 1) / shards.size();
    for (std::size_t t = 0; t < shards.size(); ++t) {
      shards[t].first = first + taken;
      shards[t].count = std::min({share, left - taken, room(t)});
      taken += shards[t].count;
    }
    pass_->for_each_shard(
        [&](Shard& shard) { pass_->take_in(shard, keys, shard.first, shard.count); });
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
