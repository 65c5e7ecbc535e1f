// SPDX-License-Identifier: Apache-2.0
// Overflow of one counter: tails against exact integer arithmetic, values computed to 50 digits and
// a simulation.
#include <numbers>
#include <vector>

#include "maths/sizing_test_support.hpp"
#include "scbf/sizing.hpp"

namespace scbf::test::overflow_test {
namespace {

TEST(Overflow, HasTwelveDigitsFromTheTopToTinyTails) {
  struct Binomial {
    double n, m;
    std::uint32_t j;
    double tail;
  };
  for (const Binomial& b : {Binomial{20, 4, 7, 0.21421805239879177},
                            {20, 4, 20, 9.0949470177292824e-13},
                            {10, 1.5, 5, 0.92343646801808667},
                            {25552, 36864, 32, 1.5355346012800104e-41},
                            {1e10, 2e10, 16, 4.5571801162013157e-19},
                            {1e12, 1.44e12, 16, 7.278754914664873e-17},
                            {1e15, 1e14, 64, 4.2264331055539632e-30},
                            {1e12, 2e3, 500'100'000, 3.8548569372869911e-6}}) {
    expect_relative(overflow_probability(b.n, b.m, b.j), b.tail, 1e-12);
  }
  struct Poisson {
    double lambda;
    std::uint32_t j;
    double tail;
  };
  for (const Poisson& p : {Poisson{1e-6, 1, 9.9999950000016662e-7},
                           {1e-6, 16, 4.7794728340578991e-110},
                           {0.7, 16, 8.2254588838965903e-17},
                           {30, 31, 0.45164848742208857},
                           {30, 30, 0.52428301389368007},
                           {1000, 1100, 0.00096263040586655716},
                           {1e6, 1'010'000, 9.0392063980996577e-24}}) {
    expect_relative(poisson_tail(p.lambda, p.j), p.tail, 1e-12);
  }
}

TEST(Overflow, MatchesWholeNumberArithmetic) {
  // Binomial(12, 1/3): C(12, i) 2^(12 − i) / 3^12, summed exactly.
  double tail = 0, choose = 1;
  for (std::uint32_t j = 12;; --j) {
    tail += choose * std::exp2(12 - j);
    expect_relative(overflow_probability(12, 3, j), tail / 531441, 1e-14);
    if (j == 0) break;
    choose = choose * j / (12 - j + 1);
  }
}

TEST(Overflow, AgreesWithSimulation) {
  std::mt19937_64 random(4);
  const Estimate share = estimate(50'000, [&] {
    std::vector<int> counters(64);
    for (int i = 0; i < 100; ++i) ++counters[below(64, random)];
    double reached = 0;
    for (const int c : counters) reached += c >= 4;
    return reached / 64;
  });
  EXPECT_TRUE(share.agrees(overflow_probability(100, 64, 4))) << share.mean << " ± " << share.error;
  EXPECT_FALSE(share.agrees(poisson_tail(100.0 / 64, 4)));  // 64 counters are too few for Poisson
  EXPECT_FALSE(share.agrees(overflow_probability(100, 64, 5)));
}

TEST(Overflow, IsBoundedByThePaperAndNearsPoisson) {
  for (const double m : {16.0, 36864.0, 1e9}) {
    const double n = std::floor(m * std::numbers::ln2);
    for (std::uint32_t j = 1; j <= 64; ++j) {
      EXPECT_LE(overflow_probability(n, m, j), overflow_bound(n, m, j)) << j;
      EXPECT_LE(overflow_probability(n, m, j + 1), overflow_probability(n, m, j)) << j;
      if (m >= 36864 && j <= 32) {
        // Binomial over Poisson is about (1 − 1/n)(1 − 2/n)…, or 1 − j²/2n.
        expect_relative(overflow_probability(n, m, j), poisson_tail(n / m, j), j * j / n);
      }
    }
  }
}

TEST(Overflow, HasEnds) {
  EXPECT_EQ(overflow_probability(0, 10, 0), 1);
  EXPECT_EQ(overflow_probability(0, 10, 1), 0);
  EXPECT_EQ(overflow_probability(5, 10, 6), 0);
  EXPECT_EQ(overflow_probability(5, 1, 5), 1);
  EXPECT_EQ(overflow_probability(5.9, 10, 6), 0);  // whole keys only
  EXPECT_EQ(poisson_tail(0, 0), 1);
  EXPECT_EQ(poisson_tail(0, 1), 0);
  EXPECT_EQ(poisson_tail(1e9, 1), 1);
  EXPECT_EQ(overflow_bound(0, 10, 3), 0);
  // At n = jm the bound is e^j / √(2πj), far above 1: not a probability.
  expect_relative(overflow_bound(20, 10, 2), std::exp(2) / std::sqrt(4 * std::numbers::pi), 1e-14);
}

}  // namespace
}  // namespace scbf::test::overflow_test
