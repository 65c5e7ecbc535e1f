// SPDX-License-Identifier: Apache-2.0
// The maths of several stages: formulas against their inverses and against sums written out, and
// the figures of docs/maths.md. growth_rate_test checks that filters keep to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "scbf/growth.hpp"
#include "scbf/sizing.hpp"
#include "support/setups.hpp"

namespace scbf_test::growth_test {
namespace {

using namespace scbf;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(IdenticalStages, CompoundRateAndItsInverses) {
  EXPECT_NEAR(compound_fpr(0.5, 2), 0.75, 1e-15);
  EXPECT_NEAR(compound_fpr(0.001, 10), 1 - std::pow(0.999, 10), 1e-16);
  EXPECT_NEAR(compound_fpr(1e-15, 7) / 7e-15, 1, 1e-13);  // 1 − (1 − P)^d would keep one digit
  for (const double p : {0.3, 0.01, 0.001, 1e-6, 1e-12}) {
    for (const std::uint32_t d : {1u, 2u, 3u, 10u, 100u, 255u}) {
      const double compound = compound_fpr(p, d);
      if (compound >= 1 - 1e-12) continue;
      EXPECT_EQ(stages_within(p, compound), d) << p;
      EXPECT_NEAR(stage_fpr_for(compound, d) / p, 1, 1e-9) << d;
    }
    for (const double target : {1e-9, 0.0015, 0.02, 0.6}) {
      const std::uint32_t d = stages_within(p, target);
      if (d > 0) {
        EXPECT_LE(compound_fpr(p, d), target);
      }
      if (d < kMaxStages) {
        EXPECT_GT(compound_fpr(p, d + 1), target);
      }
    }
  }
  EXPECT_EQ(stages_within(0.01, 0.001), 0u);
  EXPECT_EQ(stages_within(1e-9, 0.5), kMaxStages);
  for (const double bad : {0.0, 1.0, -0.1, kNan}) {
    EXPECT_THROW(compound_fpr(bad, 1), InvalidArgument);
    EXPECT_THROW(stages_within(bad, 0.1), InvalidArgument);
    EXPECT_THROW(stages_within(0.1, bad), InvalidArgument);
    EXPECT_THROW(stage_fpr_for(bad, 1), InvalidArgument);
  }
  EXPECT_THROW(stage_fpr_for(0.1, 0), InvalidArgument);
}

TEST(TighteningStages, RatesAddUpToLessThanTheTarget) {
  for (const double r : {0.3, 0.8, 0.99}) {
    double sum = 0;
    for (std::uint32_t i = 0; i < kMaxStages; ++i) {
      EXPECT_NEAR(tightened_sum(0.01, r, i), sum, 1e-15);
      sum += tightened_fpr(0.01, r, i);
      EXPECT_LE(sum, 0.01 + 1e-15);
    }
  }
  for (const double bad : {0.0, 1.0, -1.0, kNan}) {
    EXPECT_THROW(tightened_fpr(0.01, bad, 1), InvalidArgument);
    EXPECT_THROW(tightened_sum(bad, 0.5, 1), InvalidArgument);
  }
}

TEST(TighteningStages, Capacities) {
  EXPECT_EQ(grown_capacity(1000, 2, 0), 1000u);
  EXPECT_EQ(grown_capacity(1000, 2, 10), 1'024'000u);
  EXPECT_EQ(grown_capacity(10, 1.25, 1), 13u);
  EXPECT_THROW(grown_capacity(0, 2, 1), InvalidArgument);
  EXPECT_THROW(grown_capacity(1, 0.9, 1), InvalidArgument);
  EXPECT_THROW(grown_capacity(1, kNan, 1), InvalidArgument);
  SCBF_EXPECT_THROW(grown_capacity(1, 2, 70), InvalidArgument, "stage 70");
}

// docs/primer.md, "When the number of keys is unknown".
TEST(AmbiguousShare, OfFullStagesAtOnePerCent) {
  const Growth growth = Growth::tightening(1'000'000, 0.01);
  const auto share = [&](std::uint32_t stages) {
    std::vector<StageLoad> loads;
    for (std::uint32_t i = 0; i < stages; ++i) {
      loads.push_back({1e6 * std::pow(growth.growth(), i), growth.stage(i).fpr});
    }
    return ambiguous_share(loads);
  };
  EXPECT_NEAR(share(2), 1.0 / 500, 0.0002);
  EXPECT_NEAR(share(10), 0.0085, 0.0002);
}

TEST(AmbiguousShare, IsThatOfOtherStagesWeighedByKeys) {
  const StageLoad stages[] = {{100, 0.02}, {300, 0.01}, {0, 0.005}};
  EXPECT_NEAR(ambiguous_share(stages), (100 * (1 - 0.99 * 0.995) + 300 * (1 - 0.98 * 0.995)) / 400,
              1e-15);
  EXPECT_NEAR(compound_fpr(stages), 1 - 0.98 * 0.99 * 0.995, 1e-15);
  EXPECT_EQ(ambiguous_share({}), 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Nobody knows how many keys a full stage holds: the limit.
  EXPECT_NEAR(ambiguous_share(std::vector<StageLoad>{{100, 0.02}, {kInfinity, 1}}), 0.02, 1e-15);
  EXPECT_EQ(ambiguous_share(std::vector<StageLoad>{{kInfinity, 1}, {9, 0.1}, {kInfinity, 1}}), 1);
  EXPECT_EQ(ambiguous_share(std::vector<StageLoad>{{kInfinity, 1}}), 0);
  EXPECT_FALSE(std::signbit(compound_fpr(std::vector<StageLoad>{{0, 0}, {0, 0}})));
  EXPECT_FALSE(std::signbit(compound_fpr(std::span<const StageLoad>())));
  for (const StageLoad bad :
       {StageLoad{0, 1.01}, {0, -0.1}, {0, std::nan("")}, {-1, 0.5}, {std::nan(""), 0.5}}) {
    EXPECT_THROW(compound_fpr(std::span(&bad, 1)), InvalidArgument);
    EXPECT_THROW(ambiguous_share(std::span(&bad, 1)), InvalidArgument);
  }
  EXPECT_EQ(ambiguous_share(std::span(stages, 1)), 0);  // no other stage can claim a key
}

/// A stage at full_at takes one key more; even then its rate is at most shape.fpr.
void expect_full_at_its_rate(const StageShape& shape) {
  const auto counters = static_cast<double>(shape.geometry.counters());
  const auto m = static_cast<double>(shape.geometry.counters_per_slice());
  const auto rate = [&](double nonzero) {
    return predicted_fpr(shape.geometry, keys_for_fill(nonzero / counters, m));
  };
  const auto most = static_cast<double>(shape.full_at + shape.geometry.probes() - 1);
  EXPECT_LE(rate(most), shape.fpr * (1 + 1e-12)) << shape.geometry.describe();
  // And full_at is not too small: two more keys would exceed that rate.
  EXPECT_GT(rate(most + 2.0 * shape.geometry.probes()), shape.fpr) << shape.geometry.describe();
}

TEST(Stages, AreFullWhereTheirRateIs) {
  for (const Layout layout : {Layout::split, Layout::split_block}) {
    for (const double fpr : {0.1, 0.01, 0.0001}) {
      for (const std::uint64_t first : {500u, 100'000u}) {
        const Growth growth = Growth::tightening(first, fpr, layout);
        double sum = 0;
        for (std::uint32_t i = 0; i < 12; ++i) {
          const StageShape shape = growth.stage(i);
          expect_full_at_its_rate(shape);
          EXPECT_GE(capacity_for(shape.geometry, shape.fpr), grown_capacity(first, 2, i));
          sum += shape.fpr;
        }
        EXPECT_LT(sum, fpr);
      }
    }
  }
  for (const Geometry& g : {Geometry::split(7, 1000), Geometry::split_block(2, 50)}) {
    const Growth growth = Growth::fixed(g, 5);
    const StageShape shape = growth.stage(4);
    expect_full_at_its_rate(shape);
    EXPECT_EQ(shape.full_at + g.probes() - 1, g.counters() / 2);
    EXPECT_NEAR(growth.fpr(), compound_fpr(shape.fpr, 5), 1e-15);
    EXPECT_EQ(shape, growth.stage(0));
    EXPECT_THROW(growth.stage(5), InvalidArgument);
  }
  // P = f^k at half fill: 2^-k.
  EXPECT_NEAR(Growth::fixed(Geometry::split(10, 36'864), 1).stage(0).fpr, 1.0 / 1024, 1e-12);
}

TEST(Stages, HaveCountersWhateverTheyAreMadeOf) {
  const Geometry bits = Geometry::split_block(1, 140).with(Cell::bit);
  EXPECT_EQ(Growth::fixed(bits, 4), Growth::fixed(bits.with(Cell::counter), 4));
  EXPECT_EQ(Growth::one(bits), Growth::one(bits.with(Cell::counter)));
}

TEST(Stages, TinyOnesTakeAtLeastAKey) {
  for (const Geometry& g : {Geometry::split(64, 2), Geometry::split_block(1, 1)}) {
    EXPECT_GE(Growth::fixed(g, 1).stage(0).full_at, 1u);
  }
  EXPECT_GE(Growth::tightening(1, 0.5).stage(0).full_at, 1u);
}

TEST(Stages, RefuseWhatMakesNoSense) {
  const Geometry g = Geometry::split(7, 1000);
  EXPECT_THROW(Growth::fixed(g, 0), InvalidArgument);
  SCBF_EXPECT_THROW(Growth::fixed(g, 257), InvalidArgument, "257 stages: must be 1 to 256");
  EXPECT_THROW(Growth::fixed(Geometry::split(7, 1), 2), InvalidArgument);
  EXPECT_THROW(Growth::tightening(0, 0.01), InvalidArgument);
  for (const double bad : {0.0, 1.0, kNan}) {
    EXPECT_THROW(Growth::tightening(10, bad), InvalidArgument);
    EXPECT_THROW(Growth::tightening(10, 0.01, Layout::split, 2, bad), InvalidArgument);
  }
  EXPECT_THROW(Growth::tightening(10, 0.01, Layout::split, 0.5), InvalidArgument);
}

TEST(PlanFixed, FindsTheStagesOfThePaper) {
  // Table 1: 45 KiB of positions, 4 bits each, P = 0.1 %: k = 10, m = 36,864, n = m ln 2 = 25,552.
  const FixedPlan plan = plan_fixed(4 * 45 * 1024, 0.001, 0.01);
  EXPECT_EQ(plan.growth.first_geometry(), Geometry::split(10, 36'864));
  EXPECT_EQ(plan.growth.most_stages(), 10u);  // 0.999^10 = 0.99004, 0.999^11 = 0.98906
  EXPECT_EQ(plan.stage_capacity, 25'551u);    // exact fill, a little below m ln 2
  EXPECT_EQ(plan.capacity, 255'510u);
  EXPECT_LE(plan.stage_fpr, 0.001);
  EXPECT_LE(plan.compound_fpr, 0.01);
  const FixedPlan blocks = plan_fixed(1 << 20, 0.01, 0.05, Layout::split_block);
  EXPECT_EQ(blocks.growth.first_geometry(), Geometry::split_block(1, 1 << 14));
  EXPECT_EQ(blocks.growth.most_stages(), 5u);
  SCBF_EXPECT_THROW(plan_fixed(1 << 20, 0.01, 0.001), InvalidArgument, "even one passes");
  EXPECT_THROW(plan_fixed(100, 0.01, 0.1), InvalidArgument);
}

/// Memory of a filter that grew, divided by that of one filter planned for the same keys and rate:
/// the mean over sizes from a full first stage to `times` its keys, uniform on a logarithmic scale.
/// docs/maths.md derives it.
double growth_overhead(Layout layout, double fpr, double growth, double tightening, double times) {
  // So many that rounding to whole counters or blocks does not show.
  constexpr std::uint64_t kKeys = 1'000'000'000;
  const auto counters_per_key = [&](double rate) {
    return static_cast<double>(geometry_for(layout, kKeys, rate).counters()) / kKeys;
  };
  // Keys are in units of the first stage's. Stage i exists from `held` keys on and is full at
  // `held` + g^i. Memory over keys, integrated over the logarithm of the keys from a to b, is
  // memory · (1/a − 1/b).
  const double one_filter = counters_per_key(fpr);
  double held = 0, counters = 0, sum = 0;
  for (std::uint32_t i = 0; held < times && i < kMaxStages; ++i) {
    const double keys = std::pow(growth, i);
    counters += keys * counters_per_key(tightened_fpr(fpr, tightening, i));
    const double from = std::max(held, 1.0), to = std::min(held + keys, times);
    if (to > from) sum += counters / one_filter * (1 / from - 1 / to);
    held += keys;
  }
  return sum / std::log(times);
}

TEST(GrowthOverhead, IsThatOfTheDocumentation) {
  struct Row {
    double growth, tightening, blocks, split;
  };
  for (const Row& row : {Row{1.5, 0.8, 2.17, 2.11}, Row{2, 0.5, 2.70, 2.62},
                         Row{2, 0.7, 2.43, 2.37}, Row{2, 0.8, 2.42, 2.34}, Row{2, 0.9, 2.42, 2.43},
                         Row{4, 0.8, 3.55, 3.39}, Row{8, 0.8, 5.67, 5.34}}) {
    EXPECT_NEAR(growth_overhead(Layout::split_block, 0.01, row.growth, row.tightening, 1000),
                row.blocks, 0.006);
    EXPECT_NEAR(growth_overhead(Layout::split, 0.01, row.growth, row.tightening, 1000), row.split,
                0.006);
  }
}

}  // namespace
}  // namespace scbf_test::growth_test
