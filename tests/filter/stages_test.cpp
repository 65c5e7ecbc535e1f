// SPDX-License-Identifier: Apache-2.0
// Filters of several stages against the reference (support/reference.hpp), on every backend (far
// memory included), path and number of threads: the same counters, answers and verdicts, also while
// stages fill up. Then what happens when all stages are full, merging, and filters as a whole.
// sequence_test has random sequences.
#include <gtest/gtest.h>

#include <cmath>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::stages_test {
namespace {

using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::Incompatible;
using scbf::KeyBatch;
using scbf::Layout;
using scbf::Removal;
using Keys = std::vector<std::uint64_t>;

const bool kAdded = add_far_backends();

struct Case {
  std::string backend, name;
  Growth growth;
  Mode mode;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.backend << ' ' << c.name << ' ' << c.mode;
}

std::vector<std::pair<std::string, Growth>> growths() {
  return {{"blocks", Growth::tightening(60, 0.1)},
          {"split", Growth::tightening(40, 0.3, Layout::split, 1.5, 0.7)},
          {"fixed_split", Growth::fixed(Geometry::split(3, 200), 200)},
          {"fixed_blocks", Growth::fixed(Geometry::split_block(2, 9), 100)}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->name() == "simd") continue;  // one of its targets under another name
    for (const auto& [name, growth] : growths()) {
      for (const Mode& mode : contract_modes()) {
        const bool far = backend->memory() != scbf::kHostMemory;
        if (far && (mode.threads > 1 || backend->name() != "far")) continue;
        if (!is_worthwhile(*backend, mode)) continue;
        all.push_back({std::string(backend->name()), name, growth, mode});
      }
    }
  }
  return all;
}

class Stages : public ::testing::TestWithParam<Case> {
 protected:
  Filter filter(std::uint64_t seed) const {
    return Filter(GetParam().growth, {.seed = seed, .backend = GetParam().backend});
  }
};
INSTANTIATE_TEST_SUITE_P(All, Stages, ::testing::ValuesIn(cases()), [](const auto& test) {
  return identifier(test.param.backend) + "_" + test.param.name + "_" + test.param.mode.name();
});

TEST_P(Stages, EqualsTheReference) {
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(3);
  ReferenceFilter reference(GetParam().growth, 3);
  Mixture mixture(4);
  std::ptrdiff_t ambiguous = 0;
  for (const std::size_t n : {1u, 0u, 7u, 600u, 65u, 1500u}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    const Keys in = mixture.to_insert(n), asked = mixture.to_ask(n), out = mixture.to_ask(n);
    EXPECT_EQ(filter.insert(in, options).inserted, n);
    reference.insert_all(in);
    ASSERT_TRUE(reference.equals(filter)) << "after insert";
    ASSERT_TRUE(same_answers(contains(filter, asked, options), reference.contains_all(asked)));
    ASSERT_TRUE(same_answers(count(filter, asked, options), reference.count_all(asked)));
    const Answers verdicts = reference.remove_all(out);
    ASSERT_TRUE(same_answers(remove(filter, out, options), verdicts));
    ASSERT_TRUE(reference.equals(filter)) << "after remove";
    ambiguous += std::ranges::count(verdicts, 2);
  }
  // With one stage or no ambiguous key, the test would show little.
  EXPECT_GT(filter.stages(), 3u);
  EXPECT_GT(ambiguous, 10);
}

TEST_P(Stages, EmptiesCompletelyInOneBatch) {
  // Several stages claim some keys at first. Their claims vanish in the course of the batch.
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(9);
  ReferenceFilter reference(GetParam().growth, 9);
  const Keys keys = random_keys(700, 5);
  filter.insert(keys, options);
  reference.insert_all(keys);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(same_answers(remove(filter, keys, options), reference.remove_all(keys)));
    ASSERT_TRUE(reference.equals(filter));
  }
}

TEST_P(Stages, StringsWithNullsAndAllForms) {
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(1);
  ReferenceFilter reference(GetParam().growth, 1);
  std::vector<std::string> strings, some_strings;
  for (unsigned i = 0; i < 900; ++i) strings.push_back(random_bytes(i % 40, i));
  std::vector<std::byte> bitmap(strings.size() / 8 + 2);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const KeyBatch some = KeyBatch(strings).with_validity(bitmap, 3);
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (some.valid(i)) some_strings.push_back(strings[i]);
  }
  /// The answers of valid keys, with zeros for the others.
  const auto with_nulls = [&](const Answers& answers) {
    Answers all(strings.size(), 0);
    for (std::size_t i = 0, valid = 0; i < all.size(); ++i) {
      if (some.valid(i)) all[i] = answers[valid++];
    }
    return all;
  };
  const auto report = filter.insert(some, options);
  EXPECT_EQ(report.nulls, some.nulls());
  EXPECT_EQ(report.inserted, some_strings.size());
  reference.insert_all(some_strings);
  ASSERT_TRUE(reference.equals(filter));
  const Answers hits = with_nulls(reference.contains_all(some_strings));
  ASSERT_TRUE(same_answers(contains(filter, some, options), hits));
  ASSERT_TRUE(same_answers(contains(filter, strings, options), reference.contains_all(strings)));
  EXPECT_EQ(filter.count_present(some, options).hits, present_in(hits));
  std::vector<std::uint8_t> bits((strings.size() + 7) / 8, 0xCC);
  std::vector<std::uint64_t> indices(strings.size());
  EXPECT_EQ(filter.contains_bits(some, bits, options).hits,
            filter.find(some, indices, options).hits);
  std::size_t found = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    ASSERT_EQ(bits[i / 8] >> (i % 8) & 1, hits[i]);
    if (hits[i] != 0) {
      ASSERT_EQ(indices[found++], i);
    }
  }
  ASSERT_TRUE(
      same_answers(remove(filter, some, options), with_nulls(reference.remove_all(some_strings))));
  ASSERT_TRUE(reference.equals(filter));
}

// ---- the limit, and whole filters ---------------------------------------------------------------

TEST(FixedStages, SayWhenTheyAreFullAndWhatIsIn) {
  for (const scbf::Backend* backend : available_backends()) {
    SCOPED_TRACE(backend->name());
    const Growth growth = Growth::fixed(Geometry::split(5, 300), 3);
    Filter filter(growth, {.backend = backend->name()});
    const Keys keys = random_keys(2000, 1);
    std::uint64_t in = 0;
    try {
      filter.insert(keys);
      FAIL() << "three stages for about 200 keys each took 2000";
    } catch (const FilterFull& full) {
      in = full.processed();
      EXPECT_EQ(full.done().inserted, in);
      EXPECT_NE(std::string(full.what()).find("all 3 stages are full"), std::string::npos);
    }
    EXPECT_NEAR(static_cast<double>(in), 3 * 300 * std::log(2.0), 60);
    EXPECT_EQ(filter.keys_inserted(), in);
    Filter only(growth);
    only.insert(KeyBatch(keys).slice(0, in));
    EXPECT_TRUE(only == filter);
    Filter nearly(growth, {.backend = backend->name()});
    nearly.insert(KeyBatch(keys).slice(0, in - 1));
    SCBF_EXPECT_THROW(nearly.insert(KeyBatch(keys).slice(in - 1, 2)), FilterFull,
                      "; 1 key of the batch was inserted, the next is key 1");
    // In a full filter an insertion changes nothing. Empty batches and nulls need no room.
    EXPECT_THROW(filter.insert(keys[in]), FilterFull);
    EXPECT_TRUE(only == filter);
    const std::array<std::byte, 1> none{};
    EXPECT_EQ(filter.insert(KeyBatch(keys).slice(0, 8).with_validity(none)).nulls, 8u);
    EXPECT_EQ(filter.insert(KeyBatch(keys).slice(0, 0)).inserted, 0u);
    // Removal makes room.
    ASSERT_EQ(filter.remove(keys[0]), Removal::removed);
    filter.insert(keys[in]);
    EXPECT_TRUE(filter.contains(keys[in]));
    EXPECT_EQ(filter.stages(), 3u);
  }
}

TEST(FixedStages, AreAsManyAsPromisedAfterAMergeThatLeavesGaps) {
  const Growth growth = Growth::fixed(Geometry::split(5, 300), 4);
  Filter filter(growth);
  filter.insert(random_keys(120, 1));  // too many for the late stage to join the only one here
  filter.merge(with_late_stage_only(growth, 3));
  ASSERT_EQ(filter.stages(), 2u);
  const Keys more = random_keys(2000, 2);
  SCBF_EXPECT_THROW(filter.insert(more), FilterFull, "all 4 stages are full");
  EXPECT_EQ(filter.stages(), 4u);
  EXPECT_LE(filter.fpr_bound(), growth.fpr());
}

TEST(FixedStages, AnySequenceOfInsertionsRemovalsAndMergesEqualsTheReference) {
  std::size_t gaps_filled = 0;
  for (std::uint64_t seed = 0; seed < scaled(300, 60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto most_stages = static_cast<std::uint32_t>(2 + random.below(4));
    const Growth growth = random.below(2) == 0
                              ? Growth::fixed(Geometry::split(3, 60), most_stages)
                              : Growth::fixed(Geometry::split_block(1, 4), most_stages);
    Filter filter(growth, {.seed = seed});
    ReferenceFilter reference(growth, seed);
    const auto insert = [&](Filter& into, ReferenceFilter& reference_into, std::size_t most) {
      const Keys keys = random_keys(random.below(most), random());
      std::size_t in = 0, want = 0;
      while (want < keys.size() && reference_into.insert(keys[want])) ++want;
      try {
        in = into.insert(keys).inserted;
      } catch (const FilterFull& full) {
        in = full.processed();
      }
      EXPECT_EQ(in, want);
      return keys;
    };
    Keys all;
    for (int step = 0; step < 20; ++step) {
      if (const auto dice = random.below(3); dice == 0) {
        const Keys keys = insert(filter, reference, 60);
        all.insert(all.end(), keys.begin(), keys.end());
      } else if (dice == 1) {
        Keys some;
        for (const auto key : all) {
          if (random.below(3) == 0) some.push_back(key);
        }
        ASSERT_TRUE(same_answers(remove(filter, some), reference.remove_all(some)));
      } else {
        // Mostly without its oldest keys, so that older stages are emptier than late ones.
        Filter other(growth, {.seed = seed});
        ReferenceFilter other_reference(growth, seed);
        Keys keys = insert(other, other_reference, 200);
        const Keys oldest(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(
                                                           random.below(keys.size() + 1)));
        ASSERT_TRUE(same_answers(remove(other, oldest), other_reference.remove_all(oldest)));
        if (reference.merge(other_reference)) {
          filter.merge(other);
          all.insert(all.end(), keys.begin(), keys.end());
        } else {
          SCBF_EXPECT_THROW(filter.merge(other), Incompatible, "more than");
        }
      }
      ASSERT_TRUE(reference.equals(filter)) << "step " << step;
    }
    gaps_filled += reference.gaps_filled;
  }
  EXPECT_GT(gaps_filled, 0u);  // otherwise the test would show little
}

TEST(FixedStages, TrailingNullsAfterTheLastRoomAreNoFailure) {
  Filter filter(Growth::fixed(Geometry::split(5, 300), 1));
  const Keys keys = random_keys(400, 1);
  std::uint64_t in = 0;
  try {
    filter.insert(keys);
  } catch (const FilterFull& full) {
    in = full.processed();
  }
  std::vector<std::byte> bitmap(400 / 8, std::byte{0});
  for (std::size_t i = 0; i < in; ++i) bitmap[i / 8] |= std::byte{1} << (i % 8);
  Filter again(Growth::fixed(Geometry::split(5, 300), 1));
  const auto report = again.insert(KeyBatch(keys).with_validity(bitmap));
  EXPECT_EQ(report.inserted, in);
  EXPECT_EQ(report.nulls, 400 - in);
  EXPECT_TRUE(again == filter);
}

TEST(StagesGrowth, MemoryThatEndsInTheMiddleLosesNoKey) {
  Filter filter(Growth::tightening(100, 0.01), {.backend = "far"});
  far_log().heal();
  filter.insert(1);
  far_log().fail_allocate = true;
  const Keys keys = random_keys(500, 1);
  std::uint64_t in = 0;
  try {
    filter.insert(keys);
    ADD_FAILURE() << "no exception, though there was no memory";
  } catch (const FilterFull& full) {
    in = full.processed();
    EXPECT_NE(std::string(full.what()).find("no room, as was asked for"), std::string::npos);
  }
  far_log().heal();
  EXPECT_GT(in, 50u);
  filter.insert(KeyBatch(keys).slice(in, keys.size() - in));
  Filter want(Growth::tightening(100, 0.01));
  want.insert(1);
  want.insert(keys);
  EXPECT_TRUE(filter == want);
}

TEST(StagesGrowth, RemovalMakesRoomSoThatTurnoverNeedsNoGrowth) {
  Filter filter(Growth::tightening(1000, 0.01));
  const Keys keys = random_keys(30'000, 1);
  filter.insert(KeyBatch(keys).slice(0, 3000));
  const std::size_t stages = filter.stages();
  for (std::size_t i = 0; i + 3100 <= keys.size(); i += 100) {
    filter.insert(KeyBatch(keys).slice(3000 + i, 100));
    filter.remove(KeyBatch(keys).slice(i, 100));
  }
  EXPECT_LE(filter.stages(), stages + 1);
}

TEST(StagesMerge, JoinsStagesThatFitAndAppendsTheOthers) {
  const Growth growth = Growth::tightening(1000, 0.01);
  Filter a(growth), b(growth);
  const Keys keys = random_keys(6000, 1);
  a.insert(KeyBatch(keys).slice(0, 400));
  b.insert(KeyBatch(keys).slice(400, 300));
  a.merge(b);
  EXPECT_EQ(a.stages(), 1u);
  Filter both(growth);
  both.insert(KeyBatch(keys).slice(0, 700));
  EXPECT_TRUE(a == both);
  Filter large(growth);
  large.insert(KeyBatch(keys).slice(700, 5300));
  const std::size_t stages = large.stages();
  a.merge(large);
  EXPECT_EQ(a.stages(), stages + 1);  // the first stages are too full to join
  EXPECT_EQ(a.keys_inserted(), 6000u);
  EXPECT_EQ(Answers(6000, 1), contains(a, keys));
  for (std::size_t s = 0; s < a.stages(); ++s) {
    EXPECT_LE(a.stage(s).nonzero(),
              a.stage(s).shape().full_at + a.stage(s).shape().geometry.probes() - 1);
  }
  EXPECT_NEAR(a.fpr_bound(), large.fpr_bound() + a.stage(0).shape().fpr, 1e-4);
  // Growth continues the series: from stage 1 on, rates never rise.
  a.insert(random_keys(20'000, 2));
  for (std::size_t s = 1; s + 1 < a.stages(); ++s)
    EXPECT_GE(a.stage(s).shape().fpr, a.stage(s + 1).shape().fpr);

  Filter twice = large;
  twice.merge(twice);
  EXPECT_EQ(twice.keys_inserted(), 2 * large.keys_inserted());
  EXPECT_EQ(Answers(5300, 1), contains(twice, KeyBatch(keys).slice(700, 5300)));
}

TEST(StagesMerge, IsUndoneBySubtract) {
  for (const char* backend : {"scalar", "simd", "far"}) {
    const Growth growth = Growth::tightening(1000, 0.01);
    Filter a(growth, {.backend = backend}), b(growth);
    a.insert(random_keys(700, 1));
    b.insert(random_keys(5000, 2));
    const Filter before = a;
    a.merge(b);
    EXPECT_EQ(a.subtract(b).inexact_counters, 0u);
    ASSERT_TRUE(a.stage(0) == before.stage(0));
    for (std::size_t s = 1; s < a.stages(); ++s) EXPECT_EQ(a.stage(s).nonzero(), 0u);
    const Filter after = a;
    SCBF_EXPECT_THROW(a.subtract(b), Incompatible, "contained in no stage");
    EXPECT_TRUE(a == after);
    a.merge(b);
    a.merge(b);
    a.subtract(b);  // from either of two equal stages
    EXPECT_EQ(Answers(5000, 1), contains(a, random_keys(5000, 2)));
  }
}

TEST(StagesMerge, RefusesOtherSeedsAndTooManyStages) {
  const Growth growth = Growth::fixed(Geometry::split(5, 300), 2);
  Filter a(growth, {.seed = 1}), b(growth, {.seed = 2}), c(growth, {.seed = 1});
  SCBF_EXPECT_THROW(a.merge(b), Incompatible, "seeds differ: 1 and 2");
  SCBF_EXPECT_THROW(a.subtract(b), Incompatible, "seeds differ: 1 and 2");
  a.insert(random_keys(300, 1));
  c.insert(random_keys(300, 2));
  const Filter before = a;
  SCBF_EXPECT_THROW(a.merge(c), Incompatible, "more than 2 stages");
  EXPECT_TRUE(a == before);
}

TEST(StagesWhole, MovesBetweenMemoriesAsOne) {
  far_log().heal();
  Filter filter(Growth::tightening(300, 0.01));
  filter.insert(random_keys(4000, 1));
  const Filter before = filter;
  filter.to("far");
  EXPECT_EQ(filter.backend().name(), "far");
  EXPECT_TRUE(filter == before);
  filter.insert(random_keys(4000, 2));
  filter.to("farther").to("simd");
  Filter want = before;
  want.insert(random_keys(4000, 2));
  EXPECT_TRUE(filter == want);
  far_log().copies_left = 2;
  EXPECT_THROW(filter.to("far"), FarError);
  far_log().heal();
  EXPECT_EQ(filter.backend().name(), "simd");
  EXPECT_TRUE(filter == want);
  EXPECT_THROW(filter.to("nowhere"), scbf::BackendUnavailable);
}

TEST(StagesWhole, StatisticsAddUp) {
  Filter filter(Growth::tightening(1000, 0.01));
  filter.insert(random_keys(20'000, 1));
  filter.remove(random_keys(500, 1));
  const auto s = filter.statistics();
  ASSERT_EQ(s.stages.size(), filter.stages());
  std::uint64_t nonzero = 0, bytes = 0;
  for (std::size_t i = 0; i < filter.stages(); ++i) {
    EXPECT_EQ(s.stages[i].shape, filter.stage(i).shape());
    EXPECT_EQ(s.stages[i].nonzero, filter.stage(i).nonzero());
    nonzero += filter.stage(i).nonzero();
    bytes += filter.stage(i).geometry().bytes();
  }
  EXPECT_EQ(s.nonzero, nonzero);
  EXPECT_EQ(s.bytes, bytes);
  EXPECT_EQ(s.bytes, filter.bytes());
  EXPECT_EQ(s.keys_inserted, 20'000u);
  EXPECT_EQ(s.keys_removed, filter.keys_removed());
  EXPECT_NEAR(s.estimated_keys, 19'500, 400);
  EXPECT_LE(s.estimated_fpr, s.fpr_bound);
  EXPECT_LT(s.fpr_bound, 0.01);
  filter.clear();
  EXPECT_TRUE(filter == Filter(Growth::tightening(1000, 0.01)));
  EXPECT_EQ(filter.keys_inserted(), 0u);
}

}  // namespace
}  // namespace scbf_test::stages_test
