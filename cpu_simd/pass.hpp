// SPDX-License-Identifier: Apache-2.0
// The partitioned path, for filters that outgrow the cache and batches that are worth a pass over
// them. The batch is processed in windows, in three steps. Every thread *scatters* its keys to
// partitions. Each partition is *drained*: one thread works on it while its share of the filter
// lies in cache, without atomics. Then answers are *replayed* into the order of the batch.
//
// Pass is the skeleton. A partition is an equal share of an array (ArrayPass, below) or of the
// range of hashes (by_hash.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <numeric>
#include <type_traits>

#include "cpu_simd/answers.hpp"
#include "cpu_simd/choose.hpp"
#include "cpu_simd/engine.hpp"
#include "cpu_simd/shards.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"

namespace scbf {

/// Calls make(), which takes the memory for a pass, unless the choice is the direct way. If there
/// is no memory, it becomes that. Returns whether the pass was made.
template <class Make>
bool make_pass(Choice& choice, Make make) noexcept {
  if (choice.way == Way::direct) return false;
  try {
    make();
    return true;
  } catch (const std::bad_alloc&) {
    choice.way = Way::direct;
    return false;
  }
}

class Pass {
 public:
  /// Throws std::bad_alloc. `options` must outlive the pass.
  Pass(const Choice& choice, const BatchOptions& options)
      : options_(options),
        threads_(choice.threads),
        plan_(choice.plan),
        shards_(choice.plan, choice.threads, choice.needs) {}

  const PartitionPlan& plan() const noexcept { return plan_; }
  std::size_t keys_per_window() const noexcept { return plan_.keys_per_shard * threads_; }
  Shards& shards() noexcept { return shards_; }

  /// Calls body() once per window; each shard then has its share of the window's keys.
  template <class Body>
  void for_each_window(const KeyBatch& keys, Body body) {
    const std::size_t window = keys_per_window();
    for (std::size_t first = 0; first < keys.size(); first += window) {
      const std::size_t count = std::min(window, keys.size() - first);
      // Equal shares in batch order, so that earlier shards hold earlier keys.
      const std::size_t share =
          (count + threads_ - 1) / threads_;  // <= keys_per_shard by construction
      for (std::size_t t = 0; t < threads_; ++t) {
        shards_[t].first = first + std::min(count, t * share);
        shards_[t].count = first + std::min(count, (t + 1) * share) - shards_[t].first;
      }
      body();
    }
  }

  /// The keys of the window.
  KeyBatch window_of(const KeyBatch& keys) noexcept {
    const Shard& last = shards_[threads_ - 1];
    return keys.slice(shards_[0].first, last.first + last.count - shards_[0].first);
  }

  template <class Task>
  void for_each_shard(Task task) {
    run_tasks(options_, threads_, threads_, [&](std::size_t t) { task(shards_[t]); });
  }

  /// Calls drain(begin, end) for runs of neighbouring partitions: few enough that runs cost
  /// nothing, and enough that threads share them evenly.
  template <class Drain>
  void for_each_run(Drain drain) {
    const std::size_t tasks =
        threads_ == 1 ? 1 : std::min<std::size_t>(plan_.partitions, threads_ * 16);
    run_tasks(options_, threads_, tasks, [&](std::size_t task) {
      drain(plan_.partitions * task / tasks, plan_.partitions * (task + 1) / tasks);
    });
  }

  /// Keys of a partition, on average.
  std::uint64_t keys_per_partition() noexcept {
    std::uint64_t scattered = 0;
    for (std::size_t t = 0; t < threads_; ++t) scattered += shards_[t].scatter.keys;
    return scattered / plan_.partitions;
  }

  /// Calls work_on(entries, count, segment_ahead, answers) for all that was scattered to a
  /// partition, segment by segment in batch order; segment_ahead are the lines of the next segment.
  /// Answers is NoAnswers, or an AnswerWriter, which stores the answers for replay().
  template <class Answers, class WorkOn>
  void drain_partition(std::uint64_t partition, WorkOn work_on) {
    for (std::size_t t = 0; t < threads_; ++t) {
      drain_chain<Answers>(shards_[t].scatter, shards_[t].starts[partition], partition, work_on);
    }
  }

  /// Spreads the answers of each shard, so far without gaps, to their keys if there are null keys.
  void spread(const KeyBatch& keys, std::uint8_t* out) {
    if (!keys.has_validity()) return;
    for_each_shard(
        [&](Shard& shard) { spread_answers(keys, shard.first, shard.count, out + shard.first); });
  }

 private:
  template <class Answers, class WorkOn>
  static void drain_chain(const Scatter& scatter, std::uint64_t entry, std::uint64_t partition,
                          WorkOn& work_on) {
    const auto last = static_cast<std::uint64_t>(scatter.ends[partition] - scatter.entries);
    Answers answers(scatter, entry);
    for (;;) {
      const std::uint64_t segment = entry / kSegmentEntries;
      const bool is_last = last / kSegmentEntries == segment;
      const std::uint64_t end = is_last ? last : (segment + 1) * kSegmentEntries;
      const std::uint64_t next = std::uint64_t{scatter.next_segment[segment]} * kSegmentEntries;
      if (end > entry) {
        // Segments are too small for the hardware to see the next one coming.
        const Lines segment_ahead = {scatter.entries + next,
                                     is_last ? 0 : kSegmentEntries / kEntriesPerLine};
        work_on(scatter.entries + entry, end - entry, segment_ahead, answers.room());
        answers.wrote(end - entry);
      }
      if (is_last) break;
      entry = next;
    }
    answers.finish();
  }

  const BatchOptions& options_;
  unsigned threads_;
  PartitionPlan plan_;
  Shards shards_;
};

/// Divides the lines of the next partition into shares, one per segment, which are fetched while
/// this partition is worked on. Otherwise the first touch of each line would be a cache miss.
class PartitionAhead {
 public:
  /// `segments` calls of share() cover all `words` words.
  PartitionAhead(const std::uint64_t* at, std::uint64_t words, std::uint64_t segments) noexcept
      : left_{at, words / kWordsPerBlock},
        share_(left_.count / std::max<std::uint64_t>(segments, 1) + 1) {}

  Lines share() noexcept { return left_.take(share_); }

 private:
  Lines left_;
  std::size_t share_;
};

/// A pass through one filter, array by array.
template <class Word>
class ArrayPass : public Pass {
 public:
  /// `filter` and `options` must outlive the pass.
  ArrayPass(const BasicFilterArrays<Word>& filter, const Choice& choice,
            const BatchOptions& options)
      : Pass(choice, options), filter_(filter) {}

  /// Empties the shard, for the keys that take_in adds.
  void begin(Shard& shard) noexcept {
    shard.begin_array(plan().partitions);
    shard.kept = 0;
  }
  /// Scatters the shard's keys of the batch in the first array, and keeps their hashes if there are
  /// further arrays. The shard must have room: it holds at most plan().keys_per_shard keys.
  void take_in(Shard& shard, const KeyBatch& keys) noexcept {
    Strip strip;
    const Array array = filter_.array(0);
    for (std::size_t i = 0; i < shard.count; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, shard.count - i);
      std::uint64_t* hashes = filter_.arrays > 1 ? shard.hashes + shard.kept : strip.hashes.data();
      const std::size_t valid = filter_.hash(keys, shard.first + i, n, hashes);
      shard.kept += valid;
      scatter(shard, array, hashes, valid, strip);
    }
  }

  /// Takes a window's keys in: scatters them in the first array.
  void scatter_all(const KeyBatch& keys) {
    for_each_shard([&](Shard& shard) {
      begin(shard);
      take_in(shard, keys);
    });
  }

  /// Takes a window's keys in without a look at the filter: all stay in play, and their answers are
  /// 1. For filters of several arrays.
  void keep_all(const KeyBatch& keys, std::uint8_t* out) {
    for_each_shard([&](Shard& shard) {
      shard.kept = filter_.hash(keys, shard.first, shard.count, shard.hashes);
      std::iota(shard.index, shard.index + shard.kept, 0u);
      std::fill_n(out + shard.first, shard.kept, std::uint8_t{1});
    });
  }

  /// Scatters the keys that are still in play.
  void scatter_kept(const Array& array) {
    for_each_shard([&](Shard& shard) {
      Strip strip;
      shard.begin_array(plan().partitions);
      for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
        scatter(shard, array, shard.hashes + i, std::min(kStripKeys, shard.kept - i), strip);
      }
    });
  }

  /// Calls work_on(positions, count, fetch, answers) for all of the array's positions, partition by
  /// partition. Returns the sum of its results: how many counters turned from zero to non-zero or
  /// back, how many keys are present, or both.
  template <class Answers, class WorkOn>
  auto drain(const Array& array, WorkOn work_on) {
    using Sum = std::invoke_result_t<WorkOn&, const std::uint64_t*, std::size_t, const Fetch&,
                                     std::uint8_t*>;
    const std::uint64_t keys_each = keys_per_partition();
    const std::uint64_t segments = keys_each / kSegmentEntries;
    // Few keys touch few lines of a partition; then each line is fetched for its key.
    const bool few = keys_each < plan().partition_words / kWordsPerBlock / 2;
    Sum sum{};
    std::mutex mutex;
    for_each_run([&](std::uint64_t begin, std::uint64_t end) {
      Sum sum_here{};
      for (std::uint64_t partition = begin; partition < end; ++partition) {
        const std::uint64_t next =
            std::min(filter_.array_words, (partition + 1) * plan().partition_words);
        const std::uint64_t next_words =
            partition + 1 < end && !few
                ? std::min(plan().partition_words, filter_.array_words - next)
                : 0;
        PartitionAhead ahead(filter_.words(array) + next, next_words, segments);
        drain_partition<Answers>(partition, [&](const std::uint64_t* positions, std::size_t n,
                                                Lines segment_ahead, std::uint8_t* answers) {
          const Fetch fetch = {.distance = few ? kFarDistance : distance(),
                               .ahead = {ahead.share(), segment_ahead}};
          sum_here += work_on(positions, n, fetch, answers);
        });
      }
      const std::scoped_lock lock(mutex);
      sum += sum_here;
    });
    return sum;
  }

  /// Writes the answers of `drain` to `out` in batch order: those of the first array as they are,
  /// those of later arrays where they are smaller. With several arrays, keys that are present so
  /// far stay in play. Returns how many answers are not 0.
  template <unsigned bits>
  std::uint64_t bring_back(const Array& array, std::uint8_t* out) {
    std::atomic<std::uint64_t> hits{0};
    for_each_shard([&](Shard& shard) {
      begin_replay(shard, plan().partitions);
      if (filter_.arrays == 1) {
        hits += replay_all<bits>(shard, out + shard.first);
        return;
      }
      if (array.index == 0) {
        keep_present<bits, true>(shard, out + shard.first);
      } else {
        keep_present<bits, false>(shard, out + shard.first);
      }
      hits += shard.kept;
    });
    return hits;
  }

  /// Sets this array's bit for each key that it has added: those whose answer of `drain` is 1.
  void note_added(const Array& array) {
    for_each_shard([&](Shard& shard) {
      std::array<std::uint8_t, kStripKeys> answers;
      begin_replay(shard, plan().partitions);
      for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
        const std::size_t n = std::min(kStripKeys, shard.kept - i);
        replay<kYesOrNo>(shard, i, n, answers.data());
        for (std::size_t j = 0; j < n; ++j) {
          const std::uint32_t before = array.index == 0 ? 0 : shard.added_by[i + j];
          shard.added_by[i + j] = before | std::uint32_t{answers[j]} << array.index;
        }
      }
    });
  }
  /// Writes to `out`, in batch order, 1 for each key that any array has added, else 0. Returns how
  /// many are 1.
  std::uint64_t bring_back_added(std::uint8_t* out) {
    std::atomic<std::uint64_t> added{0};
    for_each_shard([&](Shard& shard) {
      std::uint8_t* const answers = out + shard.first;
      for (std::size_t i = 0; i < shard.kept; ++i) answers[i] = shard.added_by[i] != 0;
      added += count_hits({answers, shard.kept});
    });
    return added;
  }
  /// Scatters the keys that another array has added, and this one has not.
  void scatter_lacking(const Array& array) {
    for_each_shard([&](Shard& shard) {
      Strip strip;
      shard.begin_array(plan().partitions);
      for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
        const std::size_t end = std::min(shard.kept, i + kStripKeys);
        std::size_t n = 0;
        for (std::size_t j = i; j < end; ++j) {
          strip.hashes[n] = shard.hashes[j];
          const std::uint32_t arrays = shard.added_by[j];
          n += arrays != 0 && (arrays >> array.index & 1) == 0;  // branch-free, as above
        }
        scatter(shard, array, strip.hashes.data(), n, strip);
      }
    });
  }

  /// Looks a window's keys up in all arrays. Afterwards the keys in play are those with an answer
  /// other than 0. Returns how many there are.
  template <unsigned bits>
  std::uint64_t ask(const KeyBatch& keys, Question question, std::uint8_t* out) {
    std::uint64_t hits = 0;
    scatter_all(keys);
    for (std::uint32_t a = 0; a < filter_.arrays; ++a) {
      const Array array = filter_.array(a);
      if (a > 0) scatter_kept(array);
      drain<AnswerWriter<bits>>(array, [&](const std::uint64_t* positions, std::size_t n,
                                           const Fetch& fetch, std::uint8_t* answers) {
        question(filter_.view.geometry, filter_.words(array), positions, n, fetch, answers);
        return std::uint64_t{0};
      });
      hits = bring_back<bits>(array, out);
    }
    return hits;
  }

  /// Returns how many of a window's keys are present. For filters of one array.
  std::uint64_t count_present(const KeyBatch& keys, Question is_present) {
    scatter_all(keys);
    const Array array = filter_.array(0);
    return drain<NoAnswers>(array, [&](const std::uint64_t* positions, std::size_t n,
                                       const Fetch& fetch, std::uint8_t*) {
      std::array<std::uint8_t, kSegmentEntries> answers;
      is_present(filter_.view.geometry, filter_.words(array), positions, n, fetch, answers.data());
      return count_hits({answers.data(), n});
    });
  }

 private:
  struct Strip {
    alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
    alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  };

  std::size_t distance() const noexcept {
    return plan().partition_words * 8 > kL1Bytes ? kNearDistance : 0;
  }

  void scatter(Shard& shard, const Array& array, const std::uint64_t* hashes, std::size_t n,
               Strip& strip) noexcept {
    filter_.array_kernels.locate(array, hashes, n, strip.positions.data());
    filter_.kernels.scatter(shard.scatter, strip.positions.data(), n, plan().shift);
  }

  template <unsigned bits, bool first_array>
  void keep_present(Shard& shard, std::uint8_t* out) noexcept {
    std::array<std::uint8_t, kStripKeys> answers;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, shard.kept - i);
      replay<bits>(shard, i, n, answers.data());
      // Batches of present keys are common: as long as no key has dropped out, all stay where they
      // are.
      if (!first_array && kept == i &&
          std::find(answers.begin(), answers.begin() + n, 0) == answers.begin() + n) {
        for (std::size_t j = 0; j < n; ++j) {
          std::uint8_t& answer = out[shard.index[i + j]];
          answer = std::min(answer, answers[j]);
        }
        kept += n;
        continue;
      }
      for (std::size_t j = 0; j < n; ++j) {
        const auto index = first_array ? static_cast<std::uint32_t>(i + j) : shard.index[i + j];
        const std::uint8_t answer = first_array ? answers[j] : std::min(out[index], answers[j]);
        out[index] = answer;
        shard.hashes[kept] = shard.hashes[i + j];
        shard.index[kept] = index;
        kept += answer != 0;  // branch-free: answers are unpredictable
      }
    }
    shard.kept = kept;
  }

  const BasicFilterArrays<Word>& filter_;
};

}  // namespace scbf
