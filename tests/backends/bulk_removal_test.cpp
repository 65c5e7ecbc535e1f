// SPDX-License-Identifier: Apache-2.0
// Bulk removal on all backends: however keys are cut into batches, the filter ends as after one
// removal of them all. removal_test.cpp does the same where keys share counters.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "support/far_backend.hpp"
#include "support/in_batches.hpp"
#include "support/keys.hpp"
#include "support/moving.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::bulk_removal_test {
namespace {

using scbf::BulkRemover;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::RemoveReport;

using Keys = std::vector<std::uint64_t>;

[[maybe_unused]] const bool kFar = add_far_backends();

::testing::AssertionResult same_filter(const Filter& got, const Filter& want) {
  const auto same = same_stages(got, want);
  if (!same) return same;
  for (std::size_t s = 0; s < got.stages(); ++s) {
    if (got.stage(s).keys_removed() == want.stage(s).keys_removed()) continue;
    return ::testing::AssertionFailure() << "stage " << s << ": " << got.stage(s).keys_removed()
                                         << " removed, not " << want.stage(s).keys_removed();
  }
  return knows_its_fill(got);
}

void expect_same(const RemoveReport& got, const RemoveReport& want) {
  EXPECT_EQ(got.removed, want.removed);
  EXPECT_EQ(got.absent, want.absent);
  EXPECT_EQ(got.ambiguous, want.ambiguous);
  EXPECT_EQ(got.nulls, want.nulls);
  EXPECT_EQ(got.kept, want.kept);
}

/// One whose keys are partitioned as they come, and two whose hashes are gathered.
std::vector<Shape> shapes() {
  return {{"split_block", Geometry::split_block(1, 2339)},
          {"split_k7", Geometry::split(7, 32'768)},
          {"ranked", Geometry::ranked(112, 671, 223)}};
}

class BulkRemoval : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, BulkRemoval, ::testing::ValuesIn(cases_of(shapes())), CaseName());

TEST_P(BulkRemoval, EqualsOneRemoval) {
  const std::size_t n = is_best_target(*GetParam().backend) ? scaled(20'000, 6'000) : 6'000;
  Mixture mixture(1);
  const Keys in = mixture.to_insert(n), out = mixture.to_ask(n);
  Filter before = GetParam().model(5);
  before.insert(in, {.threads = 1});
  Filter want = before;
  const RemoveReport wanted = want.remove(out, {}, {.threads = 1});
  EXPECT_GT(wanted.removed + wanted.kept, n / 4);
  EXPECT_GT(wanted.absent, n / 8);
  before.to(GetParam().backend->name());
  // Sizes that threads share, and small ones, which go to one thread.
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{n}, {1, 700, 0, 3}}) {
    SCOPED_TRACE("batches of " + std::to_string(sizes[0]) + ", …");
    Filter filter = before;
    BulkRemover bulk = filter.bulk_remove(GetParam().mode.options());
    in_batches(out, sizes, [&](const KeyBatch& batch) { bulk.remove(batch); });
    expect_same(bulk.finish(), wanted);
    ASSERT_TRUE(same_filter(filter, want));
  }
}

TEST_P(BulkRemoval, TakesKeysOfAllKindsWithNulls) {
  const StringColumn column = StringColumn(string_sets()[2].keys);
  const Keys numbers = random_keys(3000, 2), absent = random_keys(500, 3);
  const std::vector<std::byte> bitmap(400, std::byte{0xB6});
  Filter filter = GetParam().filter(5), want = GetParam().model(5);
  for (const KeyBatch& keys : {batches_of(column)[0], KeyBatch(numbers)}) {
    filter.insert(keys);
    want.insert(keys, {.threads = 1});
  }
  RemoveReport wanted;
  {
    BulkRemover bulk = filter.bulk_remove(GetParam().mode.options());
    const auto give = [&](const KeyBatch& keys) {
      in_batches(keys, {1000, 1, 77}, [&](const KeyBatch& batch) {
        bulk.remove(batch);
        wanted += want.remove(batch, {}, {.threads = 1});
      });
    };
    for (const KeyBatch& keys : batches_of(column)) give(keys.with_validity(bitmap, 3));
    give(KeyBatch(numbers).with_validity(bitmap));
    give(KeyBatch::from_hashes(absent));
    give(numbers);
    expect_same(bulk.finish(), wanted);
  }
  EXPECT_GT(wanted.nulls, 1000u);
  EXPECT_GT(wanted.removed + wanted.kept, numbers.size());
  ASSERT_TRUE(same_filter(filter, want));
}

TEST_P(BulkRemoval, GoesOnAfterItsFinishAndEndsWithItsObject) {
  const Keys keys = random_keys(5000, 3);
  Filter filter = GetParam().filter(5), want = GetParam().model(5);
  filter.insert(keys);
  want.insert(keys);
  {
    BulkRemover bulk(filter, GetParam().mode.options());
    const auto remove = [&](BulkRemover& from, std::size_t first, std::size_t n) {
      from.remove(KeyBatch(keys).slice(first, n));
      want.remove(KeyBatch(keys).slice(first, n));
    };
    remove(bulk, 0, 2000);
    bulk.finish();
    ASSERT_TRUE(same_filter(filter, want));
    ASSERT_TRUE(same_answers(contains(filter, keys), contains(want, keys)));
    filter.insert(keys);
    want.insert(keys);
    remove(bulk, 1000, 2000);
    BulkRemover elsewhere = std::move(bulk);
    remove(elsewhere, 2500, 2500);
  }
  ASSERT_TRUE(same_filter(filter, want));
}

class BulkRemovalByThreads : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Batches, BulkRemovalByThreads,
                         ::testing::Values(100u, 3000u, 20'000u, 60'000u));

TEST_P(BulkRemovalByThreads, KeepsTheOrderOfTheKeys) {
  // So full that many absent keys look present at their turn, and take the place of others.
  const Keys in = random_keys(6000, 1), absent = random_keys(20'000, 2);
  Keys out;
  Random random(3);
  while (out.size() < 150'000) {
    out.push_back(random.below(2) == 0 ? in[random.below(in.size())]
                                       : absent[random.below(absent.size())]);
  }
  Filter filter(Geometry::split_block(1, 300)), want(filter.geometry(), {.backend = "scalar"});
  filter.insert(in);
  want.insert(in);
  // Null keys leave room in a shard when later keys are in the next one already.
  const std::vector<std::byte> bitmap(out.size() / 8 + 1, std::byte{0xB5});
  const KeyBatch keys = KeyBatch(out).with_validity(bitmap);
  const RemoveReport wanted = want.remove(keys);
  EXPECT_GT(wanted.removed, 5000u);
  for (const unsigned threads : {2u, 5u}) {
    for (const std::size_t scratch : {std::size_t{0}, std::size_t{1} << 19}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, scratch " + std::to_string(scratch));
      const ThreadExecutor executor(threads);
      Filter some = filter;
      BulkRemover bulk = some.bulk_remove({.threads = threads,
                                           .path = scbf::Path::partitioned,
                                           .scratch_bytes = scratch,
                                           .executor = &executor});
      in_batches(keys, {GetParam()}, [&](const KeyBatch& batch) { bulk.remove(batch); });
      expect_same(bulk.finish(), wanted);
      EXPECT_TRUE(same_filter(some, want));
    }
  }
}

// ---- filters that grow --------------------------------------------------------------------------

TEST(BulkRemovalFromStages, EqualsOneRemoval) {
  Mixture mixture(4);
  const Keys in = mixture.to_insert(4000), out = mixture.to_ask(3000);
  std::uint64_t ambiguous = 0;
  for (const char* backend : {"scalar", "simd", "far"}) {
    for (const Growth& growth :
         {Growth::tightening(60, 0.1), Growth::fixed(Geometry::split(3, 200), 200),
          Growth::fixed(Geometry::split_block(2, 9), 100), Growth::tightening(20'000, 0.05),
          Growth::tightening(300, 0.1, scbf::Layout::ranked)}) {
      if (!scbf::find_backend(backend).supports(growth.first_geometry().layout())) continue;
      for (const Mode& mode : contract_modes()) {
        SCOPED_TRACE(std::string(backend) + ", " + growth.describe() + ", " + mode.name());
        Filter before(growth, {.seed = 7, .backend = backend});
        before.insert(in, {.threads = 1});
        Filter want = before;
        const RemoveReport wanted = want.remove(out, {}, {.threads = 1});
        ambiguous += wanted.ambiguous;
        for (const std::size_t size : {64u, 999u, 3000u}) {
          Filter filter = before;
          BulkRemover bulk = filter.bulk_remove(mode.options());
          in_batches(out, {size}, [&](const KeyBatch& batch) { bulk.remove(batch); });
          expect_same(bulk.finish(), wanted);
          ASSERT_TRUE(same_filter(filter, want)) << "batches of " << size;
        }
      }
    }
  }
  EXPECT_GT(ambiguous, 100u);
}

// ---- the object ---------------------------------------------------------------------------------

/// A filter for every way that keys may take: in partitions, in a window, batch by batch.
std::vector<Filter> filters_of_every_way() {
  std::vector<Filter> filters;
  filters.emplace_back(Geometry::split_block(1, 500));
  filters.emplace_back(Geometry::split(4, 5000));
  filters.emplace_back(Growth::tightening(200, 0.1));
  filters.emplace_back(Geometry::split_block(1, 500), scbf::FilterOptions{.backend = "far"});
  return filters;
}
constexpr scbf::BatchOptions kByPartition{.threads = 1, .path = scbf::Path::partitioned};

TEST(BulkRemoverObject, LetsTheFilterChangeBetweenItsFinishAndItsNextBatch) {
  const Keys keys = random_keys(2000, 3), others = random_keys(500, 4);
  for (const Filter& before : filters_of_every_way()) {
    for (const char* moved_to : {"", "simd", "far"}) {
      SCOPED_TRACE(before.growth().describe() + ", on " + std::string(before.backend().name()) +
                   ", then on " + moved_to);
      Filter filter = before, want = before;
      const auto change = [&](Filter& f) {
        f.insert(others);
        if (*moved_to != '\0') f.to(moved_to);
      };
      filter.insert(keys);
      want.insert(keys);
      {
        BulkRemover bulk = filter.bulk_remove(kByPartition);
        bulk.remove(KeyBatch(keys).slice(0, 700));
        bulk.finish();
        change(filter);
        bulk.remove(KeyBatch(keys).slice(500, 900));
        bulk.remove(others);
      }
      want.remove(KeyBatch(keys).slice(0, 700));
      change(want);
      want.remove(KeyBatch(keys).slice(500, 900));
      want.remove(others);
      ASSERT_TRUE(same_filter(filter, want));
    }
  }
}

TEST(BulkRemoverObject, TakesBatchesOfADeviceAsTheyCome) {
  const Keys keys = random_keys(1000, 3);
  Filter filter(Geometry::split(4, 5000));
  filter.insert(keys);
  BulkRemover bulk = filter.bulk_remove();
  bulk.remove(KeyBatch(keys).slice(0, 300));  // which leaves room for hashes on the host
  bulk.finish();
  filter.to("far");
  bulk.remove(KeyBatch(keys).slice(300, 300));
  EXPECT_EQ(filter.keys_removed(), 600u);
}

TEST(BulkRemoverObject, FollowsTheRuleOfMoving) {
  const Keys keys = random_keys(10, 1);
  for (const Filter& of : filters_of_every_way()) {
    std::vector<std::unique_ptr<Filter>> filters;
    expect_rule_of_moving<BulkRemover>(
        [&] {
          filters.push_back(std::make_unique<Filter>(of));
          filters.back()->insert(keys);
          return filters.back()->bulk_remove(kByPartition);
        },
        [&](const BulkRemover& bulk) {
          auto& changed = const_cast<BulkRemover&>(bulk);
          const std::uint64_t before = changed.finish().removed;
          changed.remove(KeyBatch(keys).slice(before, 1));
          return changed.finish().removed == before + 1;
        },
        {[&](BulkRemover& bulk) { bulk.remove(keys); }, [](BulkRemover& bulk) { bulk.finish(); }});
  }
}

TEST(BulkRemoverObject, LetsTheFilterMove) {
  for (const Filter& of : filters_of_every_way()) {
    Filter filter = of, moved = of;
    filter.insert(Keys{1, 2, 3});
    BulkRemover bulk = filter.bulk_remove(kByPartition);
    bulk.remove(Keys{1, 2});
    moved = std::move(filter);
    bulk.finish();
    EXPECT_EQ(contains(moved, Keys{1, 2, 3}), (Answers{0, 0, 1}));
  }
}

TEST(BulkRemoverObject, NeedsAFilterThatCanBeChangedAndNoLimit) {
  const TemporaryFolder folder;
  Filter filter(1000, 0.01);
  filter.save(folder / "f.scbf");
  Filter mapped = Filter::map(folder / "f.scbf");
  SCBF_EXPECT_THROW(mapped.bulk_remove(), scbf::ReadOnly, "read-only");
  SCBF_EXPECT_THROW(filter.bulk_remove({.most_absent = 3}), scbf::InvalidArgument,
                    "most_absent 3: a limit needs all keys at once");
}

}  // namespace
}  // namespace scbf_test::bulk_removal_test
