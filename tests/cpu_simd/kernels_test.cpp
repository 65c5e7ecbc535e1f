// SPDX-License-Identifier: Apache-2.0
// The kernels of filters of counters, without the engine around them, against the scalar backend's
// functions for one key: every target, numbers of keys from none to the most there may be, and all
// distances at which the engine fetches lines. Filters of backends reach the larger distances only
// when they are large. (Where there are no vectors, kernels of `ranked` are much like those
// functions; what these do is tested in ranked_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/ranked_block.hpp"
#include "kit/ranked_lists.hpp"
#include "support/setups.hpp"

namespace scbf_test::kernels_test {
namespace {

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
  scbf::OneKey one_key = scbf::find_backend("scalar").one_key(geometry);
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

/// Inserts the keys that are new, into filters of one array.
void add_new(Pair& pair, const std::vector<std::uint64_t>& hashes, const scbf::Fetch& fetch) {
  const FilterArrays filter = pair.arrays();
  const std::size_t n = hashes.size();
  if (filter.arrays > 1) return;
  const std::vector<std::uint64_t> positions = pair.locate(hashes);
  std::vector<std::uint8_t> answers = room(n);
  std::fill_n(answers.begin(), n, std::uint8_t{0});
  std::uint64_t filled = filter.array_kernels.add_new(pair.geometry, pair.words.data(),
                                                      positions.data(), n, fetch, answers.data());
  expect_guarded(answers, n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_new = !pair.one_key.holds(pair.geometry, pair.expected.data(), hashes[i]);
    ASSERT_EQ(answers[i], is_new) << i;
    if (is_new) filled -= pair.one_key.add(pair.geometry, pair.expected.data(), hashes[i]);
  }
  EXPECT_EQ(filled, 0u);
}

/// The same with the functions for one key.
void one_by_one(Pair& pair, const std::vector<std::uint64_t>& hashes) {
  const scbf::OneKey& own = pair.kernels.one_key.of(pair.geometry);
  std::uint64_t* const words = pair.words.data();
  std::uint64_t* const expected = pair.expected.data();
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::uint64_t hash = hashes[i];
    ASSERT_EQ(own.holds(pair.geometry, words, hash),
              pair.one_key.holds(pair.geometry, expected, hash));
    ASSERT_EQ(own.count(pair.geometry, words, hash),
              pair.one_key.count(pair.geometry, expected, hash));
    if (i % 2 == 0) {
      ASSERT_EQ(own.add(pair.geometry, words, hash),
                pair.one_key.add(pair.geometry, expected, hash));
    } else {
      ASSERT_EQ(own.take(pair.geometry, words, hash),
                pair.one_key.take(pair.geometry, expected, hash));
    }
  }
}

/// How many blocks have spilled, or are stuck.
std::uint64_t spilled_blocks(Pair& pair) {
  std::uint64_t spilled = 0;
  for (std::uint64_t b = 0; b < pair.geometry.blocks_per_group(); ++b) {
    spilled += scbf::is_spilled(pair.words.data() + b * scbf::kWordsPerBlock);
  }
  return spilled;
}

class KernelsOf : public testing::TestWithParam<std::size_t> {
 protected:
  const Kernels& kernels() const { return *tables()[GetParam()]; }

  /// Returns how many blocks were spilled, all rounds together.
  std::uint64_t go_through(const Geometry& geometry, std::size_t distance) {
    const scbf::Fetch fetch{.distance = distance};
    Pair pair{kernels(), geometry};
    std::mt19937_64 random(distance);
    std::vector<std::uint64_t> known;
    std::uint64_t spilled = 0;
    const auto some = [&](std::size_t n, unsigned known_of_four) {
      std::vector<std::uint64_t> hashes(n);
      for (std::uint64_t& hash : hashes) {
        const bool again = !known.empty() && random() % 4 < known_of_four;
        hash = again ? known[random() % known.size()] : random();
        if (!again) known.push_back(hash);
      }
      return hashes;
    };
    for (const std::size_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130, 200, 1024}) {
      SCOPED_TRACE(std::to_string(n) + " keys");
      const std::vector<std::uint64_t> added = some(n, 1);
      std::uint64_t filled = 0;
      for (const std::uint64_t hash : added) {
        filled += pair.one_key.add(geometry, pair.expected.data(), hash);
      }
      EXPECT_EQ(add(pair, added, fetch), filled);
      EXPECT_EQ(pair.words.copy(), pair.expected.copy()) << "added";
      if (geometry.layout() == scbf::Layout::ranked) spilled += spilled_blocks(pair);
      look_up(pair, some(n, 3), fetch);
      take(pair, some(n, 3), fetch);
      EXPECT_EQ(pair.words.copy(), pair.expected.copy()) << "taken away";
      add_new(pair, some(n, 2), fetch);
      one_by_one(pair, some(n, 2));
      EXPECT_EQ(pair.words.copy(), pair.expected.copy()) << "new ones added, and one by one";
      if (HasFailure()) break;
    }
    return spilled;
  }
};

TEST_P(KernelsOf, DoWhatOneKeyAfterAnotherDoes) {
  // Small ones, so that keys share counters; with room, so that keys of `ranked` are changed
  // together; and without, so that blocks spill into a table that has room, or has not, or is not
  // there.
  const std::vector<Shape> shapes = {{"one group", Geometry::split_block(1, 40)},
                                     {"two groups", Geometry::split_block(2, 21)},
                                     {"slices", Geometry::split(7, 900)},
                                     {"four slices", Geometry::split(4, 1201)},
                                     {"one slice", Geometry::split(1, 3000)},
                                     {"many slices", Geometry::split(64, 301)},
                                     {"ranked, roomy", Geometry::ranked(82, 1009, 0)},
                                     {"ranked, full", Geometry::ranked(82, 25, 40)},
                                     {"ranked, small table", Geometry::ranked(112, 9, 2)},
                                     {"ranked, no table", Geometry::ranked(100, 31, 0)}};
  for (const Shape& shape : shapes) {
    for (const std::size_t distance : {0, 1, 3, 32, 128}) {
      SCOPED_TRACE(shape.name + ", lines fetched " + std::to_string(distance) + " keys ahead");
      const std::uint64_t spilled = go_through(shape.geometry, distance);
      if (HasFailure()) return;
      if (shape.geometry.layout() == scbf::Layout::ranked && shape.name != "ranked, roomy") {
        EXPECT_GT(spilled, 0u);
      }
    }
  }
}

TEST_P(KernelsOf, PutListsTogetherAndTakeThemApart) {
  const Geometry geometry = Geometry::ranked(82, 1, 0);
  const scbf::RankedShape shape(geometry);
  const scbf::OneKey one_key = scbf::find_backend("scalar").one_key(geometry);
  const scbf::RankedLists& lists = kernels().ranked_lists;
  std::mt19937_64 random(1);
  using Block = std::array<std::uint64_t, scbf::kWordsPerBlock>;
  const auto block_of = [&](std::uint64_t keys) {
    Words words(geometry);
    for (unsigned i = 0; i < keys; ++i)
      one_key.add(geometry, words.data(), random() % 40 * 0x0123'4567'89AB'CDEF);
    Block block;
    std::copy_n(words.data(), block.size(), block.begin());
    return block;
  };
  for (int round = 0; round < 300; ++round) {
    const Block a = block_of(random() % 40), b = block_of(random() % 40);
    Block sum = a, expected = a;
    const bool fits = lists.add(shape, sum.data(), b.data());
    ASSERT_EQ(fits, scbf::add_ranked_lists<scbf::SelectBySearch>(shape, expected.data(), b.data()));
    ASSERT_EQ(sum, expected);
    ASSERT_EQ(lists.too_large(shape, a.data(), b.data()),
              scbf::too_large_in_lists<scbf::SelectBySearch>(shape, a.data(), b.data()));
    if (!fits) continue;
    lists.subtract(shape, sum.data(), b.data());
    ASSERT_EQ(sum, a);
  }
}

std::string name_of(const testing::TestParamInfo<std::size_t>& info) {
  return std::string(tables()[info.param]->target) + "_" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Targets, KernelsOf, testing::Range(std::size_t{0}, tables().size()),
                         name_of);

}  // namespace
}  // namespace scbf_test::kernels_test
