// SPDX-License-Identifier: Apache-2.0
// The maths of routing: formulas against their inverses, products written out, a simulation, and
// the memory of real banks.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "scbf/routing.hpp"
#include "scbf/sizing.hpp"

namespace scbf_test::routing_test {
namespace {

using namespace scbf;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(ServerRate, OfItsRegionsTogetherAndBack) {
  EXPECT_NEAR(server_fpr(0.01, 1), 0.01, 1e-17);
  EXPECT_NEAR(server_fpr(0.01, 4), 1 - 0.99 * 0.99 * 0.99 * 0.99, 1e-15);
  EXPECT_NEAR(server_fpr(0.01, 100), 0.6339676587267709, 1e-12);
  EXPECT_NEAR(server_fpr(1e-15, 7) / 7e-15, 1, 1e-12);  // 1 − (1 − P)^r would keep one digit
  EXPECT_EQ(server_fpr(0.3, 0), 0);                     // no regions: never asked
  for (const double p : {0.3, 0.01, 1e-4, 1e-9}) {
    for (const double r : {1.0, 1.5, 4.0, 20.0}) {
      EXPECT_NEAR(region_fpr_for(server_fpr(p, r), r) / p, 1, 1e-9) << p << ' ' << r;
    }
  }
  for (const double bad : {0.0, 1.0, -0.1, 1.5, kNan}) {
    EXPECT_THROW(server_fpr(bad, 4), InvalidArgument);
    EXPECT_THROW(region_fpr_for(bad, 4), InvalidArgument);
  }
  for (const double bad : {-1.0, kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(server_fpr(0.1, bad), InvalidArgument);
    EXPECT_THROW(region_fpr_for(0.1, bad), InvalidArgument);
  }
  EXPECT_THROW(region_fpr_for(0.1, 0), InvalidArgument);
}

TEST(Requests, OfAQueryAndBack) {
  EXPECT_NEAR(expected_requests(16, 2, 0.01), 2 + 14 * 0.01, 1e-12);
  EXPECT_EQ(expected_requests(16, 16, 0.5), 16);
  EXPECT_EQ(expected_requests(16, 3, 0), 3);
  EXPECT_EQ(expected_requests(16, 3, 1), 16);  // filters that always say yes: a broadcast
  for (const double s : {2.0, 16.0, 1000.0}) {
    for (const double h : {0.0, 1.0, s / 2}) {
      for (const double p : {0.0, 0.001, 0.1, 1.0}) {
        EXPECT_NEAR(server_fpr_for(s, h, expected_requests(s, h, p)), p, 1e-12);
      }
    }
  }
  EXPECT_THROW(expected_requests(0, 0, 0.1), InvalidArgument);
  EXPECT_THROW(expected_requests(4, 5, 0.1), InvalidArgument);
  EXPECT_THROW(expected_requests(4, -1, 0.1), InvalidArgument);
  EXPECT_THROW(expected_requests(4, kNan, 0.1), InvalidArgument);
  EXPECT_THROW(expected_requests(4, 1, 1.1), InvalidArgument);
  EXPECT_THROW(expected_requests(4, 1, kNan), InvalidArgument);
  EXPECT_THROW(server_fpr_for(4, 4, 4), InvalidArgument);
  EXPECT_THROW(server_fpr_for(4, 1, 0.5), InvalidArgument);
  EXPECT_THROW(server_fpr_for(4, 1, 5), InvalidArgument);
}

TEST(Requests, AsASimulationCountsThem) {
  constexpr int kServers = 20, kRegions = 6, kHolding = 3, kQueries = 20'000;
  constexpr double kRate = 0.02;
  std::mt19937_64 random(7);
  std::bernoulli_distribution says_yes(kRate);
  std::uint64_t requests = 0;
  for (int query = 0; query < kQueries; ++query) {
    for (int server = 0; server < kServers; ++server) {
      bool asked = server < kHolding;
      for (int region = 0; region < kRegions; ++region) asked |= says_yes(random);
      requests += asked ? 1 : 0;
    }
  }
  const double p = server_fpr(kRate, kRegions);
  const double expected = kQueries * expected_requests(kServers, kHolding, p);
  const double sd = std::sqrt(kQueries * (kServers - kHolding) * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(requests), expected, 5 * sd);
}

TEST(BankSize, IsThatOfABankThatThereIs) {
  for (const Layout layout : {Layout::split, Layout::split_block}) {
    const Geometry geometry = geometry_for(layout, 5000, 0.01);
    for (const std::uint32_t members : {1u, 8u, 9u, 64u, 65u, 300u}) {
      Bank bank(Growth::one(geometry), {.capacity = members});
      for (std::uint32_t i = 0; i < members; ++i) bank.add_member();
      const BankMemory planned = bank_memory(geometry, members);
      EXPECT_EQ(planned.counters, bank.memory().counters);
      EXPECT_EQ(planned.rows, bank.memory().rows);
    }
  }
  // docs/bank.md: rows are a quarter of the counters when all of the capacity is used.
  const Geometry geometry = geometry_for(Layout::split_block, 1'000'000, 0.01);
  const BankMemory full = bank_memory(geometry, 1024);
  EXPECT_EQ(full.rows * 4, full.counters);
}

TEST(BankSize, AndHowManyFit) {
  const Geometry geometry = geometry_for(Layout::split_block, 5000, 0.01);
  for (const std::uint32_t members : {1u, 7u, 8u, 9u, 100u, 513u, 100'000u, kMaxBankMembers}) {
    const BankMemory bank = bank_memory(geometry, members);
    const std::uint64_t bytes = bank.counters + bank.rows;
    EXPECT_EQ(bank_members_in(geometry, bytes), members);
    EXPECT_EQ(bank_members_in(geometry, bytes - 1), members - 1);
  }
  EXPECT_EQ(bank_members_in(geometry, 0), 0u);
  EXPECT_EQ(bank_members_in(geometry, UINT64_MAX), kMaxBankMembers);
  EXPECT_THROW(bank_memory(geometry, kMaxBankMembers + 1), InvalidArgument);
  const BankMemory of_bits = bank_memory(geometry.with(Cell::bit), 1024);  // members have counters
  EXPECT_EQ(of_bits.counters, bank_memory(geometry, 1024).counters);
  EXPECT_EQ(of_bits.rows, bank_memory(geometry, 1024).rows);
  const Geometry huge = Geometry::split(kMaxProbes, std::uint64_t{1} << 40);
  EXPECT_THROW(bank_memory(huge, kMaxBankMembers), InvalidArgument);
}

}  // namespace
}  // namespace scbf_test::routing_test
