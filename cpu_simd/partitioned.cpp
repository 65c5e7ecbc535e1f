// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/partitioned.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "cpu_simd/answers.hpp"
#include "cpu_simd/conflicts.hpp"
#include "cpu_simd/shards.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"

namespace scbf {

namespace {

struct Strip {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
};

/// Deals out the lines of the next region, a share per chunk, to be fetched while keys are worked
/// on in this one: first touches in the order of keys would be misses one by one.
class RegionAhead {
 public:
  /// All `words` of them within `chunks` calls of share().
  RegionAhead(const std::uint64_t* at, std::uint64_t words, std::uint64_t chunks) noexcept
      : left_{at, words / kWordsPerBlock},
        share_(left_.count / std::max<std::uint64_t>(chunks, 1) + 1) {}

  Lines share() noexcept { return left_.take(share_); }

 private:
  Lines left_;
  std::size_t share_;
};

/// One operation on one batch: its scratch memory and its phases.
template <class Word>
class Pass {
 public:
  Pass(const Work<Word>& work, const KeyBatch& keys, unsigned threads, const BatchOptions& options,
       ScratchNeeds needs)
      : work_(work),
        keys_(keys),
        options_(options),
        threads_(threads),
        plan_(plan_partitions(work.view.geometry, keys.size(), threads,
                              scratch_budget(work.view.geometry.bytes(), options), needs)),
        shards_(plan_, threads, needs) {}

  /// Calls body() once per window; the shards then hold its keys.
  template <class Body>
  void for_each_window(Body body) {
    const std::size_t window = plan_.keys_per_shard * threads_;
    for (std::size_t first = 0; first < keys_.size(); first += window) {
      const std::size_t count = std::min(window, keys_.size() - first);
      // Even shares in batch order, so that earlier shards hold earlier keys.
      const std::size_t share =
          (count + threads_ - 1) / threads_;  // <= keys_per_shard by construction
      for (std::size_t t = 0; t < threads_; ++t) {
        shards_[t].first = first + std::min(count, t * share);
        shards_[t].count = first + std::min(count, (t + 1) * share) - shards_[t].first;
      }
      body();
    }
  }

  template <class Task>
  void for_each_shard(Task task) {
    run_tasks(options_, threads_, threads_, [&](std::size_t t) { task(shards_[t]); });
  }

  /// Scatters the shards' keys; stores their hashes, if there are further stages.
  void scatter_keys(const Stage& stage) {
    for_each_shard([&](Shard& shard) {
      Strip strip;
      shard.begin_stage(plan_.partitions);
      shard.kept = 0;
      for (std::size_t i = 0; i < shard.count; i += kStripKeys) {
        const std::size_t n = std::min(kStripKeys, shard.count - i);
        std::uint64_t* hashes = work_.stages > 1 ? shard.hashes + shard.kept : strip.hashes.data();
        const std::size_t valid = work_.hash(keys_, shard.first + i, n, hashes);
        shard.kept += valid;
        scatter(shard, stage, hashes, valid, strip);
      }
    });
  }

  /// Scatters the keys that are still in play.
  void scatter_kept(const Stage& stage) {
    for_each_shard([&](Shard& shard) {
      Strip strip;
      shard.begin_stage(plan_.partitions);
      for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
        scatter(shard, stage, shard.hashes + i, std::min(kStripKeys, shard.kept - i), strip);
      }
    });
  }

  /// Calls work_on(positions, count, fetch, answers) for all of the stage's positions, region by
  /// region; within a region in batch order. Returns the sum of what it returns, for each chunk the
  /// counters that turned from zero to non-zero or back. Where the answers go is up to Answers:
  /// NoAnswers, or an AnswerWriter for replay().
  template <class Answers, class WorkOn>
  std::uint64_t drain(const Stage& stage, WorkOn work_on) {
    // A task is a run of neighbouring regions: few enough tasks to cost nothing, enough to share.
    const std::size_t tasks =
        threads_ == 1 ? 1 : std::min<std::size_t>(plan_.partitions, threads_ * 16);
    std::uint64_t scattered = 0;
    for (std::size_t t = 0; t < threads_; ++t) scattered += shards_[t].scatter.keys;
    const std::uint64_t chunks_per_region = scattered / kChunkEntries / plan_.partitions;
    std::atomic<std::uint64_t> turned{0};
    run_tasks(options_, threads_, tasks, [&](std::size_t task) {
      const std::uint64_t begin = plan_.partitions * task / tasks;
      const std::uint64_t end = plan_.partitions * (task + 1) / tasks;
      std::uint64_t turned_here = 0;
      for (std::uint64_t partition = begin; partition < end; ++partition) {
        const std::uint64_t next =
            std::min(work_.stage_words, (partition + 1) * plan_.region_words);
        const std::uint64_t next_words =
            partition + 1 < end ? std::min(plan_.region_words, work_.stage_words - next) : 0;
        RegionAhead ahead(work_.words(stage) + next, next_words, chunks_per_region);
        for (std::size_t t = 0; t < threads_; ++t) {
          turned_here += drain_chain<Answers>(shards_[t], partition, ahead, work_on);
        }
      }
      turned += turned_here;
    });
    return turned;
  }

  /// Brings the answers of `drain` back into batch order, to `out`: of the first stage as they
  /// are, of later ones where they are smaller. Keys that are present stay in play, if there are
  /// further stages to ask or take from.
  template <unsigned bits>
  void bring_back(const Stage& stage, std::uint8_t* out) {
    for_each_shard([&](Shard& shard) {
      begin_replay(shard, plan_.partitions);
      if (work_.stages == 1) {
        replay<bits>(shard, 0, shard.kept, out + shard.first);
      } else if (stage.index == 0) {
        keep_present<bits, true>(shard, out + shard.first);
      } else {
        keep_present<bits, false>(shard, out + shard.first);
      }
    });
  }

  /// Asks all stages; afterwards the keys in play are those with an answer other than 0.
  void ask(const Question& question, std::uint8_t* out) {
    if (question.answer_bits == kYesOrNo) {
      ask_stages<kYesOrNo>(question, out);
    } else {
      ask_stages<kCounterBits>(question, out);
    }
  }

  /// Answers, so far dense per shard, to their keys.
  void spread(std::uint8_t* out) {
    if (!keys_.has_validity()) return;
    for_each_shard(
        [&](Shard& shard) { spread_answers(keys_, shard.first, shard.count, out + shard.first); });
  }

  Shards& shards() noexcept { return shards_; }

 private:
  template <unsigned bits>
  void ask_stages(const Question& question, std::uint8_t* out) {
    for (std::uint32_t s = 0; s < work_.stages; ++s) {
      const Stage stage = work_.stage(s);
      if (s == 0) {
        scatter_keys(stage);
      } else {
        scatter_kept(stage);
      }
      drain<AnswerWriter<bits>>(stage, [&](const std::uint64_t* positions, std::size_t n,
                                           const Fetch& fetch, std::uint8_t* answers) {
        question.ask(work_.words(stage), positions, n, fetch, answers);
        return std::uint64_t{0};
      });
      bring_back<bits>(stage, out);
    }
  }

  std::size_t distance() const noexcept {
    return plan_.region_words * 8 > kL1Bytes ? kNearDistance : 0;
  }

  void scatter(Shard& shard, const Stage& stage, const std::uint64_t* hashes, std::size_t n,
               Strip& strip) noexcept {
    work_.stage_kernels.locate(stage, hashes, n, strip.positions.data());
    work_.kernels.scatter(shard.scatter, strip.positions.data(), n, plan_.shift);
  }

  template <unsigned bits, bool first_stage>
  void keep_present(Shard& shard, std::uint8_t* out) noexcept {
    std::array<std::uint8_t, kStripKeys> answers;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, shard.kept - i);
      replay<bits>(shard, i, n, answers.data());
      // Batches of present keys are common: as long as none has dropped out, all stay in place.
      if (!first_stage && kept == i &&
          std::find(answers.begin(), answers.begin() + n, 0) == answers.begin() + n) {
        for (std::size_t j = 0; j < n; ++j) {
          std::uint8_t& answer = out[shard.index[i + j]];
          answer = std::min(answer, answers[j]);
        }
        kept += n;
        continue;
      }
      for (std::size_t j = 0; j < n; ++j) {
        const auto index = first_stage ? static_cast<std::uint32_t>(i + j) : shard.index[i + j];
        const std::uint8_t answer = first_stage ? answers[j] : std::min(out[index], answers[j]);
        out[index] = answer;
        shard.hashes[kept] = shard.hashes[i + j];
        shard.index[kept] = index;
        kept += answer != 0;  // branch-free: answers are unpredictable
      }
    }
    shard.kept = kept;
  }

  template <class Answers, class WorkOn>
  std::uint64_t drain_chain(Shard& shard, std::uint64_t partition, RegionAhead& region_ahead,
                            WorkOn& work_on) {
    std::uint64_t turned = 0;
    const auto last =
        static_cast<std::uint64_t>(shard.scatter.ends[partition] - shard.scatter.entries);
    std::uint64_t entry = shard.starts[partition];
    Answers answers(shard.scatter, entry);
    for (;;) {
      const std::uint64_t chunk = entry / kChunkEntries;
      const bool is_last = last / kChunkEntries == chunk;
      const std::uint64_t end = is_last ? last : (chunk + 1) * kChunkEntries;
      const std::uint64_t next = std::uint64_t{shard.scatter.next_chunk[chunk]} * kChunkEntries;
      if (end > entry) {
        // Chunks are too small for the hardware to see the next one coming.
        const Lines chunk_ahead = {shard.scatter.entries + next,
                                   is_last ? 0 : kChunkEntries / kEntriesPerLine};
        const Fetch fetch = {.distance = distance(), .ahead = {region_ahead.share(), chunk_ahead}};
        turned += work_on(shard.scatter.entries + entry, end - entry, fetch, answers.room());
        answers.wrote(end - entry);
      }
      if (is_last) break;
      entry = next;
    }
    answers.finish();
    return turned;
  }

  const Work<Word>& work_;
  const KeyBatch& keys_;
  const BatchOptions& options_;
  unsigned threads_;
  PartitionPlan plan_;
  Shards shards_;
};

/// Takes the keys in play away, then settles what is contested. Returns how many counters became
/// zero.
std::uint64_t take_kept(const WriteWork& work, Pass<std::uint64_t>& pass, std::uint8_t* verdicts) {
  Underflows underflows;
  std::mutex mutex;
  std::uint64_t emptied = 0;
  for (std::uint32_t s = 0; s < work.stages; ++s) {
    const Stage stage = work.stage(s);
    pass.scatter_kept(stage);
    emptied += pass.drain<NoAnswers>(stage, [&](const std::uint64_t* positions, std::size_t n,
                                                const Fetch& fetch, std::uint8_t*) {
      std::array<std::uint64_t, kChunkEntries * kWordsPerBlock> room;
      const Taken taken =
          work.stage_kernels.take(work.words(stage), positions, n, fetch, room.data());
      if (taken.underflows > 0) {
        const std::scoped_lock lock(mutex);
        underflows.append(stage.first_word, {room.data(), taken.underflows});
      }
      return taken.emptied;
    });
  }
  if (underflows.empty()) return emptied;
  ConflictResolver resolver(work.view, underflows);
  Shards& shards = pass.shards();
  for (std::size_t t = 0; t < shards.size(); ++t) {
    for (std::size_t i = 0; i < shards[t].kept; ++i) resolver.survey(shards[t].hashes[i]);
  }
  for (std::size_t t = 0; t < shards.size(); ++t) {
    const Shard& shard = shards[t];
    for (std::size_t i = 0; i < shard.kept; ++i) {
      if (!resolver.settle(shard.hashes[i])) verdicts[shard.first + shard.index[i]] = 0;
    }
  }
  return emptied - resolver.finish();
}

}  // namespace

void partitioned_ask(const ReadWork& work, const Question& question, const KeyBatch& keys,
                     std::uint8_t* out, unsigned threads, const BatchOptions& options) {
  const bool staged = work.stages > 1;
  Pass<const std::uint64_t> pass(work, keys, threads, options,
                                 {.answers = true, .hashes = staged, .index = staged});
  pass.for_each_window([&] {
    pass.ask(question, out);
    pass.spread(out);
  });
}

std::uint64_t partitioned_add(const WriteWork& work, const KeyBatch& keys, unsigned threads,
                              const BatchOptions& options) {
  std::uint64_t filled = 0;
  const bool staged = work.stages > 1;
  Pass<std::uint64_t> pass(work, keys, threads, options,
                           {.answers = false, .hashes = staged, .index = false});
  pass.for_each_window([&] {
    for (std::uint32_t s = 0; s < work.stages; ++s) {
      const Stage stage = work.stage(s);
      if (s == 0) {
        pass.scatter_keys(stage);
      } else {
        pass.scatter_kept(stage);
      }
      filled += pass.drain<NoAnswers>(stage, [&](const std::uint64_t* positions, std::size_t n,
                                                 const Fetch& fetch, std::uint8_t*) {
        return work.stage_kernels.add(work.words(stage), positions, n, fetch);
      });
    }
  });
  return filled;
}

std::uint64_t partitioned_remove(const WriteWork& work, const KeyBatch& keys,
                                 std::uint8_t* verdicts, unsigned threads,
                                 const BatchOptions& options) {
  std::uint64_t emptied = 0;
  const bool staged = work.stages > 1;
  Pass<std::uint64_t> pass(work, keys, threads, options,
                           {.answers = true, .hashes = staged, .index = staged});
  pass.for_each_window([&] {
    if (staged) {
      pass.ask(work.is_present(), verdicts);
      emptied += take_kept(work, pass, verdicts);
    } else {
      const Stage stage = work.stage(0);
      pass.scatter_keys(stage);
      emptied += pass.drain<AnswerWriter<kYesOrNo>>(
          stage, [&](const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                     std::uint8_t* answers) {
            return work.stage_kernels.take_present(work.words(stage), {positions, n, n, 1, 0},
                                                   fetch, answers);
          });
      pass.bring_back<kYesOrNo>(stage, verdicts);
    }
    pass.spread(verdicts);
  });
  return emptied;
}

}  // namespace scbf
