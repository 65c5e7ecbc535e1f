// SPDX-License-Identifier: Apache-2.0
// Removal in batch order and sticky saturation, where they are hard: in filters so small that
// nearly every key shares counters with others, and in batches that remove more than was inserted.
// Every backend, number of threads and path must give the verdicts and counters of the model.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/in_batches.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::removal_test {
namespace {

using scbf::Geometry;

std::vector<Shape> tiny_shapes() {
  return {
      {"g1_1_block", Geometry::split_block(1, 1)},
      {"g1_3_blocks", Geometry::split_block(1, 3)},
      {"g2_1_block", Geometry::split_block(2, 1)},
      {"g2_2_blocks", Geometry::split_block(2, 2)},
      {"g3_1_block", Geometry::split_block(3, 1)},
      {"g3_4_blocks", Geometry::split_block(3, 4)},
      {"g8_2_blocks", Geometry::split_block(8, 2)},
      {"k1_m3", Geometry::split(1, 3)},
      {"k2_m1", Geometry::split(2, 1)},
      {"k7_m3", Geometry::split(7, 3)},
      {"k7_m16", Geometry::split(7, 16)},
      {"k7_m64", Geometry::split(7, 64)},
      {"k10_m129", Geometry::split(10, 129)},
      {"k20_m17", Geometry::split(20, 17)},
  };
}

/// Filters for a few hundred to a few thousand keys. Conflicts are rare and far apart.
std::vector<Shape> small_shapes() { return all_shapes(30'000); }

class Removal : public ::testing::TestWithParam<Case> {
 protected:
  /// Fills a filter of this case and its model alike.
  void fill(const std::vector<std::uint64_t>& keys) {
    filter_.insert(keys, options_);
    model_.insert(keys);
    ASSERT_TRUE(same_words(words_of(filter_), model_.words())) << "after insert";
  }
  void compare_remove(const std::vector<std::uint64_t>& keys) {
    scbf::Filter without_verdicts = filter_, in_bulk = filter_;
    const Answers want = remove(model_, keys);
    ASSERT_TRUE(same_answers(remove(filter_, keys, options_), want));
    ASSERT_TRUE(same_words(words_of(filter_), model_.words())) << "after remove";
    ASSERT_TRUE(knows_its_fill(filter_)) << "after remove";
    const auto removed = static_cast<std::size_t>(std::count(want.begin(), want.end(), 1));
    ASSERT_EQ(without_verdicts.remove(keys, {}, options_).removed, removed);
    ASSERT_TRUE(same_words(words_of(without_verdicts), model_.words())) << "without verdicts";
    ASSERT_TRUE(knows_its_fill(without_verdicts)) << "without verdicts";
    if (keys.size() > 300) {
      scbf::BulkRemover bulk = in_bulk.bulk_remove(options_);
      in_batches(keys, {1, 300, 0, 41, 2000},
                 [&](const scbf::KeyBatch& some) { bulk.remove(some); });
      ASSERT_EQ(bulk.finish().removed, removed);
      ASSERT_TRUE(same_words(words_of(in_bulk), model_.words())) << "in bulk";
      ASSERT_TRUE(knows_its_fill(in_bulk)) << "in bulk";
    }
    removed_ += removed;
    absent_ += static_cast<std::size_t>(std::count(want.begin(), want.end(), 0));
  }
  void start_again() {
    filter_.clear();
    model_.clear();
  }

  scbf::BatchOptions options_ = GetParam().mode.options();
  scbf::Filter filter_ = GetParam().filter(3), model_ = GetParam().model(3);
  std::size_t removed_ = 0, absent_ = 0;
};

class TinyRemoval : public Removal {};
INSTANTIATE_TEST_SUITE_P(All, TinyRemoval, ::testing::ValuesIn(cases_of(tiny_shapes())),
                         CaseName());

TEST_P(TinyRemoval, CollidingKeysInOrder) {
  Random random(17);
  for (std::size_t round = 0; round < scaled(40, 20); ++round) {
    start_again();
    // From unsaturated filters, where every conflict matters, to full ones.
    const std::size_t universe = 1 + random.below(40), n = 1 + random.below(60);
    std::vector<std::uint64_t> in(n), out(1 + random.below(200));
    for (auto& key : in) key = random.below(universe);
    for (auto& key : out) key = random.below(universe * 2);
    ASSERT_NO_FATAL_FAILURE(fill(in)) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(compare_remove(out)) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(compare_remove(out)) << "round " << round << " again";
  }
  EXPECT_GT(removed_, 0u);
  EXPECT_GT(absent_, 0u);
}

TEST_P(TinyRemoval, MoreCopiesThanWereInserted) {
  for (unsigned copies = 1; copies <= 18; ++copies) {
    start_again();
    std::vector<std::uint64_t> in(copies, 7);
    in.push_back(8);
    in.push_back(9);
    ASSERT_NO_FATAL_FAILURE(fill(in));
    std::vector<std::uint64_t> out;
    for (unsigned i = 0; i < 40; ++i) out.insert(out.end(), {7, 8 + i % 5});
    ASSERT_NO_FATAL_FAILURE(compare_remove(out)) << copies << " copies";
  }
}

class SmallRemoval : public Removal {};
INSTANTIATE_TEST_SUITE_P(All, SmallRemoval, ::testing::ValuesIn(cases_of(small_shapes())),
                         CaseName());

TEST_P(SmallRemoval, AbsentKeysAndRepeatedKeysAmongMany) {
  Random random(23);
  for (const std::size_t n : {300u, 2500u}) {
    start_again();
    const auto in = random_keys(n, n);
    std::vector<std::uint64_t> out;
    for (std::size_t i = 0; i < 3 * n; ++i) {
      out.push_back(random.below(3) == 0 ? random() : in[random.below(n)]);
    }
    ASSERT_NO_FATAL_FAILURE(fill(in)) << n << " keys";
    ASSERT_NO_FATAL_FAILURE(compare_remove(out)) << n << " keys";
    ASSERT_NO_FATAL_FAILURE(compare_remove(in)) << n << " keys, removing the rest";
  }
}

TEST_P(SmallRemoval, AFewAbsentKeysAndAFewTwiceAmongMany) {
  // So few that keys are taken away before they are looked up.
  Random random(29);
  for (const std::size_t one_in : {200u, 400u, 3000u}) {
    start_again();
    const auto in = random_keys(2500, one_in);
    std::vector<std::uint64_t> out;
    for (const std::uint64_t key : in) {
      if (random.below(one_in) == 0) out.push_back(random());
      if (random.below(100) == 0) out.push_back(in[random.below(in.size())]);
      out.push_back(key);
    }
    ASSERT_NO_FATAL_FAILURE(fill(in)) << "one in " << one_in;
    ASSERT_NO_FATAL_FAILURE(compare_remove(out)) << "one in " << one_in;
  }
  EXPECT_GT(absent_, 0u);
}

TEST_P(SmallRemoval, OfEverythingInAnyOrderLeavesZeros) {
  auto keys = random_keys(1000, 5);
  ASSERT_NO_FATAL_FAILURE(fill(keys));
  Random random(1);
  for (std::size_t i = keys.size(); i-- > 1;) std::swap(keys[i], keys[random.below(i + 1)]);
  // The test relies on this: a saturated counter would never return to 0.
  ASSERT_EQ(filter_.statistics().saturated, 0u);
  const auto report = filter_.remove(keys, {}, options_);
  EXPECT_EQ(report.removed, keys.size());
  EXPECT_EQ(report.absent, 0u);
  EXPECT_EQ(filter_.statistics().nonzero, 0u);
}

// ---- one key, many times ----------------------------------------------------------------------

class OneKey : public Removal {
 protected:
  /// A million copies on the best target and the main layouts, elsewhere a few buffers of them.
  std::vector<std::uint64_t> many_copies() const {
    const Case& c = GetParam();
    const bool million = is_best_target(*c.backend) && c.mode.scratch_bytes == 0 &&
                         (c.shape.name == "split_block_g1" || c.shape.name == "split_block_g2" ||
                          c.shape.name == "split_k7");
    return std::vector<std::uint64_t>(million ? scaled(1'000'000, 50'000) : 20'000, 42);
  }
};
INSTANTIATE_TEST_SUITE_P(All, OneKey, ::testing::ValuesIn(cases_of(small_shapes())), CaseName());

TEST_P(OneKey, AMillionTimesInOneBatchSaturatesAndSticks) {
  const auto keys = many_copies();
  filter_.insert(keys, options_);
  EXPECT_EQ(filter_.count(std::uint64_t{42}), 15u);
  const auto statistics = filter_.statistics();
  EXPECT_EQ(statistics.saturated, GetParam().shape.geometry.probes());
  EXPECT_EQ(statistics.nonzero, statistics.saturated);  // nothing was carried into a neighbour
  const auto before = words_of(filter_);
  // Saturated counters never go down, so every copy is found and counts as removed, or as kept by
  // a block that is stuck.
  const auto report = filter_.remove(keys, {}, options_);
  EXPECT_EQ(report.removed + report.kept, keys.size());
  EXPECT_TRUE(same_words(words_of(filter_), before));
}

TEST_P(OneKey, TenTimesInRemovedAMillionTimes) {
  const std::vector<std::uint64_t> ten(10, 42);
  const auto many = many_copies();
  filter_.insert(ten, options_);
  EXPECT_EQ(filter_.count(std::uint64_t{42}), 10u);
  const Answers verdicts = remove(filter_, many, options_);
  for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(verdicts[i], i < 10) << "copy " << i;
  EXPECT_EQ(filter_.statistics().nonzero, 0u);
}

TEST_P(OneKey, CountFollowsEachCopyUpToFifteen) {
  const std::vector<std::uint64_t> one(1, 42);
  for (unsigned copies = 1; copies <= 20; ++copies) {
    filter_.insert(one, options_);
    ASSERT_EQ(filter_.count(std::uint64_t{42}), std::min(copies, 15u));
  }
  // 14 copies do not saturate, so all of them can be removed.
  start_again();
  const std::vector<std::uint64_t> fourteen(14, 42);
  filter_.insert(fourteen, options_);
  EXPECT_EQ(filter_.remove(fourteen, {}, options_).removed, 14u);
  EXPECT_EQ(filter_.statistics().nonzero, 0u);
}

TEST_P(OneKey, SharedCountersAmongManyRepeatedKeys) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < scaled(30'000, 20'000); ++i) keys.push_back(i % 300);
  ASSERT_NO_FATAL_FAILURE(fill(keys));
  ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
  start_again();
  keys.resize(300 * 14);
  ASSERT_NO_FATAL_FAILURE(fill(keys));
  std::vector<std::uint64_t> twice = keys;
  twice.insert(twice.end(), keys.rbegin(), keys.rend());
  ASSERT_NO_FATAL_FAILURE(compare_remove(twice));
}

}  // namespace
}  // namespace scbf_test::removal_test
