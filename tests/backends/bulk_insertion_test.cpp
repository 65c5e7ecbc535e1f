// SPDX-License-Identifier: Apache-2.0
// Bulk insertion on all backends: however keys are cut into batches, the filter ends as after one
// insertion of them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "support/far_backend.hpp"
#include "support/in_batches.hpp"
#include "support/keys.hpp"
#include "support/moving.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::bulk_insertion_test {
namespace {

using scbf::BulkInserter;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::InsertReport;
using scbf::KeyBatch;

using Keys = std::vector<std::uint64_t>;

[[maybe_unused]] const bool kFar = add_far_backends();

::testing::AssertionResult same_filter(const Filter& got, const Filter& want) {
  const auto same = same_stages(got, want);
  return same ? knows_its_fill(got) : same;
}

class Bulk : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Bulk, ::testing::ValuesIn(cases_of(all_shapes(500'000))), CaseName());

TEST_P(Bulk, EqualsOneInsertion) {
  const std::size_t n = is_best_target(*GetParam().backend) ? scaled(60'000, 20'000) : 20'000;
  const Keys keys = Mixture(1).to_insert(n);
  Filter want = GetParam().model(5);
  want.insert(keys, {.threads = 1});
  // Sizes that threads share, and small ones, which go to one thread.
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{n}, {1, 700, 0, 3}, {17'000, 5, 1500}, {512}}) {
    SCOPED_TRACE("batches of " + std::to_string(sizes[0]) + ", …");
    Filter filter = GetParam().filter(5);
    BulkInserter bulk = filter.bulk(GetParam().mode.options());
    in_batches(keys, sizes, [&](const KeyBatch& batch) {
      const InsertReport report = bulk.insert(batch);
      ASSERT_EQ(report.inserted, batch.size());
      ASSERT_EQ(report.nulls, 0u);
    });
    const InsertReport all = bulk.finish();
    EXPECT_EQ(all.inserted, n);
    EXPECT_EQ(all.nulls, 0u);
    ASSERT_TRUE(same_filter(filter, want));
  }
}

TEST_P(Bulk, TakesKeysOfAllKindsWithNulls) {
  const StringColumn column = StringColumn(string_sets()[2].keys);
  const Keys numbers = random_keys(3000, 2);
  const std::vector<std::byte> bitmap(400, std::byte{0xB6});
  Filter filter = GetParam().filter(5), want = GetParam().model(5);
  {
    BulkInserter bulk = filter.bulk(GetParam().mode.options());
    std::uint64_t inserted = 0, nulls = 0;
    const auto give = [&](const KeyBatch& keys) {
      in_batches(keys, {1000, 1, 77}, [&](const KeyBatch& batch) {
        const InsertReport report = bulk.insert(batch);
        const InsertReport wanted = want.insert(batch, {.threads = 1});
        ASSERT_EQ(report.inserted, wanted.inserted);
        ASSERT_EQ(report.nulls, wanted.nulls);
        inserted += report.inserted;
        nulls += report.nulls;
      });
    };
    for (const KeyBatch& keys : batches_of(column)) {
      give(keys);
      give(keys.with_validity(bitmap, 3));
    }
    give(KeyBatch(numbers).with_validity(bitmap));
    give(KeyBatch::from_hashes(numbers));
    const InsertReport all = bulk.finish();
    EXPECT_EQ(all.inserted, inserted);
    EXPECT_EQ(all.nulls, nulls);
    EXPECT_GT(nulls, 1000u);
  }
  ASSERT_TRUE(same_filter(filter, want));
}

TEST_P(Bulk, GoesOnAfterItsFinishAndEndsWithItsObject) {
  const Keys keys = random_keys(5000, 3);
  Filter filter = GetParam().filter(5), want = GetParam().model(5);
  {
    BulkInserter bulk(filter, GetParam().mode.options());
    bulk.insert(KeyBatch(keys).slice(0, 2000));
    bulk.finish();
    want.insert(KeyBatch(keys).slice(0, 2000));
    ASSERT_TRUE(same_filter(filter, want));
    ASSERT_TRUE(same_answers(contains(filter, keys), contains(want, keys)));
    EXPECT_EQ(bulk.finish().inserted, 2000u);
    bulk.insert(KeyBatch(keys).slice(2000, 3000));
    BulkInserter elsewhere = std::move(bulk);
    EXPECT_EQ(elsewhere.insert(keys).inserted, 5000u);
  }
  want.insert(KeyBatch(keys).slice(2000, 3000));
  want.insert(keys);
  ASSERT_TRUE(same_filter(filter, want));
}

/// What may be done to a filter between two insertions in bulk.
TEST(BulkObject, LetsTheFilterChangeBetweenItsFinishAndItsNextBatch) {
  const Keys keys = random_keys(3000, 3), others = random_keys(500, 4);
  const Growth grows = Growth::tightening(200, 0.1);
  using Change = std::function<void(Filter&)>;
  const std::vector<Change> changes = {
      [](Filter& f) { f.clear(); },
      [&](Filter& f) { f.insert(others); },
      [&](Filter& f) { f.remove(KeyBatch(keys).slice(0, 1000)); },
      [](Filter& f) { f.merge(Filter(f)); },
      [](Filter& f) { f.subtract(Filter(f)); },
      [](Filter& f) { f.to(f.backend().name() == "far" ? "simd" : "far"); },
      [](Filter& f) { f = Filter(f.growth()); },
  };
  for (const Growth& growth : {grows, Growth::one(Geometry::split_block(1, 500))}) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      for (const bool further : {false, true}) {
        SCOPED_TRACE(growth.describe() + ", change " + std::to_string(i));
        const bool assigns = i + 1 == changes.size();
        if (assigns && further) continue;  // the inserter's filter is gone
        Filter filter(growth), want(growth);
        {
          BulkInserter bulk = filter.bulk();
          bulk.insert(keys);
          bulk.finish();
          changes[i](filter);
          if (further) bulk.insert(others);
        }
        want.insert(keys);
        changes[i](want);
        if (further) want.insert(others);
        ASSERT_TRUE(same_filter(filter, want));
      }
    }
  }
}

// ---- filters that grow --------------------------------------------------------------------------

std::vector<Growth> growths() {
  return {Growth::tightening(60, 0.1), Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7),
          Growth::fixed(Geometry::split(3, 200), 200),
          Growth::fixed(Geometry::split_block(2, 9), 100), Growth::tightening(20'000, 0.05)};
}

TEST(BulkOfStages, EqualsOneInsertion) {
  const Keys keys = Mixture(4).to_insert(3000);
  for (const char* backend : {"scalar", "simd", "far"}) {
    for (const Growth& growth : growths()) {
      for (const Mode& mode : contract_modes()) {
        SCOPED_TRACE(std::string(backend) + ", " + growth.describe() + ", " + mode.name());
        Filter want(growth, {.seed = 7, .backend = "scalar"});
        want.insert(keys, {.threads = 1});
        for (const std::size_t size : {1u, 64u, 999u, 3000u}) {
          Filter filter(growth, {.seed = 7, .backend = backend});
          BulkInserter bulk = filter.bulk(mode.options());
          in_batches(keys, {size}, [&](const KeyBatch& batch) { bulk.insert(batch); });
          EXPECT_EQ(bulk.finish().inserted, keys.size());
          ASSERT_TRUE(same_filter(filter, want)) << "batches of " << size;
        }
      }
    }
  }
}

TEST(BulkOfStages, SaysWhereToContinueWhenAllAreFull) {
  const Growth growth = Growth::fixed(Geometry::split_block(1, 40), 3);
  const Keys keys = random_keys(5000, 8);
  std::uint64_t fit = 0;
  Filter want(growth, {.seed = 7});
  try {
    want.insert(keys);
    FAIL() << "there was room for all";
  } catch (const FilterFull& full) {
    fit = full.processed();
  }
  for (const std::size_t size : {1u, 100u, 333u, 5000u}) {
    Filter filter(growth, {.seed = 7});
    BulkInserter bulk = filter.bulk();
    std::uint64_t before = 0;
    std::optional<std::uint64_t> stopped;
    in_batches(keys, {size}, [&](const KeyBatch& batch) {
      if (stopped) return;
      try {
        bulk.insert(batch);
        before += batch.size();
      } catch (const FilterFull& full) {
        stopped = before + full.processed();
        EXPECT_EQ(full.done().inserted, full.processed());
      }
    });
    EXPECT_EQ(stopped, fit);
    EXPECT_EQ(bulk.finish().inserted, fit);
    ASSERT_TRUE(same_filter(filter, want)) << "batches of " << size;
  }
}

// ---- the object ---------------------------------------------------------------------------------

TEST(BulkObject, FollowsTheRuleOfMoving) {
  const Keys keys = random_keys(10, 1);
  auto filters = std::make_shared<std::vector<std::unique_ptr<Filter>>>();
  expect_rule_of_moving<BulkInserter>(
      [&] {
        filters->push_back(std::make_unique<Filter>(1000, 0.01));
        BulkInserter bulk = filters->back()->bulk();
        bulk.insert(keys);
        return bulk;
      },
      [&](const BulkInserter& bulk) { return bulk.so_far().inserted == keys.size(); },
      {[&](BulkInserter& bulk) { bulk.insert(keys); }, [](BulkInserter& bulk) { bulk.finish(); },
       [](BulkInserter& bulk) { bulk.so_far(); }});
}

TEST(BulkObject, NeedsAFilterThatCanBeChanged) {
  const TemporaryFolder folder;
  Filter(1000, 0.01).save(folder / "f.scbf");
  Filter mapped = Filter::map(folder / "f.scbf");
  SCBF_EXPECT_THROW(mapped.bulk(), scbf::ReadOnly, "read-only");
}

TEST(BulkObject, LetsTheFilterMove) {
  Filter filter(1000, 0.01), moved(1000, 0.01);
  BulkInserter bulk = filter.bulk();
  bulk.insert(Keys{1, 2, 3});
  moved = std::move(filter);
  bulk.finish();
  EXPECT_TRUE(moved.contains(std::uint64_t{2}));
}

}  // namespace
}  // namespace scbf_test::bulk_insertion_test
