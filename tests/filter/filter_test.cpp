// SPDX-License-Identifier: Apache-2.0
// Filter: arguments, answers in their three forms, copies, whole-filter operations, metadata.
// contract_test covers counters and answers of backends; files have tests of their own.
#include "scbf/filter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::filter_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::Incompatible;
using scbf::InvalidArgument;
using scbf::Removal;

const Geometry kGeometry = Geometry::split_block(2, 100);
const bool kAdded = add_far_backends();

// ---- what must not compile, each beside its good twin ------------------------------------------

template <class F>
concept can_insert = requires(F filter, const scbf::KeyBatch& keys) {
  filter.insert(keys);
};
template <class F>
concept can_remove = requires(F filter, const scbf::KeyBatch& keys) {
  filter.remove(keys);
};
template <class F>
concept can_merge = requires(F filter, const Filter& other) {
  filter.merge(other);
};
template <class F>
concept can_clear = requires(F filter) {
  filter.clear();
};
template <class F>
concept can_ask = requires(F filter, const scbf::KeyBatch& keys, std::span<std::uint8_t> out) {
  filter.contains(keys, out);
  filter.count(keys, out);
  filter.statistics();
};
static_assert(can_insert<Filter&> && !can_insert<const Filter&>);
static_assert(can_remove<Filter&> && !can_remove<const Filter&>);
static_assert(can_merge<Filter&> && !can_merge<const Filter&>);
static_assert(can_clear<Filter&> && !can_clear<const Filter&>);
static_assert(can_ask<Filter&> && can_ask<const Filter&>);
// A number of keys is not a geometry, and words() is read-only.
static_assert(std::is_constructible_v<Filter, Geometry> &&
              !std::is_convertible_v<Geometry, Filter>);
static_assert(!std::is_constructible_v<Filter, int> && !std::is_default_constructible_v<Filter>);
static_assert(std::is_const_v<decltype(std::declval<Filter&>().words())::element_type>);
template <class Key>
concept can_hash = requires(Key key) {
  scbf::hash_of(key, 7);
};
static_assert(can_hash<std::uint64_t> && can_hash<int> && can_hash<const char*>);
static_assert(!can_hash<double> && !can_hash<bool> && !can_hash<char>);
static_assert(std::is_nothrow_move_constructible_v<Filter>);
static_assert(std::is_nothrow_move_assignable_v<Filter> && std::is_copy_constructible_v<Filter>);
// Integers of 32 bits are widened, so that a number is the same key whatever its type.
static_assert(std::is_convertible_v<const std::vector<std::uint64_t>&, scbf::KeyBatch>);
static_assert(std::is_convertible_v<const std::vector<std::uint32_t>&, scbf::KeyBatch>);

TEST(KeyBatch, TakesAllIntegersOf32And64Bits) {
  const auto found = [](const scbf::KeyBatch& keys) {
    Filter filter(kGeometry, {.seed = 7, .backend = "scalar"});
    filter.insert(std::vector<std::int64_t>{-1, 5});
    return contains(filter, keys);
  };
  const Answers want{1, 1, 0};
  EXPECT_EQ(found(std::vector<long long>{-1, 5, 6}), want);
  EXPECT_EQ(found(std::vector<long>{-1, 5, 6}), want);
  EXPECT_EQ(found(std::vector<unsigned long long>{~0ull, 5, 6}), want);
  EXPECT_EQ(found(std::vector<unsigned long>{~0ul, 5, 6}), want);
  EXPECT_EQ(found(std::vector<int>{-1, 5, 6}), want);
  EXPECT_EQ(found(std::array<long long, 3>{-1, 5, 6}), want);
  std::array<long long, 3> changing{-1, 5, 6};
  EXPECT_EQ(found(std::span(changing)), want);
}

// ---- answers ----------------------------------------------------------------------------------

class FilterOn : public ::testing::TestWithParam<const scbf::Backend*> {
 protected:
  Filter make(const Geometry& geometry = kGeometry) const {
    return Filter(geometry, {.seed = 7, .backend = GetParam()->name()});
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, FilterOn, ::testing::ValuesIn(available_backends()),
                         [](const auto& test) { return identifier(test.param->name()); });

TEST_P(FilterOn, BitsAndIndicesSayTheSameAsBytes) {
  Filter filter = make(Geometry::split_block(2, 500));
  const auto keys = random_keys(1500, 1);
  // Hits and misses alternate, so that every byte has both. The last key is a hit.
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % 3 != 0) filter.insert(keys[i]);
  }
  std::vector<std::byte> bitmap(200, std::byte{0xB7});
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 63u, 64u, 65u, 1000u, 1500u}) {
    for (const bool nulls : {false, true}) {
      scbf::KeyBatch batch = scbf::KeyBatch(keys).slice(1500 - n, n);
      if (nulls) batch = batch.with_validity(bitmap, 3);
      Answers bytes(n, 0xCC), bits((n + 7) / 8, 0xCC);
      std::vector<std::uint64_t> indices(n + 1, 77);
      const auto report = filter.contains(batch, bytes);
      EXPECT_EQ(report.nulls, batch.nulls());
      EXPECT_EQ(report.hits, static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), 1)));
      EXPECT_EQ(filter.contains_bits(batch, bits).hits, report.hits);
      EXPECT_EQ(filter.find(batch, std::span(indices).first(n)).hits, report.hits);
      EXPECT_EQ(indices[n], 77u);
      std::size_t hit = 0;
      for (std::size_t i = 0; i < bits.size() * 8; ++i) {
        const bool want = i < n && bytes[i] == 1;  // bits past the last key are 0
        ASSERT_EQ(bits[i / 8] >> (i % 8) & 1, want) << i;
        if (want) {
          ASSERT_EQ(indices[hit++], i);
        }
      }
    }
  }
}

// Hits are added up in partial sums. These sizes lie around those that fill one.
TEST_P(FilterOn, HitsOfBatchesThatAreAllPresent) {
  Filter filter = make(Geometry::split_block(1, 500));
  const auto keys = random_keys(20'000, 2);
  filter.insert(keys);
  Answers bytes(keys.size());
  for (const std::size_t n : {2039u, 2040u, 2041u, 2047u, 2048u, 2056u, 4079u, 4080u, 20'000u}) {
    EXPECT_EQ(filter.contains(scbf::KeyBatch(keys).slice(0, n), std::span(bytes).first(n)).hits, n);
  }
}

TEST_P(FilterOn, RemoveWithoutVerdictsIsTheSameRemove) {
  Filter with = make(), without = make();
  const auto keys = random_keys(500, 2), out = random_keys(800, 2);
  with.insert(keys);
  without.insert(keys);
  Answers verdicts(out.size());
  const auto a = with.remove(out, verdicts), b = without.remove(out);
  EXPECT_EQ(a.removed, b.removed);
  EXPECT_EQ(a.absent, b.absent);
  EXPECT_EQ(a.removed + a.absent, out.size());
  EXPECT_EQ(with, without);
}

TEST_P(FilterOn, SingleKeysEqualBatchesOfOne) {
  Filter single = make(), batch = make();
  for (const auto& text : {"", "a", "a longer key of several words"}) {
    single.insert(std::string_view(text));
    batch.insert(std::vector<std::string_view>{text});
    EXPECT_TRUE(single.contains(std::string_view(text)));
    EXPECT_EQ(single.count(std::string_view(text)), 1u);
  }
  single.insert(std::uint64_t{9});
  batch.insert(std::vector<std::uint64_t>{9});
  EXPECT_EQ(single, batch);
  EXPECT_EQ(single.remove(std::uint64_t{9}), Removal::removed);
  EXPECT_EQ(single.remove(std::uint64_t{9}), Removal::absent);
  EXPECT_FALSE(single.contains(std::uint64_t{9}));
  EXPECT_EQ(single.remove(std::string_view("a")), Removal::removed);
  EXPECT_EQ(single.remove(std::string_view("a")), Removal::absent);
  EXPECT_EQ(single.keys_inserted(), 4u);
  EXPECT_EQ(single.keys_removed(), 2u);
}

// ---- arguments ----------------------------------------------------------------------------------

TEST(FilterArguments, BuffersOfTheWrongSize) {
  for (const Growth& growth : {Growth::one(kGeometry), Growth::tightening(5, 0.01)}) {
    Filter filter(growth);
    const auto keys = random_keys(17, 1);
    filter.insert(keys);
    const Filter before = filter;
    Answers small(16), large(18), two(2), four(4);
    std::vector<std::uint64_t> indices(16);
    SCBF_EXPECT_THROW(filter.contains(keys, small), InvalidArgument, "16: must be 17");
    SCBF_EXPECT_THROW(filter.contains(keys, large), InvalidArgument, "18: must be 17");
    SCBF_EXPECT_THROW(filter.contains(keys, {}), InvalidArgument, "0: must be 17");
    SCBF_EXPECT_THROW(filter.count(keys, small), InvalidArgument, "16: must be 17");
    SCBF_EXPECT_THROW(filter.remove(keys, small), InvalidArgument, "verdicts");
    SCBF_EXPECT_THROW(filter.remove(keys, large), InvalidArgument, "verdicts");
    SCBF_EXPECT_THROW(filter.contains_bits(keys, two), InvalidArgument, "2: must be 3");
    SCBF_EXPECT_THROW(filter.contains_bits(keys, four), InvalidArgument, "4: must be 3");
    SCBF_EXPECT_THROW(filter.find(keys, indices), InvalidArgument, "16: must be at least 17");
    EXPECT_THROW(filter.stage(99), InvalidArgument);
    EXPECT_TRUE(filter == before);
    EXPECT_EQ(filter.keys_removed(), 0u);
  }
}

TEST(FilterArguments, GeometriesOutOfRange) {
  SCBF_EXPECT_THROW(Geometry::split(0, 1), InvalidArgument, "probes 0");
  SCBF_EXPECT_THROW(Geometry::split(65, 1), InvalidArgument, "1 to 64");
  SCBF_EXPECT_THROW(Geometry::split(1, 0), InvalidArgument, "counters per slice 0");
  SCBF_EXPECT_THROW(Geometry::split(1, (1ull << 40) + 1), InvalidArgument, "1099511627777");
  SCBF_EXPECT_THROW(Geometry::split_block(0, 1), InvalidArgument, "groups 0");
  SCBF_EXPECT_THROW(Geometry::split_block(9, 1), InvalidArgument, "1 to 8");
  SCBF_EXPECT_THROW(Geometry::split_block(1, 0), InvalidArgument, "blocks per group 0");
  SCBF_EXPECT_THROW(scbf::layout_from_string("Split"), InvalidArgument, "Split");
  EXPECT_EQ(scbf::layout_from_string(scbf::to_string(scbf::Layout::split)), scbf::Layout::split);
}

TEST(FilterArguments, Metadata) {
  Filter filter(kGeometry);
  EXPECT_NO_THROW(filter.set_metadata(std::string(1u << 20, 'x')));
  SCBF_EXPECT_THROW(filter.set_metadata(std::string((1u << 20) + 1, 'y')), InvalidArgument,
                    "1048577");
  EXPECT_EQ(filter.metadata(), std::string(1u << 20, 'x'));
  filter.set_metadata(std::string("a\0b", 3));
  EXPECT_EQ(filter.metadata().size(), 3u);
}

// ---- copies and equality ------------------------------------------------------------------------

TEST(FilterCopies, AreDeepAndMovesLeaveTheContents) {
  Filter original(kGeometry, {.seed = 3});
  original.insert(random_keys(100, 1));
  original.set_metadata("m");
  Filter copy = original;
  EXPECT_EQ(copy, original);
  EXPECT_EQ(copy.seed(), 3u);
  EXPECT_EQ(copy.keys_inserted(), 100u);
  EXPECT_EQ(copy.metadata(), "m");
  EXPECT_NE(copy.words().data(), original.words().data());
  copy.insert(std::uint64_t{1});
  EXPECT_FALSE(copy == original);
  EXPECT_EQ(original.keys_inserted(), 100u);
  const auto words = words_of(copy);
  Filter moved = std::move(copy);
  EXPECT_TRUE(same_words(words_of(moved), words));
  original = moved;
  EXPECT_EQ(original, moved);
  const Filter& self = original;
  original = self;
  EXPECT_EQ(original, moved);
  original = std::move(moved);
  EXPECT_TRUE(same_words(words_of(original), words));
}

TEST(FilterCopies, EqualityLooksAtGeometrySeedAndCountersOnly) {
  Filter a(kGeometry, {.seed = 1}), b(kGeometry, {.seed = 1});
  b.set_metadata("other");
  b.to("scalar");
  b.insert(std::uint64_t{4});
  b.remove(std::uint64_t{4});
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a == Filter(kGeometry, {.seed = 2}));
  EXPECT_FALSE(a == Filter(Geometry::split_block(1, 200), {.seed = 1}));
}

TEST_P(FilterOn, ClearEmptiesCountersAndBooks) {
  Filter filter = make();
  filter.insert(random_keys(100, 1));
  filter.remove(random_keys(10, 1));
  filter.clear();
  EXPECT_EQ(filter, make());
  EXPECT_EQ(filter.keys_inserted(), 0u);
  EXPECT_EQ(filter.keys_removed(), 0u);
  EXPECT_FALSE(filter.contains(random_keys(1, 1)[0]));
}

// ---- merge and subtract -------------------------------------------------------------------------

TEST(FilterMerge, OnlyEqualGeometryAndSeedAndSaysWhatDiffers) {
  Filter a(kGeometry, {.seed = 1});
  a.insert(random_keys(50, 1));
  const auto before = words_of(a);
  const Filter seed(kGeometry, {.seed = 2});
  const Filter groups(Geometry::split_block(1, 200), {.seed = 1});
  const Filter layout(Geometry::split(16, 1600), {.seed = 1});
  SCBF_EXPECT_THROW(a.merge(seed), Incompatible, "seeds differ: 1 and 2");
  SCBF_EXPECT_THROW(a.subtract(seed), Incompatible, "seeds differ");
  SCBF_EXPECT_THROW(a.merge(groups), Incompatible, "2 groups of 100 blocks");
  SCBF_EXPECT_THROW(a.merge(groups), Incompatible, "1 group of 200 blocks");
  SCBF_EXPECT_THROW(a.subtract(layout), Incompatible, "16 slices of 1600 counters");
  EXPECT_TRUE(same_words(words_of(a), before));
  const Filter grows(Growth::tightening(1000, 0.01), {.seed = 1});
  SCBF_EXPECT_THROW(a.merge(grows), Incompatible, "one grows by stages");
  SCBF_EXPECT_THROW(a.subtract(grows), Incompatible, "one grows by stages");
  EXPECT_TRUE(same_words(words_of(a), before));
  EXPECT_NO_THROW(a.merge(Filter(kGeometry, {.seed = 1, .backend = "scalar"})));
}

TEST_P(FilterOn, MergeIsInsertingBothAndSubtractItsInverse) {
  const auto first = random_keys(400, 1), second = random_keys(300, 2);
  Filter a = make(), b = make(), both = make();
  a.insert(first);
  b.insert(second);
  both.insert(first);
  both.insert(second);
  Filter merged = a;
  merged.merge(b);
  EXPECT_EQ(merged, both);
  EXPECT_EQ(merged.keys_inserted(), 700u);
  EXPECT_EQ(merged.statistics().saturated, 0u);
  EXPECT_EQ(merged.subtract(b).inexact_counters, 0u);
  EXPECT_EQ(merged, a);
  EXPECT_EQ(merged.keys_inserted() - merged.keys_removed(), 400u);
}

TEST_P(FilterOn, MergeWithItselfDoublesAndSubtractFromItselfEmpties) {
  Filter a = make(), twice = make();
  const auto keys = random_keys(200, 1);
  a.insert(keys);
  twice.insert(keys);
  twice.insert(keys);
  a.merge(a);
  EXPECT_EQ(a, twice);
  EXPECT_EQ(a.keys_inserted(), 400u);
  a.subtract(a);
  EXPECT_EQ(a, make());
}

TEST_P(FilterOn, SubtractOfWhatIsNotContainedIsRefusedAndChangesNothing) {
  Filter a = make(), b = make();
  a.insert(random_keys(400, 1));
  b.insert(random_keys(400, 1));
  b.insert(std::uint64_t{5});
  const auto before = words_of(a);
  SCBF_EXPECT_THROW(a.subtract(b), Incompatible, "below zero");
  EXPECT_TRUE(same_words(words_of(a), before));
  EXPECT_EQ(a.keys_removed(), 0u);
}

TEST_P(FilterOn, SubtractFromSaturatedCountersIsReportedInexact) {
  Filter a = make(), b = make();
  const std::vector<std::uint64_t> ten(10, 3);
  a.insert(ten);
  a.insert(ten);
  a.insert(random_keys(10, 1));
  b.insert(ten);
  // All 16 counters of key 3 in `a`, and no others, are at 15 and stay there.
  EXPECT_EQ(a.subtract(b).inexact_counters, 16u);
  EXPECT_EQ(a.count(std::uint64_t{3}), 15u);
  // A saturated counter never goes below zero: 15 means 15 or more.
  EXPECT_NO_THROW(a.subtract(b));
}

TEST_P(FilterOn, BooksStayMeaningfulWhateverIsSubtracted) {
  // A saturated key can be removed more often than it was inserted, since its counters stay.
  Filter a = make(), b = make();
  const std::vector<std::uint64_t> fifteen(15, 3), hundred(100, 3);
  a.insert(fifteen);
  b.insert(fifteen);
  EXPECT_EQ(b.remove(hundred).removed, 100u);
  a.subtract(b);
  EXPECT_LT(a.keys_removed(), 1000u) << "the number of removed keys wrapped around below zero";
}

TEST(Assign, ReplacesCountersAndBooks) {
  for (const Shape& shape : contract_shapes(10'000)) {
    scbf::Filter from(shape.geometry), to(shape.geometry);
    from.insert(random_keys(300, 1));
    from.remove(random_keys(100, 1));
    to.insert(random_keys(50, 2));
    to.assign(from.words(), from.keys_inserted(), from.keys_removed());
    EXPECT_TRUE(to == from) << shape.name;
    EXPECT_EQ(to.keys_inserted(), 300u);
    EXPECT_EQ(to.keys_removed(), 100u);
  }
}

TEST(Assign, RefusesWhatIsNotAFilterAndChangesNothing) {
  scbf::Filter filter(scbf::Geometry::split(3, 100));  // 28 counters of padding after each slice
  filter.insert(random_keys(50, 1));
  const auto before = words_of(filter);
  auto words = before;
  words.pop_back();
  SCBF_EXPECT_THROW(filter.assign(words, 0, 0), scbf::InvalidArgument, "must be 24");
  for (std::uint64_t slice = 0; slice < 3; ++slice) {
    for (const auto& [word, nibble] : {std::pair{6, 4}, {7, 15}}) {
      words = before;
      words[slice * 8 + static_cast<std::uint64_t>(word)] |= std::uint64_t{1} << (4 * nibble);
      SCBF_EXPECT_THROW(filter.assign(words, 0, 0), scbf::InvalidArgument,
                        "after slice " + std::to_string(slice));
    }
  }
  EXPECT_TRUE(same_words(words_of(filter), before));
  EXPECT_EQ(filter.keys_inserted(), 50u);
}

}  // namespace
}  // namespace scbf_test::filter_test
