// SPDX-License-Identifier: Apache-2.0
// Filters of more than 2^32 counters and of more than 2^32 bytes. Memory is mapped lazily, so a few
// keys touch a few pages. Transparent huge pages are off, or each key would cost 2 MiB.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cmath>
#include <map>
#include <memory>
#include <new>

#include "kit/few_keys.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::large_index_test {
namespace {

using scbf::Geometry;

struct SmallPages {
  SmallPages() { ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); }
};
const SmallPages small_pages;  // for this whole process

class LargeIndex : public ::testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  const std::vector<Shape> shapes = {
      // 2^34 counters, 8 GiB: blocks begin past 2^32 in bytes and in counters.
      {"split_block_g1_2_to_34", Geometry::split_block(1, (1ull << 27) + 1)},
      {"split_block_g2_2_to_34", Geometry::split_block(2, 1ull << 26)},
      {"split_k1_2_to_33", Geometry::split(1, 1ull << 33)},
      {"split_k3_above_2_to_32", Geometry::split(3, (1ull << 32) + 12'345)},
      {"split_k3_below_2_to_32", Geometry::split(3, (1ull << 32) - 1)},
  };
  std::vector<Case> all;
  for (const scbf::Backend* backend : available_backends()) {
    for (const Shape& shape : shapes) {
      for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
        if (path == scbf::Path::partitioned && !is_best_target(*backend)) continue;
        // The default scratch is the size of the filter, gigabytes.
        all.push_back({backend, shape, {1, path, 32u << 20}});
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, LargeIndex, ::testing::ValuesIn(cases()), CaseName());

std::uint64_t word_of(const scbf::Filter& filter, std::uint64_t index) {
  std::uint64_t word = 0;
  filter.read_words(index, {&word, 1});
  return word;
}

TEST_P(LargeIndex, KeysLandPast32BitsAndComeOffAgain) {
  const Case& c = GetParam();
  const Geometry& g = c.shape.geometry;
  std::unique_ptr<scbf::Filter> filter;
  try {
    filter = std::make_unique<scbf::Filter>(c.filter(5));
  } catch (const std::bad_alloc&) {
    GTEST_SKIP() << "this machine does not provide " << g.bytes() << " bytes of address space";
  }
  const auto keys = random_keys(300, 1), absent = random_keys(5000, 2);
  const auto options = c.mode.options();
  filter->insert(keys, options);
  std::map<std::pair<std::uint64_t, unsigned>, unsigned> want;
  std::uint64_t furthest = 0;
  for (const std::uint64_t key : keys) {
    for (const auto& probe : reference_probes(g, xxh3(key, 5))) {
      ++want[{probe.word, probe.nibble}];
      furthest = std::max(furthest, probe.word * 16 + probe.nibble);
    }
  }
  ASSERT_GT(furthest, 1ull << 32) << "no key lies past 2^32: the test would prove nothing";
  for (const auto& [where, times] : want) {
    ASSERT_EQ(word_of(*filter, where.first) >> (4 * where.second) & 15, times);
  }
  EXPECT_TRUE(same_answers(contains(*filter, keys, options), Answers(keys.size(), 1)));
  // Among keys never inserted, less than 1e-4 hits are expected (split, k = 1: 1e-3).
  EXPECT_TRUE(same_answers(contains(*filter, absent, options), Answers(absent.size(), 0)));
  for (std::size_t i = 0; i < 50; ++i) {  // single and few keys have code of their own
    ASSERT_TRUE(filter->contains(keys[i]));
    ASSERT_EQ(filter->count(keys[i]), 1u);
    ASSERT_FALSE(filter->contains(absent[i]));
    ASSERT_EQ(filter->count(absent[i]), 0u);
  }
  const auto few = scbf::KeyBatch(keys).slice(50, scbf::kFewKeys);
  EXPECT_TRUE(same_answers(contains(*filter, few, options), Answers(few.size(), 1)));
  const auto changed = scbf::KeyBatch(keys).slice(100, scbf::kFewChanges);
  EXPECT_TRUE(same_answers(remove(*filter, changed, options), Answers(changed.size(), 1)));
  EXPECT_TRUE(same_answers(contains(*filter, changed, options), Answers(changed.size(), 0)));
  filter->insert(changed, options);
  ASSERT_EQ(filter->remove(keys[0]), scbf::Removal::removed);
  ASSERT_FALSE(filter->contains(keys[0]));
  filter->insert(keys[0]);
  for (const auto& [where, times] : want) {
    ASSERT_EQ(word_of(*filter, where.first) >> (4 * where.second) & 15, times);
  }
  EXPECT_TRUE(same_answers(remove(*filter, absent, options), Answers(absent.size(), 0)));
  EXPECT_TRUE(same_answers(remove(*filter, keys, options), Answers(keys.size(), 1)));
  for (const auto& [where, times] : want) ASSERT_EQ(word_of(*filter, where.first), 0u);
}

/// 2.7 · 10^10 bits in 6 · 10^7 blocks, of which keys touch a page or two each.
TEST(LargeIndexOfBits, OfRankedLiesPast32Bits) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer needs four times the memory";
  const Geometry g = Geometry::ranked(111, 60'000'000, 0);
  const auto keys = random_keys(300, 1), absent = random_keys(5000, 2);
  for (const scbf::Backend* backend : available_backends()) {
    if (!backend->supports(g.layout()) || !backend->supports(scbf::Cell::bit)) continue;
    SCOPED_TRACE(backend->name());
    for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
      std::unique_ptr<scbf::BloomFilter> bits;
      try {
        bits = std::make_unique<scbf::BloomFilter>(
            g, scbf::FilterOptions{.seed = 5, .backend = backend->name()});
      } catch (const std::bad_alloc&) {
        GTEST_SKIP() << "this machine does not provide 3.3 GB of address space";
      }
      const scbf::BatchOptions options{.threads = 1, .path = path};
      bits->insert(keys, options);
      std::uint64_t furthest = 0;
      for (const std::uint64_t key : keys) {
        const Wide product = Wide{xxh3(key, 5)} * g.blocks_per_group();
        auto fraction = static_cast<std::uint64_t>(product) >> 32;
        for (std::uint64_t slice = 0; slice < 4; ++slice) {
          fraction *= 111;
          const std::uint64_t bit =
              (static_cast<std::uint64_t>(product >> 64) * 4 + slice) * 111 + (fraction >> 32);
          fraction &= 0xFFFF'FFFFu;
          std::uint64_t word = 0;
          bits->read_words(bit / 64, {&word, 1});
          ASSERT_EQ(word >> bit % 64 & 1, 1u);
          furthest = std::max(furthest, bit);
        }
      }
      ASSERT_GT(furthest, 1ull << 34);
      EXPECT_TRUE(same_answers(contains(*bits, keys, options), Answers(keys.size(), 1)));
      EXPECT_TRUE(same_answers(contains(*bits, absent, options), Answers(absent.size(), 0)));
      for (std::size_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(bits->contains(keys[i]));
        ASSERT_FALSE(bits->contains(absent[i]));
      }
    }
  }
}

TEST(LargeIndexRate, IsThatOf33BitsNotOf32) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer needs four times the memory";
  const Geometry g = Geometry::split(1, (1ull << 33) + 1);
  std::unique_ptr<scbf::Filter> filter;
  try {
    filter = std::make_unique<scbf::Filter>(g, scbf::FilterOptions{.backend = "simd"});
  } catch (const std::bad_alloc&) {
    GTEST_SKIP() << "this machine does not provide " << g.bytes() << " bytes of address space";
  }
  // Each key touches a page of its own: 100,000 keys take 400 MB.
  const std::size_t n = scaled(100'000, 30'000);
  const std::size_t queries = scaled(5'000'000, 4'000'000);
  filter->insert(random_keys(n, 1), {.threads = 1, .path = scbf::Path::direct});
  const double expected =
      scbf::predicted_fpr(g, static_cast<double>(n)) * static_cast<double>(queries);
  ASSERT_GT(expected, 10);
  const auto absent = random_keys(queries, 2);
  Answers answers(queries);
  const auto hits = static_cast<double>(
      filter->contains(absent, answers, {.threads = 1, .path = scbf::Path::direct}).hits);
  // Positions of 32 bits would give twice as many.
  EXPECT_NEAR(hits, expected, 4.5 * std::sqrt(expected));
}

/// A hash that falls into `block` of `blocks`, with random counters in it.
std::uint64_t hash_into(std::uint64_t block, std::uint64_t blocks, std::uint64_t random) {
  const std::uint64_t width = ~0ull / blocks;
  return block * width + block * (~0ull % blocks) / blocks + random % (width - 1);
}

TEST(LargeIndexRate, OfBlocksFarApartIsThatOfTheirLoad) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer needs four times the memory";
  constexpr std::uint64_t kBlocks = (1ull << 27) + 1;  // 2^34 counters, 2^33 bytes
  const Geometry g = Geometry::split_block(1, kBlocks);
  std::unique_ptr<scbf::Filter> filter;
  try {
    filter = std::make_unique<scbf::Filter>(g, scbf::FilterOptions{.backend = "simd"});
  } catch (const std::bad_alloc&) {
    GTEST_SKIP() << "this machine does not provide " << g.bytes() << " bytes of address space";
  }
  // Blocks exactly 2^32 counters apart, or 2^32 bytes: positions of 32 bits would make them one.
  constexpr std::uint64_t kApart = 1ull << 25, kEach = 2000, kUsed = 4 * kEach;
  static_assert(kApart * scbf::kCountersPerBlock == 1ull << 32);
  const auto hashes_of = [&](std::size_t n, std::uint64_t seed) {
    const auto random = random_keys(2 * n, seed);
    std::vector<std::uint64_t> hashes(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t which = random[2 * i] % kUsed;
      const std::uint64_t block = which / kEach * kApart + which % kEach * 7919 + 1;
      hashes[i] = hash_into(block, kBlocks, random[2 * i + 1]);
    }
    return hashes;
  };
  const std::size_t n = 12 * kUsed, queries = scaled(2'000'000, 500'000);
  const auto present = hashes_of(n, 1), absent = hashes_of(queries, 2);
  filter->insert(scbf::KeyBatch::from_hashes(present), {.threads = 1});
  Answers answers(queries);
  const auto hits = static_cast<double>(
      filter->contains(scbf::KeyBatch::from_hashes(absent), answers, {.threads = 1}).hits);
  const double expected = scbf::split_block_fpr(n, 1, kUsed);
  const auto asked = static_cast<double>(queries);
  const double between_filters = expected * 3.5 / std::sqrt(static_cast<double>(n));
  const double error =
      std::sqrt(expected * (1 - expected) / asked + between_filters * between_filters);
  EXPECT_NEAR(hits / asked, expected, 4.5 * error);
}

TEST(LargeGeometry, BlocksUpTo2To32Minus1NeedNoMemoryToBeDescribed) {
  const Geometry g = Geometry::split_block(1, scbf::kMaxBlocksPerGroup);
  EXPECT_EQ(g.bytes(), 0xFFFF'FFFFull * 64);
  EXPECT_EQ(g.counters(), 0xFFFF'FFFFull * 128);
  SCBF_EXPECT_THROW(Geometry::split_block(1, 1ull << 32), scbf::InvalidArgument, "4294967295");
}

}  // namespace
}  // namespace scbf_test::large_index_test
