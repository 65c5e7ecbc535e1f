// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the sizing maths: relative comparison, simulation with its standard
// error, and the text of a refusal.
//
// Simulations are tested on both sides at five standard errors, with fixed seeds: a correct formula
// fails once in 1.7 million. Each simulation also rejects a plausible wrong formula.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "scbf/errors.hpp"

namespace scbf::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kSigmas = 5;

inline void expect_relative(double value, double reference, double tolerance) {
  EXPECT_LE(std::abs(value - reference), tolerance * std::abs(reference))
      << value << " instead of " << reference;
}

/// Mean and standard error over independent trials.
struct Estimate {
  double mean, error;
  bool agrees(double value) const { return std::abs(value - mean) <= kSigmas * error; }
};

inline Estimate estimate(int trials, const std::function<double()>& trial) {
  double sum = 0, squares = 0;
  for (int i = 0; i < trials; ++i) {
    const double x = trial();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / trials;
  return {mean, std::sqrt((squares / trials - mean * mean) / (trials - 1))};
}

inline std::size_t below(std::size_t limit, std::mt19937_64& random) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& refused) {
    return refused.what();
  }
  return "(not refused)";
}

}  // namespace scbf::test
