// SPDX-License-Identifier: Apache-2.0
// Single keys and batches of a few keys, which have code of their own on the host. Filters of all
// layouts are compared with the reference on every vector target. Filters of several stages are
// compared with large batches on the scalar backend, for batch sizes around kFewKeys. Filters are
// smaller and larger than kCachedBytes, and some lie in far memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kit/few_keys.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::few_keys_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using Keys = std::vector<std::uint64_t>;

const bool kAdded = add_far_backends();
constexpr std::uint64_t kSeed = 0xFEDC'BA98'7654'3210;

/// Every number of groups, 1 to 64 slices, and some geometries larger than kCachedBytes.
std::vector<Geometry> shapes() {
  std::vector<Geometry> all;
  for (std::uint32_t groups = 1; groups <= scbf::kMaxGroups; ++groups) {
    all.push_back(Geometry::split_block(groups, 37));
  }
  for (const std::uint32_t slices : {1u, 2u, 7u, 8u, 9u, 64u}) {
    all.push_back(Geometry::split(slices, 1001));
  }
  all.push_back(Geometry::split_block(1, 20'000));
  all.push_back(Geometry::split_block(3, 7'000));
  all.push_back(Geometry::split(9, 300'000));
  return all;
}

/// Keys to insert once, keys to insert many times, and keys to ask for; as numbers or as text.
template <class Key>
struct Questions {
  std::vector<Key> once, often, asked;
};
Questions<std::uint64_t> numbers(std::size_t room) {
  Questions<std::uint64_t> q{random_keys(room / 2, 1), random_keys(3, 2), random_keys(1500, 3)};
  q.asked.insert(q.asked.end(), q.once.begin(),
                 q.once.begin() + std::min<std::ptrdiff_t>(700, room / 2));
  q.asked.insert(q.asked.end(), q.often.begin(), q.often.end());
  return q;
}
Questions<std::string> texts(std::size_t room) {
  const auto of = [](const Keys& keys) {
    std::vector<std::string> result;
    for (const std::uint64_t key : keys) result.push_back(random_bytes(key % 50, key));
    return result;
  };
  const auto q = numbers(room);
  return {of(q.once), of(q.often), of(q.asked)};
}

const std::uint64_t& as_key(const std::uint64_t& key) { return key; }
std::string_view as_key(const std::string& key) { return key; }

template <class Key>
void expect_reference(const std::string& backend, const Geometry& shape, const Questions<Key>& q) {
  SCOPED_TRACE(backend + ", " + shape.describe());
  Filter filter(shape, {.seed = kSeed, .backend = backend});
  ReferenceFilter reference(shape, kSeed);
  const auto insert = [&](const Key& key) {
    filter.insert(as_key(key));
    reference.insert(as_key(key));
  };
  for (const Key& key : q.once) insert(key);
  for (std::size_t i = 0; i < q.often.size(); ++i) {
    for (std::size_t times = 0; times <= 9 * (i + 1); ++times) insert(q.often[i]);
  }
  std::size_t hits = 0;
  for (const Key& key : q.asked) {
    ASSERT_EQ(filter.contains(as_key(key)), reference.contains(as_key(key)));
    ASSERT_EQ(filter.count(as_key(key)), reference.count(as_key(key)));
    hits += filter.contains(as_key(key));
  }
  EXPECT_GT(hits, q.often.size());
  EXPECT_LT(hits, q.asked.size());
}

TEST(OneKey, EqualsTheReference) {
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() != scbf::kHostMemory) continue;
    const std::string name(backend->name());
    for (const Geometry& shape : shapes()) {
      const auto room = static_cast<std::size_t>(shape.counters() / shape.probes());
      expect_reference(name, shape, numbers(std::min<std::size_t>(room, 4000)));
      expect_reference(name, shape, texts(std::min<std::size_t>(room, 4000)));
    }
  }
}

TEST(OneKey, IsLookedUpByTheBackendsOwnMeans) {
  const auto keys = random_keys(600, 8);
  for (const Geometry& shape : shapes()) {
    const auto plain = scbf::find_backend("scalar").one_key(shape).holds;
    ReferenceFilter reference(shape, kSeed);
    for (std::size_t i = 0; i < 300; ++i) reference.insert(keys[i]);
    Filter filter(shape, {.seed = kSeed, .backend = "scalar"});
    filter.insert(KeyBatch(keys).slice(0, 300));
    for (const scbf::Backend* backend : available_backends()) {
      if (backend->memory() != scbf::kHostMemory) continue;
      SCOPED_TRACE(std::string(backend->name()) + ", " + shape.describe());
      if (backend->name() != "scalar") {
        ASSERT_NE(backend->one_key(shape).holds, plain);
      }
      for (const std::uint64_t key : keys) {
        ASSERT_EQ(backend->one_key(shape).holds(shape, filter.words().data(), xxh3(key, kSeed)),
                  reference.contains(key));
      }
    }
  }
}

TEST(OneKey, OfBitsIsThatOfBatches) {
  const auto keys = random_keys(600, 9);
  std::vector<Geometry> all = shapes();
  all.push_back(Geometry::ranked(82, 40, 10));
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() != scbf::kHostMemory) continue;
    for (const Geometry& shape : all) {
      if (!backend->supports(shape.layout())) continue;
      SCOPED_TRACE(std::string(backend->name()) + ", " + shape.describe());
      const Geometry of_bits = shape.with(scbf::Cell::bit);
      const scbf::OneKey& plain = scbf::find_backend("scalar").one_key(of_bits);
      const scbf::OneKey& own = backend->one_key(of_bits);
      if (backend->name() != "scalar") {
        ASSERT_NE(own.holds, plain.holds);
        ASSERT_NE(own.add, plain.add);
      }
      scbf::BloomFilter single(shape, {.seed = kSeed, .backend = backend->name()});
      scbf::BloomFilter viewed(shape, {.seed = kSeed, .backend = backend->name()});
      scbf::BloomFilter batch(shape, {.seed = kSeed, .backend = "scalar"});
      const scbf::BloomFilterRef view = viewed.ref();
      const scbf::ConstFilterRef const_view = std::as_const(viewed).ref();
      for (std::size_t i = 0; i < 300; ++i) {
        single.insert(keys[i]);
        view.insert(keys[i]);
      }
      batch.insert(KeyBatch(keys).slice(0, 300));
      ASSERT_EQ(single, batch);
      ASSERT_EQ(single.fill(), batch.fill());  // what each key filled was counted
      ASSERT_EQ(viewed, batch);
      ASSERT_EQ(viewed.fill(), batch.fill());
      ASSERT_EQ(viewed.keys_inserted(), 300u);
      std::vector<std::uint8_t> expected(keys.size());
      batch.contains(keys, expected);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(single.contains(keys[i]), expected[i] != 0);
        ASSERT_EQ(own.count(single.geometry(), single.words().data(), xxh3(keys[i], kSeed)),
                  expected[i]);
        const_view.prefetch_hash(view.hash(keys[i]));  // changes nothing
        ASSERT_EQ(const_view.contains(keys[i]), expected[i] != 0);
        ASSERT_EQ(view.count(keys[i]), expected[i]);
      }
      for (const std::uint64_t key : keys) ASSERT_EQ(view.insert_new(key), single.insert_new(key));
      ASSERT_EQ(viewed, single);
      ASSERT_EQ(viewed.keys_inserted(), single.keys_inserted());
    }
  }
}

// Keys go in, some of them so often that counters saturate, and come out again, as do keys that
// were never there: counters, verdicts and numbers are those of batches on the scalar backend.
TEST(OneKey, ChangesAreThoseOfBatches) {
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() != scbf::kHostMemory) continue;
    for (const Geometry& shape : shapes()) {
      SCOPED_TRACE(std::string(backend->name()) + ", " + shape.describe());
      Filter single(shape, {.seed = kSeed, .backend = backend->name()});
      Filter batch(shape, {.seed = kSeed, .backend = "scalar"});
      Filter viewed(shape, {.seed = kSeed, .backend = backend->name()});
      const scbf::FilterRef view = viewed.ref();
      const auto insert = [&](std::uint64_t key) {
        view.insert(key);
        single.insert(key);
        batch.insert(Keys{key});
      };
      const auto in = random_keys(300, 1), out = random_keys(200, 2);
      for (const std::uint64_t key : in) insert(key);
      for (int times = 0; times < 20; ++times) insert(in[0]);
      ASSERT_EQ(single.keys_inserted(), 320u);
      ASSERT_TRUE(same_words(words_of(single), words_of(batch))) << "after insert";
      ASSERT_TRUE(knows_its_fill(single));
      const auto expect_view = [&] {
        ASSERT_EQ(viewed, single);
        ASSERT_TRUE(knows_its_fill(viewed));
        ASSERT_EQ(viewed.keys_inserted(), single.keys_inserted());
        ASSERT_EQ(viewed.keys_removed(), single.keys_removed());
        const scbf::ConstFilterRef const_view = std::as_const(viewed).ref();
        for (const auto& keys : {in, out}) {
          for (const std::uint64_t key : keys) {
            ASSERT_EQ(view.contains(key), single.contains(key));
            ASSERT_EQ(view.count(key), single.count(key));
            const_view.prefetch_hash(view.hash(key));  // changes nothing
            ASSERT_EQ(const_view.contains_hash(view.hash(key)), single.contains(key));
          }
        }
      };
      expect_view();
      Keys removed(in.begin(), in.begin() + 150);
      removed.insert(removed.end(), out.begin(), out.end());
      removed.insert(removed.end(), in.begin(), in.begin() + 20);
      for (const std::uint64_t key : removed) {
        const unsigned verdict = remove(batch, Keys{key})[0];
        ASSERT_EQ(static_cast<unsigned>(single.remove(key)), verdict);
        ASSERT_EQ(view.remove(key), verdict == 1);
      }
      expect_view();
      ASSERT_EQ(single.keys_removed(), batch.keys_removed());
      ASSERT_GT(single.keys_removed(), 100u);
      ASSERT_TRUE(same_words(words_of(single), words_of(batch))) << "after remove";
      ASSERT_TRUE(knows_its_fill(single));
    }
  }
}

TEST(OneKey, FillsStagesAsABatchDoes) {
  for (const char* backend : {"scalar", "simd", "far"}) {
    for (const Growth& growth :
         {Growth::tightening(60, 0.1), Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7),
          Growth::fixed(Geometry::split(3, 200), 12),
          Growth::fixed(Geometry::split_block(2, 9), 5)}) {
      SCOPED_TRACE(std::string(backend) + ", " + growth.describe());
      Filter single(growth, {.backend = backend}), batch(growth, {.backend = "scalar"});
      const auto keys = random_keys(1200, 3);
      std::uint64_t fit = keys.size();
      try {
        batch.insert(keys);
      } catch (const scbf::FilterFull& full) {
        fit = full.processed();
      }
      for (std::size_t i = 0; i < fit; ++i) single.insert(keys[i]);
      EXPECT_EQ(single, batch);
      EXPECT_TRUE(knows_its_fill(single));
      if (fit < keys.size()) {
        SCBF_EXPECT_THROW(single.insert(keys[fit]), scbf::FilterFull, "stages are full");
        EXPECT_EQ(single, batch);
      }
      // What removal empties is filled again.
      for (std::size_t i = 0; i < fit / 3; ++i) {
        ASSERT_EQ(static_cast<unsigned>(single.remove(keys[i])), remove(batch, Keys{keys[i]})[0]);
      }
      for (std::size_t i = 0; i < fit / 4; ++i) single.insert(keys[i]);
      batch.insert(KeyBatch(keys).slice(0, fit / 4));
      EXPECT_EQ(single, batch);
      EXPECT_TRUE(knows_its_fill(single));
      EXPECT_EQ(single.keys_inserted(), batch.keys_inserted());
      EXPECT_EQ(single.keys_removed(), batch.keys_removed());
    }
  }
}

TEST(OneKey, DoesNotChangeAMappedFilter) {
  const TemporaryFolder folder;
  Filter(1000, 0.01).save(folder / "f.scbf");
  Filter mapped = Filter::map(folder / "f.scbf");
  SCBF_EXPECT_THROW(mapped.insert("a"), scbf::ReadOnly, "read-only");
  SCBF_EXPECT_THROW(mapped.remove(std::uint64_t{1}), scbf::ReadOnly, "read-only");
}

// ---- several stages -----------------------------------------------------------------------------

struct StagesCase {
  std::string name, backend;
  Growth growth;
  std::size_t keys;
};
std::ostream& operator<<(std::ostream& out, const StagesCase& c) { return out << c.name; }

std::vector<StagesCase> stages_cases() {
  const auto ranked = Growth::tightening(100, 0.05, scbf::Layout::ranked);
  const auto blocks = Growth::tightening(30, 0.1),
             slices = Growth::tightening(50, 0.05, scbf::Layout::split);
  const auto alike = Growth::fixed(Geometry::split_block(2, 20), 12);
  const auto large = Growth::tightening(40'000, 0.03),
             large_slices = Growth::tightening(60'000, 0.1, scbf::Layout::split);
  std::vector<StagesCase> all;
  for (const std::string backend : {"simd", "scalar", "far"}) {
    all.push_back({backend + "_blocks", backend, blocks, 2'500});
    if (backend != "far") all.push_back({backend + "_ranked", backend, ranked, 2'500});
    all.push_back({backend + "_slices", backend, slices, 2'500});
    all.push_back({backend + "_alike", backend, alike, 2'000});
    if (backend == "far") continue;
    all.push_back({backend + "_large", backend, large, 200'000});
    all.push_back({backend + "_large_slices", backend, large_slices, 250'000});
  }
  return all;
}

class Stages : public ::testing::TestWithParam<StagesCase> {
 protected:
  Stages()
      : inside(random_keys(GetParam().keys, 4)),
        filter(GetParam().growth, {.seed = kSeed, .backend = GetParam().backend}),
        asked(random_keys(3000, 5)) {
    // The first five keys are ten times in the oldest stage and ten times in the newest: their
    // counts add up to more than 15.
    const auto insert_ten_times = [&] {
      for (std::size_t i = 0; i < 10; ++i) filter.insert(KeyBatch(inside).slice(0, 5));
    };
    insert_ten_times();
    filter.insert(inside);
    insert_ten_times();
    Random random(6);
    for (std::size_t i = 0; i < 1500; ++i) asked[2 * i] = inside[random.below(inside.size())];
    asked.insert(asked.end(), inside.begin(), inside.begin() + 5);
  }
  /// The answers to one large batch on the scalar backend, which other code computes.
  Answers want(bool count) const {
    Filter scalar = filter;
    scalar.to("scalar");
    Answers out(asked.size());
    if (count) {
      scalar.count(asked, out);
    } else {
      scalar.contains(asked, out);
    }
    return out;
  }

  Keys inside;
  Filter filter;
  Keys asked;
};
INSTANTIATE_TEST_SUITE_P(All, Stages, ::testing::ValuesIn(stages_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(Stages, OneKeyIsAskedAsABatchIs) {
  ASSERT_GT(filter.stages(), 2u);
  if (GetParam().name.find("large") != std::string::npos) {  // so large that lines are prefetched
    ASSERT_GT(filter.stage(filter.stages() - 1).geometry().bytes(), scbf::kCachedBytes);
  }
  const Answers contains = want(false), count = want(true);
  ASSERT_EQ(count.back(), 15);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ASSERT_EQ(filter.contains(asked[i]), contains[i] == 1) << "key " << i;
    ASSERT_EQ(filter.count(asked[i]), count[i]) << "key " << i;
  }
}

TEST_P(Stages, FewKeysAreAskedAsManyAre) {
  const Answers want = this->want(false);
  std::vector<std::byte> validity(asked.size() / 8 + 1);
  Random random(7);
  for (auto& byte : validity) byte = static_cast<std::byte>(random());
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{2}, scbf::kFewKeys - 1, scbf::kFewKeys, scbf::kFewKeys + 1,
        std::size_t{40}, std::size_t{128}, std::size_t{129}}) {
    SCOPED_TRACE("batches of " + std::to_string(size));
    for (std::size_t first = 0; first + size <= asked.size(); first += size) {
      const KeyBatch batch = KeyBatch(asked).slice(first, size);
      const KeyBatch some = KeyBatch(asked).with_validity(validity, 0).slice(first, size);
      Answers out(size + 1, 0xCC), out_of_some(size);
      filter.contains(batch, std::span(out).first(size), {.threads = 1});
      filter.contains(some, out_of_some, {.threads = 1});
      ASSERT_EQ(out.back(), 0xCC) << "written past the end";
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(out[i], want[first + i]) << "key " << first + i;
        ASSERT_EQ(out_of_some[i], some.valid(i) ? want[first + i] : 0) << "key " << first + i;
      }
    }
  }
}

TEST_P(Stages, FewStringsAndHashes) {
  std::vector<std::string> strings;
  for (unsigned i = 0; i < 400; ++i) strings.push_back(random_bytes(i % 300, i));
  std::vector<std::uint64_t> hashes;
  for (const std::string& s : strings) hashes.push_back(xxh3(s, kSeed));
  filter.insert(KeyBatch(strings).slice(0, 200));
  Filter scalar = filter;
  scalar.to("scalar");
  Answers want(strings.size()), counts(strings.size());
  scalar.contains(strings, want);
  scalar.count(strings, counts);
  for (std::size_t i = 0; i < strings.size(); ++i) {
    ASSERT_EQ(filter.contains(std::string_view(strings[i])), want[i] == 1);
    ASSERT_EQ(filter.count(std::string_view(strings[i])), counts[i]);
  }
  for (std::size_t first = 0; first + scbf::kFewKeys <= strings.size(); first += scbf::kFewKeys) {
    for (const KeyBatch& all : {KeyBatch(strings), KeyBatch::from_hashes(hashes)}) {
      Answers out(scbf::kFewKeys);
      filter.contains(all.slice(first, out.size()), out);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], want[first + i]);
    }
  }
}

/// Changes and counts in batches of this size, some keys null, against the same batches on the
/// scalar backend. The filter holds some of the keys.
void expect_few_changes_as_scalar(Filter filter, const Keys& asked, std::size_t size) {
  SCOPED_TRACE("batches of " + std::to_string(size));
  Filter scalar = filter;
  scalar.to("scalar");
  std::vector<std::byte> validity(asked.size() / 8 + 1);
  Random random(size);
  for (auto& byte : validity) byte = static_cast<std::byte>(random() | random());
  for (std::size_t first = 0; first + size <= std::min<std::size_t>(asked.size(), 600);
       first += size) {
    SCOPED_TRACE("from key " + std::to_string(first));
    const KeyBatch some = KeyBatch(asked).with_validity(validity, 0).slice(first, size);
    Answers own(size + 1, 0xCC), want(size);
    const auto out = std::span(own).first(size);
    const auto expect_equal_answers = [&] {
      ASSERT_TRUE(std::equal(want.begin(), want.end(), own.begin()));
      ASSERT_EQ(own.back(), 0xCC) << "written past the end";
    };
    ASSERT_EQ(filter.count(some, out).hits, scalar.count(some, want).hits);
    expect_equal_answers();
    const auto removed = filter.remove(some, out), removed_there = scalar.remove(some, want);
    ASSERT_EQ(removed.removed, removed_there.removed);
    ASSERT_EQ(removed.ambiguous, removed_there.ambiguous);
    expect_equal_answers();
    if (filter.backend().memory() == scbf::kHostMemory) {  // elsewhere there is no insert_new
      const auto added = filter.insert_new(some, out), added_there = scalar.insert_new(some, want);
      ASSERT_EQ(added.inserted, added_there.inserted);
      expect_equal_answers();
    }
    ASSERT_EQ(filter.insert(some).inserted, scalar.insert(some).inserted);
  }
  EXPECT_TRUE(filter == scalar);
  for (std::size_t s = 0; s < filter.stages(); ++s) {
    EXPECT_EQ(filter.stage(s).keys_inserted(), scalar.stage(s).keys_inserted()) << "stage " << s;
    EXPECT_EQ(filter.stage(s).keys_removed(), scalar.stage(s).keys_removed()) << "stage " << s;
    EXPECT_EQ(filter.stage(s).nonzero(), scalar.stage(s).nonzero()) << "stage " << s;
  }
}
const std::size_t kFewSizes[] = {1,
                                 2,
                                 scbf::kFewChanges - 1,
                                 scbf::kFewChanges,
                                 scbf::kFewChanges + 1,
                                 scbf::kFewKeys,
                                 scbf::kFewKeys + 1};

TEST(FewKeys, AreChangedAsManyAre) {
  const Geometry geometries[] = {Geometry::split_block(1, 37), Geometry::split_block(3, 20),
                                 Geometry::split(7, 1001),     Geometry::split(40, 300),
                                 Geometry::ranked(82, 40, 10), Geometry::split_block(1, 20'000),
                                 Geometry::split(9, 300'000)};
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() != scbf::kHostMemory) continue;
    for (const Geometry& geometry : geometries) {
      if (!backend->supports(geometry.layout())) continue;
      SCOPED_TRACE(std::string(backend->name()) + ", " + geometry.describe());
      Filter filter(geometry, {.seed = kSeed, .backend = backend->name()});
      Keys asked = random_keys(600, 8);
      filter.insert(KeyBatch(asked).slice(0, 250));
      std::ranges::rotate(asked, asked.begin() + 100);
      for (std::size_t i = 1; i < asked.size(); i += 7)
        asked[i] = asked[i - 1];  // twice in a batch
      for (const std::size_t size : kFewSizes) expect_few_changes_as_scalar(filter, asked, size);
    }
  }
}

TEST_P(Stages, FewKeysAreChangedAsManyAre) {
  for (const std::size_t size : kFewSizes) expect_few_changes_as_scalar(filter, asked, size);
}

TEST_P(Stages, RemovalOfOneKeyEqualsABatch) {
  Filter batch = filter;
  const Keys some(asked.begin(), asked.begin() + 400);
  Answers verdicts(some.size());
  batch.remove(some, verdicts);
  for (std::size_t i = 0; i < some.size(); ++i) {
    ASSERT_EQ(static_cast<unsigned>(filter.remove(some[i])), verdicts[i]) << "key " << i;
  }
  EXPECT_TRUE(filter == batch);
}

}  // namespace
}  // namespace scbf_test::few_keys_test
