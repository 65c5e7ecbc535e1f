// SPDX-License-Identifier: Apache-2.0
// The memory of a filter ends, at every place where it can, while a batch changes it. Counters and
// numbers of keys must then be those of exactly the keys that the exception says are done, and
// going on as it says must end where an undisturbed batch ends.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kit/executor.hpp"
#include "scbf/delta.hpp"
#include "scbf/filter.hpp"
#include "support/far_backend.hpp"
#include "support/fault_setups.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"
#include "support/short_memory.hpp"
#include "support/unreliable_executors.hpp"

namespace scbf_test::faults_test {
namespace {

using scbf::BatchOptions;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::Path;

[[maybe_unused]] const bool kFar = add_far_backends();
// oneTBB ends the process if it finds no memory when it is first used.
[[maybe_unused]] const unsigned kThreads = scbf::thread_count({});
// Each of the first kRarer allocations is made to fail; after them, ever rarer ones.
constexpr std::uint64_t kRarer = kSanitized ? 4 : 32;

/// How often nothing of a batch was inserted, a part of it, and all although memory was refused.
struct Outcomes {
  std::uint64_t nothing = 0, in_part = 0, all = 0;
};

/// Refuses one allocation after another, and from one on all, of insert(filter, keys, options),
/// which returns an InsertReport. The filter must hold exactly the keys that it says are done.
template <class Insert>
void counts_exactly_the_keys_it_says(const Filter& before, const KeyBatch& keys,
                                     const BatchOptions& options, Outcomes& outcomes,
                                     Insert insert) {
  Filter want = before;
  insert(want, keys, options);
  for (const bool ends : {false, true}) {
    for (std::uint64_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
      SCOPED_TRACE("allocation " + std::to_string(nth) + (ends ? " and those after it" : ""));
      Filter filter = before;
      std::uint64_t processed = keys.size();
      std::optional<scbf::InsertReport> done;
      {
        const ShortMemory short_memory(nth, ends);
        try {
          done = insert(filter, keys, options);
        } catch (const FilterFull& full) {
          processed = full.processed();
          done = full.done();
        } catch (const std::bad_alloc&) {
          processed = 0;
        }
      }
      refused = ShortMemory::refused();
      outcomes.nothing += processed == 0;
      outcomes.in_part += processed > 0 && processed < keys.size();
      outcomes.all += processed == keys.size() && refused > 0;
      Filter so_far = before;
      const scbf::InsertReport report =
          processed > 0 ? insert(so_far, keys.slice(0, processed), {.threads = 1})
                        : scbf::InsertReport();
      if (done) {
        ASSERT_EQ(done->inserted, report.inserted);
        ASSERT_EQ(done->nulls, keys.slice(0, processed).nulls());
      }
      ASSERT_TRUE(same_after_fault(filter, so_far)) << processed << " keys are said to be done";
      insert(filter, keys.slice(processed, keys.size() - processed), options);
      ASSERT_TRUE(same_after_fault(filter, want)) << "in the end";
      ASSERT_LT(nth, 100'000u);
    }
  }
}

TEST(FaultsOfMemory, InsertionCountsExactlyTheKeysItSays) {
  Outcomes outcomes;
  for_each_setup([&](const Filter& before, const KeyBatch& keys, const BatchOptions& options) {
    counts_exactly_the_keys_it_says(
        before, keys, options, outcomes,
        [](Filter& filter, const KeyBatch& some, const BatchOptions& how) {
          const scbf::InsertReport report = filter.insert(some, how);
          EXPECT_EQ(report.inserted, some.size() - some.nulls());
          return report;
        });
  });
  EXPECT_GT(outcomes.nothing, 10u);
  EXPECT_GT(outcomes.in_part, 100u);
  EXPECT_GT(outcomes.all, 100u);
}

TEST(FaultsOfMemory, InsertionOfNewKeysCountsExactlyTheKeysItSays) {
  Outcomes outcomes;
  bool wants_answers = false;
  for_each_setup([&](const Filter& before, const KeyBatch& keys, const BatchOptions& options) {
    if (before.backend().memory() != scbf::kHostMemory) return;
    wants_answers = !wants_answers;
    Answers room(keys.size());
    counts_exactly_the_keys_it_says(
        before, keys, options, outcomes,
        [&](Filter& filter, const KeyBatch& some, const BatchOptions& how) {
          const std::span<std::uint8_t> out(room.data(), wants_answers ? some.size() : 0);
          const scbf::InsertNewReport report = filter.insert_new(some, out, how);
          return scbf::InsertReport{report.inserted, report.nulls};
        });
  });
  EXPECT_GT(outcomes.nothing, 10u);
  EXPECT_GT(outcomes.in_part, 10u);
  EXPECT_GT(outcomes.all, 10u);
}

TEST(FaultsOfMemory, InsertionOfNewKeysGoesInSmallerPieces) {
  // More keys than one of them has, of which some come several times, and some are null.
  auto values = random_keys(150'000, 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] %= 100'000;
  const std::vector<std::byte> validity(values.size() / 8 + 1, std::byte{0xDB});
  const KeyBatch keys = KeyBatch(values).with_validity(validity);
  for (const Growth& growth :
       {Growth::tightening(30'000, 0.01), Growth::fixed(Geometry::split_block(1, 1200), 4)}) {
    SCOPED_TRACE(growth.describe());
    Filter model(growth, {.backend = "scalar"});
    Answers want;
    std::uint64_t inserted = 0;
    try {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool is_new = keys.valid(i) && !model.contains(values[i]);
        if (is_new) model.insert(values[i]);
        inserted += is_new;
        want.push_back(is_new);
      }
    } catch (const FilterFull&) {
    }
    ASSERT_GT(want.size(), 1u << 16) << "the second piece is the one to be seen";
    for (const bool wants_answers : {true, false}) {
      Filter filter(growth);
      Answers out(wants_answers ? keys.size() : 0, 0xCC);
      std::uint64_t processed = keys.size();
      scbf::InsertReport done;
      {
        const ShortMemory short_memory(1, false);
        try {
          const scbf::InsertNewReport report = filter.insert_new(keys, out, {.threads = 1});
          done = {report.inserted, report.nulls};
        } catch (const FilterFull& full) {
          processed = full.processed();
          done = full.done();
        }
      }
      EXPECT_EQ(ShortMemory::refused(), 1u);
      EXPECT_EQ(processed, want.size());
      EXPECT_EQ(done.inserted, inserted);
      EXPECT_EQ(done.nulls, keys.slice(0, processed).nulls());
      ASSERT_TRUE(same_after_fault(filter, model));
      if (!wants_answers) continue;
      out.resize(processed);
      EXPECT_TRUE(same_answers(out, want));
    }
  }
}

TEST(FaultsOfMemory, BulkInsertionKeepsWhatItAccepted) {
  std::uint64_t stopped = 0, all = 0;
  for_each_setup([&](const Filter& before, const KeyBatch& keys, const BatchOptions& options) {
    Filter want = before;
    want.insert(keys, {.threads = 1});
    for (const bool ends : {false, true}) {
      for (std::uint64_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
        SCOPED_TRACE("allocation " + std::to_string(nth) + (ends ? " and those after it" : ""));
        Filter filter = before;
        std::uint64_t accepted = 0;
        {
          scbf::BulkInserter bulk = filter.bulk(options);
          const ShortMemory short_memory(nth, ends);
          try {
            while (accepted < keys.size()) {
              const std::size_t n = std::min<std::size_t>(400, keys.size() - accepted);
              bulk.insert(keys.slice(accepted, n));
              accepted += n;
            }
          } catch (const FilterFull& full) {
            accepted += full.processed();
          } catch (const std::bad_alloc&) {
          }
        }
        refused = ShortMemory::refused();
        stopped += accepted < keys.size();
        all += accepted == keys.size() && refused > 0;
        Filter so_far = before;
        if (accepted > 0) so_far.insert(keys.slice(0, accepted), {.threads = 1});
        ASSERT_TRUE(same_after_fault(filter, so_far))
            << accepted << " keys are said to be accepted";
        scbf::BulkInserter rest = filter.bulk(options);
        rest.insert(keys.slice(accepted, keys.size() - accepted));
        rest.finish();
        ASSERT_TRUE(same_after_fault(filter, want)) << "in the end";
        ASSERT_LT(nth, 100'000u);
      }
    }
  });
  EXPECT_GT(stopped, 100u);
  EXPECT_GT(all, 100u);
}

TEST(FaultsOfMemory, BulkRemovalGivesEveryAcceptedKeyItsTurn) {
  std::uint64_t stopped = 0, all = 0;
  for_each_setup([&](const Filter& empty, const KeyBatch& keys, const BatchOptions& options) {
    Filter before = empty;
    before.insert(keys.slice(0, keys.size() / 2), {.threads = 1});
    Filter want = before;
    want.remove(keys, {}, {.threads = 1});
    for (const bool ends : {false, true}) {
      for (std::uint64_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
        SCOPED_TRACE("allocation " + std::to_string(nth) + (ends ? " and those after it" : ""));
        Filter filter = before;
        std::uint64_t accepted = 0;
        scbf::RemoveReport report;
        {
          scbf::BulkRemover bulk = filter.bulk_remove(options);
          const ShortMemory short_memory(nth, ends);
          try {
            while (accepted < keys.size()) {
              const std::size_t n = std::min<std::size_t>(400, keys.size() - accepted);
              bulk.remove(keys.slice(accepted, n));
              accepted += n;
            }
          } catch (const scbf::RemovalStopped& is_stopped) {
            accepted += is_stopped.processed();
          } catch (const std::bad_alloc&) {
          }
          report = bulk.finish();
        }
        refused = ShortMemory::refused();
        stopped += accepted < keys.size();
        all += accepted == keys.size() && refused > 0;
        Filter so_far = before;
        scbf::RemoveReport wanted;
        if (accepted > 0) wanted = so_far.remove(keys.slice(0, accepted), {}, {.threads = 1});
        ASSERT_EQ(report.removed, wanted.removed);
        ASSERT_EQ(report.absent, wanted.absent);
        ASSERT_EQ(report.nulls, wanted.nulls);
        ASSERT_EQ(report.ambiguous, wanted.ambiguous);
        ASSERT_TRUE(same_after_fault(filter, so_far))
            << accepted << " keys are said to be accepted";
        scbf::BulkRemover rest = filter.bulk_remove(options);
        rest.remove(keys.slice(accepted, keys.size() - accepted));
        rest.finish();
        ASSERT_TRUE(same_after_fault(filter, want)) << "in the end";
        ASSERT_LT(nth, 100'000u);
      }
    }
  });
  EXPECT_GT(stopped, 10u);
  EXPECT_GT(all, 50u);
}

TEST(FaultsOfMemory, BulkInsertionOfManyThreadsGoesDirectly) {
  // The least plan for this many threads is larger than the least scratch memory.
  const Nests many([] {}, 300);
  const auto keys = random_keys(5000, 1);
  Filter want(Geometry::split_block(1, 16'384));
  want.insert(keys);
  for (std::uint64_t nth = 3, refused = 1; refused > 0; ++nth) {
    Filter filter(want.geometry());
    scbf::BulkInserter bulk = filter.bulk({.path = Path::partitioned, .executor = &many});
    {
      const ShortMemory short_memory(nth, true);
      bulk.insert(keys);
    }
    refused = ShortMemory::refused();
    bulk.finish();
    EXPECT_EQ(filter, want) << "no memory from allocation " << nth << " on";
    ASSERT_LT(nth, 1000u);
  }
}

TEST(FaultsOfMemoryDeathTest, FirstScratchOfAProcessMayBeRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto insert_without_memory = [] {
    Filter filter(Geometry::split_block(1, 16'384));
    const auto keys = random_keys(5000, 1);
    const ShortMemory short_memory(1, true);
    filter.insert(keys, {.threads = 1, .path = Path::partitioned});
    std::exit(filter.keys_inserted() == keys.size() ? 0 : 1);
  };
  EXPECT_EXIT(insert_without_memory(), ::testing::ExitedWithCode(0), "");
}

TEST(FaultsOfMemory, RemovalDoesAllOrNothing) {
  std::uint64_t nothing = 0, all = 0;
  for_each_setup([&](const Filter& empty, const KeyBatch& keys, const BatchOptions& usual) {
    Filter before = empty;
    // Keys twice in the batch are in the filter once, and some are absent.
    before.insert(keys.slice(0, keys.size() / 2), {.threads = 1});
    Filter removed = before;
    const Answers verdicts = remove(removed, keys, usual);
    for (const std::uint64_t most_absent :
         {scbf::kAnyNumber, scbf::kAnyNumber - 1, std::uint64_t{0}}) {
      // The far backend allocates in every call, of which several stages then need thousands.
      const bool far = before.backend().memory() != scbf::kHostMemory;
      if (most_absent != scbf::kAnyNumber && far && before.stages() > 1) continue;
      BatchOptions options = usual;
      options.most_absent = most_absent;
      const Filter& want = most_absent == 0 ? before : removed;
      for (const bool ends : {false, true}) {
        for (const bool tell : {false, true}) {
          for (std::uint64_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
            SCOPED_TRACE("allocation " + std::to_string(nth) + (ends ? " and those after it" : "") +
                         ", most_absent " + std::to_string(most_absent));
            Filter filter = before;
            Answers got(tell ? keys.size() : 0, 0xCC);
            const auto finishes = [&] {
              try {
                filter.remove(keys, got, options);
              } catch (const scbf::KeysAbsent&) {
                return most_absent == 0;
              } catch (const std::bad_alloc&) {
                return false;
              }
              return most_absent != 0;
            };
            bool done;
            {
              const ShortMemory short_memory(nth, ends);
              done = finishes();
            }
            refused = ShortMemory::refused();
            nothing += !done;
            all += done && refused > 0;
            if (!done) {
              ASSERT_TRUE(same_after_fault(filter, before));
              ASSERT_TRUE(finishes());
            }
            ASSERT_TRUE(same_after_fault(filter, want));
            if (tell) {
              ASSERT_TRUE(same_answers(got, verdicts));
            }
            ASSERT_LT(nth, 100'000u);
          }
        }
      }
    }
  });
  EXPECT_GT(nothing, 20u);
  EXPECT_GT(all, 100u);
}

// A loaded filter does not know its fill: it is counted when a stage before it is full.
TEST(FaultsOfMemory, StagesOfALoadedFilterAreCountedInTheMiddleOfABatch) {
  Filter before(Growth::fixed(Geometry::split(3, 800), 20), {.backend = "far"});
  before.insert(random_keys(900, 1));
  before.remove(KeyBatch(random_keys(900, 1)).slice(0, 700));
  std::vector<std::byte> file;
  before.write([&](std::span<const std::byte> bytes) {
    file.insert(file.end(), bytes.begin(), bytes.end());
  });
  const auto keys = random_keys(600, 2);
  std::uint64_t in_part = 0;
  for (const char* backend : {"simd", "far"}) {
    for (std::uint64_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
      std::size_t at = 0;
      Filter filter = Filter::read(
          [&](std::span<std::byte> out) {
            const std::size_t n = std::min(out.size(), file.size() - at);
            std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(at), n, out.begin());
            at += n;
            return n;
          },
          {.backend = backend});
      std::uint64_t processed = keys.size();
      {
        const ShortMemory short_memory(nth, true);
        try {
          filter.insert(keys, {.threads = 1});
        } catch (const FilterFull& full) {
          processed = full.processed();
        } catch (const std::bad_alloc&) {
          processed = 0;
        }
      }
      refused = ShortMemory::refused();
      in_part += processed > 0 && processed < keys.size();
      Filter so_far = before;
      if (processed > 0) so_far.insert(KeyBatch(keys).slice(0, processed));
      ASSERT_TRUE(same_after_fault(filter, so_far)) << backend << ", allocation " << nth;
    }
  }
  EXPECT_GT(in_part, 0u);
}

/// A delta is applied as a whole or not at all, and so is what leads to one.
TEST(Faults, ADeltaIsAppliedAsAWholeOrNotAtAll) {
  using scbf::BloomFilter;
  using scbf::Delta;
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 300)), Growth::tightening(200, 0.05)}) {
    SCOPED_TRACE(growth.describe());
    Filter counters(growth);
    counters.insert(random_keys(150, 1));
    BloomFilter published(counters);
    const Delta first = published.advance(counters);
    counters.insert(random_keys(300, 2));  // another stage
    BloomFilter later = published;
    const Delta second = later.advance(counters);
    BloomFilter other(Growth::one(Geometry::split_block(2, 5)));
    bool refused = true;
    for (std::uint64_t nth = 1; refused; ++nth) {
      ASSERT_LT(nth, 500u);
      BloomFilter reader = published, writer = published, anew = other;
      refused = false;
      const auto attempt = [&](BloomFilter& filter, const BloomFilter& before, auto change,
                               const BloomFilter& after) {
        bool done = false;
        try {
          const ShortMemory memory(nth, false);
          change(filter);
          done = true;
        } catch (const std::bad_alloc&) {
          refused = true;
        }
        const BloomFilter& want = done ? after : before;
        EXPECT_TRUE(filter == want) << nth;
        EXPECT_EQ(filter.epoch(), want.epoch()) << nth;
        EXPECT_EQ(filter.keys_inserted(), want.keys_inserted()) << nth;
      };
      attempt(
          reader, published, [&](BloomFilter& f) { f.apply(second); }, later);
      attempt(
          writer, published, [&](BloomFilter& f) { f.advance(counters); }, later);
      attempt(
          anew, other, [&](BloomFilter& f) { f.apply(first); }, published);
    }
  }
}

}  // namespace
}  // namespace scbf_test::faults_test
