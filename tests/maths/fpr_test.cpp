// SPDX-License-Identifier: Apache-2.0
// False-positive rates, tested on both sides against the maths of sizing.hpp.
//
// A measured rate has two sources of error. They are tested apart, so that both limits are tight:
// 1. One filter is not the average filter. Its own rate follows exactly from its counters: the
//    product of the fills of its slices, in split_block for each block, averaged over the blocks.
//    That rate is compared with predicted_fpr. Its variance over filters comes from the variance
//    between blocks (split_block) or from that of the number of occupied counters (split).
// 2. The number of queries is finite: hits are binomial around the filter's own rate.
// Both limits are 4.5 standard deviations (7e-6 on both sides together), over several seeds. Where
// few hits are expected, exact Poisson tails of 1e-6 are used instead.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::fpr_test {
namespace {

using scbf::Geometry;
using scbf::Layout;

constexpr double kSigmas = 4.5;

/// The smaller of P(X ≤ hits) and P(X ≥ hits) for X ~ Poisson(mean).
double smaller_tail(std::uint64_t hits, double mean) {
  const auto probability = [&](std::uint64_t j) {
    const auto x = static_cast<double>(j);
    return std::exp(x * std::log(mean) - mean - std::lgamma(x + 1));
  };
  double at_most = 0;
  for (std::uint64_t j = 0; j <= hits; ++j) at_most += probability(j);
  return std::min(at_most, 1 - at_most + probability(hits));
}

unsigned nonzero_nibbles(std::uint64_t word) {
  unsigned n = 0;
  for (; word != 0; word >>= 4) n += (word & 15) != 0;
  return n;
}

struct Rate {
  double mean, standard_error;
};

/// The rate of this filter for ideal hashes, and the standard error of that rate over filters with
/// as many keys.
Rate rate_of(const scbf::Filter& filter, double keys) {
  const Geometry& g = filter.geometry();
  const auto words = words_of(filter);
  double rate = 1, relative_variance = 0;
  if (g.layout() == Layout::split_block) {
    const auto blocks = static_cast<double>(g.blocks_per_group());
    for (std::uint32_t group = 0; group < g.groups(); ++group) {
      double sum = 0, squares = 0;
      for (std::uint64_t b = 0; b < g.blocks_per_group(); ++b) {
        double hit = 1;
        for (unsigned i = 0; i < 8; ++i) {
          const std::uint64_t word = words[(group * g.blocks_per_group() + b) * 8 + i];
          hit *= nonzero_nibbles(word) / 16.0;
        }
        sum += hit;
        squares += hit * hit;
      }
      const double mean = sum / blocks;
      const double variance = (squares / blocks - mean * mean) / blocks;
      rate *= mean;
      relative_variance += variance / (mean * mean);
    }
  } else {
    const auto m = static_cast<double>(g.counters_per_slice());
    const double load = keys / m;
    for (std::uint32_t slice = 0; slice < g.probes(); ++slice) {
      std::uint64_t nonzero = 0;
      for (std::uint64_t w = 0; w < g.slice_stride_words(); ++w) {
        nonzero += nonzero_nibbles(words[slice * g.slice_stride_words() + w]);
      }
      const double fill = static_cast<double>(nonzero) / m;
      // Variance of the number of occupied cells: m e^-load (1 − (1 + load) e^-load).
      const double variance = std::exp(-load) * (1 - (1 + load) * std::exp(-load)) / m;
      rate *= fill;
      relative_variance += variance / (fill * fill);
    }
  }
  return {rate, rate * std::sqrt(relative_variance)};
}

/// Compares prediction, the filters' own rates and the measured ones.
void check_rate(const Geometry& geometry, std::uint64_t keys, std::size_t queries,
                const std::function<std::vector<std::uint64_t>(std::size_t, std::uint64_t)>& make) {
  const double predicted = scbf::predicted_fpr(geometry, static_cast<double>(keys));
  constexpr int kSeeds = 3;
  double sum = 0, variance = 0, expected_hits = 0;
  std::uint64_t hits = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    scbf::Filter filter(geometry, {.seed = seed * 0x1'0000'0001u, .backend = "simd"});
    const auto all = make(keys + queries, seed);
    const scbf::KeyBatch batch = all;
    filter.insert(batch.slice(0, keys), {.threads = 1});
    const Rate own = rate_of(filter, static_cast<double>(keys));
    sum += own.mean;
    variance += own.standard_error * own.standard_error;
    expected_hits += own.mean * static_cast<double>(queries);
    Answers answers(queries);
    hits += filter.contains(batch.slice(keys, queries), answers, {.threads = 1}).hits;
  }
  // The formula of split_block assumes Poisson loads: off by up to about 1/blocks (sizing.hpp).
  const double bias =
      geometry.layout() == Layout::split_block
          ? 4.0 * geometry.groups() / static_cast<double>(geometry.blocks_per_group())
          : 1e-9;
  EXPECT_NEAR(sum / kSeeds, predicted, kSigmas * std::sqrt(variance) / kSeeds + bias * predicted)
      << geometry.describe() << ", " << keys << " keys: the filters differ from the prediction";
  if (expected_hits > 1000) {
    EXPECT_NEAR(static_cast<double>(hits), expected_hits, kSigmas * std::sqrt(expected_hits))
        << geometry.describe() << ", " << keys << " keys";
  } else {
    EXPECT_GT(smaller_tail(hits, expected_hits), 1e-6)
        << geometry.describe() << ", " << keys << " keys: " << hits << " hits, expected "
        << expected_hits;
  }
}

/// Keys 0, step, 2·step …, shifted by seed · apart.
auto steps_of(std::uint64_t step, std::uint64_t apart) {
  return [=](std::size_t n, std::uint64_t seed) {
    std::vector<std::uint64_t> keys(n);
    for (std::size_t i = 0; i < n; ++i) keys[i] = seed * apart + i * step;
    return keys;
  };
}

struct Setup {
  std::string name;
  Layout layout;
  std::uint32_t parts;
  double fpr;
};
std::ostream& operator<<(std::ostream& out, const Setup& s) { return out << s.name; }

class FalsePositives : public ::testing::TestWithParam<Setup> {
 protected:
  std::size_t queries() const {
    return scaled(GetParam().fpr > 0.005  ? 200'000
                  : GetParam().fpr > 5e-4 ? 500'000
                                          : 1'500'000,
                  150'000);
  }
  Geometry geometry(std::uint64_t size) const {
    return GetParam().layout == Layout::split_block ? Geometry::split_block(GetParam().parts, size)
                                                    : Geometry::split(GetParam().parts, size * 16);
  }
};

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const auto& [text, fpr, k] : {std::tuple{"10_percent", 0.1, 3u},
                                     {"1_percent", 0.01, 7u},
                                     {"0_1_percent", 0.001, 10u},
                                     {"0_01_percent", 1e-4, 13u},
                                     {"0_001_percent", 1e-5, 17u}}) {
    for (const std::uint32_t groups : {1u, 2u, 3u}) {
      all.push_back({"split_block_g" + std::to_string(groups) + "_" + text, Layout::split_block,
                     groups, fpr});
    }
    all.push_back({"split_k" + std::to_string(k) + "_" + text, Layout::split, k, fpr});
    all.push_back({"split_k6_" + std::string(text) + "_off_optimum", Layout::split, 6u, fpr});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Rates, FalsePositives, ::testing::ValuesIn(setups()),
                         [](const auto& test) { return test.param.name; });

TEST_P(FalsePositives, PowerOfTwoSizesAndNeighbours) {
  for (const std::uint64_t size : {4095u, 4096u, 4097u}) {
    const Geometry g = geometry(size);
    check_rate(g, scbf::capacity_for(g, GetParam().fpr), queries(), random_keys);
  }
}

TEST_P(FalsePositives, OfSequentialAndAlignedKeys) {
  const Geometry g = geometry(3000);
  const std::uint64_t keys = scbf::capacity_for(g, GetParam().fpr);
  check_rate(g, keys, queries(), steps_of(1, 1ull << 40));
  check_rate(g, keys, queries(), steps_of(1ull << 32, 1));
}

TEST_P(FalsePositives, FarFromTheCapacity) {
  const Geometry g = geometry(2048);
  const std::uint64_t keys = scbf::capacity_for(g, GetParam().fpr);
  check_rate(g, keys * 2, queries(), random_keys);
  check_rate(g, keys * 2 / 3, queries(), random_keys);
}

TEST(FalsePositivesOfStrings, WithCommonPrefixes) {
  const Geometry g = Geometry::split_block(1, 1024);
  const std::uint64_t keys = scbf::capacity_for(g, 0.01);
  const std::size_t queries = scaled(200'000, 50'000);
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < keys + queries; ++i) {
    strings.push_back("https://example.org/catalogue/item/" + std::to_string(i));
  }
  scbf::Filter filter(g, {.backend = "simd"});
  const scbf::KeyBatch all = strings;
  filter.insert(all.slice(0, keys));
  Answers answers(queries);
  const auto hits = static_cast<double>(filter.contains(all.slice(keys, queries), answers).hits);
  const double expected =
      rate_of(filter, static_cast<double>(keys)).mean * static_cast<double>(queries);
  EXPECT_NEAR(hits, expected, kSigmas * std::sqrt(expected));
}

}  // namespace
}  // namespace scbf_test::fpr_test
