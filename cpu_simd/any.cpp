// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/any.hpp"

#include <algorithm>

#include "cpu_simd/answers.hpp"
#include "cpu_simd/any_strip.hpp"
#include "cpu_simd/shards.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"

namespace scbf {

namespace {

std::uint64_t bytes_of(std::span<const ReadWork> filters) noexcept {
  std::uint64_t bytes = 0;
  for (const ReadWork& filter : filters) bytes += filter.view.geometry.bytes();
  return bytes;
}
/// What every key is asked of.
std::uint64_t first_stage_bytes(std::span<const ReadWork> filters) noexcept {
  std::uint64_t bytes = 0;
  for (const ReadWork& filter : filters) bytes += filter.stage_words * sizeof(std::uint64_t);
  return bytes;
}

std::size_t distance_for(std::uint64_t bytes) noexcept {
  return bytes > kFarBytes ? kFarDistance : bytes > kNearBytes ? kNearDistance : 0;
}

constexpr ScratchNeeds kAnyNeeds = {.answers = true, .hashes = false, .index = false};

PartitionPlan plan_any(std::span<const ReadWork> filters, std::size_t keys, unsigned threads,
                       const BatchOptions& options) noexcept {
  return plan_hash_partitions(first_stage_bytes(filters), keys, threads,
                              scratch_budget(bytes_of(filters), options), kAnyNeeds);
}

}  // namespace

void direct_any(std::span<const ReadWork> filters, const KeyBatch& keys, std::uint8_t* out,
                const BatchOptions& options) {
  const auto ask_range = [&](std::size_t first, std::size_t end) {
    std::vector<Asked> asked;
    asked.reserve(filters.size());
    for (const ReadWork& filter : filters) {
      asked.emplace_back(filter, distance_for(filter.view.geometry.bytes()));
    }
    const bool far =
        std::ranges::any_of(asked, [](const Asked& a) { return a.first_distance > 0; });
    AnyStrip strip(filters[0].kernels, asked, far && filters.size() > 1);
    alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
    for (std::size_t i = first; i < end; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, end - i);
      const std::size_t valid = filters[0].hash(keys, i, n, hashes.data());
      strip.ask(hashes.data(), valid, {}, out + i);
      spread_answers(keys, i, n, out + i);
    }
  };
  const unsigned threads = keys.size() <= kTaskKeys ? 1 : thread_count(options);
  if (threads == 1) {
    ask_range(0, keys.size());
    return;
  }
  run_tasks(options, threads, (keys.size() + kTaskKeys - 1) / kTaskKeys, [&](std::size_t task) {
    ask_range(task * kTaskKeys, std::min(keys.size(), (task + 1) * kTaskKeys));
  });
}

namespace {

/// One batch, in windows that the scratch memory has room for.
class AnyPass {
 public:
  AnyPass(std::span<const ReadWork> filters, const KeyBatch& keys, std::uint8_t* out,
          unsigned threads, const BatchOptions& options)
      : filters_(filters),
        keys_(keys),
        out_(out),
        options_(options),
        threads_(threads),
        plan_(plan_any(filters, keys.size(), threads, options)),
        shards_(plan_, threads, kAnyNeeds) {}

  void run() {
    const std::size_t window = plan_.keys_per_shard * threads_;
    for (std::size_t first = 0; first < keys_.size(); first += window) {
      const std::size_t count = std::min(window, keys_.size() - first);
      const std::size_t share = (count + threads_ - 1) / threads_;
      for (std::size_t t = 0; t < threads_; ++t) {
        shards_[t].first = first + std::min(count, t * share);
        shards_[t].count = first + std::min(count, (t + 1) * share) - shards_[t].first;
      }
      run_tasks(options_, threads_, threads_, [&](std::size_t t) { scatter(shards_[t]); });
      const std::size_t tasks =
          threads_ == 1 ? 1 : std::min<std::size_t>(plan_.partitions, threads_ * 16);
      run_tasks(options_, threads_, tasks, [&](std::size_t task) {
        drain(plan_.partitions * task / tasks, plan_.partitions * (task + 1) / tasks);
      });
      run_tasks(options_, threads_, threads_, [&](std::size_t t) { bring_back(shards_[t]); });
    }
  }

 private:
  void scatter(Shard& shard) noexcept {
    alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
    shard.begin_stage(plan_.partitions);
    for (std::size_t i = 0; i < shard.count; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, shard.count - i);
      const std::size_t valid = filters_[0].hash(keys_, shard.first + i, n, hashes.data());
      filters_[0].kernels.scatter(shard.scatter, hashes.data(), valid, plan_.shift);
    }
  }

  /// The lines of a filter's first group that a partition's keys lie in.
  Lines region_of(const ReadWork& filter, std::uint64_t partition) const noexcept {
    const std::uint64_t blocks = filter.view.geometry.blocks_per_group();
    const unsigned bits = 64 - plan_.shift;
    const std::uint64_t begin = blocks * partition >> bits, end = blocks * (partition + 1) >> bits;
    return {filter.view.words + begin * kWordsPerBlock, end - begin};
  }

  void drain(std::uint64_t begin, std::uint64_t end) {
    std::size_t scattered = 0;
    for (std::size_t t = 0; t < threads_; ++t) scattered += shards_[t].scatter.keys;
    const std::size_t keys_each = scattered / plan_.partitions;
    std::vector<Asked> asked;
    asked.reserve(filters_.size());
    for (const ReadWork& filter : filters_) {
      asked.emplace_back(filter, kNearDistance);
      asked.back().next_distance = kFarDistance;  // of further groups, any line
      // Few keys touch few lines of the region: each is fetched for its key, then.
      if (region_of(filter, 0).count > keys_each) asked.back().first_distance = kFarDistance;
    }
    AnyStrip strip(filters_[0].kernels, asked, false);
    std::vector<Lines> regions(filters_.size());
    const std::size_t chunks = keys_each / kChunkEntries + 1;
    for (std::uint64_t partition = begin; partition < end; ++partition) {
      for (std::size_t f = 0; f < filters_.size(); ++f) {
        const bool fetch = partition + 1 < end && asked[f].first_distance == kNearDistance;
        regions[f] = fetch ? region_of(filters_[f], partition + 1) : Lines{};
      }
      for (std::size_t t = 0; t < threads_; ++t) {
        drain_chain(shards_[t], partition, chunks, asked, regions, strip);
      }
    }
  }

  void drain_chain(Shard& shard, std::uint64_t partition, std::size_t chunks,
                   std::span<Asked> asked, std::span<Lines> regions, AnyStrip& strip) noexcept {
    const auto last =
        static_cast<std::uint64_t>(shard.scatter.ends[partition] - shard.scatter.entries);
    std::uint64_t entry = shard.starts[partition];
    AnswerWriter<kYesOrNo> answers(shard.scatter, entry);
    for (;;) {
      const std::uint64_t chunk = entry / kChunkEntries;
      const bool is_last = last / kChunkEntries == chunk;
      const std::uint64_t end = is_last ? last : (chunk + 1) * kChunkEntries;
      const std::uint64_t next = std::uint64_t{shard.scatter.next_chunk[chunk]} * kChunkEntries;
      if (end > entry) {
        for (std::size_t f = 0; f < asked.size(); ++f) {
          const std::size_t share = (region_of(asked[f].work, partition).count + 1) / chunks + 1;
          asked[f].ahead = regions[f].take(share);
        }
        strip.ask(shard.scatter.entries + entry, end - entry,
                  {shard.scatter.entries + next, is_last ? 0 : kChunkEntries / kEntriesPerLine},
                  answers.room());
        answers.wrote(end - entry);
      }
      if (is_last) break;
      entry = next;
    }
    answers.finish();
  }

  void bring_back(Shard& shard) noexcept {
    begin_replay(shard, plan_.partitions);
    replay<kYesOrNo>(shard, 0, shard.scatter.keys, out_ + shard.first);
    spread_answers(keys_, shard.first, shard.count, out_ + shard.first);
  }

  std::span<const ReadWork> filters_;
  const KeyBatch& keys_;
  std::uint8_t* out_;
  const BatchOptions& options_;
  unsigned threads_;
  PartitionPlan plan_;
  Shards shards_;
};

}  // namespace

void partitioned_any(std::span<const ReadWork> filters, const KeyBatch& keys, std::uint8_t* out,
                     unsigned threads, const BatchOptions& options) {
  AnyPass(filters, keys, out, threads, options).run();
}

bool worth_partitioning_any(std::span<const ReadWork> filters, std::size_t keys, unsigned threads,
                            const BatchOptions& options) noexcept {
  const auto far = static_cast<std::size_t>(std::ranges::count_if(filters, [](const auto& filter) {
    return filter.stage_words * sizeof(std::uint64_t) > kFarBytes;
  }));
  const double lines = static_cast<double>(first_stage_bytes(filters)) / 64;
  const auto enough = static_cast<std::size_t>(lines * any_keys_per_line(far));
  if (far < 2 || keys < enough) return false;
  // The scratch memory must have room for as many at once.
  return plan_any(filters, keys, threads, options).keys_per_shard * threads >= enough;
}

}  // namespace scbf
