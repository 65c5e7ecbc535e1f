// SPDX-License-Identifier: Apache-2.0
// The maths of `ranked`: rates and spilled blocks against sums written down here and against
// filters, the smallest geometry, and plans.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::ranked_sizing_test {
namespace {

using scbf::Geometry;
using scbf::Layout;

double hits_of(const scbf::Filter& filter, const std::vector<std::uint64_t>& keys) {
  Answers out(keys.size());
  return static_cast<double>(filter.contains(keys, out).hits);
}

std::vector<double> poisson(double mean) {
  std::vector<double> p;
  for (double j = 0; j < mean + 20 * std::sqrt(mean) + 60; ++j) {
    p.push_back(std::exp(j * std::log(mean) - mean - std::lgamma(j + 1)));
  }
  return p;
}

TEST(RankedMaths, RateIsTheSumOverLoads) {
  for (const std::uint32_t s : {65u, 82u, 97u, 112u}) {
    for (const double load : {0.001, 0.2, 3.0, 17.0, 30.0, 46.0, 90.0}) {
      const std::vector<double> p = poisson(load);
      double rate = 0, spilled = 0;
      for (std::size_t j = 1; j < p.size(); ++j) {
        const double fill = 1 - std::pow(1 - 1.0 / s, static_cast<double>(j));
        rate += p[j] * std::pow(fill, 4);
        if (j > 128 - s) spilled += p[j];
      }
      EXPECT_NEAR(scbf::ranked_fpr(load * 1000, s, 1000) / rate, 1, 1e-9) << s << ' ' << load;
      EXPECT_NEAR(scbf::spilled_share(load * 1000, s, 1000), spilled, 1e-12 + spilled * 1e-7);
    }
    EXPECT_EQ(scbf::ranked_fpr(0, s, 10), 0);
    EXPECT_EQ(scbf::ranked_fpr(INFINITY, s, 10), 1);
    EXPECT_EQ(scbf::spilled_share(0, s, 10), 0);
  }
  // Where the two ways to compute it meet, no step.
  const double below = scbf::ranked_fpr(1.4665e3, 82, 1000),
               above = scbf::ranked_fpr(1.4666e3, 82, 1000);
  EXPECT_NEAR(above / below, 1 + 4e-4 / 1.466, 1e-3);
  SCBF_EXPECT_THROW(scbf::ranked_fpr(NAN, 82, 10), scbf::InvalidArgument, "n nan");
  SCBF_EXPECT_THROW(scbf::ranked_fpr(1, 64, 10), scbf::InvalidArgument, "positions 64");
  SCBF_EXPECT_THROW(scbf::ranked_fpr(1, 82, 0), scbf::InvalidArgument, "blocks 0");
}

/// The smallest geometry holds what it is for, and a little less memory does not.
TEST(RankedMaths, SmallestIsSmallAndHolds) {
  for (const double fpr : {0.2, 0.03, 0.01, 0.001, 1e-5}) {
    for (const std::uint64_t n :
         {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{100'000}, std::uint64_t{1} << 30}) {
      const Geometry g = scbf::geometry_for(Layout::ranked, n, fpr);
      EXPECT_LE(scbf::predicted_fpr(g, static_cast<double>(n)), fpr);
      EXPECT_GE(scbf::capacity_for(g, fpr), n);
      const double slots = scbf::spill_slots_for(static_cast<double>(n), g.positions(),
                                                 static_cast<double>(g.blocks_per_group()));
      EXPECT_EQ(static_cast<double>(g.spill_slots()), slots);
      for (const std::uint32_t other : {g.positions() - 1, g.positions() + 1}) {
        if (other < scbf::kMinRankedPositions || other > scbf::kMaxRankedPositions) continue;
        EXPECT_GE(scbf::geometry_for(Layout::ranked, n, fpr, other).bytes(), g.bytes());
      }
    }
  }
  // What the layout is for: at 1 % less than 18 bits a key, where split_block takes 45.7.
  const Geometry g = scbf::geometry_for(Layout::ranked, 100'000'000, 0.01);
  EXPECT_LT(8 * static_cast<double>(g.bytes()) / 1e8, 17.6);
  SCBF_EXPECT_THROW(scbf::geometry_for(Layout::ranked, std::uint64_t{1} << 40, 0.01),
                    scbf::InvalidArgument, "more than 4294967295 blocks");
}

/// Filters that are as full as planned: their rate, spilled blocks, and none that is stuck.
TEST(RankedMaths, FiltersAreAsPredicted) {
  for (const double fpr : {0.05, 0.01, 0.001}) {
    constexpr std::size_t n = 400'000;
    const Geometry g = scbf::geometry_for(Layout::ranked, n, fpr);
    const auto blocks = static_cast<double>(g.blocks_per_group());
    scbf::Filter filter(g, {.seed = 11});
    filter.insert(random_keys(n, 1));
    const auto words = words_of(filter);
    double spilled = 0, rate = 0;
    for (std::uint64_t b = 0; b < g.blocks_per_group(); ++b) {
      const std::uint64_t* const line = &words[8 * b];
      spilled += line[4] >> 63 != 0 && line[5] >> 63 == 0;
      double shown = 1;
      for (unsigned j = 0; j < 4; ++j) {
        const std::uint64_t upper = line[4 + j] & ((std::uint64_t{1} << (g.positions() - 64)) - 1);
        shown *= (__builtin_popcountll(line[j]) + __builtin_popcountll(upper)) /
                 static_cast<double>(g.positions());
      }
      rate += shown / blocks;
    }
    const double mean = blocks * scbf::spilled_share(n, g.positions(), blocks);
    EXPECT_NEAR(spilled, mean, 5 * std::sqrt(mean) + 3);
    EXPECT_NEAR(rate / scbf::predicted_fpr(g, n), 1, 0.02);
    const auto asked = random_keys(1'000'000, 2);
    const double hits = hits_of(filter, asked);
    EXPECT_NEAR(hits, 1e6 * rate, 5 * std::sqrt(1e6 * rate));
    EXPECT_EQ(filter.statistics().saturated, 0u);
    EXPECT_NEAR(filter.statistics().stages[0].estimated_keys, n, n * 0.01);
  }
}

/// The share of filters that have a stuck block after each key was replaced `turnovers` times.
double share_with_stuck(const Geometry& geometry, std::size_t n, double turnovers, int filters) {
  int with_stuck = 0;
  for (int f = 0; f < filters; ++f) {
    auto keys = random_keys(n, static_cast<std::uint64_t>(f) + 1);
    scbf::Filter filter(geometry);
    filter.insert(keys);
    std::mt19937_64 random(static_cast<std::uint64_t>(f) + 1);
    for (auto left = static_cast<std::size_t>(turnovers * static_cast<double>(n)); left > 0;
         --left) {
      std::uint64_t& key = keys[random() % n];
      filter.remove(key);
      filter.insert(key = random());
    }
    with_stuck += filter.statistics().saturated > 0;
  }
  return static_cast<double>(with_stuck) / filters;
}

/// Filters with few slots, so that it happens, at the beginning and as keys come and go. The
/// formula errs to the safe side, by up to two.
TEST(RankedMaths, StuckAsOftenAsPredicted) {
  struct Case {
    Geometry geometry;
    std::size_t keys;
    double turnovers;
    int filters;
  };
  for (const Case& c : {Case{Geometry::ranked(82, 50, 0), 1500, 0, 400},
                        Case{Geometry::ranked(82, 50, 1), 1700, 0, 400},
                        Case{Geometry::ranked(82, 50, 1), 1500, 2, 200},
                        Case{Geometry::ranked(108, 300, 8), 3600, 1, 200}}) {
    const double predicted =
        scbf::stuck_probability(c.geometry, static_cast<double>(c.keys), c.turnovers);
    EXPECT_GT(predicted, 0.1);
    EXPECT_LT(predicted, 0.4);
    const double met = share_with_stuck(c.geometry, c.keys, c.turnovers, c.filters);
    const double sigma = std::sqrt(predicted * (1 - predicted) / c.filters);
    SCOPED_TRACE(c.geometry.describe());
    EXPECT_LE(met, predicted + 3 * sigma);
    EXPECT_GE(met, predicted / 2 - 2 * sigma);
  }
}

/// In a long table with many entries, as many blocks find no slot within reach as are turned away
/// by a queue. They do so several at a time, so fewer filters have any.
TEST(RankedMaths, AsManyAreOutOfReachAsPredicted) {
  const Geometry g = Geometry::ranked(112, 20'000, 2163);
  constexpr int kFilters = 30;
  double out_of_reach = 0;
  for (int f = 0; f < kFilters; ++f) {
    scbf::Filter filter(g);
    filter.insert(random_keys(240'000, static_cast<std::uint64_t>(f) + 1));
    const auto words = words_of(filter);
    for (std::uint64_t b = 0; b < g.blocks_per_group(); ++b) {
      out_of_reach += words[8 * b + 4] >> 63 != 0 && words[8 * b + 5] >> 63 == 0;
    }
    for (std::uint64_t slot = 0; slot < g.spill_slots(); ++slot) {
      out_of_reach -= words[8 * g.blocks_per_group() + slot * g.spill_entry_words()] >> 32 != 0;
    }
  }
  const double predicted = -kFilters * std::log1p(-scbf::stuck_probability(g, 240'000, 0));
  EXPECT_GT(predicted, 100);
  EXPECT_LT(out_of_reach, 1.2 * predicted);
  EXPECT_GT(out_of_reach, 0.3 * predicted);  // the queue begins empty
}

/// The figures of docs/maths.md, and bounds.
TEST(RankedMaths, StuckProbabilitiesOfTheTable) {
  const std::map<double, double> of_page = {{1e4, 3.3e-5},  {1e5, 1.1e-4}, {1e6, 1.2e-24},
                                            {1e7, 9.3e-12}, {1e8, 8.8e-8}, {1e9, 9.1e-6}};
  for (const auto& [n, probability] : of_page) {
    const Geometry g = scbf::geometry_for(Layout::ranked, static_cast<std::uint64_t>(n), 0.01);
    EXPECT_NEAR(scbf::stuck_probability(g, n) / probability, 1, 0.06) << n;
  }
  EXPECT_EQ(scbf::stuck_probability(scbf::geometry_for(Layout::ranked, 1'000'000'000, 0.01), 1), 0);
  const Geometry some = Geometry::ranked(82, 1000, 10);
  EXPECT_EQ(scbf::stuck_probability(some, 0), 0);
  EXPECT_EQ(scbf::stuck_probability(some, INFINITY), 1);
  EXPECT_EQ(scbf::stuck_probability(some, 30'000, INFINITY), 1);
  EXPECT_EQ(scbf::stuck_probability(Geometry::ranked(82, 40, 40), 1e9), 0);  // a slot for each
  EXPECT_LT(scbf::stuck_probability(some, 30'000, 1), scbf::stuck_probability(some, 30'000, 10));
  EXPECT_LT(scbf::stuck_probability(some, 30'000), scbf::stuck_probability(some, 31'000));
  EXPECT_EQ(scbf::stuck_probability(Geometry::ranked(112, 1000, 0), 1e5), 1);
  SCBF_EXPECT_THROW(scbf::stuck_probability(some, 30'000, -1), scbf::InvalidArgument,
                    "turnovers -1: must be at least 0");
  SCBF_EXPECT_THROW(scbf::stuck_probability(some, NAN), scbf::InvalidArgument, "n nan");
  SCBF_EXPECT_THROW(scbf::stuck_probability(Geometry::split(3, 100), 1), scbf::InvalidArgument,
                    "layout split: only blocks of ranked can be stuck");
}

/// Also where so many keys are in a block that nearly all would spill.
TEST(RankedMaths, HigherRatesTakeNoMoreMemory) {
  std::uint64_t before = ~std::uint64_t{0};
  for (const double fpr : {0.001, 0.01, 0.05, 0.1, 0.2, 0.23, 0.25, 0.3, 0.5, 0.9}) {
    const std::uint64_t bytes = scbf::geometry_for(Layout::ranked, 1'000'000, fpr).bytes();
    EXPECT_LE(static_cast<double>(bytes), 1.001 * static_cast<double>(before)) << fpr;
    before = bytes;
  }
  for (const std::uint32_t s : {65u, 100u, 112u}) {
    const double bits =
        8e-6 * static_cast<double>(scbf::geometry_for(Layout::ranked, 1'000'000, 0.05, s).bytes());
    EXPECT_LT(bits, s == 112 ? 70 : 42) << s;
  }
}

/// No geometry with fewer blocks or slots does: all of them tried.
TEST(RankedMaths, FewKeysTakeTheSmallestOfAll) {
  for (const double fpr : {0.9, 0.1, 0.05, 0.0312, 0.01, 0.001}) {
    for (const unsigned n : {1u, 2u, 10u, 33u, 100u, 333u}) {
      std::uint64_t least = ~std::uint64_t{0};
      for (auto s = scbf::kMinRankedPositions; s <= scbf::kMaxRankedPositions; ++s) {
        for (unsigned blocks = 1; blocks <= 2 * n; ++blocks) {
          if (scbf::ranked_fpr(n, s, blocks) > fpr) continue;
          const auto slots = static_cast<std::uint64_t>(scbf::spill_slots_for(n, s, blocks));
          least = std::min(least, Geometry::ranked(s, blocks, slots).bytes());
        }
      }
      EXPECT_EQ(scbf::geometry_for(Layout::ranked, n, fpr).bytes(), least) << n << ' ' << fpr;
    }
  }
}

/// What fits at one rate is not more than what fits at a higher one, and is found.
TEST(RankedMaths, PlansFillTheMemory) {
  const auto keys_in = [](std::uint64_t bytes) {
    return scbf::plan({.fpr = 0.05, .memory_bytes = bytes, .layout = Layout::ranked}).capacity;
  };
  EXPECT_LT(keys_in(192), keys_in(256));
  EXPECT_LT(keys_in(256), keys_in(320));
  EXPECT_LT(keys_in(320), keys_in(384));
  const auto rate_in = [](std::uint64_t keys, std::uint64_t bytes) {
    const auto plan =
        scbf::plan({.capacity = keys, .memory_bytes = bytes, .layout = Layout::ranked});
    EXPECT_LE(plan.geometry.bytes(), bytes);
    EXPECT_NEAR(plan.predicted_fpr / plan.fpr, 1, 0.02) << keys;
    return plan.fpr;
  };
  EXPECT_LT(rate_in(333, 960), 0.007);
  EXPECT_LT(rate_in(333, 1024), 0.005);
  EXPECT_LT(rate_in(20'472'629, 30'042'752), 0.072);
  EXPECT_LT(rate_in(855'206'795, 1'249'050'432), 0.073);
}

TEST(RankedMaths, Plans) {
  const auto both = scbf::plan({.capacity = 1'000'000, .fpr = 0.01, .layout = Layout::ranked});
  EXPECT_EQ(both.geometry, scbf::geometry_for(Layout::ranked, 1'000'000, 0.01));
  EXPECT_NE(both.reason.find("ranked with 81 positions"), std::string::npos) << both.reason;
  EXPECT_NE(both.reason.find("distinct keys"), std::string::npos) << both.reason;
  for (const std::uint64_t memory : {std::uint64_t{4096}, std::uint64_t{3'000'000}}) {
    const auto most = scbf::plan({.fpr = 0.01, .memory_bytes = memory, .layout = Layout::ranked});
    EXPECT_LE(most.geometry.bytes(), memory);
    EXPECT_GT(most.geometry.bytes(), memory - memory / 20 - 400);
    EXPECT_LE(most.predicted_fpr, 0.01);
    const auto lowest =
        scbf::plan({.capacity = most.capacity, .memory_bytes = memory, .layout = Layout::ranked});
    EXPECT_LE(lowest.geometry.bytes(), memory);
    EXPECT_LE(lowest.fpr, 0.0101);
  }
  SCBF_EXPECT_THROW(scbf::plan({.capacity = 1'000'000,
                                .fpr = 0.01,
                                .memory_bytes = 1'000'000,
                                .layout = Layout::ranked}),
                    scbf::InvalidArgument,
                    "memory 1000000 bytes: ranked does not hold 1000000 keys");
  SCBF_EXPECT_THROW(
      scbf::plan({.capacity = 1000, .fpr = 0.01, .layout = Layout::ranked, .groups = 1}),
      scbf::InvalidArgument, "groups 1: layout ranked");
  const auto useless = scbf::plan({.capacity = 1000, .fpr = 0.999, .layout = Layout::ranked});
  EXPECT_LE(useless.predicted_fpr, 0.999);
  SCBF_EXPECT_THROW(scbf::plan_fixed(1 << 20, 0.01, 0.05, Layout::ranked), scbf::InvalidArgument,
                    "use a tightening growth");
  SCBF_EXPECT_THROW(scbf::geometry_in(Layout::ranked, 1000, 82), scbf::InvalidArgument, "see plan");
}

TEST(RankedMaths, GrowsByTightening) {
  scbf::Filter filter(scbf::Growth::tightening(10'000, 0.01, Layout::ranked), {.seed = 2});
  const auto keys = random_keys(100'000, 3);
  filter.insert(keys);
  EXPECT_GT(filter.stages(), 2u);
  EXPECT_EQ(contains(filter, keys), Answers(keys.size(), 1));
  const double rate = hits_of(filter, random_keys(400'000, 4)) / 400'000;
  EXPECT_LT(rate, 0.01);
  EXPECT_EQ(filter.remove(keys).absent, 0u);
}

}  // namespace
}  // namespace scbf_test::ranked_sizing_test
