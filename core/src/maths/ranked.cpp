// SPDX-License-Identifier: Apache-2.0
// The maths of `ranked`: rates, spilled blocks, and the smallest geometry. docs/maths.md derives
// it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "maths/sizing_search.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"

namespace scbf {

namespace {

void check(double n, std::uint32_t positions, double blocks) {
  if (!(n >= 0)) throw InvalidArgument(fmt::format("n {}: must be at least 0", n));
  Geometry::ranked(positions, 1, 0);  // has the message
  if (!(blocks >= 1 && std::isfinite(blocks))) {
    throw InvalidArgument(fmt::format("blocks {}: must be at least 1 and finite", blocks));
  }
}

/// ln(1 − 1/S): the log of the chance that a key leaves a given position of its block alone.
double log_missed(std::uint32_t positions) { return std::log1p(-1.0 / positions); }

/// The rate of a filter whose blocks hold Poisson(load) keys.
double rate_at(double load, std::uint32_t positions) {
  const double log_q = log_missed(positions);
  // (1 − q^j)^4 by the binomial theorem, then E[s^j] = e^(−load (1 − s)).
  constexpr std::array<double, kRankedSlices + 1> kSigned = {1, -4, 6, -4, 1};
  double rate = 0;
  for (std::uint32_t i = 1; i <= kRankedSlices; ++i) {
    rate += kSigned[i] * std::expm1(load * std::expm1(i * log_q));
  }
  constexpr double kLosesDigits = 1e-6;
  if (rate > kLosesDigits) return rate;
  // Below, these terms cancel; those of the sum itself are positive, and few.
  double mass = std::exp(-load), sum = 0;
  const double last = load + 10 * std::sqrt(load) + 40;
  for (double j = 1; j <= last; ++j) {
    mass *= load / j;
    sum += mass * std::pow(-std::expm1(j * log_q), kRankedSlices);
  }
  return sum;
}

/// The most keys per block with this rate.
double load_for(double fpr, std::uint32_t positions) {
  double low = 0, high = 1;
  while (rate_at(high, positions) <= fpr) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = low + (high - low) / 2;
    (rate_at(middle, positions) <= fpr ? low : high) = middle;
  }
  return low;
}

double share_above(double load, std::uint32_t positions) {
  return poisson_tail(load, 128 - positions + 1);
}

std::optional<Geometry> make(std::uint64_t n, double blocks, std::uint32_t positions) {
  blocks = std::ceil(blocks);
  if (!(blocks <= static_cast<double>(kMaxBlocksPerGroup))) return std::nullopt;
  const double slots = spill_slots_for(static_cast<double>(n), positions, blocks);
  if (!(slots <= static_cast<double>(kMaxSpillSlots))) return std::nullopt;
  return Geometry::ranked(positions, static_cast<std::uint64_t>(std::max(blocks, 1.0)),
                          static_cast<std::uint64_t>(slots));
}

}  // namespace

double ranked_fpr(double n, std::uint32_t positions, double blocks) {
  check(n, positions, blocks);
  return std::isinf(n) ? 1 : std::min(1.0, rate_at(n / blocks, positions));
}

double spilled_share(double n, std::uint32_t positions, double blocks) {
  check(n, positions, blocks);
  return std::isinf(n) ? 1 : share_above(n / blocks, positions);
}

double spill_slots_for(double n, std::uint32_t positions, double blocks) {
  const double mean = blocks * spilled_share(n, positions, blocks);
  // The number of spilled blocks that is exceeded at only one moment in 10^9.
  constexpr double kNever = 1e-9;
  double most = std::floor(mean);
  if (mean < 100) {
    while (poisson_tail(mean, static_cast<std::uint32_t>(most) + 1) > kNever) ++most;
  } else {
    most = std::ceil(mean + 6 * std::sqrt(mean) + 6);  // 6 sigma, and the skewness
  }
  most = std::min(most, blocks);
  // Up to the reach, every entry may use every slot. Beyond it, six slots in ten are used: with
  // more, entries would be pushed out of reach.
  constexpr auto kReach = static_cast<double>(kMaxSpillReach);
  return most <= kReach ? most : std::ceil(most / 0.6) + kReach - 1;
}

namespace sizing {

std::optional<Geometry> smallest_ranked(std::uint64_t n, double fpr, std::uint32_t positions) {
  const auto keys = static_cast<double>(n);
  std::optional<Geometry> best;
  const std::uint32_t first = positions ? positions : kMinRankedPositions;
  const std::uint32_t last = positions ? positions : kMaxRankedPositions;
  constexpr auto kMostBlocks = static_cast<double>(kMaxBlocksPerGroup);
  constexpr std::uint64_t kBlockBytes = kWordsPerBlock * sizeof(std::uint64_t);
  const auto bytes_of = [](const std::optional<Geometry>& geometry) {
    return geometry ? geometry->bytes() : std::numeric_limits<std::uint64_t>::max();
  };
  for (std::uint32_t s = first; s <= last; ++s) {
    // The fewest blocks that the rate allows. With more blocks, fewer spill: that can make the
    // whole smaller, until the blocks alone take as much.
    const double fewest = keys / load_for(fpr, s);
    std::optional<Geometry> best_here;
    const auto consider = [&](double blocks) {
      const auto candidate = make(n, std::clamp(blocks, fewest, kMostBlocks), s);
      if (bytes_of(candidate) < bytes_of(best_here)) best_here = candidate;
    };
    for (double blocks = fewest; blocks <= kMostBlocks;
         blocks = std::max(1.02 * blocks, blocks + 1)) {
      const auto bytes = static_cast<std::uint64_t>(std::ceil(blocks)) * kBlockBytes;
      if (bytes >= std::min(bytes_of(best), bytes_of(best_here))) break;
      consider(blocks);
    }
    // Searches around the best of these, if it may be the best of all.
    if (!best_here || bytes_of(best_here) - bytes_of(best_here) / 50 > bytes_of(best)) continue;
    for (double step = 0.01; step > 1e-6; step /= 2) {
      const auto blocks = static_cast<double>(best_here->blocks_per_group());
      consider(blocks * (1 - step));
      consider(blocks * (1 + step));
    }
    if (bytes_of(best_here) < bytes_of(best)) best = best_here;
  }
  return best;
}

}  // namespace sizing

}  // namespace scbf
