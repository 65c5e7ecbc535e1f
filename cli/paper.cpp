// SPDX-License-Identifier: Apache-2.0
// The paper's four tables. The printed numbers are data, all others are computed by sizing.hpp or
// simulated here. docs/maths.md explains the errors in the printed numbers.
#include "paper.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "scbf/detail/positions.hpp"
#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"
#include "scbf/sizing.hpp"

namespace scbf::paper {
namespace {

// The example in the first row of the paper's Table 1. Tables 2 to 4 depend on it only through 1/m.
constexpr std::uint64_t kPositions = 45 * 1024 * 8;
constexpr std::uint32_t kProbes = 10;
constexpr std::uint64_t kSlice = kPositions / kProbes;

std::uint64_t half_fill_keys() {
  return static_cast<std::uint64_t>(static_cast<double>(kSlice) * std::numbers::ln2);
}

constexpr std::array<std::uint32_t, 3> kSeen{2, 4, 8};  // j of 1 to 3 bits
using Reached = std::array<std::uint64_t, kSeen.size()>;

/// Throws `balls` into the counters. Returns, for each j of kSeen, how many counters reached j.
Reached throw_into(std::span<std::uint8_t> counters, std::uint64_t balls, std::mt19937_64& random) {
  __extension__ using Wide = unsigned __int128;
  std::fill(counters.begin(), counters.end(), std::uint8_t{0});
  for (std::uint64_t i = 0; i < balls; ++i) {
    // At half fill a counter of 8 bits exceeds 255 with a probability of 10^-500.
    ++counters[static_cast<std::size_t>((Wide{random()} * counters.size()) >> 64)];
  }
  Reached reached{};
  for (const std::uint8_t counter : counters) {
    for (std::size_t b = 0; b < kSeen.size(); ++b) reached[b] += counter >= kSeen[b];
  }
  return reached;
}

/// Mean share over equal, independent samples and its standard error.
class ShareEstimate {
 public:
  void add(std::uint64_t hits, std::uint64_t of) {
    const auto x = static_cast<double>(hits);
    ++samples_;
    hits_ += x;
    squares_ += x * x;
    total_ += static_cast<double>(of);
  }
  double share() const { return hits_ / total_; }
  /// The standard error. It comes from the spread between samples, because the counters of one
  /// sample depend on each other. With few hits the spread is unreliable (with none it is 0), so
  /// the error is at least that of a Poisson count with one more hit.
  double standard_error() const {
    constexpr double kFewHits = 100;
    double error = 0;  // of hits_
    if (samples_ > 1) {
      const double variance = (squares_ - hits_ * hits_ / samples_) / (samples_ - 1);
      error = std::sqrt(std::max(variance, 0.0) * samples_);
    }
    if (samples_ == 1 || hits_ < kFewHits) error = std::max(error, std::sqrt(hits_ + 1));
    return error / total_;
  }

 private:
  double samples_ = 0, hits_ = 0, squares_ = 0, total_ = 0;
};

constexpr std::size_t kAbsentKeys = 20'000;  // per filter
constexpr double kLeastHits = 100;

/// Consecutive numbers: distinct, and as good as random after hashing. Each seed gives other keys.
std::vector<std::uint64_t> keys_from(std::uint64_t first, std::size_t n) {
  std::vector<std::uint64_t> keys(n);
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

double simulated_fpr(const SizingRow& row, std::uint32_t trials, std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(row.keys_exact);
  const auto present = keys_from(0, n), absent = keys_from(n, kAbsentKeys);
  const Geometry geometry = Geometry::split(row.probes, row.slice);
  std::uint64_t hits = 0;
  for (std::uint32_t trial = 0; trial < trials; ++trial) {
    Filter filter(geometry, {.seed = detail::multiplier(trial) + seed});
    filter.insert(present, {.threads = 1});
    hits += filter.count_present(absent, {.threads = 1}).hits;
  }
  return static_cast<double>(hits) / (static_cast<double>(trials) * kAbsentKeys);
}

}  // namespace

std::vector<SizingRow> sizing_table(std::uint32_t trials, std::uint64_t seed) {
  struct Printed {
    double fpr;
    std::uint32_t probes;
    std::uint64_t slice, keys;
  };
  constexpr std::array<Printed, 4> kPrinted{{{1e-3, 10, 36'864, 25'639},
                                             {1e-4, 14, 26'331, 19'229},
                                             {1e-5, 17, 21'684, 15'383},
                                             {1e-6, 20, 18'432, 12'819}}};
  std::vector<SizingRow> rows;
  for (const Printed& printed : kPrinted) {
    SizingRow row{};
    row.fpr = printed.fpr;
    row.printed_probes = printed.probes;
    row.printed_slice = printed.slice;
    row.printed_keys = printed.keys;
    row.ideal_probes = ideal_probes(printed.fpr);
    row.probes = static_cast<std::uint32_t>(std::ceil(row.ideal_probes));
    row.slice = kPositions / row.probes;
    row.keys_ideal = ideal_capacity(static_cast<double>(kPositions), printed.fpr);
    row.keys_half_fill = static_cast<double>(row.slice) * std::numbers::ln2;
    row.keys_exact =
        static_cast<double>(capacity_for(Geometry::split(row.probes, row.slice), printed.fpr));
    if (printed.fpr * trials * kAbsentKeys >= kLeastHits) {
      row.simulated_fpr = simulated_fpr(row, trials, seed);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<OverflowRow> overflow_table(std::uint32_t trials, std::uint64_t seed) {
  struct Printed {
    double split;
    std::optional<double> standard;
  };
  constexpr std::array<Printed, 5> kPrinted{{{0.03388, 0.1534},
                                             {1.80e-4, 5.56e-3},
                                             {4.48e-10, 7.15e-7},
                                             {1.54e-23, 2.22e-16},
                                             {3.89e-55, std::nullopt}}};

  std::array<ShareEstimate, kSeen.size()> split, standard;
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> counters(trials ? kPositions : 0);
  const std::uint64_t keys = half_fill_keys();
  for (std::uint32_t trial = 0; trial < trials; ++trial) {
    const std::span<std::uint8_t> all(counters);
    for (std::uint32_t slice = 0; slice < kProbes; ++slice) {
      const Reached reached = throw_into(all.subspan(slice * kSlice, kSlice), keys, random);
      for (std::size_t b = 0; b < kSeen.size(); ++b) split[b].add(reached[b], kSlice);
    }
    const Reached reached = throw_into(all, keys * kProbes, random);
    for (std::size_t b = 0; b < kSeen.size(); ++b) standard[b].add(reached[b], kPositions);
  }

  const auto n = static_cast<double>(keys);
  const auto m = static_cast<double>(kSlice);
  std::vector<OverflowRow> rows;
  for (std::uint32_t bits = 1; bits <= kPrinted.size(); ++bits) {
    const std::uint32_t j = 1u << bits;
    OverflowRow row{};
    row.bits = bits;
    row.j = j;
    row.printed_split = kPrinted[bits - 1].split;
    row.bound = overflow_bound(m * std::numbers::ln2, m, j);
    row.bound_without_e = row.bound * std::exp(-static_cast<double>(j));
    row.printed_standard = kPrinted[bits - 1].standard;
    row.exact_split = overflow_probability(n, m, j);
    row.exact_standard = overflow_probability(n * kProbes, static_cast<double>(kPositions), j);
    row.poisson = poisson_tail(std::numbers::ln2, j);
    if (trials && bits <= kSeen.size()) {
      row.simulated_split = split[bits - 1].share();
      row.simulated_error = split[bits - 1].standard_error();
      row.simulated_standard = standard[bits - 1].share();
      row.simulated_standard_error = standard[bits - 1].standard_error();
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace scbf::paper
