// SPDX-License-Identifier: Apache-2.0
// Views of filters (ref()): what they take, how long they live, who may use them at once. That
// their answers and changes are those of the filter is in few_keys_test.cpp, on every backend.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "scbf/filter.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::views_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using Keys = std::vector<std::uint64_t>;

const bool kAdded = add_far_backends();
constexpr std::uint64_t kSeed = 77;

TEST(View, TakesStringsAndHashes) {
  Filter viewed(1000, 0.01, {.seed = kSeed}), filter(1000, 0.01, {.seed = kSeed});
  const scbf::FilterRef view = viewed.ref();
  const auto strings = string_sets()[2].keys;
  for (const std::string& key : strings) {
    view.insert(key);
    filter.insert(key);
    ASSERT_TRUE(view.contains(key));
    ASSERT_EQ(view.count(key), filter.count(key));
    ASSERT_EQ(view.hash(key), KeyBatch(std::span(&key, 1)).hashes(kSeed)[0]);
  }
  ASSERT_EQ(viewed, filter);
  view.remove("a");
  filter.remove("a");
  view.insert_hash(7);
  filter.insert(KeyBatch::from_hashes(Keys{7}));
  EXPECT_EQ(viewed, filter);
  EXPECT_TRUE(view.remove_hash(7));
}

TEST(View, KeepsNumbersThatAreNotKnownUnknown) {
  Filter filter(1000, 0.01), other(1000, 0.01);
  other.insert(random_keys(500, 1));
  filter.merge(other);  // its fill is counted when it is asked for
  const auto keys = random_keys(500, 2);
  const scbf::FilterRef view = filter.ref();
  for (const std::uint64_t key : keys) view.insert(key);
  EXPECT_TRUE(knows_its_fill(filter));
  for (const std::uint64_t key : keys) view.remove(key);
  EXPECT_TRUE(knows_its_fill(filter));
  EXPECT_EQ(filter, other);
}

TEST(View, SurvivesAMove) {
  Filter filter(1000, 0.01);
  const scbf::FilterRef view = filter.ref();
  const Filter moved = std::move(filter);
  view.insert("a");
  EXPECT_TRUE(moved.contains("a"));
  EXPECT_EQ(moved.keys_inserted(), 1u);
}

TEST(View, IsOfOneStageOnTheHost) {
  Filter grows(Growth::tightening(100, 0.1)), far(1000, 0.01, {.backend = "far"});
  SCBF_EXPECT_THROW(grows.ref(), scbf::InvalidArgument, "grows");
  SCBF_EXPECT_THROW(std::as_const(grows).ref(), scbf::InvalidArgument, "grows");
  SCBF_EXPECT_THROW(far.ref(), scbf::NotOnHost, "memory of far");
  scbf::BloomFilter bits(Growth::tightening(100, 0.1));
  SCBF_EXPECT_THROW(bits.ref(), scbf::InvalidArgument, "grows");
  SCBF_EXPECT_THROW(std::as_const(bits).ref(), scbf::InvalidArgument, "grows");
}

TEST(View, OfBitsEndsTheirEpoch) {
  scbf::BloomFilter bits(1000, 0.01), next(1000, 0.01);
  bits.advance(next);
  ASSERT_NE(bits.epoch(), scbf::Epoch());
  EXPECT_FALSE(std::as_const(bits).ref().contains("a"));
  EXPECT_NE(bits.epoch(), scbf::Epoch());
  const scbf::BloomFilterRef view = bits.ref();
  EXPECT_EQ(bits.epoch(), scbf::Epoch());
  view.insert("a");
  EXPECT_TRUE(bits.contains("a"));
}

/// Two threads ask is_missed(key) for all keys again and again while one calls write(), which
/// returns a number. Returns that, and how often the answer was yes.
template <class IsMissed, class Write>
int missed_while(const Keys& keys, IsMissed is_missed, Write write) {
  std::atomic<bool> done = false;
  return wrong_at_once(3, [&](unsigned t) {
    int missed = 0;
    if (t == 0) {
      missed = write();
      done = true;
    }
    while (!done) {
      for (const std::uint64_t key : keys) missed += is_missed(key);
    }
    return missed;
  });
}

// Keys that are in the filter throughout are found at any time, whatever the one writer does.
TEST(View, IsReadByManyThreadsWhileOneWrites) {
  for (const Geometry& shape :
       {Geometry::split_block(1, 40), Geometry::split_block(2, 30), Geometry::split(7, 500),
        Geometry::ranked(100, 12, 20)}) {  // of which blocks spill, and return
    Filter filter(shape);
    const auto stay = random_keys(200, 1), come_and_go = random_keys(200, 2);
    filter.insert(stay);
    const Filter before = filter;
    const scbf::FilterRef writer = filter.ref();
    const scbf::ConstFilterRef reader = std::as_const(filter).ref();
    const int wrong = missed_while(
        stay, [&](std::uint64_t key) { return !reader.contains(key) || reader.count(key) == 0; },
        [&] {
          int missed = 0;
          for (std::size_t round = 0; round < scaled(300, 30); ++round) {
            for (const std::uint64_t key : come_and_go) writer.insert(key);
            for (const std::uint64_t key : come_and_go) missed += !writer.remove(key);
          }
          return missed;
        });
    EXPECT_EQ(wrong, 0) << shape.describe();
    EXPECT_EQ(filter, before) << shape.describe();
  }
}

TEST(View, OfBitsIsReadByManyThreadsWhileOneWrites) {
  for (const Geometry& shape : {Geometry::split_block(1, 400), Geometry::split_block(2, 300),
                                Geometry::split(7, 5000), Geometry::ranked(100, 120, 0)}) {
    scbf::BloomFilter filter(shape), expected(shape);
    const auto stay = random_keys(200, 1), come = random_keys(scaled(20'000, 2'000), 2);
    filter.insert(stay);
    const scbf::BloomFilterRef writer = filter.ref();
    const scbf::ConstFilterRef reader = std::as_const(filter).ref();
    const int wrong = missed_while(
        stay, [&](std::uint64_t key) { return !reader.contains(key); },
        [&] {
          for (const std::uint64_t key : come) writer.insert(key);
          return 0;
        });
    EXPECT_EQ(wrong, 0) << shape.describe();
    expected.insert(stay);
    expected.insert(come);
    EXPECT_EQ(filter, expected) << shape.describe();
  }
}

TEST(View, OfAMappedFilterOnlyLooksUp) {
  const TemporaryFolder folder;
  Filter(1000, 0.01).save(folder / "f.scbf");
  scbf::BloomFilter(1000, 0.01).save(folder / "bits.scbf");
  Filter mapped = Filter::map(folder / "f.scbf");
  scbf::BloomFilter bits = scbf::BloomFilter::map(folder / "bits.scbf");
  SCBF_EXPECT_THROW(mapped.ref(), scbf::ReadOnly, "read-only");
  SCBF_EXPECT_THROW(bits.ref(), scbf::ReadOnly, "read-only");
  EXPECT_FALSE(std::as_const(mapped).ref().contains("a"));
  EXPECT_FALSE(std::as_const(bits).ref().contains("a"));
}

}  // namespace
}  // namespace scbf_test::views_test
