// SPDX-License-Identifier: Apache-2.0
// Threads: const operations at the same time, many threads against one, a caller's arena. Under the
// thread sanitizer, races between operations show here.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "scbf/filter.hpp"
#include "scbf/tbb.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::threads_test {
namespace {

using scbf::Geometry;
using scbf::Path;

constexpr const char* kNotSeenThrough =
    "the packaged oneTBB is not built for this sanitizer, which takes its hand-overs for races";

TEST(Threads, ConstOperationsMayRunAtOnce) {
  for (const Geometry& geometry : {Geometry::split_block(2, 4000), Geometry::split(7, 70'000)}) {
    scbf::Filter filter(geometry, {.backend = "simd"});
    const std::size_t n = scaled(40'000, 20'000);
    const auto keys = random_keys(n, 1);
    filter.insert(scbf::KeyBatch(keys).slice(0, n / 2), {.threads = 1});
    const scbf::Filter& shared = filter;
    const Answers hits = contains(shared, keys), counts = count(shared, keys);
    const auto statistics = shared.statistics({.threads = 1});
    EXPECT_EQ(wrong_at_once(4,
                            [&](unsigned t) {
                              const Mode mode = contract_modes()[t];
                              int wrong = 0;
                              for (int round = 0; round < 3; ++round) {
                                wrong += contains(shared, keys, mode.options()) != hits;
                                wrong += count(shared, keys, mode.options()) != counts;
                                wrong += shared.statistics(mode.options()).stages[0].histogram !=
                                         statistics.stages[0].histogram;
                                wrong += !(scbf::Filter(shared) == shared);
                                wrong += !shared.contains(keys[0]);
                              }
                              return wrong;
                            }),
              0);
  }
}

TEST(Threads, ManyThreadsGiveTheSameAsOne) {
  const auto keys = random_keys(scaled(300'000, 100'000), 1);
  const auto out = random_keys(keys.size(), 1);
  for (const Geometry& geometry :
       {Geometry::split_block(1, 20'000), Geometry::split_block(3, 9000),
        Geometry::split(5, 300'000), Geometry::ranked(82, keys.size() / 40, keys.size() / 400)}) {
    for (const Path path : {Path::direct, Path::partitioned}) {
      scbf::Filter one(geometry, {.backend = "simd"});
      one.insert(keys, {.threads = 1});
      const Answers verdicts = remove(one, out, {.threads = 1});
      for (const unsigned threads : {2u, 3u, 5u, 16u}) {
        const ThreadExecutor executor(threads);
        scbf::Filter many(geometry, {.backend = "simd"});
        many.insert(keys, {.threads = threads, .path = path, .executor = &executor});
        const scbf::BatchOptions options{.threads = threads, .path = path, .executor = &executor};
        ASSERT_TRUE(same_answers(remove(many, out, options), verdicts)) << threads << " threads";
        ASSERT_TRUE(same_words(words_of(many), one.words())) << threads << " threads";
      }
    }
  }
}

/// Counts the threads that enter an arena.
class Watcher final : public oneapi::tbb::task_scheduler_observer {
 public:
  explicit Watcher(oneapi::tbb::task_arena& arena) : task_scheduler_observer(arena) {
    observe(true);
  }
  ~Watcher() override { observe(false); }
  void on_scheduler_entry(bool) override { ++entries; }
  std::atomic<int> entries{0};
};

/// Runs tasks in an arena and counts those that really ran inside it.
class Spy final : public scbf::Executor {
 public:
  Spy(oneapi::tbb::task_arena& arena, const Watcher& watcher) : inner_(arena), watcher_(watcher) {}
  unsigned concurrency() const noexcept override { return inner_.concurrency(); }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    const int before = watcher_.entries;
    inner_.run(count, [&](std::size_t i) {
      inside += watcher_.entries > before;
      ++tasks;
      task(i);
    });
  }
  mutable std::atomic<int> tasks{0}, inside{0};

 private:
  scbf::TbbExecutor inner_;
  const Watcher& watcher_;
};

TEST(Threads, ACallersArenaIsWhereTheWorkRuns) {
  if (kThreadSanitizer) GTEST_SKIP() << kNotSeenThrough;
  oneapi::tbb::task_arena arena(2);
  const Watcher watcher(arena);
  const Spy spy(arena, watcher);
  EXPECT_EQ(spy.concurrency(), 2u);
  const auto keys = random_keys(scaled(500'000, 200'000), 1);
  scbf::Filter filter(Geometry::split_block(1, 60'000), {.backend = "simd"});
  filter.insert(keys, {.threads = 2, .path = Path::partitioned, .executor = &spy});
  EXPECT_GT(spy.tasks, 0);
  EXPECT_EQ(spy.inside, spy.tasks);
  Answers answers(keys.size());
  const int before = spy.tasks;
  EXPECT_EQ(filter.contains(keys, answers, {.path = Path::direct, .executor = &spy}).hits,
            keys.size());
  EXPECT_GT(spy.tasks, before);
  scbf::Filter alone(filter.geometry(), {.backend = "simd"});
  alone.insert(keys, {.threads = 1, .path = Path::direct});
  EXPECT_EQ(filter, alone);
}

/// A caller's loop in the arena, whose body runs batches: a thread that waits for one of these must
/// not begin another turn of the loop, which might wait for a lock that it holds.
TEST(Threads, ABatchDoesNotTakeUpOtherWorkOfTheArena) {
  if (kThreadSanitizer) GTEST_SKIP() << kNotSeenThrough;
  // Of three threads, one waits for a second, and could help the third.
  const oneapi::tbb::global_control four(oneapi::tbb::global_control::max_allowed_parallelism, 4);
  oneapi::tbb::task_arena arena(4);
  const scbf::TbbExecutor executor(arena);
  thread_local bool in_a_turn = false;
  std::atomic<int> nested{0}, turns{0};
  arena.execute([&] {
    oneapi::tbb::parallel_for(0, 3000, [&](int turn) {
      nested += in_a_turn;
      in_a_turn = true;
      executor.run(4, [&](std::size_t i) {
        std::this_thread::sleep_for(std::chrono::microseconds((turn * 7 + i * 13) % 100));
      });
      in_a_turn = false;
      ++turns;
    });
  });
  EXPECT_EQ(turns, 3000);
  EXPECT_EQ(nested, 0);
}

TEST(Threads, DefaultExecutorGivesTheSame) {
  if (kThreadSanitizer) GTEST_SKIP() << kNotSeenThrough;
  const auto keys = random_keys(scaled(300'000, 100'000), 1);
  for (const Path path : {Path::automatic, Path::direct, Path::partitioned}) {
    scbf::Filter one(Geometry::split_block(2, 20'000)), all(Geometry::split_block(2, 20'000));
    one.insert(keys, {.threads = 1, .path = path});
    all.insert(keys, {.threads = 0, .path = path});
    EXPECT_EQ(one, all);
    EXPECT_EQ(one.remove(keys, {}, {.threads = 1, .path = path}).removed,
              all.remove(keys, {}, {.threads = 0, .path = path}).removed);
    EXPECT_EQ(one, all);
  }
}

TEST(Threads, AskingForMoreThanThereAreIsFine) {
  const ThreadExecutor executor(2);
  scbf::Filter filter(Geometry::split_block(1, 5000), {.backend = "simd"});
  const auto keys = random_keys(50'000, 1);
  filter.insert(keys, {.threads = 1000, .path = Path::partitioned, .executor = &executor});
  scbf::Filter one(Geometry::split_block(1, 5000), {.backend = "simd"});
  one.insert(keys, {.threads = 1});
  EXPECT_EQ(filter, one);
}

}  // namespace
}  // namespace scbf_test::threads_test
