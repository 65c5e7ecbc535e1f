// SPDX-License-Identifier: Apache-2.0
// Fill and rates: each formula against a simulation, against its inverse as an equation, and
// against values computed elsewhere to 50 digits. Also all refusals of sizing.hpp. overflow_test
// has the overflow of counters, planner_test has plan().
#include "scbf/sizing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>
#include <vector>

#include "maths/sizing_test_support.hpp"
#include "support/setups.hpp"

namespace scbf::test::sizing_test {
namespace {

/// Share of m counters that n balls hit.
double thrown_fill(std::size_t n, std::size_t m, std::mt19937_64& random) {
  std::vector<char> hit(m);
  for (std::size_t i = 0; i < n; ++i) hit[below(m, random)] = 1;
  double filled = 0;
  for (const char h : hit) filled += h;
  return filled / static_cast<double>(m);
}

/// Rate of one random group: the chance that all eight counters of an absent key are non-zero.
double thrown_group(std::size_t n, std::size_t blocks, std::mt19937_64& random) {
  std::vector<std::uint16_t> words(blocks * kWordsPerBlock);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t block = below(blocks, random);
    std::uint64_t bits = random();
    for (std::size_t w = 0; w < kWordsPerBlock; ++w, bits >>= 4) {
      words[block * kWordsPerBlock + w] |= static_cast<std::uint16_t>(1u << (bits & 15));
    }
  }
  double sum = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    double all = 1;
    for (std::size_t w = 0; w < kWordsPerBlock; ++w) {
      all *= std::popcount(words[block * kWordsPerBlock + w]) / 16.0;
    }
    sum += all;
  }
  return sum / static_cast<double>(blocks);
}

/// The rate of one group if the load of a block is binomial, as it really is.
double binomial_block_fpr(double n, double blocks) {
  double sum = 0, at_least = 1;
  for (std::uint32_t j = 0; j <= 400 && at_least > 0; ++j) {
    const double more = overflow_probability(n, blocks, j + 1);
    sum += (at_least - more) * std::pow(1 - std::pow(15.0 / 16, j), 8);
    at_least = more;
  }
  return sum;
}

// ---- fill and rate ----------------------------------------------------------------------------

TEST(Fill, AgreesWithSimulation) {
  std::mt19937_64 random(1);
  const Estimate fill = estimate(200'000, [&] { return thrown_fill(11, 16, random); });
  EXPECT_TRUE(fill.agrees(expected_fill(11, 16))) << fill.mean << " ± " << fill.error;
  EXPECT_FALSE(fill.agrees(-std::expm1(-11.0 / 16)));  // the approximation 1 − e^(−n/m)
}

TEST(Fill, EstimatesKeysWithTheErrorOfTheDocumentation) {
  constexpr double kSlice = 1000, kKeys = 700, kLoad = kKeys / kSlice;
  std::mt19937_64 random(5);
  const auto squared_error = [&] {
    const double keys = keys_for_fill(thrown_fill(700, 1000, random), kSlice);
    return (keys - kKeys) * (keys - kKeys);
  };
  const Estimate variance = estimate(20'000, squared_error);
  const double documented = kSlice * (std::exp(kLoad) - kLoad - 1);
  EXPECT_TRUE(variance.agrees(documented)) << variance.mean << " ± " << variance.error;
  EXPECT_FALSE(variance.agrees(kSlice * (std::exp(kLoad) - 1)));  // as if cells were independent
}

TEST(Fill, KeepsAllDigitsInLargeSlices) {
  const double m = std::ldexp(1.0, 40);
  expect_relative(expected_fill(1, m), 1 / m, 1e-15);
  expect_relative(expected_fill(1e-3, m), 9.0949470177334143e-16, 1e-15);
  expect_relative(split_fpr(1e12, 7, 1.44e12), 0.0078836744603627403, 1e-14);
}

TEST(Fill, IsTheInverseOfKeysForFill) {
  for (const double m : {2.0, 16.0, 36864.0, 1e6, std::ldexp(1.0, 40)}) {
    for (const double load : {1e-6, 1e-3, 0.1, std::numbers::ln2, 1.0, 3.0}) {
      const double n = load * m;
      expect_relative(keys_for_fill(expected_fill(n, m), m), n, 1e-13);
    }
  }
}

TEST(Fill, HasEnds) {
  EXPECT_EQ(expected_fill(0, 1), 0);
  EXPECT_EQ(expected_fill(1, 1), 1);
  EXPECT_EQ(expected_fill(kInfinity, 1e6), 1);
  EXPECT_EQ(keys_for_fill(0, 1), 0);
  EXPECT_EQ(keys_for_fill(0, 1e6), 0);
  EXPECT_EQ(keys_for_fill(1, 1e6), kInfinity);
  EXPECT_EQ(keys_for_fill(1, 1), kInfinity);
  for (const auto& geometry : {Geometry::split(7, 1000), Geometry::split_block(2, 1000)}) {
    EXPECT_EQ(predicted_fpr(geometry, 0), 0);
    EXPECT_EQ(predicted_fpr(geometry, kInfinity), 1);
  }
}

TEST(SplitFpr, AgreesWithSimulation) {
  std::mt19937_64 random(2);
  const Estimate rate = estimate(40'000, [&] {
    double all = 1;
    for (int slice = 0; slice < 5; ++slice) all *= thrown_fill(22, 32, random);
    return all;
  });
  EXPECT_TRUE(rate.agrees(split_fpr(22, 5, 32))) << rate.mean << " ± " << rate.error;
  EXPECT_FALSE(rate.agrees(std::pow(-std::expm1(-22.0 / 32), 5)));
}

TEST(SplitBlockFpr, AgreesWithSimulation) {
  constexpr std::size_t kBlocks = 4096, kKeys = 11 * kBlocks;
  std::mt19937_64 random(3);
  const auto group = [&] { return thrown_group(kKeys, kBlocks, random); };
  const Estimate one = estimate(100, group);
  EXPECT_TRUE(one.agrees(split_block_fpr(kKeys, 1, kBlocks))) << one.mean << " ± " << one.error;
  // Wrong: all blocks as one big slice; every block with the same number of keys.
  EXPECT_FALSE(one.agrees(split_fpr(kKeys, 8, kBlocks * 16)));
  EXPECT_FALSE(one.agrees(split_fpr(11, 8, 16)));

  const Estimate two = estimate(50, [&] { return group() * group(); });
  EXPECT_TRUE(two.agrees(split_block_fpr(kKeys, 2, kBlocks))) << two.mean << " ± " << two.error;
  EXPECT_FALSE(two.agrees(split_block_fpr(2 * kKeys, 2, kBlocks)));
}

TEST(SplitBlockFpr, HasFourteenDigitsOverTheWholeRange) {
  const std::vector<std::pair<double, double>> references{
      {1e-6, 2.328535286117383e-16},  {1e-3, 2.5584624808632497e-13}, {1, 3.6590275139828705e-7},
      {11.2, 0.010006000923140468},   {40, 0.52184930985861933},      {64, 0.86485058621284451},
      {64.0001, 0.86485136784407996}, {200, 0.99997018762394824},     {600, 0.99999999999999959}};
  for (const auto& [load, rate] : references) {
    expect_relative(split_block_fpr(load, 1, 1), rate, 1e-14);
    expect_relative(split_block_fpr(load * 1e6, 3, 1e6), rate * rate * rate, 3e-14);
  }
  double previous = 0;
  for (double load = 1e-6; load < 1e4; load *= 1.01) {
    const double rate = split_block_fpr(load, 1, 1);
    EXPECT_GE(rate, previous) << load;
    EXPECT_LE(rate, 1) << load;
    previous = rate;
  }
  EXPECT_EQ(previous, 1);
}

// The error of assuming Poisson loads, which really are binomial; figures from docs/maths.md.
TEST(SplitBlockFpr, PoissonLoadErrsByOneOverBlocksToTheSafeSide) {
  for (const auto& [load, error_times_blocks] : std::vector<std::pair<double, double>>{
           {5, 1.57}, {8, 0.91}, {11, 0.57}, {16, 0.27}, {24, 0.07}}) {
    for (const double blocks : {16.0, 256.0, 4096.0, 65536.0}) {
      const double exact = binomial_block_fpr(load * blocks, blocks);
      const double error = split_block_fpr(load * blocks, 1, blocks) / exact - 1;
      EXPECT_GT(error, 0) << blocks << " blocks of " << load;
      EXPECT_NEAR(error * blocks, error_times_blocks, 0.006 + 2 / blocks)
          << blocks << " blocks of " << load;
    }
  }
}

TEST(SplitBlockFpr, NeedsTheCountersPerKeyOfTheDesign) {
  struct Row {
    double fpr, ideal, one, two;
  };
  constexpr std::uint64_t kKeys = 100'000'000;
  for (const Row& row :
       {Row{0.03, 7.3, 8.7, 10.4}, Row{0.01, 9.6, 11.4, 12.4}, Row{0.005, 11.0, 13.5, 13.8},
        Row{0.001, 14.4, 19.4, 17.2}, Row{1e-4, 19.2, 32.5, 22.9}, Row{1e-5, 24.0, 55.3, 29.9}}) {
    const auto per_key = [&](Layout layout, std::uint32_t parts) {
      const Geometry geometry = geometry_for(layout, kKeys, row.fpr, parts);
      return static_cast<double>(geometry.counters()) / kKeys;
    };
    const double ideal = 1 / ideal_capacity(1, row.fpr);
    EXPECT_NEAR(ideal, row.ideal, 0.05) << row.fpr;
    EXPECT_NEAR(per_key(Layout::split_block, 1), row.one, 0.05) << row.fpr;
    EXPECT_NEAR(per_key(Layout::split_block, 2), row.two, 0.05) << row.fpr;
    // Rounding k to a whole number costs `split` less than 0.2 %.
    EXPECT_GE(per_key(Layout::split, 0), ideal * 0.9999999) << row.fpr;
    EXPECT_LE(per_key(Layout::split, 0), ideal * 1.002) << row.fpr;
  }
}

TEST(HashCollisions, AreKeysOverTwoToThe64) {
  expect_relative(hash_collision_fpr(1e10), 1e10 / std::ldexp(1.0, 64), 1e-9);
  EXPECT_EQ(hash_collision_fpr(0), 0);
  EXPECT_EQ(hash_collision_fpr(kInfinity), 1);
}

// ---- inverses, as equations -------------------------------------------------------------------

const std::vector<double> kRates{0.5, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-9, 1e-15};

void expect_largest(const Geometry& geometry, std::uint64_t n, double fpr) {
  EXPECT_LE(predicted_fpr(geometry, static_cast<double>(n)), fpr) << geometry.describe();
  EXPECT_GT(predicted_fpr(geometry, static_cast<double>(n + 1)), fpr) << geometry.describe();
}

// docs/primer.md, "What the rate means".
TEST(Sizing, RatesBelowTheCapacity) {
  const auto times_lower = [](Layout layout, double fpr) {
    const Geometry made = geometry_for(layout, 10'000'000, fpr);
    return predicted_fpr(made, 10'000'000) / predicted_fpr(made, 5'000'000);
  };
  EXPECT_NEAR(times_lower(Layout::ranked, 0.01), 9.5, 0.1);
  EXPECT_NEAR(times_lower(Layout::split_block, 0.01), 21, 0.3);
  EXPECT_NEAR(times_lower(Layout::split, 0.01), 40, 0.3);
  EXPECT_GT(times_lower(Layout::split, 0.001), 200);
}

TEST(Sizing, KeysLostPerFalseRemoval) {
  constexpr std::uint64_t kKeys = 3000;
  for (const scbf::Layout layout :
       {scbf::Layout::split, scbf::Layout::split_block, scbf::Layout::ranked}) {
    for (const std::uint32_t groups : {1u, 2u}) {
      if (groups == 2 && layout != scbf::Layout::split_block) continue;
      const Geometry geometry =
          scbf::geometry_for(layout, kKeys, 0.02, layout == scbf::Layout::split_block ? groups : 0);
      SCOPED_TRACE(geometry.describe());
      scbf::Filter filter(geometry, {.seed = 3});
      const auto keys = scbf_test::random_keys(kKeys, 1);
      filter.insert(keys);
      // Each false positive is removed from a copy of its own.
      double lost = 0, removed = 0;
      for (const std::uint64_t absent : scbf_test::random_keys(100'000, 2)) {
        if (!filter.contains(absent)) continue;
        scbf::Filter less = filter;
        less.remove(absent);
        const auto answers = scbf_test::contains(less, keys);
        lost += static_cast<double>(std::ranges::count(answers, 0));
        ++removed;
      }
      ASSERT_GT(removed, 1000);
      // One loses 4 or 5 keys, give or take 2: five standard errors, and a filter's own scatter.
      EXPECT_NEAR(lost / removed, lost_per_false_removal(geometry, kKeys), 10 / std::sqrt(removed));
    }
  }
  // As docs/maths.md says.
  EXPECT_NEAR(lost_per_false_removal(Geometry::ranked(82, 1'000'000, 0), 29.965e6), 3.14, 0.005);
  const Geometry made = geometry_for(Layout::split_block, 1'000'000, 0.01);
  EXPECT_NEAR(10'000 * predicted_fpr(made, 990'000), 95.9, 0.1);
  EXPECT_NEAR(lost_per_false_removal(made, 990'000), 4.19, 0.005);
  // By simulation, where rounding once made it no number: 3.04 of 561 removals.
  EXPECT_NEAR(lost_per_false_removal(Geometry::ranked(72, 200, 0), 6000), 3.04, 0.05);
  for (std::uint32_t s = scbf::kMinRankedPositions; s <= scbf::kMaxRankedPositions; ++s) {
    const double lost = lost_per_false_removal(Geometry::ranked(s, 10'000, 0), 50'000);
    EXPECT_TRUE(lost > 1 && lost < 5) << s << ": " << lost;
  }
  EXPECT_NEAR(lost_per_false_removal(Geometry::split_block(1, 10), 1e-307), 1, 1e-9);
  for (const Geometry& geometry : {Geometry::split(3, 100), Geometry::split_block(1, 1)}) {
    EXPECT_EQ(lost_per_false_removal(geometry, 0), 0);
    EXPECT_NEAR(lost_per_false_removal(geometry, 1e18), 0, 1e-9);
  }
  EXPECT_NEAR(lost_per_false_removal(Geometry::split(7, 1000), 1000 * std::log(2)), 4.85, 0.01);
}

TEST(CapacityFor, IsTheLargestThatHolds) {
  for (const double fpr : {1e-300, 1e-15, 1e-9, 1e-3, 0.01, 0.5, 0.99, 1 - 1e-15}) {
    for (const std::uint64_t extent : {1ull, 2ull, 3ull, 1000ull, 0xFFFF'FFFFull}) {
      for (const std::uint32_t groups : {1u, 2u, 8u}) {
        const Geometry geometry = Geometry::split_block(groups, extent);
        expect_largest(geometry, capacity_for(geometry, fpr), fpr);
      }
      for (const std::uint32_t k : {1u, 7u, 64u}) {
        const Geometry geometry = Geometry::split(k, extent);
        expect_largest(geometry, capacity_for(geometry, fpr), fpr);
      }
    }
    const Geometry widest = Geometry::split(64, kMaxCountersPerSlice);
    expect_largest(widest, capacity_for(widest, fpr), fpr);
  }
  EXPECT_EQ(capacity_for(Geometry::split(3, 1), 0.9), 0u);
}

TEST(GeometryFor, IsTheSmallestThatHolds) {
  int sized = 0;
  for (const std::uint64_t n : {1ull, 2ull, 10ull, 1000ull, 1'000'000ull, 1'000'000'000ull,
                                10'000'000'000ull, 1'000'000'000'000ull}) {
    for (const double fpr : kRates) {
      for (const Layout layout : {Layout::split, Layout::split_block}) {
        for (const std::uint32_t parts : {0u, 1u, 2u, 7u}) {
          Geometry geometry = Geometry::split(1, 1);
          try {
            geometry = geometry_for(layout, n, fpr, parts);
          } catch (const InvalidArgument&) {
            // Only a large n or a single slice may exceed the limits.
            EXPECT_TRUE(n >= 1'000'000 || (layout == Layout::split && parts == 1)) << n;
            continue;
          }
          ++sized;
          EXPECT_GE(capacity_for(geometry, fpr), n) << geometry.describe();
          EXPECT_LE(predicted_fpr(geometry, static_cast<double>(n)), fpr);
          const bool split = layout == Layout::split;
          const std::uint64_t extent =
              split ? geometry.counters_per_slice() : geometry.blocks_per_group();
          if (parts) {
            EXPECT_EQ(split ? geometry.probes() : geometry.groups(), parts);
          }
          if (extent == 1) continue;
          const Geometry smaller = split ? Geometry::split(geometry.probes(), extent - 1)
                                         : Geometry::split_block(geometry.groups(), extent - 1);
          EXPECT_LT(capacity_for(smaller, fpr), n) << geometry.describe();
        }
      }
    }
  }
  EXPECT_GT(sized, 350);
}

TEST(GeometryFor, SplitTakesTheKWithFewestCounters) {
  for (const std::uint64_t n : {1ull, 5ull, 1000ull, 100'000'000ull}) {
    for (const double fpr : kRates) {
      const Geometry best = geometry_for(Layout::split, n, fpr);
      for (std::uint32_t k = 1; k <= kMaxProbes; ++k) {
        const Geometry widest = Geometry::split(k, kMaxCountersPerSlice);
        if (capacity_for(widest, fpr) < n) continue;
        EXPECT_LE(best.counters(), geometry_for(Layout::split, n, fpr, k).counters()) << k;
      }
      if (n > 1000) {
        EXPECT_NEAR(best.probes(), ideal_probes(fpr), 1);
      }
    }
  }
}

TEST(GeometryFor, AnotherGroupMustSaveATenth) {
  for (const double fpr : kRates) {
    constexpr std::uint64_t kKeys = 10'000;  // one group can hold them at every rate
    const auto bytes = [&](std::uint32_t groups) {
      return static_cast<double>(geometry_for(Layout::split_block, kKeys, fpr, groups).bytes());
    };
    const std::uint32_t groups = geometry_for(Layout::split_block, kKeys, fpr).groups();
    for (std::uint32_t g = 1; g < groups; ++g) EXPECT_LE(bytes(g + 1), 0.9 * bytes(g)) << fpr;
    if (groups < kMaxGroups) {
      EXPECT_GT(bytes(groups + 1), 0.9 * bytes(groups)) << fpr;
    }
  }
  EXPECT_EQ(geometry_for(Layout::split_block, 1'000'000, 0.01).groups(), 1u);
  EXPECT_EQ(geometry_for(Layout::split_block, 1'000'000, 0.001).groups(), 2u);
}

TEST(GeometryIn, IsTheLargestThatFits) {
  for (const std::uint64_t bytes : {64ull, 127ull, 1000ull, 4096ull, 1'000'003ull, 1ull << 40}) {
    for (const std::uint32_t parts : {1u, 3u, 8u}) {
      if (bytes / 64 < parts) continue;
      const Geometry blocks = geometry_in(Layout::split_block, bytes, parts);
      EXPECT_LE(blocks.bytes(), bytes);
      if (blocks.blocks_per_group() < kMaxBlocksPerGroup) {
        EXPECT_GT(Geometry::split_block(parts, blocks.blocks_per_group() + 1).bytes(), bytes);
      }
      const Geometry slices = geometry_in(Layout::split, bytes, parts);
      EXPECT_LE(slices.bytes(), bytes);
      if (slices.counters_per_slice() < kMaxCountersPerSlice) {
        EXPECT_GT(Geometry::split(parts, slices.counters_per_slice() + 1).bytes(), bytes);
      }
    }
  }
  EXPECT_EQ(geometry_in(Layout::split, ~0ull, 64).counters_per_slice(), kMaxCountersPerSlice);
  EXPECT_EQ(geometry_in(Layout::split_block, ~0ull, 8).blocks_per_group(), kMaxBlocksPerGroup);
}

TEST(IdealForms, AreNearTheExactOnes) {
  for (const double fpr : kRates) {
    expect_relative(std::exp2(-ideal_probes(fpr)), fpr, 1e-13);
  }
  // At a fill of exactly one half, 10 slices have a rate of 2^-10.
  expect_relative(ideal_capacity(10 * 36864, std::exp2(-10)), 36864 * std::numbers::ln2, 1e-14);
  EXPECT_NEAR(static_cast<double>(capacity_for(Geometry::split(10, 36864), std::exp2(-10))),
              36864 * std::numbers::ln2, 2);
}

// ---- refusals ---------------------------------------------------------------------------------

TEST(SizingRefusals, NameValueAndLimit) {
  const Geometry geometry = Geometry::split(7, 1000);
  const std::vector<std::tuple<const char*, std::function<void()>>> cases{
      {"n -1: must be at least 0", [] { expected_fill(-1, 10); }},
      {"n -1: must be at least 0 and finite", [&] { lost_per_false_removal(geometry, -1); }},
      {"n nan: must be at least 0 and finite", [&] { lost_per_false_removal(geometry, kNan); }},
      {"n inf: must be at least 0 and finite",
       [&] { lost_per_false_removal(geometry, kInfinity); }},
      {"n nan: must be at least 0", [] { expected_fill(kNan, 10); }},
      {"m 0.5: must be at least 1 and finite", [] { expected_fill(1, 0.5); }},
      {"m inf: must be at least 1 and finite", [] { expected_fill(1, kInfinity); }},
      {"fill 1.5: must be in [0, 1]", [] { keys_for_fill(1.5, 10); }},
      {"fill nan: must be in [0, 1]", [] { keys_for_fill(kNan, 10); }},
      {"fill -0.1: must be in [0, 1]", [] { keys_for_fill(-0.1, 10); }},
      {"probes 0: must be 1 to 64", [] { split_fpr(1, 0, 10); }},
      {"probes 65: must be 1 to 64", [] { split_fpr(1, 65, 10); }},
      {"groups 9: must be 1 to 8", [] { split_block_fpr(1, 9, 10); }},
      {"n nan: must be at least 0", [] { split_block_fpr(kNan, 1, 10); }},
      {"blocks per group 0: must be at least 1 and finite", [] { split_block_fpr(1, 1, 0); }},
      {"n -1: must be at least 0", [&] { predicted_fpr(geometry, -1); }},
      {"n nan: must be at least 0", [] { hash_collision_fpr(kNan); }},
      {"fpr 1.5: must be in (0, 1)", [&] { capacity_for(geometry, 1.5); }},
      {"fpr 0: must be in (0, 1)", [&] { capacity_for(geometry, 0); }},
      {"fpr 1: must be in (0, 1)", [&] { capacity_for(geometry, 1); }},
      {"fpr nan: must be in (0, 1)", [] { geometry_for(Layout::split, 1, kNan); }},
      {"fpr inf: must be in (0, 1)", [] { geometry_for(Layout::split, 1, kInfinity); }},
      {"fpr -0.01: must be in (0, 1)", [] { geometry_for(Layout::split, 1, -0.01); }},
      {"capacity 0: must be at least 1", [] { geometry_for(Layout::split, 0, 0.01); }},
      {"probes 65: must be 1 to 64", [] { geometry_for(Layout::split, 1, 0.01, 65); }},
      {"groups 9: must be 1 to 8", [] { geometry_for(Layout::split_block, 1, 0.01, 9); }},
      {"capacity 1000000000000 at fpr 0.01: split_block holds at most 180120848083 keys at this "
       "rate (4294967295 blocks per group); use layout split, fewer keys or a higher fpr",
       [] { geometry_for(Layout::split_block, 1'000'000'000'000, 0.01); }},
      {"capacity 1000000000000 at fpr 0.01: split_block with 1 group holds at most 48096725427 "
       "keys at this rate (4294967295 blocks per group); leave groups open, use layout split, "
       "fewer keys or a higher fpr",
       [] { geometry_for(Layout::split_block, 1'000'000'000'000, 0.01, 1); }},
      {"capacity 10000000000000 at fpr 0.01: split holds at most 2932909470445 keys at this rate "
       "(1099511627776 counters per slice); use several filters, fewer keys or a higher fpr",
       [] { geometry_for(Layout::split, 10'000'000'000'000, 0.01); }},
      {"capacity 1 at fpr 1e-15: split with 1 slice holds at most 0 keys at this rate "
       "(1099511627776 counters per slice); leave probes open, use several filters, fewer keys or "
       "a higher fpr",
       [] { geometry_for(Layout::split, 1, 1e-15, 1); }},
      {"memory 63 bytes: split_block needs at least 64, one cache line for each of 1 group",
       [] { geometry_in(Layout::split_block, 63, 1); }},
      {"memory 447 bytes: split needs at least 448, one cache line for each of 7 slices",
       [] { geometry_in(Layout::split, 447, 7); }},
      {"probes 0: must be 1 to 64", [] { geometry_in(Layout::split, 1000, 0); }},
      {"fpr 2: must be in (0, 1)", [] { ideal_probes(2); }},
      {"counters nan: must be at least 0 and finite", [] { ideal_capacity(kNan, 0.1); }},
      {"n -1: must be at least 0 and finite", [] { overflow_probability(-1, 10, 1); }},
      {"m 0: must be at least 1 and finite", [] { overflow_probability(1, 0, 1); }},
      {"lambda nan: must be at least 0 and finite", [] { poisson_tail(kNan, 1); }},
      {"j 0: must be at least 1", [] { overflow_bound(1, 10, 0); }},
  };
  for (const auto& [message, call] : cases) EXPECT_EQ(refusal(call), message);
}

}  // namespace
}  // namespace scbf::test::sizing_test
