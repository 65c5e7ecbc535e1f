// SPDX-License-Identifier: Apache-2.0
// Rates, their inverses and overflow probabilities. The planner is in planner.cpp.
//
// Two measures keep the results exact over the whole range (n to 10^12, P to 10^-15, tails to
// 10^-300). Differences from 1 are computed by expm1 and log1p. Probabilities of single counts are
// computed as exp(−deviance) · correction / √(2πx): the large parts of ln C(n, x) cancel on paper;
// in arithmetic they would leave three digits at n = 10^12.
#include "scbf/sizing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "maths/sizing_search.hpp"
#include "scbf/errors.hpp"

namespace scbf {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2 = std::numbers::ln2;

void check_keys(const char* name, double n) {
  if (!(n >= 0)) throw InvalidArgument(fmt::format("{} {}: must be at least 0", name, n));
}

void check_finite_keys(const char* name, double n) {
  if (!(n >= 0 && n < kInfinity)) {
    throw InvalidArgument(fmt::format("{} {}: must be at least 0 and finite", name, n));
  }
}

void check_extent(const char* name, double extent) {
  if (!(extent >= 1 && extent < kInfinity)) {
    throw InvalidArgument(fmt::format("{} {}: must be at least 1 and finite", name, extent));
  }
}

void check_parts(Layout layout, std::uint32_t parts) {
  // Geometry checks the limits and has the messages for them.
  switch (layout) {
    case Layout::split:
      Geometry::split(parts, 1);
      break;
    case Layout::split_block:
      Geometry::split_block(parts, 1);
      break;
    case Layout::ranked:
      Geometry::ranked(parts, 1, 0);
      break;
  }
}

/// Share of the 16 counters of a word that are non-zero after `keys` keys.
double word_fill(double keys) { return -std::expm1(keys * std::log1p(-1.0 / kCountersPerWord)); }

/// P of one group whose blocks hold Poisson(load) keys.
double block_fpr(double load) {
  // Above this load the rate is near 1, and the alternating sum below loses no digits. Under it,
  // that sum would lose all digits, but the sum of positive terms is short.
  constexpr double kSumUpTo = 64;
  if (load <= kSumUpTo) {
    // The rate of a block with j keys. Kept, because a planner asks for hundreds of loads.
    static const auto rate_with_keys = [] {
      std::array<double, 256> table{};
      for (std::uint32_t j = 1; j < table.size(); ++j) {
        table[j] = std::pow(word_fill(j), kWordsPerBlock);
      }
      return table;
    }();
    // The Poisson mass beyond this index is below e^-70 of the sum's smallest possible value.
    const auto last = static_cast<std::uint32_t>(load + 10 * std::sqrt(load) + 40);
    double mass = std::exp(-load);
    double sum = 0;
    for (std::uint32_t j = 1; j <= last; ++j) {
      mass *= load / j;
      sum += mass * rate_with_keys[j];
    }
    return sum;
  }
  // The same sum in closed form: (1 − q^j)^8 by the binomial theorem, then E[s^j] = e^(−λ(1−s)).
  double complement = 0;  // 1 − P, so that P stays at most 1
  double sign_choose = -1;
  for (std::uint32_t i = 1; i <= kWordsPerBlock; ++i) {
    sign_choose *= -static_cast<double>(kWordsPerBlock - i + 1) / i;
    complement += sign_choose * std::exp(-load * word_fill(i));
  }
  return 1 - complement;
}

// ---- single counts and tails ------------------------------------------------------------------

/// ln x! − ln(√(2πx) (x/e)^x) for whole x ≥ 1: the error of Stirling's formula.
double stirling_rest(double x) {
  if (x < 16) {
    double factorial = 1;
    for (double i = 2; i <= x; ++i) factorial *= i;
    return std::log(factorial) - (x + 0.5) * std::log(x) + x - 0.5 * std::log(2 * std::numbers::pi);
  }
  const double r = 1 / (x * x);
  return (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r * (1.0 / 1680 - r / 1188)))) / x;
}

/// x ln(x/mean) + mean − x for x, mean > 0, given delta = x − mean.
double deviance(double x, double mean, double delta) {
  const double v = delta / (x + mean);
  if (std::abs(v) >= 0.1) return x * std::log(x / mean) - delta;
  // ln(x/mean) = 2 artanh v; its first term and −delta combine to delta · v.
  double sum = delta * v;
  double power = 2 * x * v;
  for (double i = 3;; i += 2) {
    power *= v * v;
    const double next = sum + power / i;
    if (next == sum) return sum;
    sum = next;
  }
}

double poisson_mass(double lambda, double x) {
  if (x == 0) return std::exp(-lambda);
  return std::exp(-stirling_rest(x) - deviance(x, lambda, x - lambda)) /
         std::sqrt(2 * std::numbers::pi * x);
}

/// How many keys of a block are lost with a key that it claims by mistake. Blocks hold
/// Poisson(load) keys, in `slices` slices of `positions` counters each.
double lost_in_block(double load, double slices, double positions) {
  if (load > 1e5) return 0;  // no key is alone at a counter
  const auto last = static_cast<std::uint32_t>(load + 10 * std::sqrt(load) + 40);
  double lost = 0, claimed = 0;
  for (std::uint32_t j = 1; j <= last; ++j) {
    const double zero = std::pow(1 - 1 / positions, j);  // that a given counter is 0
    const double claims = poisson_mass(load, j) * std::pow(1 - zero, slices);
    // That a given one of the j keys is alone at the counter of one slice, if that is not 0.
    // At most 1, but rounding can exceed that where j is 1.
    const double alone = std::min(1.0, zero / (1 - 1 / positions) / positions / (1 - zero));
    lost += claims * j * -std::expm1(slices * std::log1p(-alone));
    claimed += claims;
  }
  return claimed > 0 ? lost / claimed : 1;  // nearly no keys: it is the only one of its block
}

/// Binomial(n, 1/m) at x; whole n ≥ 1 and 0 ≤ x ≤ n; m > 1.
double binomial_mass(double n, double m, double x) {
  if (x == 0) return std::exp(n * std::log1p(-1 / m));
  if (x == n) return std::exp(-n * std::log(m));
  const double mean = n / m;
  const double rest = n - x;
  return std::exp(stirling_rest(n) - stirling_rest(x) - stirling_rest(rest) -
                  deviance(x, mean, x - mean) - deviance(rest, n - mean, mean - x)) *
         std::sqrt(n / (2 * std::numbers::pi * x * rest));
}

/// P(c ≥ j), j ≥ 1, for a distribution with one mode near `mean`: summed away from the mode, so
/// that the largest term comes first and each further one is smaller. up(i) = mass(i+1)/mass(i).
template <class Mass, class Up>
double tail(double j, double mean, const Mass& mass, const Up& up) {
  constexpr double kNegligible = 1e-20;
  double sum = 0;
  if (j > mean) {
    double term = mass(j);
    for (double i = j; term > sum * kNegligible; ++i) {
      sum += term;
      term *= up(i);
    }
    return std::min(sum, 1.0);
  }
  double term = mass(j - 1);
  for (double i = j - 1; term > sum * kNegligible; --i) {
    sum += term;
    if (i == 0) break;
    term /= up(i - 1);
  }
  return std::max(1 - sum, 0.0);
}

/// The smallest x in [low, high] with ok(x), given that ok is monotone and ok(high).
template <class Predicate>
std::uint64_t first_true(std::uint64_t low, std::uint64_t high, const Predicate& ok) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (ok(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Geometry make_geometry(Layout layout, std::uint32_t parts, std::uint64_t extent) {
  return layout == Layout::split ? Geometry::split(parts, extent)
                                 : Geometry::split_block(parts, extent);
}

std::uint64_t largest_extent(Layout layout) {
  return layout == Layout::split ? kMaxCountersPerSlice : kMaxBlocksPerGroup;
}

}  // namespace

// ---- fill and false-positive rate -------------------------------------------------------------

double expected_fill(double n, double m) {
  check_keys("n", n);
  check_extent("m", m);
  if (n == 0) return 0;  // for m = 1, ln(1 − 1/m) is −∞
  return -std::expm1(n * std::log1p(-1 / m));
}

double keys_for_fill(double fill, double m) {
  if (!(fill >= 0 && fill <= 1)) {
    throw InvalidArgument(fmt::format("fill {}: must be in [0, 1]", fill));
  }
  check_extent("m", m);
  if (fill == 0) return 0;
  if (fill == 1) return kInfinity;
  return std::log1p(-fill) / std::log1p(-1 / m);
}

double estimate_covariance(const Geometry& geometry, double common) {
  check_keys("common", common);
  const auto m = static_cast<double>(geometry.counters_per_slice());
  const double x = common / m;
  if (!std::isfinite(x)) return kInfinity;
  const double one_slice = m * (std::expm1(x) - x);
  if (geometry.layout() == Layout::split) return one_slice / geometry.probes();
  const double per_block = geometry.positions();
  const double together = geometry.slices_per_block();
  const double two_slices = m * (per_block * std::expm1(x / per_block) - x);
  return (one_slice + (together - 1) * two_slices) / geometry.probes();
}

double split_fpr(double n, std::uint32_t k, double m) {
  check_parts(Layout::split, k);
  return std::pow(expected_fill(n, m), k);
}

double split_block_fpr(double n, std::uint32_t groups, double blocks_per_group) {
  check_keys("n", n);
  check_parts(Layout::split_block, groups);
  check_extent("blocks per group", blocks_per_group);
  return std::pow(block_fpr(n / blocks_per_group), groups);
}

double predicted_fpr(const Geometry& geometry, double n) {
  const auto blocks = static_cast<double>(geometry.blocks_per_group());
  switch (geometry.layout()) {
    case Layout::split:
      return split_fpr(n, geometry.probes(), static_cast<double>(geometry.counters_per_slice()));
    case Layout::split_block:
      return split_block_fpr(n, geometry.groups(), blocks);
    case Layout::ranked:
      break;
  }
  return ranked_fpr(n, geometry.positions(), blocks);
}

double lost_per_false_removal(const Geometry& geometry, double n) {
  check_finite_keys("n", n);
  if (n == 0) return 0;
  if (geometry.layout() == Layout::split) {
    const double load = n / static_cast<double>(geometry.counters_per_slice());
    return load > 0 ? geometry.probes() * load / std::expm1(load) : geometry.probes();
  }
  return geometry.groups() * lost_in_block(n / static_cast<double>(geometry.blocks_per_group()),
                                           geometry.slices_per_block(), geometry.positions());
}

double hash_collision_fpr(double n) {
  check_keys("n", n);
  return -std::expm1(-std::ldexp(n, -64));
}

// ---- inverses ---------------------------------------------------------------------------------

namespace sizing {

void check_fpr(double fpr) {
  if (!(fpr > 0 && fpr < 1)) {
    throw InvalidArgument(fmt::format("fpr {}: must be in (0, 1)", fpr));
  }
}

std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts) {
  if (layout == Layout::ranked) return smallest_ranked(n, fpr, parts);
  const auto keys = static_cast<double>(n);
  const auto holds = [&](std::uint64_t extent) {
    return predicted_fpr(make_geometry(layout, parts, extent), keys) <= fpr;
  };
  const std::uint64_t limit = largest_extent(layout);
  if (!holds(limit)) return std::nullopt;
  return make_geometry(layout, parts, first_true(1, limit, holds));
}

std::optional<Geometry> smallest(Layout layout, std::uint64_t n, double fpr) {
  if (layout == Layout::ranked) return smallest_ranked(n, fpr, 0);
  if (layout == Layout::split) {
    // Try all k: the one with the fewest counters is near log2(1/P), but limits and small n shift
    // it.
    std::optional<Geometry> best;
    for (std::uint32_t k = 1; k <= kMaxProbes; ++k) {
      const auto candidate = smallest(layout, n, fpr, k);
      if (candidate && (!best || candidate->counters() < best->counters())) best = candidate;
    }
    return best;
  }
  std::array<std::optional<Geometry>, kMaxGroups + 1> sized;
  std::uint32_t first = 0;
  for (std::uint32_t g = kMaxGroups; g >= 1; --g) {
    sized[g] = smallest(layout, n, fpr, g);
    if (sized[g]) first = g;
  }
  if (first == 0) return std::nullopt;
  return sized[groups_worth_taking(first, [&](std::uint32_t g) -> std::optional<double> {
    if (!sized[g + 1]) return std::nullopt;
    return 1 - static_cast<double>(sized[g + 1]->bytes()) / static_cast<double>(sized[g]->bytes());
  })];
}

void refuse_capacity(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts) {
  if (layout == Layout::ranked) {
    throw InvalidArgument(
        fmt::format("capacity {} at fpr {}: ranked needs more than {} blocks for it; use "
                    "split_block, several filters, fewer keys or a higher fpr",
                    n, fpr, kMaxBlocksPerGroup));
  }
  const std::uint64_t extent = largest_extent(layout);
  std::uint64_t most = 0;
  for (std::uint32_t p = parts ? parts : 1; p <= (parts ? parts : most_parts(layout)); ++p) {
    most = std::max(most, capacity_for(make_geometry(layout, p, extent), fpr));
  }
  const bool split = layout == Layout::split;
  std::string with, open;
  if (parts) {
    with = " with " + counted_parts(layout, parts);
    open = split ? "leave probes open, " : "leave groups open, ";
  }
  throw InvalidArgument(fmt::format(
      "capacity {} at fpr {}: {}{} holds at most {} at this rate ({} {}); {}use {}, fewer "
      "keys or a higher fpr",
      n, fpr, to_string(layout), with, counted(most, "key"), extent,
      split ? "counters per slice" : "blocks per group", open,
      split ? "several filters" : "layout split"));
}

}  // namespace sizing

std::uint64_t capacity_for(const Geometry& geometry, double fpr) {
  sizing::check_fpr(fpr);
  const auto fails = [&](std::uint64_t n) {
    const auto keys = static_cast<double>(n);
    if (!(predicted_fpr(geometry, keys) <= fpr)) return true;
    if (geometry.layout() != Layout::ranked) return false;
    const auto blocks = static_cast<double>(geometry.blocks_per_group());
    return spill_slots_for(keys, geometry.positions(), blocks) >
           static_cast<double>(geometry.spill_slots());
  };
  std::uint64_t high = 1;  // terminates: P is 1 long before n reaches 2^63
  while (!fails(high)) high *= 2;
  return first_true(high / 2, high, fails) - 1;
}

Geometry geometry_for(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts) {
  sizing::check_fpr(fpr);
  if (n == 0) throw InvalidArgument("capacity 0: must be at least 1");
  if (parts) check_parts(layout, parts);
  const auto found =
      parts ? sizing::smallest(layout, n, fpr, parts) : sizing::smallest(layout, n, fpr);
  if (!found) sizing::refuse_capacity(layout, n, fpr, parts);
  return *found;
}

Geometry geometry_in(Layout layout, std::uint64_t bytes, std::uint32_t parts, Cell cell) {
  if (layout == Layout::ranked) {
    throw InvalidArgument("memory without a rate: layout ranked needs both; see plan");
  }
  check_parts(layout, parts);
  // A line of counters, or their bits.
  const std::uint64_t line_bytes = Geometry::split_block(1, 1).with(cell).bytes();
  const std::uint64_t lines = bytes / line_bytes / parts;
  if (lines == 0) {
    throw InvalidArgument(fmt::format("memory {}: {} needs at least {}, {} for each of {}",
                                      counted(bytes, "byte"), to_string(layout), line_bytes * parts,
                                      cell == Cell::counter ? "one cache line" : "16 bytes",
                                      sizing::counted_parts(layout, parts)));
  }
  if (layout == Layout::split_block) {
    return Geometry::split_block(parts, std::min(lines, kMaxBlocksPerGroup));
  }
  constexpr std::uint64_t kMostLines = kMaxCountersPerSlice / kCountersPerBlock;
  return Geometry::split(parts, std::min(lines, kMostLines) * kCountersPerBlock);
}

// ---- the paper's closed forms -----------------------------------------------------------------

double ideal_probes(double fpr) {
  sizing::check_fpr(fpr);
  return -std::log2(fpr);
}

double ideal_capacity(double counters, double fpr) {
  check_finite_keys("counters", counters);
  sizing::check_fpr(fpr);
  return counters * kLn2 * kLn2 / -std::log(fpr);
}

// ---- overflow of one counter ------------------------------------------------------------------

double overflow_probability(double n, double m, std::uint32_t j) {
  check_finite_keys("n", n);
  check_extent("m", m);
  n = std::floor(n);
  if (j == 0) return 1;
  if (n < j) return 0;
  if (m == 1) return 1;
  return tail(
      j, n / m, [&](double x) { return binomial_mass(n, m, x); },
      [&](double i) { return (n - i) / ((i + 1) * (m - 1)); });
}

double poisson_tail(double lambda, std::uint32_t j) {
  check_finite_keys("lambda", lambda);
  if (j == 0) return 1;
  if (lambda == 0) return 0;
  return tail(
      j, lambda, [&](double x) { return poisson_mass(lambda, x); },
      [&](double i) { return lambda / (i + 1); });
}

double overflow_bound(double n, double m, std::uint32_t j) {
  check_finite_keys("n", n);
  check_extent("m", m);
  if (j == 0) throw InvalidArgument("j 0: must be at least 1");
  const double x = j;
  return std::exp(x * (1 + std::log(n / (x * m)))) / std::sqrt(2 * std::numbers::pi * x);
}

}  // namespace scbf
