// SPDX-License-Identifier: Apache-2.0
// Filters whose counters are not on the host but in far memory (support/far_backend.hpp). They move
// between memories, and compare and combine across them. Failures leave them unchanged.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "files/file_test_support.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::far_memory_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::InvalidArgument;
using scbf::NotOnHost;
using scbf::Removal;
using scbf::test::Bytes;
using scbf::test::source_of;
using scbf::test::TemporaryFolder;
using scbf::test::to_bytes;

// Tests are made from the table of backends, so these are added before.
const bool kAdded = add_far_backends();

// Counters are copied, and files checked, in chunks; these are two and a half.
const Geometry kGeometry = Geometry::split_block(1, 40'960);
constexpr std::uint64_t kWords = 40'960 * 8;
constexpr std::uint64_t kChunk = 128 * 1024;

/// A filter with inserted and removed keys, a seed, metadata and some saturated counters.
Filter filled(std::string_view backend, std::uint64_t seed = 5) {
  Filter filter(kGeometry, {.seed = seed, .backend = backend});
  filter.insert(random_keys(50'000, 1));
  filter.remove(random_keys(20'000, 1));
  for (int i = 0; i < 20; ++i) filter.insert("often");
  filter.set_metadata("m");
  return filter;
}

/// Compares all that a filter consists of.
void expect_same(const Filter& got, const Filter& want) {
  EXPECT_TRUE(knows_its_fill(got));
  EXPECT_TRUE(knows_its_fill(want));
  EXPECT_TRUE(same_words(words_of(got), words_of(want)));
  EXPECT_EQ(got.geometry(), want.geometry());
  EXPECT_EQ(got.seed(), want.seed());
  EXPECT_EQ(got.keys_inserted(), want.keys_inserted());
  EXPECT_EQ(got.keys_removed(), want.keys_removed());
  EXPECT_EQ(got.metadata(), want.metadata());
}

/// Every test starts with far memory that works, and must give all of it back.
class FarMemory : public ::testing::Test {
 protected:
  void SetUp() override { far_log().heal(); }
  void TearDown() override {
    far_log().heal();
    EXPECT_EQ(far_log().stores, 0) << "far memory was not given back";
  }
  /// How much far memory `operation` allocates, in filters of kWords.
  template <class Operation>
  static std::uint64_t allocated_by(Operation operation) {
    const std::uint64_t before = far_log().allocated;
    operation();
    return (far_log().allocated - before) / kWords;
  }
};

// ---- the far backend itself, and the table ------------------------------------------------------

TEST_F(FarMemory, CannotBeFollowedOnTheHost) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto store = scbf::find_backend("far").allocate(8);
  EXPECT_FALSE(store->on_host());
  EXPECT_DEATH((*store->words() = 1), "");
  // Nor does the far backend accept counters on the host.
  std::array<std::uint64_t, 8> near{};
  const std::vector<std::uint64_t> key(1, 3);
  EXPECT_THROW(
      scbf::find_backend("far").insert({Geometry::split_block(1, 1), 0, near.data()}, key, {}),
      std::logic_error);
}

TEST_F(FarMemory, BackendsOfTestsAreInTheTableUnderNamesOfTheirOwn) {
  ASSERT_TRUE(kAdded);
  const auto available = available_backends();
  for (const char* name : {"far", "far:again", "farther"}) {
    EXPECT_EQ(scbf::find_backend(name).name(), name);
    EXPECT_EQ(std::count(available.begin(), available.end(), &scbf::find_backend(name)), 1);
  }
  const auto span = scbf::backends();
  const FarBackend twice("far", "far memory");
  SCBF_EXPECT_THROW(scbf::add_backend(twice), InvalidArgument, "'far'");
  EXPECT_EQ(scbf::backends().data(), span.data());
  EXPECT_EQ(scbf::backends().size(), span.size());
}

// ---- operations that contract_test and filter_test do not cover ---------------------------------

TEST_F(FarMemory, ConstOperationsRunAtOnce) {
  const Filter shared = filled("far"), near = filled("scalar");
  const auto keys = random_keys(2000, 1);
  const Answers hits = contains(near, keys);
  EXPECT_EQ(wrong_at_once(4,
                          [&](unsigned) {
                            int wrong = 0;
                            for (int round = 0; round < 3; ++round) {
                              wrong += contains(shared, keys) != hits;
                              wrong += !(Filter(shared) == near);
                              wrong += words_of(shared) != words_of(near);
                            }
                            return wrong;
                          }),
            0);
}

TEST_F(FarMemory, CountingBesidesAnOperationUsesItsOptions) {
  const scbf::Growth growth = scbf::Growth::fixed(Geometry::split_block(1, 50), 9);
  const scbf::FilterOptions far{.backend = "far"};
  const scbf::BatchOptions ours{.executor = &two_threads()};
  Filter filter(growth, far);
  const auto expect_ours = [](const char* operation, auto work) {
    const std::uint64_t before = far_log().counted;
    far_log().last_executor = nullptr;
    work();
    EXPECT_GT(far_log().counted, before) << operation;
    EXPECT_EQ(far_log().last_executor, &two_threads()) << operation;
  };
  expect_ours("insert", [&] { filter.insert(random_keys(2000, 1), ours); });
  EXPECT_GT(filter.stages(), 1u);
  expect_ours("bulk", [&] { filter.bulk(ours).insert(random_keys(500, 2)); });
  // Filters without keys, whose counters are not known to be zero.
  const Bytes file = to_bytes(Filter(growth, far));
  const Filter read = Filter::read(source_of(file), far);
  const Filter again = Filter::read(source_of(file), far);
  expect_ours("merge", [&] { filter.merge(read, ours); });
  expect_ours("subtract", [&] { filter.subtract(again, ours); });
}

TEST_F(FarMemory, AFailedClearChangesNothing) {
  Filter full = filled("far", 6);
  far_log().copies_left = 0;
  EXPECT_THROW(full.clear(), FarError);
  far_log().heal();
  expect_same(full, filled("scalar", 6));
}

// ---- words --------------------------------------------------------------------------------------

TEST_F(FarMemory, WordsAreOnlyLentOnTheHost) {
  Filter far = filled("far");
  SCBF_EXPECT_THROW(far.words(), NotOnHost, "far memory");
  SCBF_EXPECT_THROW(far.words(), NotOnHost, "read_words");
  SCBF_EXPECT_THROW(far.words(), NotOnHost, "to(\"simd\")");
  static_assert(std::is_base_of_v<scbf::Error, NotOnHost>);
  far.to("simd");
  EXPECT_TRUE(same_words(far.words(), words_of(filled("scalar"))));
}

TEST_F(FarMemory, ReadWordsReadsAnyStretchAndStaysWithinBounds) {
  for (const char* backend : {"far", "simd"}) {
    SCOPED_TRACE(backend);
    const Filter filter = filled(backend), model = filled("scalar");
    const auto all = model.words();
    for (const auto& [first, size] : {std::pair<std::uint64_t, std::size_t>{0, 1},
                                      {1, 1},
                                      {kWords - 1, 1},
                                      {kWords, 0},
                                      {kChunk - 3, 7},
                                      {17, 200'000},
                                      {0, kWords},
                                      {kWords - 100, 100}}) {
      std::vector<std::uint64_t> got(size, 0xCCCC);
      filter.read_words(first, got);
      ASSERT_TRUE(same_words(got, all.subspan(first, size))) << first;
    }
    std::vector<std::uint64_t> two(2, 0xCCCC), none;
    const auto refused = [&](std::uint64_t first, std::vector<std::uint64_t>& out) {
      SCBF_EXPECT_THROW(filter.read_words(first, out), InvalidArgument, std::to_string(first));
      SCBF_EXPECT_THROW(filter.read_words(first, out), InvalidArgument, std::to_string(kWords));
    };
    refused(kWords - 1, two);
    refused(kWords, two);
    refused(UINT64_MAX, two);  // 2^64 - 1 + 2 wraps around
    refused(kWords + 1, none);
    std::vector<std::uint64_t> more(kWords + 1);
    refused(0, more);
    EXPECT_EQ(two, std::vector<std::uint64_t>(2, 0xCCCC));
  }
}

// ---- copies and moves ---------------------------------------------------------------------------

TEST_F(FarMemory, CopiesAreDeepAndStayWhereTheyAre) {
  const Filter near = filled("scalar");
  Filter far = filled("far");
  const std::uint64_t read = far_log().words_read, copied = far_log().words_copied;
  Filter copy = far;
  EXPECT_EQ(far_log().words_copied - copied, kWords);
  EXPECT_EQ(far_log().words_read, read) << "the copy went through the host";
  EXPECT_EQ(copy.backend().name(), "far");
  expect_same(copy, near);
  copy.insert(std::uint64_t{1});
  EXPECT_FALSE(copy == far);
  expect_same(far, near);
  far = copy;
  EXPECT_EQ(far, copy);
  Filter moved = std::move(copy);
  EXPECT_EQ(moved, far);
  Filter host(Geometry::split(1, 1), {.backend = "simd"});
  host = moved;  // takes the backend, too
  EXPECT_EQ(host.backend().name(), "far");
  EXPECT_EQ(far_log().stores, 3);
}

TEST_F(FarMemory, FailedConstructionsAndCopiesLeaveBothSidesAlone) {
  Filter far = filled("far"), other(kGeometry, {.backend = "far"});
  far_log().fail_allocate = true;
  EXPECT_THROW(Filter(kGeometry, {.backend = "far"}), FarError);
  EXPECT_THROW((void)Filter(far), FarError);
  EXPECT_THROW(other = far, FarError);
  far_log().heal();
  far_log().copies_left = 0;
  EXPECT_THROW((void)Filter(far), FarError);
  EXPECT_THROW(other = far, FarError);
  far_log().heal();
  EXPECT_EQ(far_log().stores, 2);
  EXPECT_EQ(other, Filter(kGeometry, {.backend = "scalar"}));
  expect_same(far, filled("scalar"));
}

// ---- to -----------------------------------------------------------------------------------------

TEST_F(FarMemory, ToMovesAFilterThereAndBack) {
  const Filter near = filled("scalar");
  Filter filter = near;
  EXPECT_EQ(&filter.to("far"), &filter);
  EXPECT_EQ(filter.backend().name(), "far");
  EXPECT_EQ(far_log().stores, 1);
  expect_same(filter, near);
  EXPECT_FALSE(filter.read_only());
  filter.insert(std::uint64_t{77});
  EXPECT_TRUE(filter.contains(std::uint64_t{77}));
  EXPECT_EQ(filter.remove(std::uint64_t{77}), Removal::removed);
  filter.to("simd");
  EXPECT_EQ(far_log().stores, 0) << "the far memory is still held";
  EXPECT_EQ(filter.backend().name(), "simd");
  EXPECT_TRUE(same_words(filter.words(), near.words()));
  EXPECT_EQ(filter.keys_inserted(), near.keys_inserted() + 1);
}

TEST_F(FarMemory, ToWithinOneMemoryCopiesNothing) {
  Filter far = filled("far");
  EXPECT_EQ(allocated_by([&] { far.to("far:again").to("far:again").to("far").to("far:again"); }),
            0u);
  EXPECT_EQ(far.backend().name(), "far:again");
  expect_same(far, filled("scalar"));
  Filter host = filled("scalar");
  const std::uint64_t* const words = host.words().data();
  host.to("simd").to("scalar").to("auto");
  EXPECT_EQ(host.words().data(), words);
}

TEST_F(FarMemory, ToBetweenTwoDevicesGoesOverTheHostInChunks) {
  Filter far = filled("far");
  EXPECT_EQ(allocated_by([&] { far.to("farther"); }), 1u);
  EXPECT_EQ(far.backend().memory(), "farther memory");
  EXPECT_EQ(far_log().stores, 1);
  expect_same(far, filled("scalar"));
}

TEST_F(FarMemory, AFailedToLeavesTheFilterWhereItWas) {
  const Filter near = filled("scalar");
  const auto unharmed = [&](Filter& filter, std::string_view backend) {
    far_log().heal();
    EXPECT_EQ(filter.backend().name(), backend);
    expect_same(filter, near);
    Filter changed = filter;  // and it still works
    changed.insert(std::uint64_t{1});
    EXPECT_TRUE(changed.contains(std::uint64_t{1}));
  };
  Filter host = near, far = filled("far");
  SCBF_EXPECT_THROW(host.to("nonsense"), scbf::BackendUnavailable, "nonsense");
  SCBF_EXPECT_THROW(far.to("nonsense"), scbf::BackendUnavailable, "nonsense");
  unharmed(host, "scalar");
  unharmed(far, "far");
  far_log().fail_allocate = true;
  EXPECT_THROW(host.to("far"), FarError);
  unharmed(host, "scalar");
  far_log().fail_allocate = true;
  EXPECT_THROW(far.to("farther"), FarError);
  unharmed(far, "far");
  far_log().copies_left = 0;
  EXPECT_THROW(host.to("far"), FarError);
  unharmed(host, "scalar");
  far_log().copies_left = 0;
  EXPECT_THROW(far.to("scalar"), FarError);
  unharmed(far, "far");
  far_log().copies_left = 3;  // the second chunk does not arrive
  EXPECT_THROW(far.to("farther"), FarError);
  unharmed(far, "far");
  EXPECT_EQ(far_log().stores, 1);
}

// ---- comparing and combining --------------------------------------------------------------------

TEST_F(FarMemory, EqualityCrossesMemories) {
  const Filter near = filled("scalar"), far = filled("far"), farther = filled("farther");
  const std::vector<const Filter*> all = {&near, &far, &farther};
  for (const Filter* a : all) {
    for (const Filter* b : all) EXPECT_EQ(*a, *b);
    EXPECT_FALSE(*a == filled("far", 6)) << "seeds differ";
    EXPECT_FALSE(*a == Filter(Geometry::split_block(2, 20'480), {.seed = 5, .backend = "far"}));
  }
  // One key more. Over all these keys, counters differ in the first, the middle and the last chunk.
  std::array<bool, 3> seen{};
  for (std::uint64_t key = 0; key < 20; ++key) {
    Filter other = far;
    other.insert(key);
    const auto words = words_of(other);
    for (std::uint64_t w = 0; w < kWords; ++w) seen[w / kChunk] |= words[w] != near.words()[w];
    for (const Filter* a : all) {
      EXPECT_FALSE(*a == other);
      EXPECT_FALSE(other == *a);
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 3);
}

TEST_F(FarMemory, MergeAndSubtractCrossMemories) {
  const auto other_keys = random_keys(30'000, 9);
  for (const char* mine : {"scalar", "far", "farther"}) {
    for (const char* others : {"simd", "far", "far:again", "farther"}) {
      SCOPED_TRACE(std::string(mine) + " and " + others);
      Filter filter = filled(mine), model = filled("scalar");
      Filter other(kGeometry, {.seed = 5, .backend = others}), other_model(kGeometry, {.seed = 5});
      other.insert(other_keys);
      other_model.insert(other_keys);
      for (int i = 0; i < 3; ++i) {
        other.insert("often");
        other_model.insert("often");
      }
      filter.merge(other);
      model.merge(other_model);
      expect_same(filter, model);
      EXPECT_EQ(filter.backend().name(), mine);
      const auto got = filter.subtract(other), want = model.subtract(other_model);
      EXPECT_EQ(got.inexact_counters, want.inexact_counters);
      EXPECT_GT(want.inexact_counters, 0u);
      expect_same(filter, model);
      expect_same(other, other_model);
      EXPECT_EQ(other.backend().name(), others);
      other.insert(std::uint64_t{4});
      EXPECT_THROW(filter.subtract(other), scbf::Incompatible);  // below zero
      expect_same(filter, model);
      EXPECT_THROW(filter.merge(filled("far", 6)), scbf::Incompatible);
    }
  }
}

TEST_F(FarMemory, MergeCopiesOnlyWhatLiesElsewhere) {
  Filter far = filled("far");
  const Filter near = filled("scalar"), again = filled("far:again");
  EXPECT_EQ(allocated_by([&] { far.merge(again); }), 0u);
  EXPECT_EQ(allocated_by([&] { far.merge(far); }), 0u);
  EXPECT_EQ(allocated_by([&] { far.merge(near); }), 1u);
  EXPECT_EQ(far_log().stores, 2) << "the temporary copy is still held";
}

TEST_F(FarMemory, FailedMergeAndSubtractChangeNothing) {
  const Filter near = filled("scalar");
  Filter far = filled("far"), host = filled("scalar");
  const auto fails = [&](bool allocation, auto operation) {
    if (allocation) {
      far_log().fail_allocate = true;
    } else {
      far_log().copies_left = 0;
    }
    EXPECT_THROW(operation(), FarError);
    far_log().heal();
    expect_same(far, near);
    expect_same(host, near);
  };
  fails(true, [&] { far.merge(near); });
  fails(true, [&] { far.subtract(near); });
  fails(false, [&] { far.merge(near); });
  fails(false, [&] { host.merge(far); });
  fails(false, [&] { host.subtract(far); });
}

// ---- files --------------------------------------------------------------------------------------

TEST_F(FarMemory, FilesAreTheSameBytesAndReadAnywhere) {
  const TemporaryFolder folder;
  const Filter near = filled("scalar"), far = filled("far");
  const Bytes bytes = to_bytes(near);
  EXPECT_TRUE(to_bytes(far) == bytes);
  far.save(folder / "far");
  EXPECT_TRUE(scbf::test::read_bytes(folder / "far") == bytes);
  EXPECT_EQ(scbf::verify_file(folder / "far").stages[0].saturated, near.statistics().saturated);
  for (const char* backend : {"far", "scalar"}) {
    const Filter loaded = Filter::load(folder / "far", {.backend = backend});
    EXPECT_EQ(loaded.backend().name(), backend);
    expect_same(loaded, near);
    const Filter read = Filter::read(source_of(bytes, 1000), {.backend = backend});
    EXPECT_EQ(read.backend().name(), backend);
    expect_same(read, near);
  }
}

TEST_F(FarMemory, OnlyVerifiedChunksAreWrittenAndDamageIsNoticed) {
  const Bytes bytes = to_bytes(filled("scalar"));
  const std::size_t payload = bytes.size() - kWords * 8;
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{kChunk} * 8, std::size_t{kWords} * 8 - 1}) {
    Bytes damaged = bytes;
    damaged[payload + at] ^= std::byte{1};
    const std::uint64_t written = far_log().words_written;
    EXPECT_THROW(Filter::read(source_of(damaged), {.backend = "far"}), scbf::CorruptFile);
    EXPECT_EQ(far_log().words_written - written, at / 8 / kChunk * kChunk);
  }
  Bytes short_by_one = bytes;
  short_by_one.pop_back();
  EXPECT_THROW(Filter::read(source_of(short_by_one), {.backend = "far"}), scbf::CorruptFile);
  far_log().copies_left = 1;
  EXPECT_THROW(Filter::read(source_of(bytes), {.backend = "far"}), FarError);
  far_log().heal();
  far_log().fail_allocate = true;
  EXPECT_THROW(Filter::read(source_of(bytes), {.backend = "far"}), FarError);
}

TEST_F(FarMemory, AFailedSaveLeavesTheOldFile) {
  const TemporaryFolder folder;
  Filter far = filled("far");
  far.save(folder / "f");
  const Bytes before = scbf::test::read_bytes(folder / "f");
  far.insert(std::uint64_t{3});
  const auto fails = [&](std::uint64_t copies, const scbf::SaveOptions& how) {
    far_log().copies_left = copies;
    EXPECT_THROW(far.save(folder / "f", how), FarError);
    far_log().heal();
    EXPECT_TRUE(scbf::test::read_bytes(folder / "f") == before);
    EXPECT_EQ(folder.entries(), 1u);
  };
  for (const std::uint64_t copies : {0u, 1u, 2u}) fails(copies, {});
  // In the first pass or in the second.
  for (const std::uint64_t copies : {0u, 2u, 3u, 5u}) fails(copies, {.compress = true});
}

TEST_F(FarMemory, AMappedFilterStaysMappedOnTheHostAndIsAnOrdinaryOneElsewhere) {
  const TemporaryFolder folder;
  const Filter near = filled("scalar");
  near.save(folder / "f");
  const Bytes before = scbf::test::read_bytes(folder / "f");
  Filter mapped = Filter::map(folder / "f", {.backend = "scalar"});
  mapped.to("simd");
  EXPECT_TRUE(mapped.read_only());
  const Filter copy = mapped;
  EXPECT_FALSE(copy.read_only());
  expect_same(copy, near);

  Filter merged = filled("far");  // a mapped filter merges into any memory
  merged.merge(mapped);
  Filter twice = near;
  twice.merge(near);
  expect_same(merged, twice);
  EXPECT_EQ(mapped, filled("far"));

  far_log().fail_allocate = true;
  EXPECT_THROW(mapped.to("far"), FarError);
  far_log().heal();
  EXPECT_TRUE(mapped.read_only());
  mapped.to("far");
  EXPECT_FALSE(mapped.read_only());
  expect_same(mapped, near);
  mapped.insert(std::uint64_t{6});
  mapped.to("scalar");
  EXPECT_FALSE(mapped.read_only());
  EXPECT_TRUE(mapped.contains(std::uint64_t{6}));
  mapped.clear();
  EXPECT_TRUE(scbf::test::read_bytes(folder / "f") == before);
}

TEST_F(FarMemory, ToMapToADeviceIsToLoad) {
  const TemporaryFolder folder;
  filled("scalar").save(folder / "f");
  Filter filter = Filter::map(folder / "f", {.backend = "far"});
  EXPECT_FALSE(filter.read_only());
  EXPECT_EQ(filter.backend().name(), "far");
  expect_same(filter, filled("scalar"));
  Bytes bytes = scbf::test::read_bytes(folder / "f");
  bytes.back() ^= std::byte{1};
  scbf::test::write_bytes(folder / "damaged", bytes);
  EXPECT_NO_THROW(Filter::map(folder / "damaged", {.backend = "scalar"}));
  EXPECT_THROW(Filter::map(folder / "damaged", {.backend = "far"}), scbf::CorruptFile);
}

}  // namespace
}  // namespace scbf_test::far_memory_test
