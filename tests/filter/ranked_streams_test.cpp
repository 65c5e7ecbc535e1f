// SPDX-License-Identifier: Apache-2.0
// The ranked layout over long streams: keys that come and go at random, against a multiset; and
// streams in which few keys make up most of what comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::ranked_streams_test {
namespace {

using scbf::Geometry;
using scbf::Layout;

/// Copies of keys: what has been inserted and not removed.
class Multiset {
 public:
  Multiset(std::size_t keys, std::uint64_t seed) : copies_(keys), random_(seed) {}

  std::size_t size() const { return present_.size(); }
  unsigned copies(std::uint32_t key) const { return copies_[key]; }
  static std::uint64_t name(std::uint32_t key) { return mixed(key + 1); }

  /// Any keys, each as often as it is drawn.
  const std::vector<std::uint64_t>& come(std::size_t n) {
    batch_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      const auto key = static_cast<std::uint32_t>(random_.below(copies_.size()));
      ++copies_[key];
      present_.push_back(key);
      batch_.push_back(name(key));
    }
    return batch_;
  }
  /// Any of the copies that are present.
  const std::vector<std::uint64_t>& go(std::size_t n) {
    batch_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t& at = present_[random_.below(present_.size())];
      --copies_[at];
      batch_.push_back(name(at));
      at = present_.back();
      present_.pop_back();
    }
    return batch_;
  }
  std::size_t below(std::size_t n) { return random_.below(n); }

 private:
  std::vector<std::uint32_t> present_;
  std::vector<std::uint8_t> copies_;
  Random random_;
  std::vector<std::uint64_t> batch_;
};

/// SCBF_TEST_SCALE=1000 is 10^9 operations, shared by the backends.
TEST(RankedStreams, ComeAndGoAsInAMultiset) {
  // Some keys are there several times, so that more blocks spill than with as many distinct keys.
  constexpr std::size_t kKeys = 300'000, kMost = 125'000, kCapacity = 150'000;
  std::vector<const scbf::Backend*> backends;
  for (const scbf::Backend* backend : available_backends()) {
    const bool known = backend->name() == "scalar" || backend->name() == "simd";
    if (backend->supports(Layout::ranked) && !known) backends.push_back(backend);
  }
  ASSERT_FALSE(backends.empty());
  const std::vector<Mode> modes = contract_modes();
  const auto operations =
      static_cast<std::size_t>(std::max(1e5, 1e6 * scale() / static_cast<double>(backends.size())));
  for (const scbf::Backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    Multiset model(kKeys, 7);
    scbf::Filter filter(scbf::geometry_for(Layout::ranked, kCapacity, 0.01),
                        {.seed = 5, .backend = backend->name()});
    std::size_t done = 0, looks = 0;
    while (done < operations) {
      const Mode& mode = modes[model.below(modes.size())];
      const std::size_t n = 1 + model.below(6000);
      const bool comes = model.size() + n <= kMost && (model.size() < n || model.below(2) == 0);
      if (comes) {
        filter.insert(model.come(n), mode.options());
      } else {
        const std::size_t some = std::min(n, model.size());
        ASSERT_EQ(filter.remove(model.go(some), {}, mode.options()).removed, some);
      }
      done += n;
      if (done / 200'000 == looks) continue;
      looks = done / 200'000;
      std::vector<std::uint64_t> all(kKeys);
      for (std::uint32_t key = 0; key < kKeys; ++key) all[key] = Multiset::name(key);
      const Answers counts = count(filter, all, mode.options());
      std::size_t absent = 0, claimed = 0;
      for (std::uint32_t key = 0; key < kKeys; ++key) {
        ASSERT_GE(counts[key], std::min(model.copies(key), 15u)) << "key " << key;
        absent += model.copies(key) == 0;
        claimed += model.copies(key) == 0 && counts[key] > 0;
      }
      ASSERT_LT(static_cast<double>(claimed), 0.011 * static_cast<double>(absent) + 50);
    }
    EXPECT_EQ(filter.statistics().saturated, 0u);
    const std::size_t rest = model.size();
    EXPECT_EQ(filter.remove(model.go(rest)).removed, rest);
    const auto words = words_of(filter);
    EXPECT_EQ(std::ranges::count(words, 0u), static_cast<std::ptrdiff_t>(words.size()));
  }
}

/// 10^6 draws of 10^6 keys, of which the r-th comes with a probability of about 1/r; all are
/// inserted. Most blocks have a key with many copies, and the table is soon full: what
/// docs/primer.md says.
TEST(RankedStreams, AreNotForKeysThatRepeat) {
  constexpr std::size_t kDraws = 1'000'000;
  std::vector<double> sums(kDraws);
  double sum = 0;
  for (std::size_t r = 0; r < kDraws; ++r) sums[r] = sum += 1 / (static_cast<double>(r) + 1);
  Random random(1);
  std::vector<std::uint64_t> keys(kDraws);
  std::vector<bool> seen(kDraws);
  for (auto& key : keys) {
    const double at = std::ldexp(static_cast<double>(random()), -64) * sum;
    const auto rank = static_cast<std::size_t>(std::ranges::upper_bound(sums, at) - sums.begin());
    key = mixed(std::min(rank, kDraws - 1) + 1);
    seen[std::min(rank, kDraws - 1)] = true;
  }
  const auto distinct = static_cast<std::uint64_t>(std::ranges::count(seen, true));
  EXPECT_NEAR(static_cast<double>(distinct), 217'000, 2000);
  struct Expected {
    std::uint64_t capacity;
    double saturated, fpr;
  };
  for (const auto& [capacity, saturated, fpr] :
       {Expected{distinct, 0.79, 0.01}, Expected{kDraws, 0.066, 1e-4}}) {
    SCOPED_TRACE(capacity);
    scbf::Filter filter(scbf::geometry_for(Layout::ranked, capacity, 0.01));
    filter.insert(keys);
    const scbf::Statistics statistics = filter.statistics();
    EXPECT_NEAR(static_cast<double>(statistics.saturated), saturated * double(statistics.nonzero),
                0.02 * double(statistics.nonzero));
    // The answers are right all the same.
    EXPECT_EQ(std::ranges::count(contains(filter, keys), 1), std::ptrdiff_t{kDraws});
    const auto hits = std::ranges::count(contains(filter, random_keys(kDraws, 9)), 1);
    EXPECT_NEAR(static_cast<double>(hits), fpr * kDraws, 0.05 * fpr * kDraws + 60);
  }
}

/// docs/primer.md, "What the rate means".
TEST(RankedStreams, KeysBeyondThePlanStay) {
  const std::size_t n = scaled(1'000'000, 100'000);
  const Geometry geometry = scbf::geometry_for(Layout::ranked, n, 0.01);
  for (const auto& [times, share] :
       {std::pair{1.0, 0.0}, {1.1, 0.0023}, {1.25, 0.055}, {1.5, 0.36}, {2.0, 0.95}}) {
    std::vector<std::uint64_t> keys(static_cast<std::size_t>(times * static_cast<double>(n)));
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    scbf::Filter filter(geometry);
    filter.insert(keys);
    filter.remove(keys);
    std::vector<std::uint8_t> stay(keys.size());
    const auto left = static_cast<double>(filter.contains(keys, stay).hits);
    EXPECT_NEAR(left / static_cast<double>(keys.size()), share, 0.05 * share + 0.001) << times;
  }
  const Geometry blocks = scbf::geometry_for(Layout::split_block, n, 0.01);
  EXPECT_NEAR(scbf::predicted_fpr(blocks, 1.5 * static_cast<double>(n)), 0.05, 0.005);
  EXPECT_NEAR(scbf::predicted_fpr(blocks, 2.0 * static_cast<double>(n)), 0.13, 0.005);
}

}  // namespace
}  // namespace scbf_test::ranked_streams_test
