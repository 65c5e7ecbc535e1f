// SPDX-License-Identifier: Apache-2.0
// scbf::Filter on fake devices, beyond the contract suite: windows and their boundaries, pinned
// memory, threads, moves between devices, files.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <functional>
#include <thread>

#include "fake_test_support.hpp"
#include "files/file_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::Filter;
using scbf::Geometry;
using scbf::KeyBatch;

[[maybe_unused]] const bool kStarted = start_fake_cuda();

const Geometry kGeometry = Geometry::split_block(1, 777);
const char* const kBackends[] = {"cuda", "cuda:1", "cuda:windows"};

Filter filled(std::string_view backend, std::uint64_t seed = 5) {
  Filter filter(kGeometry, {.seed = seed, .backend = backend});
  filter.insert(random_keys(5000, 1));
  filter.remove(random_keys(2000, 1));
  filter.set_metadata("m");
  return filter;
}

void expect_same(const Filter& got, const Filter& want) {
  EXPECT_TRUE(same_words(words_of(got), words_of(want)));
  EXPECT_EQ(got.keys_inserted(), want.keys_inserted());
  EXPECT_EQ(got.keys_removed(), want.keys_removed());
  EXPECT_EQ(got.metadata(), want.metadata());
}

/// Compares all operations on these keys with the model.
void compare(Filter& filter, Filter& model, const KeyBatch& keys) {
  ASSERT_EQ(filter.insert(keys).inserted, model.insert(keys).inserted);
  ASSERT_TRUE(same_words(words_of(filter), words_of(model)));
  ASSERT_TRUE(same_answers(contains(filter, keys), contains(model, keys)));
  ASSERT_TRUE(same_answers(count(filter, keys), count(model, keys)));
  if (!keys.empty()) {
    const auto half = keys.slice(0, (keys.size() + 1) / 2);
    ASSERT_TRUE(same_answers(remove(filter, half), remove(model, half)));
  }
  // Some keys have more copies than are left to remove, so the order of all windows matters.
  ASSERT_TRUE(same_answers(remove(filter, keys), remove(model, keys)));
  filter.insert(keys);
  model.insert(keys);
  const auto got = filter.remove(keys), want = model.remove(keys);
  ASSERT_EQ(got.removed, want.removed);
  ASSERT_EQ(got.absent, want.absent);
  ASSERT_TRUE(same_words(words_of(filter), words_of(model)));
}

/// Memory that the device can read and write directly.
template <class T>
class Pinned {
 public:
  explicit Pinned(std::size_t n) : n_(n) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocHost(&data, n * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(data);
  }
  explicit Pinned(const std::vector<T>& values) : Pinned(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  std::span<T> span() const { return {data_, n_}; }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

// ---- windows ------------------------------------------------------------------------------------

TEST(Windows, BatchesAroundTheirBoundaries) {
  for (const Geometry& geometry : {kGeometry, Geometry::split(7, 4000)}) {
    Filter filter(geometry, {.seed = 3, .backend = "cuda:windows"}),
        model(geometry, {.seed = 3, .backend = "scalar"});
    for (const std::size_t windows : {1u, 2u, 3u, 4u, 7u}) {
      for (const std::size_t n : {windows * kSmallWindow - 1, windows * kSmallWindow,
                                  windows * kSmallWindow + 1, windows * kSmallWindow + 64}) {
        SCOPED_TRACE(n);
        // A few keys repeat, in one window and across windows, so the order of removals matters.
        auto keys = random_keys(n, n);
        for (std::size_t i = 0; i < n; i += 3) keys[i] = i % 300;
        ASSERT_NO_FATAL_FAILURE(compare(filter, model, keys));
      }
    }
  }
}

TEST(Windows, EveryKindOfKeyWithNullsAtAnyBit) {
  std::vector<std::string> strings;
  for (const StringSet& set : string_sets()) {
    if (set.name != "long_path") {
      strings.insert(strings.end(), set.keys.begin(), set.keys.end());
    }
  }
  for (std::size_t i = 0; strings.size() < 2 * kSmallWindow + 77; ++i) {
    strings.push_back(random_bytes(i % 40, i));
  }
  const StringColumn column(strings, 3);
  const auto values = random_keys(strings.size(), 8);
  const std::vector<std::uint32_t> narrow(values.begin(), values.end());
  const std::vector<std::int32_t> narrow_signed(values.begin(), values.end());
  const std::vector<KeyBatch> batches = {values,
                                         narrow,
                                         narrow_signed,
                                         KeyBatch::from_hashes(values),
                                         KeyBatch::from_fixed(std::as_bytes(std::span(values)), 8),
                                         KeyBatch::from_fixed(std::as_bytes(std::span(values)), 1),
                                         KeyBatch::from_offsets(column.data, column.offsets32),
                                         KeyBatch::from_offsets(column.data, column.offsets64),
                                         column.views,
                                         column.strings};
  std::vector<std::byte> bitmap(values.size() + 100);
  Random random(5);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  Filter filter(kGeometry, {.seed = 9, .backend = "cuda:windows"}),
      model(kGeometry, {.seed = 9, .backend = "scalar"});
  std::size_t offset = 0;
  for (const KeyBatch& batch : batches) {
    SCOPED_TRACE(static_cast<int>(batch.kind()));
    ASSERT_NO_FATAL_FAILURE(compare(filter, model, batch));
    for (int i = 0; i < 2; ++i) {
      offset += 3;
      ASSERT_NO_FATAL_FAILURE(compare(filter, model, batch.with_validity(bitmap, offset)));
      const auto part = batch.with_validity(bitmap, offset).slice(5, batch.size() - 9);
      ASSERT_NO_FATAL_FAILURE(compare(filter, model, part));
    }
  }
}

TEST(Windows, PinnedMemoryOfTheCallerIsUsedAsItIs) {
  constexpr std::size_t n = 3 * kSmallWindow + 5;
  const Pinned<std::uint64_t> keys(n);
  const Pinned<std::uint8_t> answers(n);
  const auto values = random_keys(n, 1);
  std::copy(values.begin(), values.end(), keys.span().begin());
  const KeyBatch batch(std::span<const std::uint64_t>(keys.span()));
  Filter filter(kGeometry, {.backend = "cuda:windows"}), model(kGeometry, {.backend = "scalar"});
  filter.insert(batch);
  model.insert(values);
  ASSERT_TRUE(same_words(words_of(filter), model.words()));
  const auto asked = random_keys(n, 2);
  std::copy(asked.begin(), asked.end(), keys.span().begin());
  const Answers hits = contains(model, asked);
  const auto expect_hits = [&] {
    EXPECT_TRUE(same_answers(Answers(answers.span().begin(), answers.span().end()), hits));
    std::fill(answers.span().begin(), answers.span().end(), std::uint8_t{0xCC});
  };
  filter.contains(batch, answers.span());
  expect_hits();
  filter.contains(asked, answers.span());
  expect_hits();
  EXPECT_TRUE(same_answers(contains(filter, batch), hits));
  // Nothing may read the batch any more, so the caller may change it.
  std::fill(keys.span().begin(), keys.span().end(), 0);
  std::copy(values.begin(), values.end(), keys.span().begin());
  filter.remove(batch, answers.span());
  EXPECT_TRUE(
      same_answers(Answers(answers.span().begin(), answers.span().end()), remove(model, values)));
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
}

TEST(Windows, PinnedMemoryIsLeftAloneWhenABatchFails) {
  Filter filter(kGeometry, {.backend = "cuda:windows"});
  for (std::uint64_t nth = 1; nth < 9; ++nth) {
    const Pinned<std::uint64_t> keys(3 * kSmallWindow);
    const Pinned<std::uint8_t> answers(3 * kSmallWindow);
    fake_cuda::fail_call([](auto f) { return f == "cudaMemcpyAsync"; }, nth, cudaErrorUnknown);
    try {
      filter.contains(std::span<const std::uint64_t>(keys.span()), answers.span());
    } catch (const scbf::Error&) {
      EXPECT_TRUE(fake_cuda::has_failed());
    }
    fake_cuda::heal();
    // The caller frees the memory now. The fake runtime notices if it is still in use.
  }
}

/// n keys of `least` to `most` bytes.
StringColumn strings_of(std::size_t n, std::size_t least, std::size_t most) {
  std::vector<std::string> strings;
  Random random(n);
  for (std::size_t i = 0; i < n; ++i) {
    strings.push_back(random_bytes(least + random.below(most - least + 1), i));
  }
  return StringColumn(strings, 5);
}

TEST(Windows, ShortStringsAreHashedOnTheDevice) {
  constexpr std::size_t n = 2 * kSmallWindow;
  const StringColumn short_ones = strings_of(n, 0, 20), long_ones = strings_of(n, 100, 300);
  Filter filter(kGeometry, {.seed = 9, .backend = "cuda:windows"}),
      model(kGeometry, {.seed = 9, .backend = "scalar"});
  const auto copies_of = [&](const KeyBatch& keys) {
    const std::uint64_t before = fake_cuda::calls_of("cudaMemcpyAsync");
    filter.insert(keys);
    model.insert(keys);
    return fake_cuda::calls_of("cudaMemcpyAsync") - before;
  };
  // Two windows: both copy bytes and offsets; then bytes only; then hashes only. The number of
  // counters that each has filled comes back: eight bytes that nobody waits for before the window
  // is done.
  EXPECT_EQ(copies_of(KeyBatch::from_offsets(short_ones.data, short_ones.offsets32)), 6u);
  EXPECT_EQ(copies_of(KeyBatch::from_offsets(short_ones.data, short_ones.offsets64)), 6u);
  const std::vector<std::byte> bytes(n * 16, std::byte{3});
  EXPECT_EQ(copies_of(KeyBatch::from_fixed(bytes, 16)), 4u);
  EXPECT_EQ(copies_of(KeyBatch::from_offsets(long_ones.data, long_ones.offsets32)), 4u);
  EXPECT_EQ(copies_of(short_ones.views), 4u);
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
}

TEST(Windows, StringsInPinnedMemoryAreUsedAsTheyAre) {
  const StringColumn column = strings_of(2 * kSmallWindow + 7, 0, 20);
  const Pinned<std::byte> bytes(column.data);
  Filter filter(kGeometry, {.seed = 9, .backend = "cuda:windows"}),
      model(kGeometry, {.seed = 9, .backend = "scalar"});
  compare(filter, model, KeyBatch::from_offsets(bytes.span(), column.offsets32));
  compare(filter, model, KeyBatch::from_offsets(bytes.span(), column.offsets64).slice(3, 1999));
  const std::size_t whole = bytes.span().size() / 8 * 8;
  compare(filter, model, KeyBatch::from_fixed(bytes.span().first(whole), 8));
}

TEST(Windows, OfDifferentSizesInTurn) {
  Filter filter(kGeometry, {.backend = "cuda"}), model(kGeometry, {.backend = "scalar"});
  for (const std::size_t n : {10u, 5000u, 100u, 9000u, 4096u, 20'000u, 1u}) {
    ASSERT_NO_FATAL_FAILURE(compare(filter, model, random_keys(n, n)));
  }
}

// ---- several stages -----------------------------------------------------------------------------

const scbf::Growth kGrowths[] = {scbf::Growth::fixed(Geometry::split_block(1, 20), 200),
                                 scbf::Growth::tightening(300, 0.05),
                                 scbf::Growth::tightening(300, 0.05, scbf::Layout::split)};

TEST(Stages, EqualTheModelAcrossWindows) {
  for (const scbf::Growth& growth : kGrowths) {
    SCOPED_TRACE(growth.describe());
    for (const char* backend : {"cuda", "cuda:windows"}) {
      Filter filter(growth, {.seed = 3, .backend = backend}),
          model(growth, {.seed = 3, .backend = "scalar"});
      for (const std::size_t n : {kSmallWindow - 1, kSmallWindow + 1, 3 * kSmallWindow + 64}) {
        SCOPED_TRACE(n);
        auto keys = random_keys(n, n);
        // Keys repeat, in one window and across windows, and lie in several stages.
        for (std::size_t i = 0; i < n; i += 3) keys[i] = i % 300;
        ASSERT_EQ(filter.insert(keys).inserted, model.insert(keys).inserted);
        ASSERT_EQ(filter, model);
        ASSERT_GT(filter.stages(), 1u);
        const auto asked = random_keys(n, n + 1);
        for (const auto& batch : {asked, keys}) {
          Answers hits(n, 0xCC), want(n);
          ASSERT_EQ(filter.contains(batch, hits).hits, model.contains(batch, want).hits);
          ASSERT_TRUE(same_answers(hits, want));
          ASSERT_TRUE(same_answers(count(filter, batch), count(model, batch)));
        }
        std::vector<std::byte> bitmap(n / 8 + 2);
        Random random(n);
        for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
        ASSERT_TRUE(same_answers(remove(filter, KeyBatch(keys).with_validity(bitmap, 3)),
                                 remove(model, KeyBatch(keys).with_validity(bitmap, 3))));
        ASSERT_EQ(filter, model);
        const auto got = filter.remove(keys), want = model.remove(keys);
        ASSERT_EQ(got.removed, want.removed);
        ASSERT_EQ(got.ambiguous, want.ambiguous);
        ASSERT_GT(got.ambiguous, 0u);
        ASSERT_GT(got.absent, 0u);
        ASSERT_EQ(filter, model);
        for (std::size_t s = 0; s < filter.stages(); ++s) {
          ASSERT_EQ(filter.stage(s).keys_removed(), model.stage(s).keys_removed());
        }
      }
    }
  }
}

TEST(Stages, StringsInSeveral) {
  const StringColumn column = strings_of(3 * kSmallWindow + 5, 0, 20);
  for (const scbf::Growth& growth : kGrowths) {
    Filter filter(growth, {.seed = 3, .backend = "cuda:windows"}),
        model(growth, {.seed = 3, .backend = "scalar"});
    const KeyBatch keys = KeyBatch::from_offsets(column.data, column.offsets32);
    for (const KeyBatch& batch : {keys, KeyBatch(column.strings)}) {
      filter.insert(batch);
      model.insert(batch);
      ASSERT_TRUE(same_answers(count(filter, batch), count(model, batch)));
      ASSERT_TRUE(same_answers(remove(filter, batch), remove(model, batch)));
      ASSERT_EQ(filter, model);
    }
  }
}

// More stages or ambiguous keys cost a question or a removal no further copies and no further
// waits.
TEST(Stages, NoStageAndNoKeyHasTheHostWaitForIt) {
  const auto keys = random_keys(2 * kSmallWindow, 5);
  Answers out(keys.size());
  const auto calls = [] {
    return std::pair(fake_cuda::calls_of("cudaMemcpyAsync"),
                     fake_cuda::calls_of("cudaStreamSynchronize"));
  };
  const auto cost_of = [&](Filter& filter) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> costs;
    const std::function<void()> operations[] = {[&] { filter.contains(keys, out); },
                                                [&] { filter.count(keys, out); },
                                                [&] { filter.remove(keys, out); }};
    for (const auto& operation : operations) {
      const auto before = calls();
      operation();
      const auto after = calls();
      costs.emplace_back(after.first - before.first, after.second - before.second);
    }
    return costs;
  };
  Filter one(kGeometry, {.backend = "cuda:windows"});
  Filter many(kGrowths[0], {.backend = "cuda:windows"});
  many.insert(keys);
  many.insert(keys);
  ASSERT_GT(many.stages(), 10u);
  const auto of_one = cost_of(one), of_many = cost_of(many);
  EXPECT_GT(std::count(out.begin(), out.end(), 2), 100);
  EXPECT_EQ(of_many, of_one);
  EXPECT_EQ(of_many[2].first, 6u) << "two windows: keys, verdicts and counts of each";
}

TEST(Stages, KnowTheirFillAfterEveryChange) {
  const auto nonzero_without_copies = [](const auto& filter) {
    const auto before = fake_cuda::calls_of("cudaMemcpyAsync");
    const std::uint64_t nonzero = filter.nonzero();
    EXPECT_EQ(fake_cuda::calls_of("cudaMemcpyAsync"), before) << "counters were counted again";
    return nonzero;
  };
  for (const scbf::Growth& growth : {scbf::Growth::one(kGeometry), kGrowths[0], kGrowths[2]}) {
    for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
      SCOPED_TRACE(growth.describe());
      Filter filter(growth, {.backend = "cuda:windows"}), model(growth, {.backend = "scalar"});
      auto keys = random_keys(3 * kSmallWindow + 5, 1);
      for (std::size_t i = 0; i < keys.size(); i += 3) keys[i] = i % 300;
      filter.insert(keys, {.path = path});
      model.insert(keys);
      EXPECT_EQ(nonzero_without_copies(filter), model.nonzero());
      const auto some = KeyBatch(keys).slice(0, keys.size() / 2);
      for (int i = 0; i < 2; ++i) {  // the second time some have too few copies left
        filter.remove(some, {}, {.path = path});
        model.remove(some);
        EXPECT_EQ(nonzero_without_copies(filter), model.nonzero());
        EXPECT_TRUE(knows_its_fill(filter));
      }
      scbf::BloomFilter bits(growth, {.backend = "cuda:windows"}),
          model_of_bits(growth, {.backend = "scalar"});
      bits.insert(keys, {.path = path});
      model_of_bits.insert(keys);
      EXPECT_EQ(nonzero_without_copies(bits), model_of_bits.nonzero());
    }
  }
}

// ---- threads ------------------------------------------------------------------------------------

TEST(CudaThreads, ConstOperationsRunAtOnce) {
  for (const char* backend : kBackends) {
    const Filter shared = filled(backend), model = filled("scalar");
    const auto keys = random_keys(3 * kSmallWindow + 1, 1);
    const Answers hits = contains(model, keys), counts = count(model, keys);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        (void)cudaSetDevice(t % 2);
        for (std::size_t round = 0; round < scaled(10, 3); ++round) {
          wrong += contains(shared, keys) != hits;
          wrong += count(shared, keys) != counts;
          wrong += !(Filter(shared) == model);
          wrong += words_of(shared) != words_of(model);
          wrong += shared.statistics().nonzero != model.statistics().nonzero;
        }
        int device = -1;
        (void)cudaGetDevice(&device);
        wrong += device != t % 2;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << backend;
  }
}

TEST(CudaThreads, EachHasItsFilterAndScratchIsGivenBackMeanwhile) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t round = 0; round < scaled(8, 3); ++round) {
        wrong += !(filled(kBackends[t], t) == filled("scalar", t));
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    scbf::cuda::release_device_scratch();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- moves --------------------------------------------------------------------------------------

TEST(Moves, BetweenHostAndDevicesAndBack) {
  const Filter near = filled("scalar");
  for (const char* backend : kBackends) {
    SCOPED_TRACE(backend);
    Filter filter = near;
    filter.to(backend);
    SCBF_EXPECT_THROW(filter.words(), scbf::NotOnHost, "cuda:");
    expect_same(filter, near);
    for (const char* next : kBackends) {
      filter.to(next);
      EXPECT_EQ(filter.backend().name(), next);
      expect_same(filter, near);
      filter.insert(std::uint64_t{77});
      EXPECT_TRUE(filter.contains(std::uint64_t{77}));
      EXPECT_EQ(filter.remove(std::uint64_t{77}), scbf::Removal::removed);
      EXPECT_EQ(filter, near);
      filter.assign(near.words(), near.keys_inserted(), near.keys_removed());
      Filter copy = filter;
      EXPECT_EQ(copy, near);
      copy.insert("more");
      EXPECT_FALSE(copy == filter);
      copy.clear();
      EXPECT_EQ(copy, Filter(kGeometry, {.seed = 5}));
      copy.assign(near.words(), 1, 2);
      EXPECT_EQ(copy, near);
      EXPECT_TRUE(same_words(words_of(filter), near.words()));
    }
    filter.to("simd");
    EXPECT_TRUE(same_words(filter.words(), near.words()));
  }
}

TEST(Moves, MergeAndSubtractAcrossMemories) {
  for (const char* mine : {"simd", "cuda", "cuda:1", "cuda:windows"}) {
    for (const char* others : {"simd", "cuda", "cuda:1", "cuda:windows"}) {
      SCOPED_TRACE(std::string(mine) + " and " + others);
      Filter filter = filled(mine), model = filled("scalar");
      Filter other(kGeometry, {.seed = 5, .backend = others});
      other.insert(random_keys(900, 9));
      Filter near = other;
      near.to("scalar");
      filter.merge(other);
      model.merge(near);
      expect_same(filter, model);
      EXPECT_EQ(filter.subtract(other).inexact_counters, model.subtract(near).inexact_counters);
      expect_same(filter, model);
      other.merge(filled("cuda"));
      other.insert(random_keys(5000, 10));
      EXPECT_THROW(filter.subtract(other), scbf::Incompatible);
      expect_same(filter, model);
    }
  }
}

TEST(Moves, Files) {
  const scbf::test::TemporaryFolder folder;
  const auto path = folder.path() / "filter";
  for (const char* backend : kBackends) {
    SCOPED_TRACE(backend);
    const Filter filter = filled(backend), near = filled("scalar");
    filter.save(path);
    expect_same(Filter::load(path), near);
    expect_same(Filter::load(path, {.backend = backend}), near);
    Filter mapped = Filter::map(path);
    EXPECT_TRUE(mapped.read_only());
    mapped.to(backend);
    EXPECT_FALSE(mapped.read_only());
    expect_same(mapped, near);
  }
}

TEST(Moves, ACopyIsMadeBeforeEitherSideGoesOn) {
  for (const char* backend : kBackends) {
    for (int round = 0; round < 5; ++round) {
      Filter filter = filled(backend), model = filled("scalar");
      const Filter before = model;
      const auto keys = random_keys(300, 77);
      Filter copy = filter;
      copy.insert(keys);
      model.insert(keys);
      EXPECT_TRUE(same_words(words_of(copy), model.words()));
      const Filter second = filter;
      filter.insert(keys);
      EXPECT_TRUE(same_words(words_of(second), before.words()));
    }
  }
}

// ---- cost ---------------------------------------------------------------------------------------

TEST(Cost, BatchesNeverWaitForTheWholeDeviceAndKeepTheirScratch) {
  Filter filter(kGeometry, {.backend = "cuda"});
  const auto keys = random_keys(9000, 1);
  Answers out(keys.size());
  const auto all = [&] {
    filter.insert(keys, {.path = scbf::Path::partitioned});
    filter.contains(keys, out);
    filter.remove(keys, out, {.path = scbf::Path::partitioned});
    filter.statistics();
  };
  all();
  const char* const kCostly[] = {"cudaDeviceSynchronize", "cudaMalloc",       "cudaFree",
                                 "cudaMallocHost",        "cudaMemcpy",       "cudaFreeHost",
                                 "cudaMemPoolCreate",     "cudaMemPoolTrimTo"};
  std::vector<std::uint64_t> before;
  for (const char* call : kCostly) before.push_back(fake_cuda::calls_of(call));
  all();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(fake_cuda::calls_of(kCostly[i]), before[i]) << kCostly[i];
  }
}

TEST(Cost, BatchesDoNotWaitForOtherWorkOfTheProgram) {
  in_own_process([] {
    fake_cuda::set_schedule(fake_cuda::Schedule::late);
    Filter filter(kGeometry, {.backend = "cuda"});
    bool done = false;
    ASSERT_EQ(fake_cuda::launch(nullptr, [&] { done = true; }), cudaSuccess);
    const auto keys = random_keys(9000, 1);
    filter.insert(keys);
    (void)contains(filter, keys);
    (void)filter.statistics();
    EXPECT_FALSE(done);
    cudaDeviceSynchronize();
    EXPECT_TRUE(done);
  });
}

TEST(Cost, AWaitingErrorOfTheCallersIsNotReportedByBatches) {
  Filter filter(kGeometry, {.backend = "cuda"});
  (void)cudaSetDevice(77);  // refused
  filter.insert(random_keys(100, 1), {.path = scbf::Path::direct});
  EXPECT_EQ(count(filter, random_keys(100, 1)), Answers(100, 1));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice) << "the caller's error must stay";
}

}  // namespace
