// SPDX-License-Identifier: Apache-2.0
// Filter against the model of support/stages_model.hpp, on every backend, far memory
// included, path and thread count: the same bytes, answers and verdicts however batches are cut,
// also where stages fill up; no false negatives under any legal sequence; what happens at the
// limit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"
#include "support/stages_model.hpp"

namespace {

using namespace scbf_test;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::Incompatible;
using scbf::InvalidArgument;
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
    for (const auto& [name, growth] : growths()) {
      for (const Mode& mode : contract_modes()) {
        const bool far = backend->memory() != scbf::kHostMemory;
        if (far && (mode.threads > 1 || backend->name() != "far")) continue;
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

TEST_P(Stages, EqualsTheModel) {
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(3);
  StagesModel model(GetParam().growth, 3);
  Mixture mixture(4);
  std::size_t ambiguous = 0;
  for (const std::size_t n : {1u, 0u, 7u, 600u, 65u, 1500u}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    const Keys in = mixture.to_insert(n), asked = mixture.to_ask(n), out = mixture.to_ask(n);
    EXPECT_EQ(filter.insert(in, options).inserted, n);
    for (const auto key : in) ASSERT_TRUE(model.insert(key));
    ASSERT_TRUE(model.equals(filter)) << "after insert";
    Answers hits, counts, verdicts;
    for (const auto key : asked) {
      counts.push_back(static_cast<std::uint8_t>(model.count(key)));
      hits.push_back(counts.back() > 0);
    }
    ASSERT_TRUE(same_answers(contains(filter, asked, options), hits));
    ASSERT_TRUE(same_answers(count(filter, asked, options), counts));
    for (const auto key : out) verdicts.push_back(static_cast<std::uint8_t>(model.remove(key)));
    ASSERT_TRUE(same_answers(remove(filter, out, options), verdicts));
    ASSERT_TRUE(model.equals(filter)) << "after remove";
    ambiguous += static_cast<std::size_t>(std::count(verdicts.begin(), verdicts.end(), 2));
  }
  // A test of one stage, or of no ambiguous key, would say little.
  EXPECT_GT(filter.stages(), 3u);
  EXPECT_GT(ambiguous, 10u);
}

TEST_P(Stages, EmptiesCompletelyInOneBatch) {
  // Claims by other stages vanish in the course of the batch: keys that several claim at first.
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(9);
  StagesModel model(GetParam().growth, 9);
  const Keys keys = random_keys(700, 5);
  filter.insert(keys, options);
  for (const auto key : keys) model.insert(key);
  for (int round = 0; round < 3; ++round) {
    Answers verdicts;
    for (const auto key : keys) verdicts.push_back(static_cast<std::uint8_t>(model.remove(key)));
    ASSERT_TRUE(same_answers(remove(filter, keys, options), verdicts));
    ASSERT_TRUE(model.equals(filter));
  }
}

TEST_P(Stages, StringsWithNullsAndAllForms) {
  const auto options = GetParam().mode.options();
  Filter filter = this->filter(1);
  StagesModel model(GetParam().growth, 1);
  std::vector<std::string> strings;
  for (unsigned i = 0; i < 900; ++i) strings.push_back(random_bytes(i % 40, i));
  std::vector<std::byte> bitmap(strings.size() / 8 + 2);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const KeyBatch some = KeyBatch(strings).with_validity(bitmap, 3);
  const auto report = filter.insert(some, options);
  EXPECT_EQ(report.nulls, some.nulls());
  EXPECT_EQ(report.inserted + report.nulls, strings.size());
  Answers hits, all_hits;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (some.valid(i)) model.insert(std::string_view(strings[i]));
  }
  for (std::size_t i = 0; i < strings.size(); ++i) {
    all_hits.push_back(model.count(std::string_view(strings[i])) > 0);
    hits.push_back(some.valid(i) && all_hits.back());
  }
  ASSERT_TRUE(model.equals(filter));
  ASSERT_TRUE(same_answers(contains(filter, some, options), hits));
  ASSERT_TRUE(same_answers(contains(filter, strings, options), all_hits));
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
  Answers verdicts;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    verdicts.push_back(
        some.valid(i) ? static_cast<std::uint8_t>(model.remove(std::string_view(strings[i]))) : 0);
  }
  ASSERT_TRUE(same_answers(remove(filter, some, options), verdicts));
  ASSERT_TRUE(model.equals(filter));
}

// ---- properties ---------------------------------------------------------------------------------

Growth some_growth() {
  const Layout layout = *rc::gen::element(Layout::split, Layout::split_block);
  if (*rc::gen::arbitrary<bool>()) {
    return Growth::tightening(*rc::gen::inRange<std::uint64_t>(1, 60),
                              *rc::gen::element(0.5, 0.1, 0.01), layout,
                              *rc::gen::element(1.0, 1.5, 2.0, 4.0), *rc::gen::element(0.5, 0.8));
  }
  const Geometry g = layout == Layout::split
                         ? Geometry::split(*rc::gen::element<std::uint32_t>(1, 3, 7),
                                           *rc::gen::inRange<std::uint64_t>(10, 200))
                         : Geometry::split_block(*rc::gen::inRange<std::uint32_t>(1, 3),
                                                 *rc::gen::inRange<std::uint64_t>(1, 10));
  return Growth::fixed(g, *rc::gen::element<std::uint32_t>(1, 2, 5, 256));
}

RC_GTEST_PROP(StagesBatches, EqualAnySplitOfThem, ()) {
  const Growth growth = some_growth();
  const auto backends = available_backends();
  const scbf::Backend &one = **rc::gen::elementOf(backends), &two = **rc::gen::elementOf(backends);
  const Mode mode = *rc::gen::elementOf(contract_modes());
  RC_LOG() << growth.describe() << ' ' << one.name() << " / " << two.name() << ' ' << mode << '\n';
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n = *rc::gen::inRange<std::size_t>(0, 1200);
  Keys in(n), out(n);
  for (auto& key : in) key = random.below(n);
  for (auto& key : out) key = random.below(n);
  auto ends =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, n + 1));
  ends.push_back(n);
  std::sort(ends.begin(), ends.end());
  Filter whole(growth, {.seed = 1, .backend = one.name()});
  Filter pieces(growth, {.seed = 1, .backend = two.name()});
  std::uint64_t done = n, done_in_pieces = n;
  try {
    whole.insert(in, mode.options());
  } catch (const FilterFull& full) {
    done = full.processed();
    RC_ASSERT(full.done().inserted == done);
  }
  std::size_t first = 0;
  try {
    for (const std::size_t end : ends) {
      pieces.insert(KeyBatch(in).slice(first, end - first));
      first = end;
    }
  } catch (const FilterFull& full) {
    done_in_pieces = first + full.processed();
  }
  RC_ASSERT(done == done_in_pieces);
  RC_ASSERT(whole == pieces);
  const Answers verdicts = remove(whole, out, mode.options());
  Answers verdicts_in_pieces(n);
  first = 0;
  for (const std::size_t end : ends) {
    pieces.remove(KeyBatch(out).slice(first, end - first),
                  std::span(verdicts_in_pieces).subspan(first, end - first));
    first = end;
  }
  RC_ASSERT(verdicts == verdicts_in_pieces);
  RC_ASSERT(whole == pieces);
}

RC_GTEST_PROP(StagesSequences, HaveNoFalseNegatives, ()) {
  const Growth growth = some_growth();
  const scbf::Backend& backend = **rc::gen::elementOf(available_backends());
  Filter filter(growth, {.seed = 2, .backend = backend.name()});
  std::map<std::uint64_t, unsigned> truth;
  const auto steps = *rc::gen::inRange(1, 12);
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  for (int step = 0; step < steps; ++step) {
    Keys keys(random.below(150));
    for (auto& key : keys) key = random.below(300);
    const auto insert = [&](Filter& into) {
      std::uint64_t done = keys.size();
      try {
        into.insert(keys);
      } catch (const FilterFull& full) {
        done = full.processed();
      }
      keys.resize(done);
    };
    switch (random.below(6)) {
      case 0:
      case 1:
        insert(filter);
        for (const auto key : keys) ++truth[key];
        break;
      case 2:
      case 3: {
        Keys legal;
        std::map<std::uint64_t, unsigned> left = truth;
        for (const auto key : keys) {
          if (left[key] > 0) legal.push_back(key), --left[key];
        }
        const Answers verdicts = remove(filter, legal);
        for (std::size_t i = 0; i < legal.size(); ++i) {
          RC_ASSERT(verdicts[i] != 0);  // it is there, so it is claimed
          if (verdicts[i] == 1) --truth[legal[i]];
        }
        break;
      }
      case 4: {
        Filter other(growth, {.seed = 2});
        insert(other);
        try {
          filter.merge(other);
          for (const auto key : keys) ++truth[key];
        } catch (const Incompatible&) {
          RC_ASSERT(filter.stages() + other.stages() > growth.most_stages());
        }
        break;
      }
      default: {
        Filter copy = filter;
        insert(filter);  // must not show in the copy
        filter = std::move(copy);
      }
    }
    for (const auto& [key, copies] : truth) {
      RC_ASSERT(filter.contains(key) || copies == 0);
      RC_ASSERT(filter.count(key) >= std::min(copies, 15u));
    }
  }
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
    // Nothing goes in, nothing changes; empty and null keys need no room.
    EXPECT_THROW(filter.insert(keys[in]), FilterFull);
    EXPECT_TRUE(only == filter);
    const std::array<std::byte, 1> none{};
    EXPECT_EQ(filter.insert(KeyBatch(keys).slice(0, 8).with_validity(none)).nulls, 8u);
    EXPECT_EQ(filter.insert(KeyBatch(keys).slice(0, 0)).inserted, 0u);
    // Room that removal makes is used.
    ASSERT_EQ(filter.remove(keys[0]), Removal::removed);
    filter.insert(keys[in]);
    EXPECT_TRUE(filter.contains(keys[in]));
    EXPECT_EQ(filter.stages(), 3u);
  }
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
    ADD_FAILURE() << "no memory, no exception";
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
  EXPECT_EQ(a.stages(), stages + 1);  // the full first stages do not go together
  EXPECT_EQ(a.keys_inserted(), 6000u);
  EXPECT_EQ(Answers(6000, 1), contains(a, keys));
  for (std::size_t s = 0; s < a.stages(); ++s) {
    EXPECT_LE(a.stage(s).nonzero(),
              a.stage(s).shape().full_at + a.stage(s).shape().geometry.probes() - 1);
  }
  EXPECT_NEAR(a.fpr_bound(), large.fpr_bound() + a.stage(0).shape().fpr, 1e-4);
  // Grows on where the series of both is.
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
    a.subtract(b);  // from either of two that are equal
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

TEST(StagesWhole, RefusesBuffersOfTheWrongSize) {
  Filter filter(Growth::tightening(10, 0.01));
  const Keys keys = random_keys(100, 1);
  filter.insert(keys);
  Answers few(99);
  SCBF_EXPECT_THROW(filter.contains(keys, few), InvalidArgument, "99: must be 100");
  SCBF_EXPECT_THROW(filter.count(keys, few), InvalidArgument, "99: must be 100");
  SCBF_EXPECT_THROW(filter.remove(keys, few), InvalidArgument, "99: must be 100");
  EXPECT_THROW(filter.stage(99), InvalidArgument);
  EXPECT_THROW(filter.set_metadata(std::string((1u << 20) + 1, ' ')), InvalidArgument);
}

}  // namespace
