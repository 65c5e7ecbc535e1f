// SPDX-License-Identifier: Apache-2.0
// Lookups in several large filters, in the order of the hashes.
//
// In filters of every size the upper bits of the hash choose the block. So keys in the order of
// their hashes walk through the first groups of all filters at once. Keys are scattered once, by
// hash, and each partition is looked up in all filters while its share of each lies in cache. A
// further filter then costs as much as a filter in cache, instead of a line from memory per key.
#include <algorithm>
#include <atomic>
#include <vector>

#include "cpu_simd/lookup.hpp"
#include "cpu_simd/pass.hpp"
#include "cpu_simd/strip.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

namespace {

/// A pass through filters of split_block. A partition is an equal share of the range of hashes.
class HashPass : public Pass {
 public:
  HashPass(std::span<const ConstFilterArrays> filters, const KeyBatch& keys, const Choice& choice,
           const BatchOptions& options)
      : Pass(choice, options), filters_(filters), keys_(keys) {}

  std::uint64_t run(std::uint8_t* out) {
    std::atomic<std::uint64_t> hits{0};
    for_each_window(keys_, [&] {
      for_each_shard([&](Shard& shard) { scatter(shard); });
      for_each_run([&](std::uint64_t begin, std::uint64_t end) { drain(begin, end); });
      for_each_shard([&](Shard& shard) {
        begin_replay(shard, plan().partitions);
        hits += replay_all<kYesOrNo>(shard, out + shard.first);
      });
      spread(keys_, out);
    });
    return hits;
  }

 private:
  void scatter(Shard& shard) noexcept {
    alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
    shard.begin_array(plan().partitions);
    for (std::size_t i = 0; i < shard.count; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, shard.count - i);
      const std::size_t valid = filters_[0].hash(keys_, shard.first + i, n, hashes.data());
      filters_[0].kernels.scatter(shard.scatter, hashes.data(), valid, plan().shift);
    }
  }

  /// The lines of a filter's first group that belong to a partition.
  Lines share_of(const ConstFilterArrays& filter, std::uint64_t partition) const noexcept {
    const std::uint64_t blocks = filter.view.geometry.blocks_per_group();
    const unsigned bits = 64 - plan().shift;
    const std::uint64_t begin = blocks * partition >> bits, end = blocks * (partition + 1) >> bits;
    const std::uint64_t word = filter.view.geometry.block_word(begin);
    const std::uint64_t words = filter.view.geometry.block_word(end) - word;
    return {filter.view.words + word, words / kWordsPerBlock};
  }

  void drain(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t keys_each = keys_per_partition();
    const std::uint64_t segments = keys_each / kSegmentEntries + 1;
    std::vector<Asked> asked;
    asked.reserve(filters_.size());
    for (const ConstFilterArrays& filter : filters_) {
      asked.emplace_back(filter, kNearDistance);
      asked.back().next_distance = kFarDistance;  // further groups: any line may be needed
      // If there are few keys, they touch few lines of their share; then each line is fetched for
      // its key.
      if (share_of(filter, 0).count > keys_each) {
        asked.back().first_distance = kFarDistance;
      }
    }
    LookupStrip strip(filters_[0].kernels, asked, false);
    std::vector<Lines> next(filters_.size());
    for (std::uint64_t partition = begin; partition < end; ++partition) {
      for (std::size_t f = 0; f < filters_.size(); ++f) {
        const bool fetch = partition + 1 < end && asked[f].first_distance == kNearDistance;
        next[f] = fetch ? share_of(filters_[f], partition + 1) : Lines{};
      }
      drain_partition<AnswerWriter<kYesOrNo>>(
          partition, [&](const std::uint64_t* hashes, std::size_t n, Lines segment_ahead,
                         std::uint8_t* answers) {
            for (std::size_t f = 0; f < filters_.size(); ++f) {
              const std::size_t lines = share_of(filters_[f], partition).count;
              asked[f].ahead = next[f].take((lines + 1) / segments + 1);
            }
            strip.ask(hashes, n, segment_ahead, answers);
          });
    }
  }

  std::span<const ConstFilterArrays> filters_;
  const KeyBatch& keys_;
};

}  // namespace

std::uint64_t look_up_by_hash(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                              std::uint8_t* out, const Choice& choice,
                              const BatchOptions& options) {
  return HashPass(filters, keys, choice, options).run(out);
}

}  // namespace scbf
