// SPDX-License-Identifier: Apache-2.0
// KeyBatch: kinds, slices, validity bitmaps, refused arguments; equal bytes are equal keys.
#include "scbf/key_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/errors.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::key_batch_test {
namespace {

using scbf::InvalidArgument;
using scbf::KeyBatch;

std::vector<std::uint64_t> counters_of(const KeyBatch& keys,
                                       const std::string& backend = "scalar") {
  scbf::Filter filter(scbf::Geometry::split_block(2, 50), {.seed = 11, .backend = backend});
  filter.insert(keys);
  return words_of(filter);
}

/// A bitmap with these bits from bit `offset` on. The others are set, so that reading them shows.
std::vector<std::byte> bitmap_of(const std::vector<bool>& bits, std::size_t offset) {
  std::vector<std::byte> bitmap((offset + bits.size() + 7) / 8, std::byte{0xFF});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::size_t bit = offset + i;
    if (!bits[i]) bitmap[bit / 8] &= ~(std::byte{1} << (bit % 8));
  }
  return bitmap;
}

class KeyBatchOn : public ::testing::TestWithParam<const scbf::Backend*> {
 protected:
  std::string backend() const { return std::string(GetParam()->name()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, KeyBatchOn, ::testing::ValuesIn(available_backends()),
                         [](const auto& test) { return identifier(test.param->name()); });

TEST_P(KeyBatchOn, EveryKindOfTheSameBytesGivesTheSameCounters) {
  for (const StringSet& set : string_sets()) {
    SCOPED_TRACE(set.name);
    const StringColumn column(set.keys, 5);
    const auto want = counters_of(column.strings);
    std::vector<std::uint64_t> hashes;
    for (const auto& key : column.strings) hashes.push_back(xxh3(key, 11));
    for (const KeyBatch& batch : batches_of(column)) {
      EXPECT_TRUE(same_words(counters_of(batch, backend()), want));
    }
    EXPECT_TRUE(same_words(counters_of(KeyBatch::from_hashes(hashes), backend()), want));
  }
}

TEST_P(KeyBatchOn, IntegerIsItsEightLittleEndianBytes) {
  const auto keys = random_keys(1003, 6);
  std::vector<std::string> strings;
  std::vector<std::byte> fixed;
  for (std::uint64_t key : keys) {
    strings.emplace_back();
    for (unsigned i = 0; i < 8; ++i) {
      strings.back().push_back(static_cast<char>(key >> (8 * i)));
      fixed.push_back(static_cast<std::byte>(key >> (8 * i)));
    }
  }
  const auto want = counters_of(strings);
  EXPECT_TRUE(same_words(counters_of(keys, backend()), want));
  EXPECT_TRUE(same_words(counters_of(strings, backend()), want));
  EXPECT_TRUE(same_words(counters_of(KeyBatch::from_fixed(fixed, 8), backend()), want));
}

TEST_P(KeyBatchOn, NumberIsTheSameKeyWhateverItsTypeAndWidth) {
  // Lengths around those of vectors and of the strips that keys are hashed in.
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 1003u, 9001u}) {
    std::vector<std::int32_t> i32;
    for (const std::uint64_t key : random_keys(n, 9)) i32.push_back(static_cast<std::int32_t>(key));
    const std::int32_t edges[] = {-1, std::numeric_limits<std::int32_t>::min(), 0,
                                  std::numeric_limits<std::int32_t>::max()};
    std::copy_n(edges, std::min(n, std::size(edges)), i32.begin());
    const std::vector<std::int64_t> i64(i32.begin(), i32.end());
    const std::vector<std::uint32_t> u32(i32.begin(), i32.end());
    std::vector<std::uint64_t> signed_bits, unsigned_bits;
    for (const std::int64_t key : i64) signed_bits.push_back(static_cast<std::uint64_t>(key));
    for (const std::uint32_t key : u32) unsigned_bits.push_back(key);
    std::vector<std::byte> bitmap(n / 8 + 2);
    for (std::size_t i = 0; i < bitmap.size(); ++i) bitmap[i] = static_cast<std::byte>(37 * i);
    const auto check = [&](const KeyBatch& batch, const KeyBatch& model) {
      ASSERT_TRUE(same_words(counters_of(batch, backend()), counters_of(model)));
      ASSERT_TRUE(same_words(counters_of(batch.with_validity(bitmap, 3), backend()),
                             counters_of(model.with_validity(bitmap, 3))));
      const auto part = [&](const KeyBatch& all) {
        return all.with_validity(bitmap, 3).slice(n / 5, n / 2);
      };
      ASSERT_TRUE(same_words(counters_of(part(batch), backend()), counters_of(part(model))));
      ASSERT_EQ(batch.hashes(5), model.hashes(5));
    };
    ASSERT_NO_FATAL_FAILURE(check(i32, signed_bits));
    ASSERT_NO_FATAL_FAILURE(check(i64, signed_bits));
    ASSERT_NO_FATAL_FAILURE(check(u32, unsigned_bits));
    scbf::Filter filter(scbf::Geometry::split_block(2, 5000), {.backend = backend()});
    filter.insert(i32);
    Answers hits(n);
    EXPECT_EQ(filter.contains(i64, hits).hits, n);
    EXPECT_EQ(filter.remove(signed_bits).removed, n);
    EXPECT_EQ(filter.nonzero(), 0u);
  }
}

TEST_P(KeyBatchOn, OneIntegerIsTheSameKeyAsInABatch) {
  scbf::Filter filter(100, 1e-6, {.backend = backend()});
  filter.insert(std::vector<std::int32_t>{-7, 8});
  EXPECT_TRUE(filter.contains(-7) && filter.contains(std::int64_t{-7}) && filter.contains(8u));
  EXPECT_FALSE(filter.contains(static_cast<std::uint32_t>(-7)));
  filter.insert(static_cast<std::uint32_t>(-7));
  const std::vector<std::uint32_t> widened{static_cast<std::uint32_t>(-7)};
  EXPECT_EQ(filter.remove(widened).removed, 1u);
}

TEST(KeyBatchHashes, StayInLineWithNullKeys) {
  for (const std::size_t n : {0u, 1u, 8u, 1003u}) {
    const auto numbers = random_keys(n, 3);
    std::vector<std::string> texts;
    for (const std::uint64_t key : numbers) texts.push_back(std::to_string(key));
    std::vector<std::byte> bitmap(n / 8 + 2);
    for (std::size_t i = 0; i < bitmap.size(); ++i) bitmap[i] = static_cast<std::byte>(59 * i);
    std::vector<std::uint64_t> out(n, 1);
    for (const KeyBatch all : {KeyBatch(numbers), KeyBatch(texts)}) {
      const bool is_text = all.kind() == KeyBatch::Kind::strings;
      const auto hash = [&](std::size_t i) {
        return is_text ? scbf::hash_of(texts[i], 7) : scbf::hash_of(numbers[i], 7);
      };
      all.hashes(7, out);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], hash(i));
      EXPECT_EQ(out, all.hashes(7));
      const KeyBatch some = all.with_validity(bitmap, 5);
      some.hashes(7, out);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], some.valid(i) ? hash(i) : 0) << i;
      // What the page on the library recommends: the answers are those of the keys.
      scbf::Filter filter(2000, 0.01, {.seed = 7});
      filter.insert(some.slice(0, n / 2));
      Answers direct(n, 9), by_hash(n, 9);
      filter.contains(some, direct);
      filter.contains(KeyBatch::from_hashes(out).with_validity(bitmap, 5), by_hash);
      EXPECT_EQ(direct, by_hash);
      out.push_back(0);
      EXPECT_THROW(all.hashes(7, out), scbf::InvalidArgument);
      out.pop_back();
    }
  }
}

TEST(KeyBatchArguments, SpansThatAreNotConstOrOfAFixedExtent) {
  std::vector<std::int64_t> keys{3, -4};
  std::array<std::uint32_t, 2> two{3, 4};
  const scbf::KeyBatch a = std::span(keys), b = std::span(two), c = std::span(std::as_const(two));
  EXPECT_EQ(a.size() + b.size() + c.size(), 6u);
  EXPECT_EQ(a.value(1), ~std::uint64_t{3});
  EXPECT_EQ(b.value(1), 4u);
}

template <class T>
concept OneKey = requires(scbf::Filter& filter, T key) {
  filter.insert(key);
}
|| requires(const scbf::Filter& filter, T key) { filter.contains(key); }
|| requires(scbf::Filter& filter, T key) { filter.remove(key); }
|| requires(const scbf::Filter& filter, T key) { filter.count(key); }
|| requires(const scbf::Bank& bank, T key) { bank.find(key); };
static_assert(OneKey<int> && OneKey<short> && OneKey<unsigned char> && OneKey<const char*> &&
              OneKey<std::string> && !OneKey<float> && !OneKey<double> && !OneKey<long double>);
// Characters and bool would be the integers that they are made of; wide integers would be cut.
__extension__ typedef __int128 Wide;
static_assert(!OneKey<std::nullptr_t> && !OneKey<std::vector<bool>::reference>);
static_assert(!OneKey<char> && !OneKey<char8_t> && !OneKey<wchar_t> && !OneKey<bool> &&
              !OneKey<Wide>);
// Two literals in braces would be one string_view, of what lies between them in memory.
template <class F>
concept OneString = requires(F& filter, const char* at, std::size_t n) {
  filter.insert({"abc"});
  filter.insert({at, at + n});
  filter.insert({at, n});
};
static_assert(OneString<scbf::Filter> && OneString<scbf::BloomFilter>);
template <class F>
concept Braces = requires(F& filter) {
  filter.insert({"a", "b"});
}
|| requires(F& filter) { filter.contains({"a", "b"}); }
|| requires(F& filter) { filter.remove({"a", "b"}); }
|| requires(F& filter) { filter.find({"a", "b"}); };
static_assert(!Braces<scbf::Filter> && !Braces<scbf::BloomFilter> &&
              !Braces<const scbf::FilterRef> && !Braces<scbf::Bank> && !Braces<scbf::BloomBank>);

TEST_P(KeyBatchOn, FixedWidths) {
  for (const std::size_t width : {1u, 3u, 7u, 9u, 16u, 17u, 128u, 129u, 240u, 241u, 300u}) {
    const std::string data = random_bytes(width * 50, width);
    std::vector<std::string> strings;
    for (std::size_t i = 0; i < 50; ++i) strings.push_back(data.substr(i * width, width));
    const auto batch = KeyBatch::from_fixed(std::as_bytes(std::span(data)), width);
    ASSERT_EQ(batch.size(), 50u);
    EXPECT_TRUE(same_words(counters_of(batch, backend()), counters_of(strings))) << width;
  }
}

TEST_P(KeyBatchOn, NullsAreNeitherInsertedNorFoundNorRemovedButCounted) {
  const StringColumn column(string_sets()[0].keys, 3);
  const auto numbers = random_keys(column.strings.size(), 8);
  std::vector<std::byte> fixed(numbers.size() * 8);
  std::memcpy(fixed.data(), numbers.data(), fixed.size());
  std::vector<KeyBatch> kinds = batches_of(column);
  kinds.insert(kinds.end(),
               {numbers, KeyBatch::from_hashes(numbers), KeyBatch::from_fixed(fixed, 8)});
  Random random(2);
  for (const KeyBatch& all : kinds) {
    for (const std::size_t offset : {0u, 1u, 7u, 8u, 13u}) {
      SCOPED_TRACE("kind " + std::to_string(static_cast<int>(all.kind())) + " bit offset " +
                   std::to_string(offset));
      std::vector<bool> valid(all.size());
      std::size_t nulls = 0;
      for (std::size_t i = 0; i < valid.size(); ++i) {
        valid[i] = random.below(3) > 0;
        nulls += !valid[i];
      }
      const auto bitmap = bitmap_of(valid, offset);
      const KeyBatch some = all.with_validity(bitmap, offset);
      ASSERT_TRUE(some.has_validity());
      ASSERT_EQ(some.nulls(), nulls);
      // The counters must be those of the valid keys inserted one by one.
      scbf::Filter want(scbf::Geometry::split(7, 3001), {.seed = 4, .backend = "scalar"});
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(some.valid(i), valid[i]);
        if (valid[i]) want.insert(all.slice(i, 1));
      }
      scbf::Filter filter(want.geometry(), {.seed = 4, .backend = backend()});
      const auto inserted = filter.insert(some);
      EXPECT_EQ(inserted.inserted, all.size() - nulls);
      EXPECT_EQ(inserted.nulls, nulls);
      ASSERT_TRUE(same_words(words_of(filter), want.words()));
      // With all keys in the filter, a null that is looked up by mistake would be found.
      filter.insert(all);
      Answers hits(all.size(), 0xCC), counts(all.size(), 0xCC), verdicts(all.size(), 0xCC);
      const auto asked = filter.contains(some, hits);
      filter.count(some, counts);
      EXPECT_EQ(asked.hits, all.size() - nulls);
      EXPECT_EQ(asked.nulls, nulls);
      const auto removed = filter.remove(some, verdicts);
      EXPECT_EQ(removed.removed, all.size() - nulls);
      EXPECT_EQ(removed.absent, 0u);
      EXPECT_EQ(removed.nulls, nulls);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(hits[i], valid[i]);
        ASSERT_EQ(verdicts[i], valid[i]);
        ASSERT_EQ(counts[i] > 0, valid[i]);
      }
      want = scbf::Filter(want.geometry(), {.seed = 4, .backend = "scalar"});
      want.insert(all);
      ASSERT_TRUE(same_words(words_of(filter), want.words()));
    }
  }
}

TEST_P(KeyBatchOn, SlicesOfEveryKindWithValidity) {
  const StringColumn column(string_sets()[2].keys, 1);
  std::vector<bool> valid;
  for (std::size_t i = 0; i < column.strings.size(); ++i) valid.push_back(i % 3 != 1);
  const auto bitmap = bitmap_of(valid, 5);
  std::vector<std::uint64_t> hashes;
  for (const auto& key : column.strings) hashes.push_back(xxh3(key, 11));
  std::vector<KeyBatch> kinds = batches_of(column);
  kinds.push_back(KeyBatch::from_hashes(hashes));
  for (const KeyBatch& kind : kinds) {
    const KeyBatch all = kind.with_validity(bitmap, 5);
    for (const auto& [first, size] : {std::pair<std::size_t, std::size_t>{0, 0},
                                      {0, 1},
                                      {7, 30},
                                      {100, 201},
                                      {301, 0},
                                      {0, 301},
                                      {299, 2}}) {
      const KeyBatch part = all.slice(first, size);
      std::vector<std::string> want;
      for (std::size_t i = first; i < first + size; ++i) {
        if (valid[i]) want.push_back(column.strings[i]);
      }
      ASSERT_EQ(part.size(), size);
      ASSERT_EQ(part.nulls(), size - want.size());
      ASSERT_TRUE(same_words(counters_of(part, backend()), counters_of(want)));
      // A slice of a slice counts its keys from the outer slice.
      if (size > 2) {
        const KeyBatch inner = part.slice(1, size - 2);
        ASSERT_EQ(inner.valid(0), valid[first + 1]);
        ASSERT_TRUE(
            same_words(counters_of(inner, backend()), counters_of(all.slice(first + 1, size - 2))));
      }
    }
  }
}

TEST_P(KeyBatchOn, EmptyBatchesOfEveryKind) {
  const StringColumn none({});
  const std::vector<std::uint64_t> no_numbers;
  std::vector<KeyBatch> kinds = batches_of(none);
  kinds.insert(kinds.end(),
               {no_numbers, KeyBatch::from_hashes(no_numbers), KeyBatch::from_fixed({}, 8),
                KeyBatch::from_offsets({}, std::span<const std::int64_t>{})});
  for (const KeyBatch& batch : kinds) {
    EXPECT_TRUE(batch.empty());
    const KeyBatch with_bitmap = batch.with_validity({});
    EXPECT_EQ(with_bitmap.nulls(), 0u);
    const auto words = counters_of(with_bitmap, backend());
    EXPECT_EQ(std::count(words.begin(), words.end(), 0u),
              static_cast<std::ptrdiff_t>(words.size()));
  }
}

TEST(KeyBatchArguments, RefusedWithPlaceAndLimit) {
  const std::vector<std::byte> data(10);
  SCBF_EXPECT_THROW(KeyBatch::from_fixed(data, 0), InvalidArgument, "width 0");
  SCBF_EXPECT_THROW(KeyBatch::from_fixed(data, 3), InvalidArgument, "multiple of the key width 3");
  using Offsets32 = std::vector<std::int32_t>;
  using Offsets64 = std::vector<std::int64_t>;
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets32{-1, 4}), InvalidArgument,
                    "offset 0 is -1");
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets32{0, 5, 4, 6}), InvalidArgument,
                    "offset 2 is 4");
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets32{0, 5, 11}), InvalidArgument, "11");
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets32{0, 5, -3}), InvalidArgument,
                    "offset 2 is -3");
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets32{11}), InvalidArgument, "11");
  SCBF_EXPECT_THROW(KeyBatch::from_offsets(data, Offsets64{0, std::int64_t{1} << 40}),
                    InvalidArgument, "1099511627776");
  SCBF_EXPECT_THROW(
      KeyBatch::from_offsets(data, Offsets64{std::numeric_limits<std::int64_t>::min(), 3}),
      InvalidArgument, "offset 0 is -");
  EXPECT_NO_THROW(KeyBatch::from_offsets(data, Offsets32{0, 0, 10, 10}));
  EXPECT_NO_THROW(KeyBatch::from_offsets(data, Offsets64{10}));
}

TEST(KeyBatchArguments, BitmapsAndSlicesPastTheEnd) {
  const std::vector<std::uint64_t> keys(17);
  const KeyBatch batch = keys;
  const std::vector<std::byte> three(3), two(2);
  EXPECT_NO_THROW(batch.with_validity(three, 7));
  SCBF_EXPECT_THROW(batch.with_validity(three, 8), InvalidArgument, "24 bits from bit 8");
  SCBF_EXPECT_THROW(batch.with_validity(two), InvalidArgument, "16 bits");
  SCBF_EXPECT_THROW(batch.with_validity(three, ~std::size_t{0}), InvalidArgument, "24 bits");
  EXPECT_NO_THROW(batch.slice(17, 0));
  SCBF_EXPECT_THROW(batch.slice(18, 0), InvalidArgument, "the batch has 17");
  SCBF_EXPECT_THROW(batch.slice(1, 17), InvalidArgument, "the batch has 17");
  SCBF_EXPECT_THROW(batch.slice(1, ~std::size_t{0}), InvalidArgument, "the batch has 17");
}

}  // namespace
}  // namespace scbf_test::key_batch_test
