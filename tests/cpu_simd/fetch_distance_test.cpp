// SPDX-License-Identifier: Apache-2.0
// How far ahead lines are fetched: what is booked decides, both distances are tried, at first and
// again later, and every key is worked on once, in order.
#include "cpu_simd/fetch_distance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

namespace scbf_test::fetch_distance_test {
namespace {

using scbf::at_best_distance;
using scbf::Fetch;
using scbf::FetchDistance;
using scbf::Geometry;
using scbf::kKeysBetweenTries;
using scbf::kTryKeys;
using scbf::Operation;

TEST(FetchDistance, TheLowerTimesWin) {
  FetchDistance known;
  EXPECT_EQ(known.best(), 0u);
  for (int i = 0; i < 2; ++i) known.book({10, 9});
  EXPECT_EQ(known.best(), 1u);
  for (int i = 0; i < 2; ++i) known.book({8, 9.5});
  EXPECT_EQ(known.best(), 0u);
  for (std::uint32_t i = 0; i < FetchDistance::kTries; ++i) known.book({9.9, 9});
  EXPECT_EQ(known.best(), 1u) << "that was long ago";
}

TEST(FetchDistance, AnInterruptionDoesNotDecide) {
  for (const std::size_t better : {0u, 1u}) {
    FetchDistance known;
    std::array<double, 2> ns = {10, 10}, interrupted = {10, 10};
    ns[better] = 9.5;
    interrupted[better] = 1000;
    known.book(interrupted);
    for (std::uint32_t i = 1; i < FetchDistance::kTries; ++i) known.book(ns);
    EXPECT_EQ(known.best(), better);
  }
}

/// Lookups of present keys in several arrays take longer than those of absent ones, and gain more.
TEST(FetchDistance, WhereKeysCostMoreAWrongChoiceWeighsMore) {
  FetchDistance known;
  for (std::uint32_t i = 0; i < FetchDistance::kTries; ++i) known.book({6.2, 5.9});
  EXPECT_EQ(known.best(), 1u);
  for (int i = 0; i < 2; ++i) known.book({17, 28});
  EXPECT_EQ(known.best(), 0u);
}

TEST(FetchDistance, BothAreTriedAtFirstAndThenRarely) {
  FetchDistance known;
  std::vector<std::size_t> first(FetchDistance::kChoices.size());
  while (known.is_due()) ++first.at(known.begin_try());
  EXPECT_EQ(first[0] + first[1], FetchDistance::kTries);
  EXPECT_EQ(first[0], first[1]);
  known.count(kKeysBetweenTries - 1);
  EXPECT_FALSE(known.is_due());
  known.count(1);
  EXPECT_TRUE(known.is_due());
  const std::size_t one = known.begin_try();
  EXPECT_FALSE(known.is_due());
  known.count(kKeysBetweenTries);
  EXPECT_NE(known.begin_try(), one);
}

struct Stretch {
  std::size_t first, end, distance;
};
std::vector<Stretch> stretches(const Geometry& geometry, std::size_t first, std::size_t end,
                               std::size_t slow_distance = 0) {
  std::vector<Stretch> all;
  at_best_distance(Operation::lookup, geometry, first, end,
                   [&](std::size_t from, std::size_t to, const Fetch& fetch) {
                     all.push_back({from, to, fetch.distance});
                     if (fetch.distance != slow_distance) return;
                     const auto until =
                         std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
                     while (std::chrono::steady_clock::now() < until) continue;
                   });
  return all;
}

TEST(FetchDistance, EveryKeyIsWorkedOnOnceInOrder) {
  // A filter in cache, one that L3 holds, and one in memory.
  for (const std::uint64_t blocks : {100u, 30'000u, 1'000'000u}) {
    const Geometry geometry = Geometry::split_block(1, blocks);
    for (const std::size_t keys :
         {std::size_t{0}, std::size_t{1}, kTryKeys - 1, kTryKeys, 2 * kTryKeys - 1, 2 * kTryKeys,
          2 * kTryKeys + 1, 20 * kTryKeys + 5, 3 * kKeysBetweenTries}) {
      std::size_t next = 7;
      for (const Stretch& s : stretches(geometry, 7, 7 + keys)) {
        EXPECT_EQ(s.first, next);
        next = s.end;
      }
      EXPECT_EQ(next, 7 + keys) << blocks;
    }
  }
}

TEST(FetchDistance, FiltersInCacheHaveTheirs) {
  for (const std::uint64_t blocks : {100u, 30'000u}) {
    const Geometry geometry = Geometry::split_block(1, blocks);
    const std::vector<Stretch> all = stretches(geometry, 0, 1'000'000);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].distance, scbf::distance_for(geometry.bytes()));
  }
}

TEST(FetchDistance, TheFasterOneIsTakenForTheRest) {
  // Sizes that no other test has, so that nothing is known of them yet.
  std::uint64_t blocks = 3'000'000;
  for (const std::size_t slow : FetchDistance::kChoices) {
    blocks *= 4;
    const auto all = stretches(Geometry::split_block(1, blocks), 0, 3 * kKeysBetweenTries, slow);
    std::set<std::size_t> tried;
    for (const Stretch& s : all) tried.insert(s.distance);
    EXPECT_EQ(tried.size(), FetchDistance::kChoices.size());
    const auto longest =
        std::ranges::max_element(all, {}, [](const Stretch& s) { return s.end - s.first; });
    EXPECT_GT(longest->end - longest->first, kTryKeys);
    EXPECT_NE(longest->distance, slow);
    // In a long batch tries go on.
    EXPECT_TRUE(std::any_of(longest, all.end(),
                            [](const Stretch& s) { return s.end - s.first == kTryKeys; }));
  }
}

}  // namespace
}  // namespace scbf_test::fetch_distance_test
