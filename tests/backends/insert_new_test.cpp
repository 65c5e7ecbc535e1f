// SPDX-License-Identifier: Apache-2.0
// insert_new on all backends, those on a device included: answers, counters and numbers of keys are
// those of a loop that inserts each key which the model does not hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::insert_new_test {
namespace {

using scbf::BloomFilter;
using scbf::Cell;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::InsertNewReport;
using scbf::KeyBatch;

using Keys = std::vector<std::uint64_t>;

[[maybe_unused]] const bool kFar = add_far_backends();

/// What insert_new says of a batch.
struct Said {
  InsertNewReport report;
  Answers out;
};
template <class AnyFilter>
Said insert_new(AnyFilter& filter, const KeyBatch& keys, const scbf::BatchOptions& options) {
  Said said{{}, Answers(keys.size(), 0xCC)};
  said.report = filter.insert_new(keys, said.out, options);
  return said;
}

/// The same of the model, key by key.
template <class AnyFilter>
Said insert_new_by_loop(AnyFilter& model, const KeyBatch& keys) {
  Said said{{}, Answers(keys.size(), 0)};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!keys.valid(i)) {
      ++said.report.nulls;
    } else if (contains(model, keys.slice(i, 1))[0] == 1) {
      ++said.report.present;
    } else {
      model.insert(keys.slice(i, 1));
      said.out[i] = 1;
      ++said.report.inserted;
    }
  }
  return said;
}

::testing::AssertionResult same(const Said& got, const Said& want) {
  const auto numbers = [](const InsertNewReport& r) {
    return std::vector<std::uint64_t>{r.inserted, r.present, r.nulls};
  };
  if (numbers(got.report) != numbers(want.report)) {
    return ::testing::AssertionFailure()
           << got.report.inserted << " inserted, expected " << want.report.inserted;
  }
  return same_answers(got.out, want.out);
}

/// Keys of which many are in the filter already, and many come several times.
Keys some_of(Random& random, std::size_t n, std::size_t universe) {
  Keys keys(n);
  for (auto& key : keys) key = random.below(universe);
  return keys;
}

// ---- a single stage -----------------------------------------------------------------------------

std::vector<Shape> tiny_shapes() {
  return {
      {"g1_1_block", Geometry::split_block(1, 1)},  {"g1_3_blocks", Geometry::split_block(1, 3)},
      {"g2_2_blocks", Geometry::split_block(2, 2)}, {"g8_2_blocks", Geometry::split_block(8, 2)},
      {"k1_m64", Geometry::split(1, 64)},           {"k7_m16", Geometry::split(7, 16)},
      {"k40_m64", Geometry::split(40, 64)},         {"ranked_s82", Geometry::ranked(82, 3, 1)},
      {"ranked_s112", Geometry::ranked(112, 2, 0)}};
}
/// Gives the same batches to a filter, of counters and of bits, and to their models.
class NewKeysOf {
 public:
  explicit NewKeysOf(const Case& c)
      : options_(c.mode.options()),
        counters_(c.filter(3)),
        model_(c.model(3)),
        model_of_bits_(c.shape.geometry, {.seed = 3, .backend = "scalar"}) {
    if (c.backend->supports(Cell::bit)) {
      bits_.emplace(c.shape.geometry, scbf::FilterOptions{.seed = 3, .backend = c.backend->name()});
    }
  }

  void give(const KeyBatch& keys) {
    const Said want = insert_new_by_loop(model_, keys);
    ASSERT_TRUE(same(insert_new(counters_, keys, options_), want));
    ASSERT_TRUE(same_stages(counters_, model_));
    ASSERT_TRUE(knows_its_fill(counters_));
    if (bits_) {
      ASSERT_TRUE(
          same(insert_new(*bits_, keys, options_), insert_new_by_loop(model_of_bits_, keys)));
      ASSERT_TRUE(same_stages(*bits_, model_of_bits_));
    }
    inserted_ += want.report.inserted;
    present_ += want.report.present;
  }
  void insert(const KeyBatch& keys) {
    counters_.insert(keys, options_);
    model_.insert(keys);
    if (bits_) bits_->insert(keys, options_);
    model_of_bits_.insert(keys);
    ASSERT_TRUE(same_stages(counters_, model_));
  }
  /// Some of what is in the filter leaves it, so that later batches find room in the middle.
  void remove(const KeyBatch& keys) {
    counters_.remove(keys, {}, options_);
    model_.remove(keys);
    ASSERT_TRUE(same_words(words_of(counters_), words_of(model_)));
  }
  std::uint64_t inserted() const { return inserted_; }
  std::uint64_t present() const { return present_; }

 private:
  scbf::BatchOptions options_;
  Filter counters_, model_;
  std::optional<BloomFilter> bits_;  // if the backend has them
  BloomFilter model_of_bits_;
  std::uint64_t inserted_ = 0, present_ = 0;
};

class TinyFilter : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, TinyFilter, ::testing::ValuesIn(cases_with_one_far(tiny_shapes())),
                         CaseName());

TEST_P(TinyFilter, EqualsALoopWhereCountersAreAtTheirMost) {
  Random random(19);
  for (std::size_t round = 0; round < scaled(20, 5); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    NewKeysOf filter(GetParam());
    ASSERT_NO_FATAL_FAILURE(filter.insert(Keys(14 + round, 7)));
    ASSERT_NO_FATAL_FAILURE(filter.give(some_of(random, 30, 40)));
    ASSERT_NO_FATAL_FAILURE(filter.give(some_of(random, 30, 40)));
  }
}

TEST_P(TinyFilter, EqualsALoopWhereNearlyAllKeysShareCounters) {
  Random random(17);
  std::uint64_t inserted = 0, present = 0;
  for (std::size_t round = 0; round < scaled(30, 10); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    NewKeysOf filter(GetParam());
    for (int batch = 0; batch < 3; ++batch) {
      const Keys keys = some_of(random, 1 + random.below(40), 1 + random.below(60));
      ASSERT_NO_FATAL_FAILURE(filter.give(keys));
      ASSERT_NO_FATAL_FAILURE(filter.remove(KeyBatch(keys).slice(0, keys.size() / 3)));
    }
    inserted += filter.inserted();
    present += filter.present();
  }
  EXPECT_GT(inserted, 0u);
  EXPECT_GT(present, 0u);
}

class SmallFilter : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, SmallFilter,
                         ::testing::ValuesIn(cases_with_one_far(all_shapes(100'000))), CaseName());

TEST_P(SmallFilter, EqualsALoop) {
  Random random(23);
  NewKeysOf filter(GetParam());
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{1025}, scaled(5000, 2500)}) {
    SCOPED_TRACE(n);
    ASSERT_NO_FATAL_FAILURE(filter.give(some_of(random, n, 8000)));
    ASSERT_NO_FATAL_FAILURE(filter.remove(some_of(random, n / 4, 8000)));
  }
  EXPECT_GT(filter.inserted(), 1000u);
  EXPECT_GT(filter.present(), 500u);
}

TEST_P(SmallFilter, LeavesCountersAtTheirMost) {
  Random random(29);
  NewKeysOf filter(GetParam());
  // Often enough that counters are at 15, or spilled counts at 255, and new keys share them.
  Keys often;
  for (int i = 0; i < 260; ++i) {
    for (std::uint64_t key = 0; key < 40; ++key) often.push_back(key << 32);
  }
  ASSERT_NO_FATAL_FAILURE(filter.insert(often));
  ASSERT_NO_FATAL_FAILURE(filter.give(some_of(random, 4000, 20'000)));
  ASSERT_NO_FATAL_FAILURE(filter.give(often));
}

TEST_P(SmallFilter, TakesKeysOfAllKindsWithNulls) {
  const StringColumn column = StringColumn(string_sets()[2].keys);
  const Keys numbers = random_keys(1500, 2);
  const std::vector<std::byte> bitmap(400, std::byte{0xB6});
  NewKeysOf filter(GetParam());
  for (const KeyBatch& keys : batches_of(column)) {
    ASSERT_NO_FATAL_FAILURE(filter.give(keys.with_validity(bitmap, 3)));
  }
  ASSERT_NO_FATAL_FAILURE(filter.give(KeyBatch(numbers).with_validity(bitmap)));
  ASSERT_NO_FATAL_FAILURE(filter.give(numbers));
  ASSERT_NO_FATAL_FAILURE(filter.give(KeyBatch::from_hashes(numbers)));
  const std::vector<std::byte> nothing(400);
  ASSERT_NO_FATAL_FAILURE(filter.give(KeyBatch(numbers).with_validity(nothing)));
}

/// A filter larger than the caches, and a batch on which the paths are tried and chosen.
TEST(LargeFilter, EqualsALoop) {
  const std::uint64_t blocks = kSanitized ? 1u << 15 : 1u << 18;
  for (const Geometry& geometry :
       {Geometry::split_block(1, blocks), Geometry::ranked(82, blocks, blocks / 100),
        Geometry::split_block(2, blocks / 2), Geometry::split(5, 25 * blocks)}) {
    for (const unsigned threads : {1u, 2u}) {
      SCOPED_TRACE(geometry.describe() + ", " + std::to_string(threads) + " threads");
      Filter filter(geometry), model(geometry, {.backend = "scalar"});
      Random random(threads);
      for (int batch = 0; batch < 3; ++batch) {
        const Keys keys = some_of(random, scaled(1'000'000, 100'000), 4 * blocks);
        ASSERT_TRUE(
            same(insert_new(filter, keys, {.threads = threads}), insert_new_by_loop(model, keys)));
      }
      ASSERT_TRUE(same_stages(filter, model));
    }
  }
}

TEST(OneKeyACall, SaysWhetherItWasNew) {
  for (const Shape& shape : tiny_shapes()) {
    SCOPED_TRACE(shape.name);
    Filter filter(shape.geometry), viewed(shape.geometry), model(shape.geometry);
    BloomFilter bits(shape.geometry), model_of_bits(shape.geometry);
    const scbf::FilterRef view = viewed.ref();
    Random random(5);
    for (const std::uint64_t key : some_of(random, 200, 100)) {
      const bool is_new = insert_new_by_loop(model, Keys{key}).out[0] == 1;
      ASSERT_EQ(filter.insert_new(key), is_new);
      ASSERT_EQ(view.insert_new(key), is_new);
      const std::string text = std::to_string(key);
      const bool text_is_new = insert_new_by_loop(model, std::vector{text}).out[0] == 1;
      ASSERT_EQ(filter.insert_new(text), text_is_new);
      ASSERT_EQ(view.insert_new(text), text_is_new);
      ASSERT_EQ(bits.insert_new(key), insert_new_by_loop(model_of_bits, Keys{key}).out[0] == 1);
    }
    ASSERT_TRUE(same_stages(filter, model));
    ASSERT_TRUE(same_stages(viewed, model));
    ASSERT_TRUE(same_stages(bits, model_of_bits));
  }
}

// ---- filters that grow --------------------------------------------------------------------------

std::vector<Growth> growths() {
  return {Growth::tightening(60, 0.1),
          Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7),
          Growth::fixed(Geometry::split(3, 200), 200),
          Growth::fixed(Geometry::split_block(2, 9), 100),
          Growth::tightening(1000, 0.05),
          Growth::tightening(300, 0.1, scbf::Layout::ranked)};
}

/// Those of the host and, where counters lie elsewhere, one of each memory.
std::vector<const scbf::Backend*> some_backends() {
  std::vector<const scbf::Backend*> some;
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->name() == "scalar" || backend->name() == "simd" || backend->name() == "far" ||
        backend->name().starts_with("cuda")) {
      some.push_back(backend);
    }
  }
  return some;
}

TEST(Stages, EqualALoop) {
  Random random(31);
  for (const scbf::Backend* backend : some_backends()) {
    for (const Growth& growth : growths()) {
      if (!backend->supports(growth.first_geometry().layout())) continue;
      for (const Mode& mode : contract_modes()) {
        SCOPED_TRACE(std::string(backend->name()) + ", " + growth.describe() + ", " + mode.name());
        Filter filter(growth, {.seed = 7, .backend = backend->name()});
        Filter model(growth, {.seed = 7, .backend = "scalar"});
        const bool has_bits = backend->supports(Cell::bit);
        BloomFilter bits(growth, {.seed = 7, .backend = has_bits ? backend->name() : "scalar"});
        BloomFilter model_of_bits(growth, {.seed = 7, .backend = "scalar"});
        for (const std::size_t n : {1u, 50u, 700u, 1500u}) {
          const Keys keys = some_of(random, n, 2000);
          ASSERT_TRUE(
              same(insert_new(filter, keys, mode.options()), insert_new_by_loop(model, keys)));
          ASSERT_TRUE(same_stages(filter, model));
          ASSERT_TRUE(same(insert_new(bits, keys, mode.options()),
                           insert_new_by_loop(model_of_bits, keys)));
          ASSERT_TRUE(same_stages(bits, model_of_bits));
          // Older stages get room again.
          const Keys some = some_of(random, n / 3, 2000);
          filter.remove(some, {}, mode.options());
          model.remove(some);
          ASSERT_TRUE(same_stages(filter, model));
        }
        if (backend->name() == "scalar") break;  // has one way only
      }
    }
  }
}

TEST(Stages, AreNotAddedForKeysThatAreThere) {
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    // As full as a single stage can be: one more key takes another.
    Filter filter(growth), full(growth);
    Keys in;
    for (const std::uint64_t key : random_keys(2000, 47)) {
      full = filter;
      filter.insert_new(key);
      if (filter.stages() == 2) break;
      in.push_back(key);
    }
    ASSERT_EQ(filter.stages(), 2u);
    const InsertNewReport report = full.insert_new(in);
    EXPECT_EQ(report.present, in.size());
    EXPECT_EQ(full.stages(), 1u);
  }
}

TEST(Stages, SayWhereToContinueWhenAllAreFull) {
  const Growth growth = Growth::fixed(Geometry::split_block(1, 40), 3);
  Random random(41);
  const Keys keys = some_of(random, 5000, 3000);
  // Nulls, so that what is processed, inserted and null are different numbers.
  std::vector<std::byte> bitmap(keys.size() / 8 + 1, std::byte{0xF7});
  const KeyBatch batch = KeyBatch(keys).with_validity(bitmap);
  Filter model(growth, {.backend = "scalar"});
  Answers want;
  std::uint64_t inserted = 0;
  try {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Said one = insert_new_by_loop(model, batch.slice(i, 1));
      inserted += one.report.inserted;
      want.push_back(one.out[0]);
    }
    FAIL() << "there was room for all";
  } catch (const FilterFull&) {
  }
  for (const bool wants_answers : {true, false}) {
    Filter filter(growth);
    Answers out(wants_answers ? batch.size() : 0, 0xCC);
    try {
      filter.insert_new(batch, out);
      FAIL() << "there was room for all";
    } catch (const FilterFull& full) {
      EXPECT_EQ(full.processed(), want.size());
      EXPECT_EQ(full.done().inserted, inserted);
      EXPECT_EQ(full.done().nulls, batch.slice(0, want.size()).nulls());
    }
    if (wants_answers) {
      out.resize(want.size());
      EXPECT_TRUE(same_answers(out, want));
    }
    ASSERT_TRUE(same_stages(filter, model));
    // What is in the filter needs no room.
    const InsertNewReport again = filter.insert_new(batch.slice(0, want.size()));
    EXPECT_EQ(again.inserted, 0u);
    EXPECT_EQ(again.present, want.size() - again.nulls);
  }
}

// ---- arguments ----------------------------------------------------------------------------------

TEST(Arguments, AnswersAreOneForEachKeyOrNone) {
  Filter filter(1000, 0.01);
  Answers out(2);
  SCBF_EXPECT_THROW(filter.insert_new(Keys{1, 2, 3}, out), scbf::InvalidArgument,
                    "out has room for 2: must be 3");
  EXPECT_EQ(filter.keys_inserted(), 0u);
  const InsertNewReport report = filter.insert_new(Keys{1, 2, 1});
  EXPECT_EQ(report.inserted, 2u);
  EXPECT_EQ(report.present, 1u);
}

TEST(Arguments, TheFilterCanBeChanged) {
  const TemporaryFolder folder;
  Filter(1000, 0.01).save(folder / "f.scbf");
  Filter mapped = Filter::map(folder / "f.scbf");
  SCBF_EXPECT_THROW(mapped.insert_new(Keys{1}), scbf::ReadOnly, "read-only");
  SCBF_EXPECT_THROW(mapped.insert_new(std::uint64_t{1}), scbf::ReadOnly, "read-only");
}

TEST(Arguments, OneKeyACallWhereCountersAreElsewhere) {
  Filter far(1000, 0.01, {.backend = "far"});
  EXPECT_TRUE(far.insert_new(std::uint64_t{1}));
  EXPECT_FALSE(far.insert_new(std::uint64_t{1}));
  EXPECT_TRUE(far.insert_new("one"));
  EXPECT_FALSE(far.insert_new("one"));
  EXPECT_EQ(far.keys_inserted(), 2u);
}

TEST(Arguments, NothingNewChangesNothing) {
  BloomFilter bits(1000, 0.01);
  bits.insert(std::uint64_t{7});
  BloomFilter copy = bits;
  EXPECT_FALSE(copy.insert_new(std::uint64_t{7}));
  EXPECT_EQ(copy.insert_new(Keys{7, 7}).present, 2u);
  EXPECT_EQ(copy, bits);
  EXPECT_EQ(copy.keys_inserted(), 1u);
  BloomFilter reader(bits.geometry());
  reader.advance(bits);
  const scbf::Epoch epoch = reader.epoch();
  EXPECT_EQ(reader.insert_new(Keys{7, 7}).present, 2u);
  EXPECT_EQ(reader.epoch(), epoch);
  reader.insert_new(Keys{7, 8});
  EXPECT_NE(reader.epoch(), epoch);
}

/// A backend that brings no insert_new of its own.
TEST(Arguments, BackendsInheritIt) {
  Random random(43);
  for (const Shape& shape : tiny_shapes()) {
    for (const Geometry& geometry : {shape.geometry, shape.geometry.with(Cell::bit)}) {
      SCOPED_TRACE(geometry.describe());
      const Keys keys = some_of(random, 300, 150);
      const std::vector<std::byte> bitmap(40, std::byte{0xDB});
      const KeyBatch batch = KeyBatch(keys).with_validity(bitmap);
      const scbf::Backend& backend = scbf::find_backend("simd");
      const auto store = backend.allocate(geometry.words()),
                 model = backend.allocate(geometry.words());
      Answers out(keys.size(), 0xCC), want(keys.size(), 0xCC);
      const scbf::NewKeys got =
          backend.Backend::insert_new({geometry, 3, store->words()}, batch, out.data(), {});
      const scbf::NewKeys wanted = scbf::find_backend("scalar").insert_new(
          {geometry, 3, model->words()}, batch, want.data(), {});
      EXPECT_TRUE(same_answers(out, want));
      EXPECT_EQ(got.keys, wanted.keys);
      EXPECT_EQ(got.filled, wanted.filled);
      EXPECT_TRUE(
          same_words({store->words(), geometry.words()}, {model->words(), geometry.words()}));
    }
  }
  const scbf::Backend& far = scbf::find_backend("far");
  const Geometry geometry = Geometry::split_block(1, 1);
  const auto store = far.allocate(geometry.words());
  std::uint8_t out = 0;
  SCBF_EXPECT_THROW(far.Backend::insert_new({geometry, 3, store->words()}, Keys{1}, &out, {}),
                    scbf::NotOnHost,
                    "in the memory of far memory: move the filter with to(\"simd\")");
}

}  // namespace
}  // namespace scbf_test::insert_new_test
