// SPDX-License-Identifier: Apache-2.0
// Removal from several filters as a device does it (cuda/src/engine/removal_from_several.hpp), on
// the host, against the reference, which removes one key after another. The filters are crowded, so
// that most keys affect others. The number of passes is bounded too.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/operations.hpp"
#include "support/host_device.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::cuda_removal_test {
namespace {

namespace cuda = scbf::cuda;
using scbf::Geometry;
using Keys = std::vector<std::uint64_t>;

constexpr std::uint64_t kSeed = 5;

/// Filters as the engine sees them, each with its reference.
class Filters {
 public:
  explicit Filters(const std::vector<Geometry>& geometries) : words_(geometries.size()) {
    for (std::size_t f = 0; f < geometries.size(); ++f) {
      words_[f].resize(geometries[f].words());
      refs_.emplace_back(geometries[f], kSeed, words_[f].data());
      models_.emplace_back(scbf::Growth::one(geometries[f]).stage(0), kSeed);
    }
  }
  std::size_t size() const { return refs_.size(); }
  std::span<const cuda::FilterRef> refs() const { return refs_; }
  void insert(std::size_t f, std::uint64_t key) {
    refs_[f].insert(key);
    models_[f].insert(key);
  }

  /// Removes the valid keys from both; compares verdicts, counts and counters.
  ::testing::AssertionResult remove(HostDevice& device, const Keys& keys,
                                    const cuda::Validity& validity, const cuda::Tuning& tuning) {
    Answers verdicts(keys.size(), 0xCC), want(keys.size());
    // Removal adds to these numbers.
    Keys removed(size(), 100), want_removed(size(), 100), emptied(size(), 10), want_emptied;
    for (const Keys& words : words_)
      want_emptied.push_back(10 + nonzero_in(scbf::Cell::counter, words));
    std::uint64_t ambiguous = 1000, want_ambiguous = 1000;
    cuda::remove_from_several(device, refs(), {keys.data(), keys.size(), false, validity},
                              verdicts.data(), removed.data(), emptied.data(), &ambiguous, tuning);
    for (std::size_t f = 0; f < size(); ++f)
      want_emptied[f] -= nonzero_in(scbf::Cell::counter, words_[f]);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!validity.valid(i)) continue;
      std::vector<std::size_t> claims;
      for (std::size_t f = 0; f < size(); ++f) {
        if (models_[f].count(keys[i]) > 0) claims.push_back(f);
      }
      want[i] = static_cast<std::uint8_t>(std::min<std::size_t>(claims.size(), 2));
      want_ambiguous += claims.size() > 1;
      if (claims.size() != 1) continue;
      models_[claims[0]].remove(keys[i]);
      ++want_removed[claims[0]];
    }
    if (const auto same = same_answers(verdicts, want); !same) return same;
    for (std::size_t f = 0; f < size(); ++f) {
      const auto same = same_words(words_[f], models_[f].words());
      if (!same) return ::testing::AssertionFailure() << "filter " << f << ": " << same.message();
    }
    if (removed != want_removed) return ::testing::AssertionFailure() << "removed from each";
    if (emptied != want_emptied) return ::testing::AssertionFailure() << "emptied in each";
    if (ambiguous != want_ambiguous) return ::testing::AssertionFailure() << "ambiguous";
    return ::testing::AssertionSuccess();
  }

 private:
  std::vector<Keys> words_;
  std::vector<cuda::FilterRef> refs_;
  std::vector<ReferenceStage> models_;
};

struct Crowd {
  std::string name;
  std::vector<Geometry> geometries;
};
std::ostream& operator<<(std::ostream& out, const Crowd& c) { return out << c.name; }

std::vector<Crowd> crowds() {
  const auto blocks = [](std::uint32_t groups, std::uint64_t n) {
    return Geometry::split_block(groups, n);
  };
  return {
      {"two_alike", {blocks(1, 3), blocks(1, 3)}},
      {"growing", {blocks(1, 1), blocks(1, 3), blocks(2, 9), blocks(2, 27)}},
      {"groups", {blocks(3, 2), blocks(2, 3), blocks(8, 2)}},
      {"slices", {Geometry::split(2, 5), Geometry::split(7, 16), Geometry::split(10, 129)}},
      {"both",
       {Geometry::split(3, 40), blocks(1, 2), Geometry::split(1, 3), blocks(2, 40),
        Geometry::split(20, 300), blocks(1, 40)}},
  };
}

class CrowdedRemoval : public ::testing::TestWithParam<Crowd> {};
INSTANTIATE_TEST_SUITE_P(All, CrowdedRemoval, ::testing::ValuesIn(crowds()),
                         [](const auto& crowd) { return crowd.param.name; });

TEST_P(CrowdedRemoval, IsOneKeyAfterAnother) {
  Random random(29);
  for (std::size_t round = 0; round < scaled(400, 60); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Filters filters(GetParam().geometries);
    // From keys in one filter each, so that claims by other filters are false positives, to keys in
    // many.
    const std::size_t universe = 1 + random.below(90), most_homes = 1 + random.below(3);
    for (std::size_t i = 0, n = random.below(150); i < n; ++i) {
      const std::uint64_t key = random.below(universe);
      for (std::size_t home = 0; home < most_homes; ++home) {
        filters.insert((key + home * (i + 1)) % filters.size(), key);
      }
    }
    Keys out(random.below(500));
    for (auto& key : out) key = random.below(2 * universe);
    std::vector<std::byte> bitmap(out.size() / 8 + 2);
    for (auto& byte : bitmap) byte = static_cast<std::byte>(random() | random());
    cuda::Tuning tuning;
    // With few keys at once and few reservations there are many passes and windows, and unrelated
    // keys wait for each other.
    if (round % 2 == 0) tuning.most_log2_reservations = 7;
    if (round % 3 == 0) tuning.claimed_keys = 37;
    const cuda::Validity some =
        round % 4 == 0 ? cuda::Validity(bitmap.data(), 3) : cuda::Validity();
    HostDevice device(round % 5 == 0 ? 3 : 1);
    ASSERT_TRUE(filters.remove(device, out, some, tuning));
    ASSERT_TRUE(filters.remove(device, out, {}, tuning)) << "again";
  }
}

/// Counts how often the threads of a grid wait for each other.
struct CountingGrid {
  std::size_t* waits;
  template <class Work>
  void each(std::size_t n, Work work) const {
    for (std::size_t i = 0; i < n; ++i) work(i);
  }
  void sync() const { ++*waits; }
};
class CountingDevice : public HostDevice {
 public:
  explicit CountingDevice(std::size_t* waits) : waits_(waits) {}
  template <class Work>
  void for_grid(Work work) const {
    work(CountingGrid{waits_});
  }

 private:
  std::size_t* waits_;
};

/// How often threads wait in the removal of these keys.
std::size_t waits_for(Filters& filters, const Keys& keys, Answers& verdicts) {
  std::size_t waits = 0;
  CountingDevice device(&waits);
  Keys removed(filters.size()), emptied(filters.size());
  std::uint64_t ambiguous = 0;
  verdicts.assign(keys.size(), 0xCC);
  cuda::remove_from_several(device, filters.refs(), {keys.data(), keys.size(), false, {}},
                            verdicts.data(), removed.data(), emptied.data(), &ambiguous,
                            cuda::Tuning());
  return waits;
}

TEST(RemovalRounds, OfOneKeyManyTimesAreFew) {
  constexpr std::uint64_t kKey = 42;
  const std::vector<Geometry> two(2, Geometry::split_block(1, 1));
  Answers verdicts;
  {
    Filters filters(two);  // ambiguous: all copies are decided together
    for (std::size_t f = 0; f < 2; ++f) filters.insert(f, kKey);
    EXPECT_LE(waits_for(filters, Keys(20'000, kKey), verdicts), 5u);
    EXPECT_EQ(verdicts, Answers(20'000, 2));
  }
  {
    Filters filters(two);  // in one filter only, inserted three times
    for (int i = 0; i < 3; ++i) filters.insert(0, kKey);
    EXPECT_LE(waits_for(filters, Keys(20'000, kKey), verdicts), 15u);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), 1), 3);
  }
  {
    Filters filters(two);  // saturated: removed each time, without a change
    for (int i = 0; i < 15; ++i) filters.insert(0, kKey);
    EXPECT_LE(waits_for(filters, Keys(20'000, kKey), verdicts), 5u);
    EXPECT_EQ(verdicts, Answers(20'000, 1));
  }
  {
    // Ambiguous copies must wait for each of the other keys that are removed from the same line.
    Filters filters(two);
    for (std::size_t f = 0; f < 2; ++f) filters.insert(f, kKey);
    Keys others;
    for (std::uint64_t key = 1000; others.size() < 6; ++key) {
      if (filters.refs()[0].contains(key)) continue;
      filters.insert(0, key);
      if (filters.refs()[1].contains(key)) continue;
      others.push_back(key);
    }
    Keys out(20'000, kKey);
    for (std::size_t i = 0; i < others.size(); ++i) out[(i + 1) * 3000] = others[i];
    EXPECT_LE(waits_for(filters, out, verdicts), 6 * others.size());
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), 1), static_cast<long>(others.size()));
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), 2),
              static_cast<long>(out.size() - others.size()));
  }
}

TEST(RemovalRounds, OfDifferentKeysAreFew) {
  Filters filters({Geometry::split_block(1, 20'000), Geometry::split_block(1, 40'000)});
  const Keys keys = random_keys(100'000, 3);
  for (std::size_t i = 0; i < keys.size(); ++i) filters.insert(i % 2, keys[i]);
  Answers verdicts;
  EXPECT_LE(waits_for(filters, keys, verdicts), 150u);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), 0), 0);
  EXPECT_GT(std::count(verdicts.begin(), verdicts.end(), 2), 0);
}

}  // namespace
}  // namespace scbf_test::cuda_removal_test
