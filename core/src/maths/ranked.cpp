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

/// P(j = count) for j ~ Poisson(mean).
double poisson_at(double mean, std::uint32_t count) {
  return count == 0 ? std::exp(-mean)
                    : std::exp(count * std::log(mean) - mean - std::lgamma(count + 1.0));
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

namespace {

/// The share of entries that find no slot within `reach` of their homes, in a table with so many
/// entries per home: the share of customers that are turned away from a queue with room for so
/// many, which serves one in a unit of time.
double share_turned_away(double load, double reach) {
  if (load >= 1) return 1;
  // The θ > 0 with load·(e^θ − 1) = θ.
  double low = -std::log(load), high = low;
  const auto excess = [load](double theta) { return load * std::expm1(theta) - theta; };
  while (excess(high) < 0) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = low + (high - low) / 2;
    (excess(middle) < 0 ? low : high) = middle;
  }
  const double rest = 1 - load;
  return rest * rest / (load * std::exp(low) - 1) * std::exp(-low * (reach - 1));
}

}  // namespace

double stuck_probability(const Geometry& geometry, double n, double turnovers) {
  if (geometry.layout() != Layout::ranked) {
    throw InvalidArgument(
        fmt::format("layout {}: only blocks of ranked can be stuck", to_string(geometry.layout())));
  }
  if (!(turnovers >= 0)) {
    throw InvalidArgument(fmt::format("turnovers {}: must be at least 0", turnovers));
  }
  const auto blocks = static_cast<double>(geometry.blocks_per_group());
  const double mean = blocks * spilled_share(n, geometry.positions(), blocks);
  const auto slots = static_cast<double>(geometry.spill_slots());
  if (n == 0 || slots >= blocks) return 0;
  if (std::isinf(n) || std::isinf(turnovers)) return 1;
  // A block spills when it gets one key more than its lists hold; of these times, those count at
  // which it does not come back at once.
  const double load = n / blocks;
  const std::uint32_t fit = 128 - geometry.positions();
  const double anew = std::max(0.0, 1 - load / (fit + 1));
  const double spilling = turnovers * n * poisson_at(load, fit) * anew;
  if (geometry.spill_reach() == geometry.spill_slots()) {
    // Every entry may use every slot. All find one at first, and whenever a block spills.
    const auto all = static_cast<std::uint32_t>(geometry.spill_slots());
    return -std::expm1(std::log1p(-poisson_tail(mean, all + 1)) - spilling * poisson_at(mean, all));
  }
  if (mean == 0) return 0;  // as good as none spills
  const double turned_away = share_turned_away(mean / static_cast<double>(geometry.spill_homes()),
                                               static_cast<double>(geometry.spill_reach()));
  return -std::expm1(-(mean + spilling) * turned_away);
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
