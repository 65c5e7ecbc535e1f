// SPDX-License-Identifier: Apache-2.0
// Rates of filters that grow: below the bound at every size from 1 to 1000 times the first stage,
// for random and for sequential keys, and as predicted. Also the share of ambiguous removals.
#include <gtest/gtest.h>

#include <cmath>

#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::growth_rate_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::Layout;

// Threads are not tested here, and the thread sanitizer cannot follow those of oneTBB.
constexpr scbf::BatchOptions kAlone{.threads = 1};

struct Grown {
  std::string name;
  Growth growth;
};
std::vector<Grown> growing() {
  return {{"blocks_1_percent", Growth::tightening(1000, 0.01)},
          {"blocks_10_percent_by_4", Growth::tightening(1000, 0.1, Layout::split_block, 4, 0.5)},
          {"split_1_percent", Growth::tightening(1000, 0.01, Layout::split)},
          {"split_3_percent_by_1_5", Growth::tightening(1000, 0.03, Layout::split, 1.5, 0.9)}};
}

class Rate : public ::testing::TestWithParam<Grown> {};
INSTANTIATE_TEST_SUITE_P(All, Rate, ::testing::ValuesIn(growing()),
                         [](const auto& test) { return test.param.name; });

TEST_P(Rate, StaysUnderTheBoundFrom1To1000TimesTheFirstStage) {
  const double bound = GetParam().growth.fpr();
  const std::size_t times = scaled(1000, 50), asked = 100'000;
  const auto keys = random_keys(1000 * times, 1), absent = random_keys(asked, 0xABCD'EF00'1234u);
  std::vector<std::uint64_t> sequential(1000 * times), later(asked);
  for (std::size_t i = 0; i < sequential.size(); ++i) sequential[i] = i;
  for (std::size_t i = 0; i < later.size(); ++i) later[i] = (1ull << 40) + i;
  const std::pair<const std::vector<std::uint64_t>*, const std::vector<std::uint64_t>*> sets[] = {
      {&keys, &absent}, {&sequential, &later}};
  for (const auto& [in, out] : sets) {
    Filter filter(GetParam().growth, {.seed = 11});
    std::size_t held = 0;
    for (double size = 1000; held < in->size(); size *= 1.6) {
      const auto to = std::min(in->size(), static_cast<std::size_t>(size));
      filter.insert(KeyBatch(*in).slice(held, to - held), kAlone);
      held = to;
      Answers answers(out->size());
      const auto hits = static_cast<double>(filter.contains(*out, answers, kAlone).hits);
      const auto n = static_cast<double>(out->size());
      const double rate = hits / n;
      EXPECT_LE(rate, bound + 5 * std::sqrt(bound / n)) << held << " keys";
      EXPECT_LT(filter.fpr_bound(), bound);
      // The rate is also what the fill predicts. Blocks of small stages add a few per cent.
      const double estimated = filter.statistics(kAlone).estimated_fpr;
      EXPECT_NEAR(rate, estimated, 6 * std::sqrt(estimated / n) + 0.06 * estimated)
          << held << " keys";
    }
    // There are as many stages as planned, give or take one that has just become full.
    std::uint32_t planned = 0;
    for (std::uint64_t room = 0; room < held; ++planned) {
      room += scbf::grown_capacity(1000, GetParam().growth.growth(), planned);
    }
    EXPECT_NEAR(static_cast<double>(filter.stages()), planned, 1);
    Answers answers(in->size());
    EXPECT_EQ(filter.contains(*in, answers, kAlone).hits, in->size());
  }
}

TEST(FixedRate, IsThatOfThePaper) {
  // Table 1 of the paper: 45 KiB of positions, P = 0.1 %, ten stages, P_d under 1 %.
  const auto plan = scbf::plan_fixed(4 * 45 * 1024, 0.001, 0.01);
  Filter filter(plan.growth, {.seed = 5});
  filter.insert(random_keys(plan.capacity - plan.capacity / 1000, 1), kAlone);
  EXPECT_EQ(filter.stages(), 10u);
  const auto absent = random_keys(1'000'000, 0xABCD'EF00'1234u);
  Answers answers(absent.size());
  const double rate = static_cast<double>(filter.contains(absent, answers, kAlone).hits) / 1e6;
  EXPECT_NEAR(rate, plan.compound_fpr, 5 * std::sqrt(plan.compound_fpr / 1e6) + 0.03 * rate);
  for (std::size_t s = 0; s < filter.stages(); ++s) EXPECT_LE(filter.stage(s).fill(), 0.5);
}

TEST(Ambiguous, ShareIsAsPredicted) {
  for (const Growth& growth :
       {Growth::tightening(3000, 0.1), Growth::tightening(3000, 0.05, Layout::split),
        Growth::fixed(Geometry::split(5, 6000), 20)}) {
    SCOPED_TRACE(growth.describe());
    Filter filter(growth, {.seed = 3});
    const auto keys = random_keys(60'000, 1);
    filter.insert(keys, kAlone);
    ASSERT_GT(filter.stages(), 3u);
    const double predicted = filter.statistics(kAlone).ambiguous_share;
    // Removes a hundredth of the keys, each from a fresh copy, so that the fill hardly changes.
    std::uint64_t ambiguous = 0;
    for (std::size_t first = 0; first < keys.size(); first += 600) {
      Filter copy = filter;
      const auto report = copy.remove(KeyBatch(keys).slice(first, 600), {}, kAlone);
      ambiguous += report.ambiguous;
      ASSERT_EQ(report.removed + report.ambiguous, 600u);
    }
    const double share = static_cast<double>(ambiguous) / 60'000;
    EXPECT_NEAR(share, predicted, 5 * std::sqrt(predicted / 60'000) + 0.04 * predicted);
    EXPECT_GT(predicted, 0.01);
  }
}

}  // namespace
}  // namespace scbf_test::growth_rate_test
