// SPDX-License-Identifier: Apache-2.0
// plan(): every kind of request, the choice of groups, the reasons it gives, and the refusals.
// sizing_test tests the formulas that it uses.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"

namespace scbf::planner_test {
namespace {

std::string refusal(const PlanRequest& request) {
  try {
    plan(request);
  } catch (const InvalidArgument& refused) {
    return refused.what();
  }
  return "(not refused)";
}

/// What holds for every plan, whatever was requested.
void expect_sound(const PlanRequest& request, const Plan& made) {
  const auto keys = static_cast<double>(made.capacity);
  EXPECT_EQ(made.predicted_fpr, predicted_fpr(made.geometry, keys));
  EXPECT_LE(made.predicted_fpr, made.fpr);
  EXPECT_EQ(made.bits_per_key, 8 * static_cast<double>(made.geometry.bytes()) / keys);
  EXPECT_GE(made.capacity, 1u);
  if (request.capacity) {
    EXPECT_EQ(made.capacity, *request.capacity);
  }
  if (request.fpr) {
    EXPECT_EQ(made.fpr, *request.fpr);
    EXPECT_GE(capacity_for(made.geometry, made.fpr), made.capacity);
  }
  if (request.memory_bytes) {
    EXPECT_LE(made.geometry.bytes(), *request.memory_bytes);
  }
  if (request.layout) {
    EXPECT_EQ(made.geometry.layout(), *request.layout);
  }
  EXPECT_NE(made.reason.find(to_string(made.geometry.layout())), std::string::npos);
  EXPECT_EQ(made.reason.back(), '.');
}

TEST(Plan, FromCapacityAndRateIsGeometryFor) {
  for (const Layout layout : {Layout::split, Layout::split_block}) {
    for (const std::uint64_t n : {1ull, 1000ull, 1'000'000ull, 10'000'000'000ull}) {
      for (const double fpr : {0.5, 0.01, 1e-3, 1e-6, 1e-15}) {
        const PlanRequest request{.capacity = n, .fpr = fpr, .layout = layout};
        const Plan made = plan(request);
        expect_sound(request, made);
        EXPECT_EQ(made.geometry, geometry_for(layout, n, fpr));
      }
    }
  }
}

TEST(Plan, FromMemoryAndRateHoldsTheMostKeys) {
  for (const std::uint64_t memory : {4096ull, 1ull << 20, 1ull << 36}) {
    for (const double fpr : {0.1, 0.01, 1e-3, 1e-5, 1e-9}) {
      const PlanRequest blocks{.fpr = fpr, .memory_bytes = memory};
      const Plan made = plan(blocks);
      expect_sound(blocks, made);
      EXPECT_EQ(made.geometry.layout(), Layout::split_block);
      EXPECT_EQ(made.capacity, capacity_for(made.geometry, fpr));

      const PlanRequest slices{.fpr = fpr, .memory_bytes = memory, .layout = Layout::split};
      const Plan best = plan(slices);
      expect_sound(slices, best);
      for (std::uint32_t k = 1; k <= kMaxProbes && k * 64 <= memory; ++k) {
        EXPECT_GE(best.capacity, capacity_for(geometry_in(Layout::split, memory, k), fpr)) << k;
      }
      // A request for this capacity and rate gives the same groups.
      EXPECT_EQ(plan({.capacity = made.capacity, .fpr = fpr}).geometry.groups(),
                made.geometry.groups());
    }
  }
}

TEST(Plan, FromMemoryAndCapacityHasTheBestRate) {
  for (const std::uint64_t n : {1000ull, 10'000ull, 30'000ull, 100'000ull}) {
    const std::uint64_t memory = 1 << 18;
    const PlanRequest blocks{.capacity = n, .memory_bytes = memory};
    const Plan made = plan(blocks);
    expect_sound(blocks, made);
    EXPECT_EQ(made.fpr, made.predicted_fpr);
    const double useless = hash_collision_fpr(static_cast<double>(n));
    if (made.fpr > useless) {
      EXPECT_EQ(geometry_for(Layout::split_block, n, made.fpr).groups(), made.geometry.groups());
    }

    const PlanRequest slices{.capacity = n, .memory_bytes = memory, .layout = Layout::split};
    const Plan best = plan(slices);
    expect_sound(slices, best);
    if (best.fpr <= useless) continue;
    for (std::uint32_t k = 1; k <= kMaxProbes; ++k) {
      const Geometry other = geometry_in(Layout::split, memory, k);
      EXPECT_LE(best.fpr, predicted_fpr(other, static_cast<double>(n))) << k;
    }
  }
}

TEST(Plan, TakesNoProbesThatEqualHashesMakeUseless) {
  for (const Layout layout : {Layout::split, Layout::split_block}) {
    const PlanRequest request{.capacity = 1000, .memory_bytes = 1 << 30, .layout = layout};
    const Plan made = plan(request);
    expect_sound(request, made);
    EXPECT_LE(made.fpr, hash_collision_fpr(1000));
    EXPECT_GT(made.fpr, 0);
    const std::uint32_t parts =
        layout == Layout::split ? made.geometry.probes() : made.geometry.groups();
    ASSERT_GT(parts, 1u);
    EXPECT_GT(predicted_fpr(geometry_in(layout, 1 << 30, parts - 1), 1000),
              hash_collision_fpr(1000));
  }
}

TEST(Plan, TakesMoreGroupsWhereOneIsAtItsLimit) {
  constexpr std::uint64_t kTerabyte = 1'000'000'000'000;
  const Plan keys = plan({.capacity = 100'000'000'000, .memory_bytes = kTerabyte});
  EXPECT_EQ(keys.geometry.groups(), 4u);
  EXPECT_GT(keys.geometry.bytes(), kTerabyte / 100 * 99);
  EXPECT_LT(keys.fpr, 0.01);  // 1 % takes 721 GB
  EXPECT_NE(keys.reason.find("Fewer groups cannot hold this"), std::string::npos) << keys.reason;
  const Plan rate = plan({.fpr = 0.01, .memory_bytes = kTerabyte});
  EXPECT_GT(rate.capacity, 100'000'000'000u);
  EXPECT_GT(rate.geometry.groups(), 1u);
}

TEST(Plan, FromAllThreeMeetsAllOrNamesTheNeed) {
  // At 1 % a million keys take 5,715,136 bytes in split_block and 4,796,736 in split.
  const auto with = [](std::uint64_t memory, std::optional<Layout> layout = {}) {
    return PlanRequest{
        .capacity = 1'000'000, .fpr = 0.01, .memory_bytes = memory, .layout = layout};
  };
  expect_sound(with(5'715'136), plan(with(5'715'136)));
  EXPECT_EQ(plan(with(5'715'136)).geometry, geometry_for(Layout::split_block, 1'000'000, 0.01));
  EXPECT_EQ(plan(with(5'715'135)).geometry, geometry_for(Layout::split, 1'000'000, 0.01));
  expect_sound(with(4'796'736), plan(with(4'796'736)));
  EXPECT_EQ(refusal(with(5'715'135, Layout::split_block)),
            "memory 5715135 bytes: capacity 1000000 at fpr 0.01 needs at least 5715136 bytes in "
            "layout split_block");
  EXPECT_EQ(refusal(with(4'796'735)),
            "memory 4796735 bytes: capacity 1000000 at fpr 0.01 needs at least 5715136 bytes in "
            "layout split_block; memory 4796735 bytes: capacity 1000000 at fpr 0.01 needs at "
            "least 4796736 bytes in layout split; for distinct keys, layout ranked takes " +
                std::to_string(geometry_for(Layout::ranked, 1'000'000, 0.01).bytes()) + " bytes");
  EXPECT_EQ(refusal(with(1'000'000)).find("ranked"), std::string::npos);

  // Where only more groups fit, plan() takes more than its rule: at 10^-5 a third one saves 5 %.
  const auto bytes = [](std::uint32_t groups) {
    return geometry_for(Layout::split_block, 1'000'000, 1e-5, groups).bytes();
  };
  ASSERT_LT(bytes(3), bytes(2));
  const auto fits = [](std::uint64_t memory) {
    return plan({.capacity = 1'000'000, .fpr = 1e-5, .memory_bytes = memory}).geometry;
  };
  EXPECT_EQ(fits(bytes(2)).groups(), 2u);
  EXPECT_EQ(fits(bytes(2) - 1).groups(), 3u);
  EXPECT_EQ(fits(bytes(3)).groups(), 3u);
}

TEST(Plan, FallsBackToSplitAndSaysSo) {
  const PlanRequest request{.capacity = 1'000'000'000'000, .fpr = 0.01};
  const Plan made = plan(request);
  expect_sound(request, made);
  EXPECT_EQ(made.geometry.layout(), Layout::split);
  EXPECT_NE(made.reason.find("Not split_block: capacity 1000000000000 at fpr 0.01: split_block "
                             "holds at most 180120848083 keys"),
            std::string::npos)
      << made.reason;
}

TEST(Plan, FollowsWhatIsAskedFor) {
  EXPECT_EQ(plan({.capacity = 1000, .fpr = 0.01, .groups = 3}).geometry,
            geometry_for(Layout::split_block, 1000, 0.01, 3));
  EXPECT_EQ(plan({.capacity = 1000, .fpr = 0.01, .probes = 3}).geometry,
            geometry_for(Layout::split, 1000, 0.01, 3));
  EXPECT_EQ(plan({.fpr = 0.01, .memory_bytes = 1 << 20, .groups = 3}).geometry,
            geometry_in(Layout::split_block, 1 << 20, 3));
}

TEST(Plan, SaysWhy) {
  EXPECT_EQ(plan({.capacity = 1'000'000, .fpr = 0.01}).reason,
            "split_block with 1 group: 11.4 counters and 1 cache line per key. One more group (and "
            "cache line) would take 8.76 % more memory.");
  EXPECT_EQ(plan({.capacity = 1'000'000, .fpr = 1e-5}).reason,
            "split_block with 2 groups: 29.9 counters and 2 cache lines per key. One group fewer "
            "would take 85 % more memory, one more group (and cache line) would save only 5.02 % "
            "of the memory.");
  EXPECT_EQ(plan({.capacity = 1'000'000, .fpr = 0.01, .layout = Layout::split}).reason,
            "split with 7 slices: 9.6 counters and 7 cache lines per key. split_block would take "
            "19.1 % more memory and touch 1 cache line per key.");
  const std::string low = plan({.capacity = 1'000'000, .fpr = 1e-15}).reason;
  EXPECT_NE(low.find("Keys that are not 64-bit integers add 5.4e-14"), std::string::npos) << low;
}

TEST(Plan, RefusesAndNamesValueAndLimit) {
  const std::vector<std::pair<PlanRequest, std::string>> cases{
      {{}, "plan: needs at least two of capacity, fpr and memory_bytes, got none"},
      {{.capacity = 5},
       "plan: needs at least two of capacity, fpr and memory_bytes, got only capacity"},
      {{.fpr = 0.1}, "plan: needs at least two of capacity, fpr and memory_bytes, got only fpr"},
      {{.memory_bytes = 64},
       "plan: needs at least two of capacity, fpr and memory_bytes, got only memory_bytes"},
      {{.capacity = 0, .fpr = 0.01}, "capacity 0: must be at least 1"},
      {{.capacity = 5, .fpr = 1.5}, "fpr 1.5: must be in (0, 1)"},
      {{.capacity = 5, .fpr = -1}, "fpr -1: must be in (0, 1)"},
      {{.capacity = 5, .fpr = std::stod("nan")}, "fpr nan: must be in (0, 1)"},
      {{.capacity = 5, .memory_bytes = 63}, "memory 63 bytes: must be at least 64, one block"},
      {{.capacity = 5, .memory_bytes = 1}, "memory 1 byte: must be at least 64, one block"},
      {{.capacity = 5, .fpr = 0.1, .groups = 1, .probes = 7},
       "groups 1 and probes 7: give one, groups for split_block or probes for split"},
      {{.capacity = 5, .fpr = 0.1, .layout = Layout::split, .groups = 1},
       "groups 1: layout split has none, give probes or use split_block"},
      {{.capacity = 5, .fpr = 0.1, .layout = Layout::split_block, .probes = 7},
       "probes 7: layout split_block has 8 per group, give groups or use split"},
      {{.capacity = 5, .fpr = 0.1, .groups = 0}, "groups 0: must be 1 to 8"},
      {{.capacity = 5, .fpr = 0.1, .probes = 65}, "probes 65: must be 1 to 64"},
      {{.fpr = 1e-15, .memory_bytes = 64, .layout = Layout::split_block},
       "memory 64 bytes: too little for a single key of split_block at fpr 1e-15; give more memory "
       "or a higher fpr"},
      {{.fpr = 0.01, .memory_bytes = 64, .groups = 2},
       "memory 64 bytes: split_block needs at least 128, one cache line for each of 2 groups"},
      {{.capacity = 1'000'000, .memory_bytes = 64, .layout = Layout::split_block},
       "memory 64 bytes: capacity 1000000 would let 100 % of absent keys pass in layout "
       "split_block (limit 99 %); give more memory or fewer keys"},
      {{.capacity = 100'000'000'000'000, .fpr = 0.01},
       "capacity 100000000000000 at fpr 0.01: split holds at most 2932909470445 keys at this rate "
       "(1099511627776 counters per slice); use several filters, fewer keys or a higher fpr"},
      {{.capacity = 1'000'000, .fpr = 0.01, .memory_bytes = 64, .probes = 2},
       "memory 64 bytes: capacity 1000000 at fpr 0.01 needs at least 9491328 bytes in layout split "
       "with 2 slices"},
  };
  for (const auto& [request, message] : cases) EXPECT_EQ(refusal(request), message);
  EXPECT_NE(refusal({.capacity = ~0ull, .fpr = 0.5}), "(not refused)");
}

}  // namespace
}  // namespace scbf::planner_test
