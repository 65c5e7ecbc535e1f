// SPDX-License-Identifier: Apache-2.0
// The kernels, without the engine around them, against one key at a time: every target, every
// number of keys from none to more than a stretch, and every distance at which lines are fetched.
// Filters of backends reach the larger distances only when they are large.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/tuning.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::FilterArrays;
using scbf::Geometry;
using scbf::Kernels;

/// The tables of this machine, and those for machines whose `pdep` is slow.
std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> all = scbf::kernel_tables(true);
  for (const Kernels* table : scbf::kernel_tables(false)) {
    if (std::ranges::find(all, table) == all.end()) all.push_back(table);
  }
  return all;
}

/// Words on a cache line of their own.
class Words {
 public:
  explicit Words(const Geometry& geometry)
      : memory_(geometry.words() + 8), size_(geometry.words()) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    at_ = memory_.data() + (64 - address % 64) % 64 / 8;
  }
  std::uint64_t* data() { return at_; }
  std::vector<std::uint64_t> copy() const { return {at_, at_ + size_}; }

 private:
  std::vector<std::uint64_t> memory_;
  std::size_t size_;
  std::uint64_t* at_;
};

/// One filter twice: changed by kernels, and key by key.
struct Pair {
  const Kernels& kernels;
  Geometry geometry;
  scbf::OneKey one_key = scbf::find_backend("scalar").one_key(scbf::Cell::counter);
  Words words{geometry}, expected{geometry};

  FilterArrays arrays() { return {kernels, {geometry, 0, words.data()}}; }
  /// The positions of keys in all arrays, array by array.
  std::vector<std::uint64_t> locate(const std::vector<std::uint64_t>& hashes) {
    const FilterArrays filter = arrays();
    std::vector<std::uint64_t> positions(hashes.size() * filter.arrays + 8);
    for (std::uint32_t a = 0; a < filter.arrays; ++a) {
      filter.array_kernels.locate(filter.array(a), hashes.data(), hashes.size(),
                                  positions.data() + a * hashes.size());
    }
    return positions;
  }
};

constexpr std::uint8_t kGuard = 0xA5;
/// Room for answers of n keys, and for bytes behind them that nobody may write.
std::vector<std::uint8_t> room(std::size_t n) { return std::vector<std::uint8_t>(n + 64, kGuard); }
void expect_guarded(const std::vector<std::uint8_t>& answers, std::size_t n) {
  EXPECT_TRUE(std::all_of(answers.begin() + static_cast<std::ptrdiff_t>(n), answers.end(),
                          [](std::uint8_t byte) { return byte == kGuard; }));
}

std::uint64_t add(Pair& pair, const std::vector<std::uint64_t>& hashes, const scbf::Fetch& fetch) {
  const FilterArrays filter = pair.arrays();
  const std::vector<std::uint64_t> positions = pair.locate(hashes);
  std::uint64_t filled = 0;
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    filled += filter.array_kernels.add(pair.geometry, filter.words(filter.array(a)),
                                       positions.data() + a * hashes.size(), hashes.size(), fetch);
  }
  return filled;
}

void look_up(Pair& pair, const std::vector<std::uint64_t>& hashes, const scbf::Fetch& fetch) {
  const FilterArrays filter = pair.arrays();
  const std::size_t n = hashes.size();
  const std::vector<std::uint64_t> positions = pair.locate(hashes);
  std::vector<std::uint8_t> holds(n, 1), counts(n, scbf::kCounterMax);
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const auto ask = [&](auto kernel, std::vector<std::uint8_t>& least) {
      std::vector<std::uint8_t> answers = room(n);
      kernel(pair.geometry, filter.words(filter.array(a)), positions.data() + a * n, n, fetch,
             answers.data());
      expect_guarded(answers, n);
      for (std::size_t i = 0; i < n; ++i) least[i] = std::min(least[i], answers[i]);
    };
    ask(filter.array_kernels.test, holds);
    ask(filter.array_kernels.least, counts);
  }
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(holds[i], pair.one_key.holds(pair.geometry, pair.expected.data(), hashes[i])) << i;
    ASSERT_EQ(counts[i], pair.one_key.count(pair.geometry, pair.expected.data(), hashes[i])) << i;
  }
}

void take(Pair& pair, const std::vector<std::uint64_t>& hashes, const scbf::Fetch& fetch) {
  const FilterArrays filter = pair.arrays();
  const std::size_t n = hashes.size();
  const std::vector<std::uint64_t> positions = pair.locate(hashes);
  std::vector<std::uint8_t> answers = room(n);
  std::uint64_t emptied = filter.array_kernels.take_present(
      pair.geometry, pair.words.data(), {positions.data(), n, n, filter.arrays, filter.array_words},
      fetch, answers.data());
  expect_guarded(answers, n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t own = pair.one_key.take(pair.geometry, pair.expected.data(), hashes[i]);
    ASSERT_EQ(answers[i], own != scbf::OneKey::kNotThere) << i;
    if (answers[i] != 0) emptied -= own;
  }
  EXPECT_EQ(emptied, 0u);
}

class KernelsOf : public testing::TestWithParam<std::size_t> {
 protected:
  const Kernels& kernels() const { return *tables()[GetParam()]; }
};

TEST_P(KernelsOf, DoWhatOneKeyAfterAnotherDoes) {
  // So few counters that keys share them, and that blocks of `ranked` are full, spill and are
  // stuck.
  std::vector<Shape> shapes = {{"one group", Geometry::split_block(1, 40)},
                               {"two groups", Geometry::split_block(2, 21)},
                               {"slices", Geometry::split(7, 900)},
                               {"one slice", Geometry::split(1, 3000)},
                               {"many slices", Geometry::split(64, 301)},
                               {"ranked", Geometry::ranked(82, 25, 6)},
                               {"ranked, stuck", Geometry::ranked(100, 31, 0)}};
  const std::vector<std::size_t> sizes = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130, 200};
  for (const Shape& shape : shapes) {
    for (const std::size_t distance : {0, 1, 3, 32, 128}) {
      SCOPED_TRACE(shape.name + ", lines fetched " + std::to_string(distance) + " keys ahead");
      const scbf::Fetch fetch{.distance = distance};
      Pair pair{kernels(), shape.geometry};
      std::mt19937_64 random(distance);
      std::vector<std::uint64_t> known;
      const auto some = [&](std::size_t n) {  // known ones, known ones again, and others
        std::vector<std::uint64_t> hashes(n);
        for (std::uint64_t& hash : hashes) {
          hash = !known.empty() && random() % 4 != 0 ? known[random() % known.size()] : random();
        }
        return hashes;
      };
      for (const std::size_t n : sizes) {
        const std::vector<std::uint64_t> added = some(n);
        std::uint64_t filled = 0;
        for (const std::uint64_t hash : added) {
          filled += pair.one_key.add(shape.geometry, pair.expected.data(), hash);
        }
        EXPECT_EQ(add(pair, added, fetch), filled);
        ASSERT_EQ(pair.words.copy(), pair.expected.copy()) << n << " keys added";
        known.insert(known.end(), added.begin(), added.end());
        look_up(pair, some(n), fetch);
        take(pair, some(n), fetch);
        ASSERT_EQ(pair.words.copy(), pair.expected.copy()) << n << " keys taken away";
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::size_t>& info) {
  return std::string(tables()[info.param]->target) + "_" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Targets, KernelsOf, testing::Range(std::size_t{0}, tables().size()),
                         name_of);

}  // namespace
