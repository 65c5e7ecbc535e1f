// SPDX-License-Identifier: Apache-2.0
// The paper's tables. The tests reproduce the printed numbers, explain the wrong ones, and check by
// simulation that the right numbers hold and the wrong ones do not. Seeds are fixed. The tolerance
// is five standard errors, so a right number fails once in 1.7 million.
#include "paper.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <string>

#include "scbf/sizing.hpp"

namespace scbf::paper {
namespace {

constexpr double kSigmas = 5;

std::string digits(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

TEST(PaperTable1, PrintsTheKeysOfTheRealValuedK) {
  const auto rows = sizing_table(0);
  ASSERT_EQ(rows.size(), 4u);
  double fpr = 1e-3;
  for (const SizingRow& row : rows) {
    EXPECT_DOUBLE_EQ(row.fpr, fpr);
    EXPECT_EQ(row.probes, row.printed_probes);
    EXPECT_EQ(row.slice, row.printed_slice);
    EXPECT_EQ(std::floor(row.keys_ideal), static_cast<double>(row.printed_keys));
    fpr /= 10;
  }
  EXPECT_EQ(rows[0].printed_keys, 25'639u);
  EXPECT_EQ(rows[3].printed_keys, 12'819u);
}

TEST(PaperTable1, RoundedKHoldsFewerKeys) {
  for (const SizingRow& row : sizing_table(0)) {
    const auto m = static_cast<double>(row.slice);
    EXPECT_DOUBLE_EQ(row.keys_half_fill, m * std::numbers::ln2);
    EXPECT_LE(split_fpr(row.keys_exact, row.probes, m), row.fpr);
    EXPECT_GT(split_fpr(row.keys_exact + 1, row.probes, m), row.fpr);
    // Rounding k up lowers the rate at half fill, and the capacity by at most 0.1 %.
    EXPECT_LE(row.keys_half_fill, row.keys_exact);
    EXPECT_LE(row.keys_exact, row.keys_ideal);
    EXPECT_GE(row.keys_exact, row.keys_ideal * 0.999);
  }
}

TEST(PaperTable1, RatesAreSeenInFilters) {
  constexpr std::uint32_t kTrials = 100;
  const auto rows = sizing_table(kTrials);
  for (const SizingRow& row : rows) {
    const double asked = kTrials * 20'000.0;
    ASSERT_EQ(row.simulated_fpr.has_value(), row.fpr * asked >= 100);
    if (!row.simulated_fpr) continue;
    // Between filters of n keys the rate varies by a relative 1.3/√n.
    const double filters = row.fpr * 1.3 / std::sqrt(row.keys_exact * kTrials);
    const double error = std::sqrt(row.fpr / asked + filters * filters);
    EXPECT_NEAR(*row.simulated_fpr, row.fpr, kSigmas * error + 1e-3 * row.fpr);
  }
  ASSERT_TRUE(rows[1].simulated_fpr);
  EXPECT_FALSE(rows[3].simulated_fpr);
  EXPECT_FALSE(sizing_table(0)[0].simulated_fpr);
  EXPECT_EQ(sizing_table(kTrials)[0].simulated_fpr, rows[0].simulated_fpr);
}

TEST(PaperTables2To4, AreReproducedAndCorrectedToThePrintedDigits) {
  struct Expected {
    const char *format, *printed, *bound, *poisson;
    const char *bound_format, *poisson_format;
  };
  const Expected expected[]{
      {"%.5f", "0.03388", "0.25037", "0.15343", "%.5f", "%.5f"},
      {"%.2e", "1.80e-04", "9.820e-03", "5.561e-03", "%.3e", "%.3e"},
      {"%.2e", "4.48e-10", "1.335e-06", "7.154e-07", "%.3e", "%.3e"},
      {"%.2e", "1.54e-23", "1.364e-16", "7.073e-17", "%.3e", "%.3e"},
      {"%.2e", "3.89e-55", "3.072e-41", "1.565e-41", "%.3e", "%.3e"},
  };
  const auto rows = overflow_table(0);
  ASSERT_EQ(rows.size(), std::size(expected));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OverflowRow& row = rows[i];
    EXPECT_EQ(row.bits, i + 1);
    EXPECT_EQ(row.j, 2u << i);
    EXPECT_EQ(digits(row.printed_split, expected[i].format), expected[i].printed);
    // All five printed numbers are the bound without e^j.
    EXPECT_EQ(digits(row.bound_without_e, expected[i].format), expected[i].printed);
    EXPECT_EQ(digits(row.bound, expected[i].bound_format), expected[i].bound);
    EXPECT_EQ(digits(row.poisson, expected[i].poisson_format), expected[i].poisson);
    EXPECT_FALSE(row.simulated_split || row.simulated_standard || row.simulated_error ||
                 row.simulated_standard_error);
  }
  // Table 4 is right while the difference from 1 still has digits. Its last entry is one ulp.
  EXPECT_EQ(digits(rows[0].exact_standard, "%.4f"), digits(*rows[0].printed_standard, "%.4f"));
  EXPECT_EQ(digits(rows[1].exact_standard, "%.2e"), digits(*rows[1].printed_standard, "%.2e"));
  EXPECT_EQ(digits(rows[2].exact_standard, "%.2e"), digits(*rows[2].printed_standard, "%.2e"));
  EXPECT_EQ(digits(std::numeric_limits<double>::epsilon(), "%.2e"),
            digits(*rows[3].printed_standard, "%.2e"));
  EXPECT_GT(*rows[3].printed_standard, 3 * rows[3].exact_standard);
  EXPECT_FALSE(rows[4].printed_standard);
}

TEST(PaperTables2To4, SplittingDoesNotLowerOverflow) {
  for (const OverflowRow& row : overflow_table(0)) {
    EXPECT_LE(row.exact_split, row.exact_standard);
    EXPECT_LE(row.exact_standard, row.poisson);
    // The difference is less than j²/n. At 4 bits that is 1 %; the paper is off by a factor of ten
    // million.
    EXPECT_GT(row.exact_split, row.poisson * (1 - row.j * row.j / 25552.0)) << row.bits;
    EXPECT_LT(row.exact_split, row.bound);
  }
}

TEST(PaperTables2To4, SimulationConfirmsTheExactAndRejectsThePrinted) {
  for (const OverflowRow& row : overflow_table()) {
    if (row.bits > 3) {
      EXPECT_FALSE(row.simulated_split || row.simulated_standard);
      continue;
    }
    ASSERT_TRUE(row.simulated_split && row.simulated_standard && row.simulated_error &&
                row.simulated_standard_error);
    const auto split_off = [&](double value) {
      return std::abs(*row.simulated_split - value) / *row.simulated_error;
    };
    const auto standard_off = [&](double value) {
      return std::abs(*row.simulated_standard - value) / *row.simulated_standard_error;
    };
    EXPECT_LE(split_off(row.exact_split), kSigmas) << row.bits;
    EXPECT_LE(standard_off(row.exact_standard), kSigmas) << row.bits;
    EXPECT_GT(split_off(row.printed_split), kSigmas) << row.bits;
    EXPECT_GT(split_off(row.bound), kSigmas) << row.bits;  // a bound, far from tight
    EXPECT_LE(standard_off(*row.printed_standard), kSigmas) << row.bits;
  }
}

// The standard error must be right: over many seeds, the deviations divided by it must have a mean
// square near 1.
TEST(PaperTables2To4, StandardErrorIsHonest) {
  constexpr int kSeeds = 40;
  double squares[2][2] = {};
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto rows = overflow_table(5, 1000 + static_cast<std::uint64_t>(seed));
    for (int b = 0; b < 2; ++b) {
      const double split =
          (*rows[b].simulated_split - rows[b].exact_split) / *rows[b].simulated_error;
      squares[b][0] += split * split / kSeeds;
      const double standard = (*rows[b].simulated_standard - rows[b].exact_standard) /
                              *rows[b].simulated_standard_error;
      squares[b][1] += standard * standard / kSeeds;
      // The error must not vanish if few or no counters reach 8.
      EXPECT_GT(*rows[2].simulated_error, 0);
      EXPECT_LE(std::abs(*rows[2].simulated_split - rows[2].exact_split),
                kSigmas * *rows[2].simulated_error);
    }
  }
  for (int b = 0; b < 2; ++b) {
    EXPECT_GT(squares[b][0], 0.5) << b;  // 50 samples of 10 slices × 5 trials
    EXPECT_LT(squares[b][0], 2.0) << b;
    EXPECT_GT(squares[b][1], 0.7) << b;  // 5 samples only: Student's t, mean square 2
    EXPECT_LT(squares[b][1], 6.0) << b;
  }
}

TEST(PaperTables2To4, SimulationIsRepeatableAndSeeded) {
  const auto a = overflow_table(2, 7), b = overflow_table(2, 7), c = overflow_table(2, 8);
  EXPECT_EQ(a[0].simulated_split, b[0].simulated_split);
  EXPECT_EQ(a[1].simulated_standard, b[1].simulated_standard);
  EXPECT_NE(a[0].simulated_split, c[0].simulated_split);
  EXPECT_GT(*overflow_table(1)[2].simulated_standard_error, 0);
}

}  // namespace
}  // namespace scbf::paper
