// SPDX-License-Identifier: Apache-2.0
// Filter::statistics against counting nibble by nibble, and its estimates against the truth.
#include <gtest/gtest.h>

#include <cmath>

#include "filter/state.hpp"
#include "scbf/bank.hpp"
#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::statistics_test {
namespace {

using scbf::Geometry;
using scbf::Layout;

/// The counters of one slice, one by one.
std::vector<unsigned> slice_counters(const scbf::Filter& filter, std::uint32_t slice) {
  const Geometry& g = filter.geometry();
  const auto words = words_of(filter);
  const auto counter = [&](std::uint64_t word, std::uint64_t nibble) {
    return static_cast<unsigned>(words[word] >> (4 * nibble)) & 15u;
  };
  std::vector<unsigned> counters;
  if (g.layout() == Layout::split_block) {
    for (std::uint64_t b = 0; b < g.blocks_per_group(); ++b) {
      const std::uint64_t word = (slice / 8 * g.blocks_per_group() + b) * 8 + slice % 8;
      for (unsigned i = 0; i < 16; ++i) counters.push_back(counter(word, i));
    }
  } else {
    for (std::uint64_t i = 0; i < g.counters_per_slice(); ++i) {
      counters.push_back(counter(slice * g.slice_stride_words() + i / 16, i % 16));
    }
  }
  return counters;
}

class StatisticsOf : public ::testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  std::vector<Shape> shapes = contract_shapes(40'000);
  shapes.push_back({"one_block", Geometry::split_block(1, 1)});
  shapes.push_back({"split_k3_m1", Geometry::split(3, 1)});
  shapes.push_back({"split_k2_m127", Geometry::split(2, 127)});
  shapes.push_back({"split_k2_m128", Geometry::split(2, 128)});
  shapes.push_back({"split_k2_m129", Geometry::split(2, 129)});
  // Large enough to be worth several threads.
  shapes.push_back({"split_k2_m3000001", Geometry::split(2, 3'000'001)});
  shapes.push_back({"g2_50000_blocks", Geometry::split_block(2, 50'000)});
  std::vector<Case> all;
  for (const scbf::Backend* backend : available_backends()) {
    // "simd" stands for its targets; those of far_backend.hpp are the scalar model.
    if (backend->name().starts_with("far") || backend->name().starts_with("simd:")) continue;
    for (const Shape& shape : shapes) {
      for (const unsigned threads : {1u, 2u}) {
        all.push_back({backend, shape, {threads, scbf::Path::automatic}});
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, StatisticsOf, ::testing::ValuesIn(cases()), CaseName());

TEST_P(StatisticsOf, EqualsCountingByHand) {
  scbf::Filter filter = GetParam().filter(1);
  const Geometry& g = filter.geometry();
  for (const std::size_t n : {0u, 1u, 500u, 5000u}) {
    filter.insert(random_keys(n, n));
    filter.insert(std::vector<std::uint64_t>(n / 20, 99));
    const auto s = filter.statistics(GetParam().mode.options());
    scbf::Histogram histogram{};
    ASSERT_EQ(s.stages.size(), 1u);
    const scbf::StageStatistics& stage = s.stages[0];
    ASSERT_EQ(stage.slice_fill.size(), g.probes());
    std::uint64_t nonzero = 0;
    for (std::uint32_t slice = 0; slice < g.probes(); ++slice) {
      std::uint64_t in_slice = 0;
      const auto counters = slice_counters(filter, slice);
      for (const unsigned c : counters) {
        ++histogram[c];
        in_slice += c != 0;
      }
      nonzero += in_slice;
      ASSERT_DOUBLE_EQ(stage.slice_fill[slice],
                       static_cast<double>(in_slice) / static_cast<double>(counters.size()));
    }
    ASSERT_EQ(stage.histogram, histogram);
    ASSERT_EQ(s.nonzero, nonzero);
    ASSERT_EQ(s.saturated, histogram[15]);
    ASSERT_DOUBLE_EQ(s.fill, static_cast<double>(nonzero) / static_cast<double>(g.counters()));
    ASSERT_EQ(s.keys_inserted, filter.keys_inserted());
    ASSERT_EQ(s.keys_removed, 0u);
  }
}

// Filter trusts backends to count the counters that become zero or non-zero. A recount must agree.
TEST_P(StatisticsOf, TurnedCountersAreCountedOnTheWay) {
  const auto options = GetParam().mode.options();
  const scbf::Geometry g = GetParam().shape.geometry;
  const scbf::Backend& backend = *GetParam().backend;
  if (backend.memory() != scbf::kHostMemory) GTEST_SKIP() << "a device need not count";
  const auto store = backend.allocate(g.words());
  const scbf::CounterView view{g, 1, store->words()};
  const scbf::ConstCounterView counters{g, 1, store->words()};
  std::uint64_t nonzero = 0;
  for (const std::size_t n : {0u, 1u, 700u, 5000u}) {
    std::vector<std::uint64_t> keys = random_keys(n, 7);
    keys.insert(keys.end(), n / 10, 99);
    const auto filled = backend.insert(view, keys, options);
    ASSERT_TRUE(filled.has_value());
    nonzero += *filled;
    ASSERT_EQ(backend.count_nonzero(counters, options), nonzero);
    ASSERT_EQ(backend.scbf::Backend::count_nonzero(counters, options), nonzero);
    std::vector<std::uint8_t> verdicts(keys.size());
    scbf::RemovalChange change;
    backend.remove({&view, 1},
                   scbf::KeyBatch(keys).slice(keys.size() / 3, keys.size() - keys.size() / 3),
                   verdicts.data(), {&change, 1}, options);
    ASSERT_TRUE(change.emptied.has_value());
    nonzero -= *change.emptied;
    ASSERT_EQ(backend.count_nonzero(counters, options), nonzero);
  }
}

TEST(Estimates, OfKeysAndRateAreNearTheTruth) {
  for (const Shape& shape : contract_shapes(2'000'000)) {
    SCOPED_TRACE(shape.name);
    const auto n = scbf::capacity_for(shape.geometry, 0.01);
    scbf::Filter filter(shape.geometry);
    filter.insert(random_keys(n, 3), {.threads = 1});
    filter.insert(random_keys(n / 2, 3), {.threads = 1});  // repeated keys are not distinct keys
    const auto s = filter.statistics({.threads = 1});
    // With load a = n/m, the estimate of one slice has variance m (e^a − 1 − a).
    const auto m = static_cast<double>(shape.geometry.counters_per_slice());
    const double load = static_cast<double>(n) / m;
    const double deviation = std::sqrt(m * (std::exp(load) - 1 - load) / shape.geometry.probes());
    // Slices of a block share its load, which widens the spread: by √8 at most.
    EXPECT_NEAR(s.estimated_keys, static_cast<double>(n), 4.5 * deviation * std::sqrt(8.0));
    EXPECT_NEAR(s.estimated_fpr, scbf::predicted_fpr(shape.geometry, s.estimated_keys), 1e-12);
    EXPECT_NEAR(s.estimated_fpr, 0.01, 0.0015);
  }
}

TEST(Estimates, OfEmptyAndFullFilters) {
  scbf::Filter filter(Geometry::split(2, 4));
  auto s = filter.statistics();
  EXPECT_EQ(s.estimated_keys, 0.0);
  EXPECT_EQ(s.estimated_fpr, 0.0);
  filter.insert(random_keys(1000, 1));
  s = filter.statistics();
  EXPECT_EQ(s.fill, 1.0);
  EXPECT_TRUE(std::isinf(s.estimated_keys));
  EXPECT_EQ(s.estimated_fpr, 1.0);
}

// ---- corners
// --------------------------------------------------------------------------------------

void expect_share(double share, const char* what) {
  EXPECT_TRUE(share >= 0 && share <= 1 && !std::signbit(share)) << what << ' ' << share;
}

/// No statistic may be NaN, −0, negative or, if it is a share or a rate, above 1.
void expect_possible(const scbf::Filter& filter) {
  const scbf::Statistics s = filter.statistics();
  expect_share(filter.fill(), "Filter::fill");
  expect_share(filter.fpr_bound(), "Filter::fpr_bound");
  expect_share(s.fill, "fill");
  expect_share(s.estimated_fpr, "estimated_fpr");
  expect_share(s.fpr_bound, "fpr_bound");
  expect_share(s.ambiguous_share, "ambiguous_share");
  EXPECT_TRUE(s.estimated_keys >= 0 && !std::signbit(s.estimated_keys)) << s.estimated_keys;
  EXPECT_LE(s.saturated, s.nonzero);
  EXPECT_LE(s.nonzero, s.counters);
  EXPECT_EQ(s.nonzero, filter.nonzero());
  bool any_full = false;
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const scbf::StageStatistics& stage = s.stages[i];
    SCOPED_TRACE("stage " + std::to_string(i));
    expect_share(filter.stage(i).fill(), "StageView::fill");
    expect_share(stage.fill, "fill");
    expect_share(stage.estimated_fpr, "estimated_fpr");
    expect_share(stage.shape.fpr, "shape.fpr");
    for (const double fill : stage.slice_fill) expect_share(fill, "slice_fill");
    EXPECT_TRUE(stage.estimated_keys >= 0 && !std::signbit(stage.estimated_keys));
    const bool full = stage.nonzero == stage.shape.geometry.counters();
    EXPECT_EQ(std::isinf(stage.estimated_keys), full);
    any_full |= full;
    std::uint64_t counted = 0;
    for (const std::uint64_t n : stage.histogram) counted += n;
    EXPECT_EQ(counted, stage.shape.geometry.counters());
  }
  EXPECT_EQ(std::isinf(s.estimated_keys), any_full);
}

/// Sets every counter of a stage.
void set_counters(scbf::Filter& filter, std::size_t stage, unsigned value) {
  const Geometry& g = filter.stage(stage).geometry();
  std::vector<std::uint64_t> words(g.words());
  const std::uint64_t stride = words.size() * 16 / g.probes();
  for (std::uint64_t i = 0; i < words.size() * 16; ++i) {
    if (g.layout() == Layout::split && i % stride >= g.counters_per_slice()) continue;
    words[i / 16] |= std::uint64_t{value} << i % 16 * 4;
  }
  scbf::FilterAccess::state(filter).stages[stage].assign(words, 5, 7);
}

TEST(Corners, NoStatisticIsImpossible) {
  using scbf::Growth;
  const std::vector<Growth> growths = {Growth::one(Geometry::split(1, 1)),
                                       Growth::one(Geometry::split(3, 1)),
                                       Growth::one(Geometry::split(2, 17)),
                                       Growth::one(Geometry::split(64, 129)),
                                       Growth::one(Geometry::split_block(1, 1)),
                                       Growth::one(Geometry::split_block(8, 2)),
                                       Growth::fixed(Geometry::split(1, 2), 9),
                                       Growth::fixed(Geometry::split(5, 30), 4),
                                       Growth::fixed(Geometry::split_block(1, 1), 3),
                                       Growth::tightening(1, 0.999, Layout::split, 1, 0.001),
                                       Growth::tightening(1, 0.5),
                                       Growth::tightening(60, 1e-9)};
  for (const Growth& growth : growths) {
    SCOPED_TRACE(growth.describe());
    expect_share(growth.fpr(), "Growth::fpr");
    scbf::Filter filter(growth);
    const auto look = [&](const char* what) {
      SCOPED_TRACE(what);
      ASSERT_NO_FATAL_FAILURE(expect_possible(filter));
    };
    look("empty");
    EXPECT_EQ(filter.statistics().estimated_fpr, 0.0);
    EXPECT_EQ(filter.statistics().ambiguous_share, 0.0);
    filter.insert(1);
    look("one key");
    (void)filter.remove(std::uint64_t{1});
    (void)filter.remove(std::uint64_t{1});
    look("removed again");
    const auto keys = random_keys(300, 1);
    try {
      filter.insert(keys);
    } catch (const scbf::FilterFull&) {
    }
    look("crowded");
    for (const unsigned value : {1u, 15u}) {
      for (std::size_t i = 0; i < filter.stages(); ++i) {
        set_counters(filter, i, value);
        if (i < 3) look("some stages full");
      }
      look("all stages full");
    }
    EXPECT_EQ(filter.statistics().estimated_fpr, 1.0);
    EXPECT_EQ(filter.statistics().ambiguous_share, filter.stages() > 1 ? 1.0 : 0.0);
    set_counters(filter, 0, 0);
    look("the first stage empty");
    for (std::size_t i = 0; i < filter.stages(); ++i) set_counters(filter, i, 0);
    look("all stages empty");
    EXPECT_EQ(filter.statistics().estimated_fpr, 0.0);
    filter.clear();
    look("cleared");
  }
}

TEST(Corners, BanksToo) {
  using scbf::Growth;
  for (const Growth& growth : {Growth::one(Geometry::split(1, 1)), Growth::tightening(5, 0.1),
                               Growth::fixed(Geometry::split(1, 2), 256)}) {
    scbf::Bank bank(growth, {.capacity = 0});
    EXPECT_EQ(bank.memory().counters, 0u);
    const std::uint32_t member = bank.add_member();
    for (int round = 0; round < 2; ++round) {
      expect_share(bank.fpr_bound(member), "Bank::fpr_bound");
      for (std::size_t i = 0; i < bank.stages(member); ++i) {
        expect_share(bank.stage(member, i).fill(), "fill");
      }
      expect_possible(bank.copy_member(member));
      try {
        bank.insert(member, random_keys(500, 1));
      } catch (const scbf::FilterFull&) {
      }
    }
  }
}

TEST(ExactRate, IsTheShareOfHashesThatAreClaimed) {
  constexpr std::size_t kAsked = 400'000;
  const auto asked = random_keys(kAsked, 9);
  const auto expect_exact = [&](const auto& filter) {
    Answers out(kAsked);
    const auto hits = static_cast<double>(filter.contains(asked, out).hits);
    const double rate = filter.stage(0).exact_fpr();
    const double error = std::sqrt(rate * (1 - rate) / kAsked);
    EXPECT_NEAR(hits / kAsked, rate, 4.5 * error);
    return rate;
  };
  for (const Geometry& geometry :
       {Geometry::split(3, 1000), Geometry::split(7, 130), Geometry::split_block(1, 40),
        Geometry::split_block(2, 17), Geometry::ranked(65, 21, 4), Geometry::ranked(89, 20, 9),
        Geometry::ranked(112, 33, 30)}) {
    SCOPED_TRACE(geometry.describe());
    scbf::Filter filter(geometry);
    EXPECT_EQ(filter.stage(0).exact_fpr(), 0);
    std::size_t keys = 1;
    while (scbf::predicted_fpr(geometry, static_cast<double>(keys)) < 0.1) ++keys;
    filter.insert(random_keys(keys, 4));
    const double rate = expect_exact(filter);
    EXPECT_GT(rate, 0.02);
    EXPECT_DOUBLE_EQ(expect_exact(scbf::BloomFilter(filter)), rate);
  }
}

}  // namespace
}  // namespace scbf_test::statistics_test
