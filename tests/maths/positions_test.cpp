// SPDX-License-Identifier: Apache-2.0
// Positions: compared exactly with 128-bit arithmetic, and tested for randomness by chi-square.
// There are no filters here, so 2^32 − 1 blocks cost nothing.
//
// Confidence: Wilson and Hilferty's cube root turns a chi-square statistic with d degrees of
// freedom into a normal deviate z. |z| < 5.5 is required on both sides, since too even is as wrong
// as too uneven. Correct positions fail a test with probability 4e-8. There are about 5,000 tests,
// all with fixed seeds.
#include "scbf/detail/positions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace scbf_test::positions_test {
namespace {

using namespace scbf::detail;
using scbf::Geometry;

// ---- exact ----------------------------------------------------------------------------------

constexpr std::uint64_t kSome = 0xDEAD'BEEF'1234'5678u;
static_assert(block_of(place<PlainOps>(~0ull, 1)) == 0);
static_assert(block_of(place<PlainOps>(~0ull, scbf::kMaxBlocksPerGroup)) ==
              scbf::kMaxBlocksPerGroup - 1);
static_assert(place<PlainOps>(kSome, 1) == kSome >> 32);  // one block uses up no bits
static_assert(slice_position<PlainOps, true>(0, kMultipliers[0], 1ull << 40) == 0);
static_assert(kMultipliers[0] % 2 == 1 && kMultipliers[63] % 2 == 1);
static_assert(shift_of(0x0000'0001'8765'4321u, 0) == 4 && shift_of(0x8765'4321u, 7) == 32);

std::vector<std::uint64_t> hashes(std::size_t n, std::uint64_t seed = 9) {
  auto result = scbf_test::random_keys(n, seed);
  for (unsigned bit = 0; bit < 64; ++bit) {
    result.push_back(1ull << bit);
    result.push_back(~(1ull << bit));
    result.push_back((1ull << bit) - 1);
  }
  return result;
}

TEST(Lines, HoldAllThatAKeyTouches) {
  for (const Geometry& counters :
       {Geometry::split_block(1, 100), Geometry::split_block(3, 100), Geometry::split(7, 1000),
        Geometry::ranked(82, 100, 10), Geometry::ranked(96, 100, 0)}) {
    for (const scbf::Cell cell : {scbf::Cell::counter, scbf::Cell::bit}) {
      const Geometry geometry = counters.with(cell);
      SCOPED_TRACE(geometry.describe());
      for (const std::uint64_t hash : hashes(1000)) {
        std::set<std::uint64_t> lines;
        for_each_line(geometry, hash, [&](std::uint64_t word) {
          ASSERT_LT(word, geometry.words());
          lines.insert(word / 8);
        });
        for (std::uint32_t i = 0; i < geometry.probes(); ++i) {
          const std::uint64_t word = word_of(geometry, probe(counters, hash, i));
          ASSERT_TRUE(lines.contains(word / 8)) << "probe " << i;
        }
        ASSERT_LE(lines.size(), 2 * geometry.cache_lines_per_key());
      }
    }
  }
}

std::vector<std::uint64_t> sizes_up_to(std::uint64_t largest) {
  std::vector<std::uint64_t> sizes;
  for (unsigned bit = 0; bit < 41; ++bit) {
    for (const std::uint64_t n : {(1ull << bit) - 1, 1ull << bit, (1ull << bit) + 1}) {
      if (n >= 1 && n <= largest) sizes.push_back(n);
    }
  }
  for (const std::uint64_t n : {3ull, 1'000'003ull, 3'000'000'019ull, 700'000'000'001ull}) {
    if (n <= largest) sizes.push_back(n);
  }
  return sizes;
}

TEST(Positions, PlacesEqualWideArithmetic) {
  for (const std::uint64_t blocks : sizes_up_to(scbf::kMaxBlocksPerGroup)) {
    const auto geometry = Geometry::split_block(3, blocks);
    for (const std::uint64_t hash : hashes(300)) {
      for (unsigned group = 0; group < 3; ++group) {
        const std::uint64_t where = place_in_group(geometry, hash, group);
        const auto want = scbf_test::reference_place(hash, blocks, group);
        ASSERT_LT(block_of(where), blocks);
        ASSERT_EQ(block_of(where), want.block) << "hash " << hash << " blocks " << blocks;
        for (unsigned i = 0; i < 8; ++i) ASSERT_EQ(shift_of(where, i), 4 * want.nibble[i]);
      }
    }
  }
}

TEST(Positions, SlicesEqualWideArithmeticBelowAndAbove32Bits) {
  for (const std::uint64_t m : sizes_up_to(scbf::kMaxCountersPerSlice)) {
    for (const std::uint64_t hash : hashes(300)) {
      for (const unsigned slice : {0u, 1u, 19u, 63u}) {
        const std::uint64_t want = scbf_test::reference_position(hash, m, slice);
        ASSERT_LT(want, m);
        ASSERT_EQ((slice_position<PlainOps, true>(hash, kMultipliers[slice], m)), want)
            << "hash " << hash << " m " << m << " slice " << slice;
        if (m < 1ull << 32) {
          ASSERT_EQ((slice_position<PlainOps, false>(hash, kMultipliers[slice], m)), want);
        }
      }
    }
  }
}

TEST(Positions, ProbesEqualWideArithmetic) {
  for (const auto& geometry :
       {Geometry::split_block(1, 77), Geometry::split_block(3, 1ull << 31),
        Geometry::split(20, 129), Geometry::split(64, 1ull << 40), Geometry::split(1, 1)}) {
    for (const std::uint64_t hash : hashes(300)) {
      const auto want = scbf_test::reference_probes(geometry, hash);
      std::size_t i = 0;
      for_each_probe(geometry, hash, [&](Probe p) {
        ASSERT_LT(i, want.size());
        ASSERT_LT(p.word, geometry.words());
        ASSERT_EQ(p.word, want[i].word);
        ASSERT_EQ(p.shift, 4 * want[i].nibble);
        ++i;
      });
      ASSERT_EQ(i, geometry.probes());
    }
  }
}

// ---- chi-square -------------------------------------------------------------------------------

/// The normal deviate of chi-square for cells with these observed and expected counts.
double deviate(const std::vector<double>& observed, const std::vector<double>& expected) {
  double chi2 = 0;
  double cells = 0;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(observed[i], 0);
      continue;
    }
    chi2 += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i];
    ++cells;
  }
  const double d = cells - 1;
  if (d == 0) return 0;
  const double spread = 2 / (9 * d);
  return (std::cbrt(chi2 / d) - (1 - spread)) / std::sqrt(spread);
}

/// Draws many hashes. class_of maps each to one of `share.size()` classes, expected at that share.
template <class ClassOf>
double deviate_of(const std::vector<double>& share, std::uint64_t seed, ClassOf class_of) {
  const std::size_t draws = scbf_test::scaled(100'000, 30'000);
  std::vector<double> observed(share.size()), expected;
  for (const double s : share) expected.push_back(s * static_cast<double>(draws));
  // Real hashes: XXH3 of consecutive keys.
  for (std::size_t i = 0; i < draws; ++i) {
    ++observed[class_of(hash_u64<PlainOps>(i, u64_seed_mask(seed)))];
  }
  return deviate(observed, expected);
}

std::vector<double> even(std::size_t classes) {
  return std::vector<double>(classes, 1.0 / static_cast<double>(classes));
}

/// Expected shares of the buckets ⌊b · buckets / blocks⌋ if all blocks b are equally likely.
std::vector<double> shares_of_buckets(std::uint64_t blocks, std::uint64_t buckets) {
  std::vector<double> shares;
  using scbf_test::Wide;
  for (std::uint64_t i = 0; i < buckets; ++i) {
    const auto begin = (Wide{i} * blocks + buckets - 1) / buckets;
    const auto end = (Wide{i + 1} * blocks + buckets - 1) / buckets;
    shares.push_back(static_cast<double>(end - begin) / static_cast<double>(blocks));
  }
  return shares;
}
std::size_t bucket(std::uint64_t block, std::uint64_t blocks, std::uint64_t buckets) {
  return static_cast<std::size_t>(scbf_test::Wide{block} * buckets / blocks);
}
/// Expected shares of the remainders b mod `classes` if all blocks b are equally likely.
std::vector<double> shares_of_remainders(std::uint64_t blocks, std::uint64_t classes) {
  std::vector<double> shares;
  for (std::uint64_t i = 0; i < classes; ++i) {
    const std::uint64_t members = blocks / classes + (i < blocks % classes ? 1 : 0);
    shares.push_back(static_cast<double>(members) / static_cast<double>(blocks));
  }
  return shares;
}
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> shares;
  for (const double x : a) {
    for (const double y : b) shares.push_back(x * y);
  }
  return shares;
}

/// Whether hashes fall into classes with these shares as random ones would.
template <class ClassOf>
::testing::AssertionResult by_chance(const std::vector<double>& share, std::uint64_t seed,
                                     ClassOf class_of) {
  const double z = deviate_of(share, seed, class_of);
  if (std::abs(z) < 5.5) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "a deviate of " << z;
}

std::vector<std::uint64_t> block_counts() {
  std::vector<std::uint64_t> counts = {1, 2, 3, 1u << 24, 0xFFFF'FFFDu, 0xFFFF'FFFEu, 0xFFFF'FFFFu};
  for (const unsigned bit : {3, 8, 10, 16, 31}) {
    for (const int around : {-1, 0, 1}) counts.push_back((std::uint64_t{1} << bit) + around);
  }
  return counts;
}

class BlockCount : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Blocks, BlockCount, ::testing::ValuesIn(block_counts()),
                         ::testing::PrintToStringParamName());

TEST_P(BlockCount, BlocksAreEquallyLikely) {
  const auto geometry = Geometry::split_block(3, GetParam());
  const std::uint64_t blocks = GetParam(), buckets = std::min<std::uint64_t>(blocks, 256);
  for (unsigned group = 0; group < 3; ++group) {
    const auto block = [&](std::uint64_t hash) {
      return block_of(place_in_group(geometry, hash, group));
    };
    EXPECT_TRUE(by_chance(shares_of_buckets(blocks, buckets), 1,
                          [&](std::uint64_t h) { return bucket(block(h), blocks, buckets); }))
        << "high, group " << group;
    EXPECT_TRUE(by_chance(shares_of_remainders(blocks, buckets), 2,
                          [&](std::uint64_t h) { return block(h) % buckets; }))
        << "low, group " << group;
  }
}

TEST_P(BlockCount, NibblesDoNotDependOnTheBlock) {
  const std::uint64_t blocks = GetParam(), buckets = std::min<std::uint64_t>(blocks, 16);
  const auto geometry = Geometry::split_block(3, blocks);
  const auto high = product(shares_of_buckets(blocks, buckets), even(16)),
             low = product(shares_of_remainders(blocks, buckets), even(16));
  for (unsigned i = 0; i < 24; ++i) {
    SCOPED_TRACE("group " + std::to_string(i / 8) + ", nibble " + std::to_string(i % 8));
    const auto place = [&](std::uint64_t h) { return place_in_group(geometry, h, i / 8); };
    EXPECT_TRUE(by_chance(high, 3 + i % 8, [&](std::uint64_t h) {
      const std::uint64_t p = place(h);
      return bucket(block_of(p), blocks, buckets) * 16 + shift_of(p, i % 8) / 4;
    }));
    EXPECT_TRUE(by_chance(low, 3 + i % 8, [&](std::uint64_t h) {
      const std::uint64_t p = place(h);
      return block_of(p) % buckets * 16 + shift_of(p, i % 8) / 4;
    }));
  }
}

TEST_P(BlockCount, NibblesAndGroupsArePairwiseIndependent) {
  const std::uint64_t blocks = GetParam(), buckets = std::min<std::uint64_t>(blocks, 16);
  const auto geometry = Geometry::split_block(3, blocks);
  const auto nibble = [&](std::uint64_t h, unsigned i) {
    return shift_of(place_in_group(geometry, h, i / 8), i % 8) / 4;
  };
  for (unsigned a = 0; a < 24; ++a) {
    // Each nibble with the next one, the fourth after it, and its twins in the other groups.
    for (const unsigned step : {1u, 4u, 8u, 16u}) {
      const unsigned b = (a + step) % 24;
      EXPECT_TRUE(by_chance(even(256), 100 + a,
                            [&](std::uint64_t h) { return nibble(h, a) * 16 + nibble(h, b); }))
          << "slices " << a << " and " << b;
    }
  }
  const auto high = shares_of_buckets(blocks, buckets), low = shares_of_remainders(blocks, buckets);
  const auto block = [&](std::uint64_t h, unsigned group) {
    return block_of(place_in_group(geometry, h, group));
  };
  for (const auto& pair : {std::pair{0u, 1u}, {0u, 2u}, {1u, 2u}}) {
    const unsigned a = pair.first, b = pair.second;
    SCOPED_TRACE("groups " + std::to_string(a) + " and " + std::to_string(b));
    EXPECT_TRUE(by_chance(product(high, high), 200, [&](std::uint64_t h) {
      return bucket(block(h, a), blocks, buckets) * buckets + bucket(block(h, b), blocks, buckets);
    }));
    EXPECT_TRUE(by_chance(product(low, low), 201, [&](std::uint64_t h) {
      return block(h, a) % buckets * buckets + block(h, b) % buckets;
    }));
  }
}

class SliceSize : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Counters, SliceSize,
                         ::testing::Values(16, 17, 1000, 65536, 65537, 1ull << 31, 0xFFFF'FFFFull,
                                           1ull << 32, (1ull << 32) + 1, 5'000'000'000ull,
                                           1ull << 40),
                         ::testing::PrintToStringParamName());

TEST_P(SliceSize, PositionsAreEvenAndSlicesPairwiseIndependent) {
  const std::uint64_t m = GetParam();
  const auto high = shares_of_buckets(m, 16), low = shares_of_remainders(m, 16);
  constexpr unsigned kSlices = 20;
  const auto at = [&](std::uint64_t h, unsigned slice) {
    return slice_position<PlainOps, true>(h, kMultipliers[slice], m);
  };
  for (unsigned a = 0; a < kSlices; ++a) {
    for (const unsigned step : {0u, 1u, 2u, 5u, 9u}) {
      // Step 0 compares the low part of a position with its own high part. Only in a large slice
      // do these differ.
      if (step == 0 && m < 1'000'000) continue;
      const unsigned b = (a + step) % kSlices;
      SCOPED_TRACE("slices " + std::to_string(a) + " and " + std::to_string(b));
      EXPECT_TRUE(by_chance(product(low, high), 300 + a, [&](std::uint64_t h) {
        return at(h, a) % 16 * 16 + bucket(at(h, b), m, 16);
      }));
      if (step == 0) continue;
      EXPECT_TRUE(by_chance(product(high, high), 400 + a, [&](std::uint64_t h) {
        return bucket(at(h, a), m, 16) * 16 + bucket(at(h, b), m, 16);
      }));
    }
  }
}

}  // namespace
}  // namespace scbf_test::positions_test
