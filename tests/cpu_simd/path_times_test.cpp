// SPDX-License-Identifier: Apache-2.0
// The paths of large batches: what is booked decides, both are tried, and every key is worked on
// once, in order.
#include "cpu_simd/path_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "cpu_simd/caches.hpp"
#include "cpu_simd/work_kinds.hpp"
#include "kit/scratch.hpp"

namespace scbf_test::path_times_test {
namespace {

using scbf::Choice;
using scbf::Geometry;
using scbf::KeyBatch;
using scbf::Operation;
using scbf::Path;
using scbf::PathTimes;
using scbf::Way;

/// As if an earlier batch had needed much scratch memory. (Nothing touches it.)
bool keep_scratch() {
  const scbf::Scratch kept(std::uint64_t{512} << 20);
  return true;
}
const bool kKept = keep_scratch();

TEST(PathTimes, TheLowerTimeWins) {
  PathTimes times;
  EXPECT_FALSE(times.faster(1000, 100).has_value());
  times.book(9, 5, 0.1);
  EXPECT_EQ(times.faster(1000, 100), Way::by_position);
  for (int i = 0; i < 3; ++i) times.book(3, 5, 0.1);
  EXPECT_EQ(times.faster(1000, 100), Way::direct);
}

TEST(PathTimes, FewKeysPerLineSpeakForTheDirectPath) {
  PathTimes times;
  times.book(9, 6, 0.1);  // 5.55 without the lines
  EXPECT_EQ(times.faster(100'000, 10'000), Way::by_position);
  EXPECT_EQ(times.faster(10'000, 10'000), Way::direct);  // 5.55 + 4.5
}

TEST(PathTimes, TwoOfTheLastThreeTriesDecide) {
  PathTimes times;
  times.book(4, 50, 0);  // pays for memory
  EXPECT_EQ(times.faster(1000, 0), Way::direct);
  times.book(4, 3, 0);
  EXPECT_EQ(times.faster(1000, 0), Way::by_position);
  times.book(4, 3, 0);
  times.book(4, 5, 0);  // the machine did something else
  EXPECT_EQ(times.faster(1000, 0), Way::by_position);
  times.book(4, 5, 0);
  EXPECT_EQ(times.faster(1000, 0), Way::direct) << "it has become another machine";
  times.book(400, 5, 0);  // the same for the direct way
  EXPECT_EQ(times.faster(1000, 0), Way::direct);
}

/// Times of different keys are not compared: present keys of several arrays cost more.
TEST(PathTimes, BothTimesAreOfOneTry) {
  PathTimes times;
  times.book(16, 24, 0);
  times.book(5, 8, 0);
  EXPECT_EQ(times.faster(1000, 0), Way::direct);
}

TEST(PathTimes, DirectSamplesBringAFilterIntoTheLastCache) {
  const std::uint64_t lines = scbf::l3_bytes() / 64;
  const Geometry fits = Geometry::split_block(1, lines / 2),
                 larger = Geometry::split_block(1, 2 * lines);
  constexpr std::size_t kMany = std::size_t{1} << 30;
  EXPECT_EQ(scbf::samples_for(fits, kMany, 16), std::max<std::size_t>(scbf::kSamples, lines / 16));
  EXPECT_EQ(scbf::samples_for(fits, 8 * 16 * 100, 16), 100u);  // an eighth of the batch
  EXPECT_EQ(scbf::samples_for(fits, 100, 16), scbf::kSamples);
  EXPECT_EQ(scbf::samples_for(larger, kMany, 16), scbf::kSamples);
}

TEST(RunFasterThan, ASlowBeginningDoesNotDecide) {
  // Whatever machine this is, both ways take as long as this test says; the first keys twenty times
  // that, as in a file that is being mapped.
  const Geometry geometry = Geometry::split_block(1, 2'200'000);
  const std::vector<std::uint64_t> keys(3'000'000);
  for (int batch = 0; batch < 3; ++batch) {
    scbf::run_faster(Operation::lookup, geometry, keys, {.threads = 1},
                     [&](std::size_t first, const KeyBatch& some, const Choice& choice) {
                       const std::size_t ns = choice.way == Way::by_position  ? 8
                                              : batch == 0 && first < 200'000 ? 100
                                                                              : 5;
                       std::this_thread::sleep_for(std::chrono::nanoseconds(ns * some.size()));
                     });
  }
  EXPECT_EQ(scbf::path_times(Operation::lookup, geometry, 1).faster(3'000'000, 2'200'000),
            Way::direct);
}

TEST(RunFasterThan, ALuckySampleDoesNotDecide) {
  // So many samples that some of them meet a moment in which the direct path is much faster.
  const Geometry geometry = Geometry::ranked(82, 420'000, 0).with(scbf::Cell::bit);
  if (geometry.bytes() > scbf::l3_bytes()) GTEST_SKIP() << "only three samples";
  const std::vector<std::uint64_t> keys(4'500'000);
  int samples = 0;
  for (int batch = 0; batch < 3; ++batch) {
    scbf::run_faster(Operation::lookup, geometry, keys, {.threads = 1},
                     [&](std::size_t, const KeyBatch& some, const Choice& choice) {
                       const bool passes = choice.way == Way::by_position;
                       const std::size_t ns = passes ? 8 : samples % 4 == 3 ? 2 : 12;
                       samples += !passes;
                       std::this_thread::sleep_for(std::chrono::nanoseconds(ns * some.size()));
                     });
  }
  EXPECT_GE(samples, 3 * 2 * 8);
  EXPECT_EQ(scbf::path_times(Operation::lookup, geometry, 1).faster(4'500'000, 269'000),
            Way::by_position);
}

TEST(PathTimes, BothAreTriedAtFirstAndThenRarely) {
  for (const auto& [cheap, later] : {std::pair{false, 9}, {true, 79}}) {
    PathTimes times;
    int due = 0;
    for (int i = 0; i < 320; ++i) {
      const bool are_due = times.are_due(cheap);
      EXPECT_TRUE(are_due || i > 2) << i;
      due += are_due;
      if (are_due) times.count_try();
    }
    EXPECT_EQ(due, 3 + later);
  }
}

/// A batch for which either path may pay, in a filter that nobody else asks about.
class RunFaster : public ::testing::TestWithParam<Operation> {
 protected:
  struct Stretch {
    std::size_t first, keys;
    Way way;
  };
  std::vector<Stretch> run(std::size_t n, const scbf::BatchOptions& options = {.threads = 1}) {
    const std::vector<std::uint64_t> keys(n);
    std::vector<Stretch> done;
    scbf::run_faster(GetParam(), kGeometry, keys, options,
                     [&](std::size_t first, const KeyBatch& some, const Choice& choice) {
                       done.push_back({first, some.size(), choice.way});
                       EXPECT_EQ(some.values(), keys.data() + first);
                       const bool has_plan = choice.plan.partitions > 1;
                       EXPECT_TRUE(has_plan || choice.way == Way::direct);
                     });
    std::size_t next = 0;
    for (const Stretch& stretch : done) {
      EXPECT_EQ(stretch.first, next);
      next += stretch.keys;
    }
    EXPECT_EQ(next, n);
    return done;
  }
  static std::size_t keys_in(const std::vector<Stretch>& done, Way way) {
    std::size_t keys = 0;
    for (const Stretch& stretch : done) keys += stretch.way == way ? stretch.keys : 0;
    return keys;
  }
  const Geometry kGeometry = Geometry::split_block(1, 200'000);
};
INSTANTIATE_TEST_SUITE_P(All, RunFaster,
                         ::testing::Values(Operation::lookup, Operation::count_present,
                                           Operation::insert, Operation::insert_new,
                                           Operation::remove, Operation::remove_without_verdicts));

TEST_P(RunFaster, TriesBothAndTakesAllKeysInOrder) {
  const auto first = run(2'000'000);
  EXPECT_GT(keys_in(first, Way::direct), 0u);
  EXPECT_GT(keys_in(first, Way::by_position), 0u);
  EXPECT_EQ(first.front().way, Way::direct);
  EXPECT_EQ(first.back().way, Way::direct);
  PathTimes& times = scbf::path_times(GetParam(), kGeometry, 1);
  // Whatever the work above took, the next batches follow these.
  for (int i = 0; i < 3; ++i) times.book(20, 10, 0.02);
  EXPECT_EQ(scbf::choose(GetParam(), kGeometry, 2'000'000, {.threads = 1}).way, Way::by_position);
  EXPECT_EQ(scbf::choose(GetParam(), kGeometry, 2'000, {.threads = 1}).way, Way::direct);
}

TEST_P(RunFaster, MediumBatchesTryBoth) {
  const Geometry geometry = Geometry::split_block(1, 300'000);  // of another size than kGeometry
  const std::vector<std::uint64_t> keys(700'000);
  std::set<Way> ways;
  scbf::run_faster(
      GetParam(), geometry, keys, {.threads = 1},
      [&](std::size_t, const KeyBatch&, const Choice& choice) { ways.insert(choice.way); });
  EXPECT_EQ(ways, (std::set{Way::direct, Way::by_position}));
  EXPECT_TRUE(scbf::path_times(GetParam(), geometry, 1).faster(700'000, 300'000).has_value());
}

TEST_P(RunFaster, BatchesThatAreTooSmallForBothUseUpNoTries) {
  // A filter of which a pass by partition needs more keys than a batch has beside its samples.
  const Geometry large = Geometry::split_block(1, 1'100'000);
  const std::vector<std::uint64_t> keys((1u << 20) + 200'000);
  for (int i = 0; i < 10; ++i) {
    scbf::run_faster(GetParam(), large, keys, {.threads = 1},
                     [](std::size_t, const KeyBatch&, const Choice&) {});
  }
  EXPECT_TRUE(scbf::path_times(GetParam(), large, 1).are_due(false));
}

TEST_P(RunFaster, ASlowFirstPassIsTriedAgainEvenIfAllBatchesAreSmall) {
  // Whatever machine this is, passes by position take as long as this test says.
  const Geometry geometry = Geometry::split_block(1, 900'000);
  const std::vector<std::uint64_t> keys(2'000'000);
  int passes = 0;
  std::vector<Way> last;
  for (int batch = 0; batch < 4; ++batch) {
    last.clear();
    scbf::run_faster(GetParam(), geometry, keys, {.threads = 1},
                     [&](std::size_t, const KeyBatch& some, const Choice& choice) {
                       last.push_back(choice.way);
                       const bool first = choice.way == Way::by_position && ++passes == 1;
                       const std::size_t ns = first ? 100 : choice.way == Way::by_position ? 5 : 20;
                       std::this_thread::sleep_for(std::chrono::nanoseconds(ns * some.size()));
                     });
  }
  EXPECT_EQ(last, std::vector{Way::by_position});
}

TEST_P(RunFaster, BatchesThatPayForScratchMemoryBookNothing) {
  // Of another kind than the others.
  const Geometry geometry = Geometry::split_block(1, 2'000'000).with(scbf::Cell::bit);
  PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  const std::vector<std::uint64_t> keys(3'000'000);
  const auto ways = [&] {
    std::set<Way> found;
    scbf::run_faster(
        GetParam(), geometry, keys, {.threads = 1},
        [&](std::size_t, const KeyBatch&, const Choice& choice) { found.insert(choice.way); });
    return found;
  };
  for (int batch = 0; batch < 5; ++batch) {
    scbf::release_scratch();
    EXPECT_EQ(ways().size(), batch == 0 ? 2u : 1u) << batch;
    EXPECT_FALSE(times.faster(3'000'000, 500'000).has_value());
  }
  keep_scratch();
  for (int batch = 0; batch < 2; ++batch) {
    EXPECT_EQ(ways().size(), 2u) << batch;
    EXPECT_TRUE(times.faster(3'000'000, 500'000).has_value());
  }
  EXPECT_EQ(ways().size(), 1u);
}

/// As in a program that builds filters in between: less memory is kept than a lookup takes.
TEST_P(RunFaster, BatchesThatWouldPayTryWithTheScratchMemoryThatIsKept) {
  // Of another kind than the others; 4 MB, so that sizes say direct.
  const Geometry geometry = Geometry::ranked(82, 100'000, 0).with(scbf::Cell::bit);
  if (geometry.bytes() > scbf::l3_bytes()) GTEST_SKIP() << "a small last cache";
  const PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  const std::vector<std::uint64_t> keys(3'000'000);
  scbf::release_scratch();
  { const scbf::Scratch some(geometry.bytes() / 4); }
  const std::size_t kept = scbf::kept_scratch();
  for (int batch = 0; batch < 3; ++batch) {
    std::set<Way> ways;
    std::size_t most = 0;
    scbf::run_faster(GetParam(), geometry, keys, {.threads = 1, .scratch_bytes = geometry.bytes()},
                     [&](std::size_t, const KeyBatch& part, const Choice& choice) {
                       ways.insert(choice.way);
                       const bool pass = choice.way == Way::by_position;
                       if (pass) most = std::max(most, choice.plan.shard_bytes);
                       // The first that is booked is slow, as it may be; it does not decide.
                       const std::size_t ns = !pass ? 20 : batch == 1 ? 100 : 5;
                       std::this_thread::sleep_for(std::chrono::nanoseconds(ns * part.size()));
                     });
    EXPECT_EQ(ways, (std::set{Way::direct, Way::by_position})) << batch;
    EXPECT_EQ(most <= kept, batch > 0) << batch;
    EXPECT_EQ(times.faster(3'000'000, 500'000).has_value(), batch > 0) << batch;
  }
  EXPECT_EQ(times.faster(3'000'000, 0), Way::by_position);
  keep_scratch();
}

/// What it passed over may be the only part that ran in memory which is there to stay.
TEST_P(RunFaster, AFirstTryBooksNothingIfTheWholeBatchNeedsMoreScratchMemory) {
  // Of another kind than the others.
  const Geometry geometry = Geometry::ranked(82, 500'000, 0);
  const PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  const std::vector<std::uint64_t> keys(4'000'000);
  scbf::release_scratch();
  { const scbf::Scratch kept(geometry.bytes() / 3); }
  for (int batch = 0; batch < 2; ++batch) {
    std::set<Way> ways;
    scbf::run_faster(
        GetParam(), geometry, keys, {.threads = 1},
        [&](std::size_t, const KeyBatch&, const Choice& choice) { ways.insert(choice.way); });
    EXPECT_EQ(ways, (std::set{Way::direct, Way::by_position})) << batch;
    EXPECT_EQ(times.faster(4'000'000, 500'000).has_value(), batch > 0);
  }
  keep_scratch();
}

/// The first batch takes less scratch memory than a whole one needs, and if it then goes directly
/// no batch takes more: the next ones must book nevertheless.
TEST_P(RunFaster, EqualBatchesAreBookedWhereSizesSayDirect) {
  const Geometry geometry = Geometry::split_block(1, 270'000).with(scbf::Cell::bit);  // 4 MB
  const std::vector<std::uint64_t> keys(3'000'000);
  scbf::release_scratch();
  for (int batch = 0; batch < 4; ++batch) {
    scbf::run_faster(GetParam(), geometry, keys, {.threads = 1},
                     [&](std::size_t, const KeyBatch& some, const Choice& choice) {
                       if (choice.way != Way::by_position) return;
                       const scbf::Scratch needed(choice.plan.shard_bytes * choice.threads);
                       std::this_thread::sleep_for(std::chrono::nanoseconds(20 * some.size()));
                     });
  }
  EXPECT_TRUE(scbf::path_times(GetParam(), geometry, 1).faster(3'000'000, 70'000).has_value());
  keep_scratch();
}

TEST_P(RunFaster, BooksOnlyBatchesThatTryBoth) {
  const Geometry geometry = Geometry::split_block(2, 100'000);  // of another kind than kGeometry
  PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  while (times.are_due(false)) times.count_try();
  for (int i = 0; i < 3; ++i) times.book(0.2, 0.1, 0.02);
  const std::vector<std::uint64_t> keys(2'000'000);
  for (int i = 0; i < 25; ++i) {
    // Slow, as in memory that nobody has touched before.
    scbf::run_faster(GetParam(), geometry, keys, {.threads = 1},
                     [&](std::size_t, const KeyBatch& all, const Choice& choice) {
                       EXPECT_EQ(all.size(), keys.size());
                       EXPECT_EQ(choice.way, Way::by_position) << i;
                       std::this_thread::sleep_for(std::chrono::milliseconds(2));
                     });
  }
}

/// If the samples are a small part of the batch, every fourth batch tries both.
TEST_P(RunFaster, WherePassesWinLargeBatchesTryBothMoreOften) {
  const Geometry geometry = Geometry::split_block(4, 200'000);  // of another kind
  PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  while (times.are_due(false)) times.count_try();
  for (const auto& [n, expected] : {std::pair{2'000'000u, 0}, {16'000'000u, 6}}) {
    const std::vector<std::uint64_t> keys(n);
    int tries = 0;
    for (int i = 0; i < 24; ++i) {
      for (int booked = 0; booked < 3; ++booked) times.book(20, 10, 0.02);
      int stretches = 0;
      scbf::run_faster(GetParam(), geometry, keys, {.threads = 1},
                       [&](std::size_t, const KeyBatch&, const Choice&) { ++stretches; });
      tries += stretches > 1;
    }
    EXPECT_EQ(tries, expected) << n;
  }
}

/// A pass that has won before takes all keys between the samples at once.
TEST_P(RunFaster, ATryOfThePassThatWonBeforeIsOnePass) {
  const Geometry geometry = Geometry::split_block(3, 100'000);
  PathTimes& times = scbf::path_times(GetParam(), geometry, 1);
  for (int i = 0; i < 3; ++i) times.book(0.2, 0.1, 0.02);
  const std::vector<std::uint64_t> keys(2'000'000);
  int passes = 0, samples = 0;
  scbf::run_faster(GetParam(), geometry, keys, {.threads = 1},
                   [&](std::size_t, const KeyBatch&, const Choice& choice) {
                     ++(choice.way == Way::by_position ? passes : samples);
                   });
  EXPECT_EQ(passes, 1);
  EXPECT_GE(samples, 6);
}

TEST_P(RunFaster, ForcedPathsAndSmallBatchesGoAtOnce) {
  for (const Path path : {Path::direct, Path::partitioned}) {
    const auto done = run(2'000'000, {.threads = 1, .path = path});
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].way, path == Path::direct ? Way::direct : Way::by_position);
  }
  EXPECT_EQ(run(10'000).size(), 1u);
  EXPECT_EQ(run(0).size(), 1u);
}

TEST(WorkKinds, AreApart) {
  std::set<std::size_t> kinds;
  std::size_t made = 0;
  for (const std::uint64_t blocks : {1ul << 16, 1ul << 30}) {
    for (const Geometry& counters :
         {Geometry::split_block(1, blocks), Geometry::split_block(2, blocks / 2),
          Geometry::ranked(82, blocks, 0)}) {
      for (const Geometry& geometry : {counters, counters.with(scbf::Cell::bit)}) {
        for (const Operation operation :
             {Operation::lookup, Operation::count_present, Operation::insert, Operation::insert_new,
              Operation::remove, Operation::remove_without_verdicts}) {
          for (const unsigned threads : {1u, 2u, 3u, 64u}) {
            const std::size_t kind = scbf::work_kind(operation, geometry, threads);
            EXPECT_LT(kind, scbf::kWorkKinds);
            kinds.insert(kind);
            made += threads < 4;  // three threads or more are one kind
          }
        }
      }
    }
  }
  EXPECT_EQ(kinds.size(), made);
}

TEST(Caches, TheLastCacheIsWhatOneCoreReaches) {
  EXPECT_GE(scbf::l3_bytes(), 2 * scbf::l2_bytes());
  std::ifstream level("/sys/devices/system/cpu/cpu0/cache/index3/level");
  std::ifstream size("/sys/devices/system/cpu/cpu0/cache/index3/size");
  int number = 0;
  std::uint64_t kib = 0;
  if (!(level >> number) || number != 3 || !(size >> kib))
    GTEST_SKIP() << "the kernel says nothing";
  EXPECT_LE(scbf::l3_bytes(), std::max(kib * 1024, 2 * scbf::l2_bytes()));
}

}  // namespace
}  // namespace scbf_test::path_times_test
