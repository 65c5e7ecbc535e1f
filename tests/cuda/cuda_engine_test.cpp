// SPDX-License-Identifier: Apache-2.0
// The CUDA engine (cuda/src/engine) on the host, byte for byte against the scalar model. The source
// of the kernels and of their sequences is the one that GPUs run.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <thread>

#include "cuda/engine_support.hpp"
#include "engine/operations.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/end_of_page.hpp"
#include "support/host_device.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::cuda_engine_test {
namespace {

namespace cuda = scbf::cuda;
using scbf::BloomFilter;
using scbf::Cell;
using scbf::Geometry;
using scbf::Path;

struct EngineCase {
  Shape shape;
  Path path;
  unsigned threads;
  std::uint32_t part;  ///< positions that a block of threads takes
  bool alone = true;
};
std::ostream& operator<<(std::ostream& out, const EngineCase& c) { return out << c.shape; }

std::vector<EngineCase> engine_cases(const std::vector<Shape>& shapes) {
  std::vector<EngineCase> cases;
  for (const Shape& shape : shapes) {
    cases.push_back({shape, Path::direct, 1, 64});
    cases.push_back({shape, Path::direct, 3, 64});
    cases.push_back({shape, Path::partitioned, 1, 1u << 16});  // no partition is divided
    cases.push_back({shape, Path::partitioned, 2, 1u << 16, false});
    cases.push_back({shape, Path::partitioned, 3, 64});   // most partitions are divided
    cases.push_back({shape, Path::partitioned, 2, 200});  // into parts of several chunks
  }
  return cases;
}
struct EngineCaseName {
  std::string operator()(const ::testing::TestParamInfo<EngineCase>& info) const {
    const EngineCase& c = info.param;
    return c.shape.name + (c.path == Path::direct ? "_direct_" : "_partitioned_") +
           std::to_string(c.threads) + "_threads" + (c.alone ? "" : "_not_alone");
  }
};

cuda::Tuning tuning_of(const EngineCase& c, std::size_t scratch_bytes) {
  cuda::Tuning t;
  t.path = c.path;
  t.scratch_bytes = scratch_bytes;
  t.alone = c.alone;
  // Partitions have a few lines, so that small filters have many of them. There are few
  // reservations, so that keys wait for each other and there are many windows.
  t.limits = {.least_log2_words = 4,
              .most_log2_words = 6,
              .least_log2_blocks = 1,
              .most_log2_blocks = 3,
              .sorted_bytes = 400,  // some 70 keys at a time
              .part_positions = c.part,
              // Many tiles, or few of more positions than the threads take at once.
              .tile_positions = c.part == 200 ? 1000u : 32,
              // Counts of all partitions at once, or of each level apart; one to four levels.
              .counted_bytes = c.part == 64 ? 64 : std::size_t{96} << 10,
              .digit_bits = c.threads == 1  ? 8u
                            : c.part == 200 ? 4u
                            : c.alone       ? 3u
                                            : 2u,
              .narrow = c.threads != 1};
  t.most_log2_reservations = 7;
  return t;
}

/// As insert_and_count, of a removal and of cells that were emptied.
void remove_and_count(HostDevice& device, const cuda::FilterRef& filter,
                      const cuda::ValueKeys& keys, std::uint8_t* verdicts,
                      const cuda::Tuning& tuning, bool counts,
                      const std::vector<std::uint64_t>& words) {
  const std::uint64_t before = nonzero_in(filter.geometry().cell(), words);
  std::uint64_t emptied = 1000;
  cuda::remove(device, filter, keys, verdicts, tuning, counts ? &emptied : nullptr);
  const std::uint64_t change = before - nonzero_in(filter.geometry().cell(), words);
  ASSERT_EQ(emptied, 1000 + (counts ? change : 0));
}

/// Compares histograms, in which padding counts as zeros.
void compare_histograms(HostDevice& device, const cuda::FilterRef& filter) {
  const Geometry& geometry = filter.geometry();
  std::vector<std::uint64_t> histograms(geometry.probes() * 16, 0xCC);
  cuda::count_values(device, filter, histograms.data());
  const auto want = scbf::find_backend("scalar").histograms(
      {geometry, filter.seed(), filter.words()}, {.threads = 1});
  const std::uint64_t padding = geometry.words() * geometry.cells_per_word() / geometry.probes() -
                                geometry.counters_per_slice();
  for (std::uint32_t slice = 0; slice < geometry.probes(); ++slice) {
    for (unsigned v = 0; v < 16; ++v) {
      ASSERT_EQ(histograms[slice * 16 + v], want[slice][v] + (v == 0 ? padding : 0));
    }
  }
}

/// A filter and its model, side by side.
class Engine : public ::testing::TestWithParam<EngineCase> {
 protected:
  static constexpr std::uint64_t kSeed = 5;

  static cuda::Tuning tuning(std::size_t scratch_bytes = 0) {
    return tuning_of(GetParam(), scratch_bytes);
  }
  void insert(const std::vector<std::uint64_t>& keys) {
    counts_filled = !counts_filled;
    ASSERT_NO_FATAL_FAILURE(
        insert_and_count(device, filter, view(keys), tuning(), counts_filled, words));
    model.insert(keys);
    ASSERT_TRUE(same_words(words, model.words())) << "after insert";
  }
  void compare_remove(const std::vector<std::uint64_t>& keys, std::size_t scratch_bytes = 0) {
    counts_emptied = !counts_emptied;
    Answers got(keys.size(), 0xCC);
    ASSERT_NO_FATAL_FAILURE(remove_and_count(device, filter, view(keys), got.data(),
                                             tuning(scratch_bytes), counts_emptied, words));
    ASSERT_TRUE(same_answers(got, remove(model, keys)));
    ASSERT_TRUE(same_words(words, model.words())) << "after remove";
  }
  void compare_answers(const std::vector<std::uint64_t>& keys) {
    ASSERT_NO_FATAL_FAILURE(compare_lookups(device, filter, model, keys));
    Answers out(keys.size(), 0xCC);
    cuda::look<true>(device, filter, view(keys), cuda::ByteAnswers{out.data()});
    ASSERT_TRUE(same_answers(out, count(model, keys)));
  }

  HostDevice device{GetParam().threads};
  scbf::Filter model{GetParam().shape.geometry, {.seed = kSeed, .backend = "scalar"}};
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(model.words().size());
  cuda::FilterRef filter{GetParam().shape.geometry, kSeed, words.data()};
  bool counts_filled = false, counts_emptied = false;  // every other time
};
INSTANTIATE_TEST_SUITE_P(All, Engine, ::testing::ValuesIn(engine_cases(contract_shapes(40'000))),
                         EngineCaseName());

TEST_P(Engine, BatchesOfAllSizes) {
  Mixture mixture(1);
  for (const std::size_t n : {0u, 1u, 2u, 7u, 8u, 31u, 32u, 33u, 63u, 65u, 127u, 999u, 4097u}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    ASSERT_NO_FATAL_FAILURE(insert(mixture.to_insert(n)));
    ASSERT_NO_FATAL_FAILURE(compare_answers(mixture.to_ask(n)));
    ASSERT_NO_FATAL_FAILURE(compare_remove(mixture.to_ask(n)));
  }
}

TEST_P(Engine, RemovesWhatItInsertedAndNoMore) {
  const auto keys = random_keys(scaled(2000, 500), 2);
  ASSERT_NO_FATAL_FAILURE(insert(keys));
  auto twice = keys;
  twice.insert(twice.end(), keys.begin(), keys.end());
  ASSERT_NO_FATAL_FAILURE(compare_remove(twice));
  EXPECT_TRUE(std::all_of(words.begin(), words.end(), [](auto w) { return w == 0; }));
}

TEST_P(Engine, OneKeyForAll) {
  const std::vector<std::uint64_t> keys(scaled(20'000, 2000), 42);
  for (const std::size_t copies : {3u, 14u, 15u}) {
    ASSERT_NO_FATAL_FAILURE(insert({keys.begin(), keys.begin() + static_cast<long>(copies)}));
    ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
  }
  ASSERT_NO_FATAL_FAILURE(insert(keys));
  ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
}

TEST_P(Engine, SeveralPassesOfAFewKeysEach) {
  Mixture mixture(3);
  ASSERT_NO_FATAL_FAILURE(insert(mixture.to_insert(3000)));
  // Scratch memory for part_positions keys at a time, or a few more.
  ASSERT_NO_FATAL_FAILURE(compare_remove(mixture.to_ask(3000), 1));
  cuda::insert(device, filter, view(mixture.to_insert(0)), tuning(1), nullptr);
  const auto more = mixture.to_insert(3000);
  ASSERT_NO_FATAL_FAILURE(insert_and_count(device, filter, view(more), tuning(1), true, words));
  model.insert(more);
  ASSERT_TRUE(same_words(words, model.words()));
}

/// The last keys of a batch are null, and lie where nothing can be read.
TEST_P(Engine, NullKeysAreNotRead) {
  constexpr std::size_t kThere = 600, kNull = 70;
  const AtTheEndOfAPage values(kThere);
  const auto some = random_keys(kThere, 8);
  std::copy(some.begin(), some.end(), values.words());
  std::vector<std::byte> bitmap((kThere + kNull) / 8 + 1, std::byte{0});
  std::fill_n(bitmap.begin(), kThere / 8, std::byte{0xFF});
  for (const bool hashed : {false, true}) {
    const cuda::ValueKeys keys{values.words(), kThere + kNull, hashed,
                               cuda::Validity(bitmap.data())};
    const auto batch = hashed ? scbf::KeyBatch::from_hashes(some) : scbf::KeyBatch(some);
    ASSERT_NO_FATAL_FAILURE(insert_and_count(device, filter, keys, tuning(), true, words));
    model.insert(batch);
    ASSERT_TRUE(same_words(words, model.words()));
    if (filter.geometry().cell() != scbf::Cell::counter) continue;
    Answers out(keys.n, 0xCC);
    ASSERT_NO_FATAL_FAILURE(
        remove_and_count(device, filter, keys, out.data(), tuning(), true, words));
    remove(model, batch);
    ASSERT_TRUE(same_words(words, model.words()));
    EXPECT_EQ(std::count(out.begin() + kThere, out.end(), 0), kNull);
  }
}

TEST_P(Engine, NullsAndReadyHashes) {
  const auto hashes = random_keys(1000, 4);
  std::vector<std::byte> bitmap(hashes.size() / 8 + 3);
  Random random(5);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const auto batch = scbf::KeyBatch::from_hashes(hashes).with_validity(bitmap, 11);
  const cuda::ValueKeys keys{hashes.data(), hashes.size(), true, cuda::Validity(bitmap.data(), 11)};
  ASSERT_NO_FATAL_FAILURE(insert_and_count(device, filter, keys, tuning(1), true, words));
  model.insert(batch);
  ASSERT_TRUE(same_words(words, model.words()));
  Answers out(keys.n, 0xCC);
  cuda::look<true>(device, filter, keys, cuda::ByteAnswers{out.data()});
  ASSERT_TRUE(same_answers(out, count(model, batch)));
  std::fill(out.begin(), out.end(), std::uint8_t{0xCC});
  ASSERT_NO_FATAL_FAILURE(
      remove_and_count(device, filter, keys, out.data(), tuning(1), true, words));
  ASSERT_TRUE(same_answers(out, remove(model, batch)));
  ASSERT_TRUE(same_words(words, model.words()));
}

TEST_P(Engine, WholeFilters) {
  const Geometry& geometry = GetParam().shape.geometry;
  ASSERT_NO_FATAL_FAILURE(insert(random_keys(2000, 6)));
  scbf::Filter other(geometry, {.seed = kSeed, .backend = "scalar"});
  for (int i = 0; i < 4; ++i) other.insert(random_keys(500, 7));
  const std::uint64_t* others = other.words().data();
  for (int i = 0; i < 4; ++i) {
    device.for_each(words.size(), cuda::MergeWords<cuda::CounterCells>{words.data(), others});
    model.merge(other);
    ASSERT_TRUE(same_words(words, model.words()));
  }
  const auto met = device.reduce(words.size(), cuda::CheckSubtract{words.data(), others});
  EXPECT_EQ(met.below, 0u);
  EXPECT_EQ(met.inexact, model.subtract(other).inexact_counters);
  EXPECT_GT(met.inexact, 0u);
  device.for_each(words.size(), cuda::SubtractWords{words.data(), others});
  ASSERT_TRUE(same_words(words, model.words()));

  compare_histograms(device, filter);
}

// ---- filters of bits ----------------------------------------------------------------------------

/// A filter of bits and its model, side by side.
class BitEngine : public ::testing::TestWithParam<EngineCase> {
 protected:
  static constexpr std::uint64_t kSeed = 6;

  static Geometry geometry() { return GetParam().shape.geometry.with(Cell::bit); }
  static BloomFilter empty() {
    return BloomFilter(geometry(), {.seed = kSeed, .backend = "scalar"});
  }
  void insert(const cuda::ValueKeys& keys, const scbf::KeyBatch& batch,
              std::size_t scratch_bytes = 0) {
    counts_filled = !counts_filled;
    ASSERT_NO_FATAL_FAILURE(insert_and_count(
        device, filter, keys, tuning_of(GetParam(), scratch_bytes), counts_filled, words));
    model.insert(batch);
    ASSERT_TRUE(same_words(words, model.words())) << "after insert";
  }

  HostDevice device{GetParam().threads};
  BloomFilter model = empty();
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(model.words().size());
  cuda::FilterRef filter{geometry(), kSeed, words.data()};
  bool counts_filled = false;  // every other time
};
INSTANTIATE_TEST_SUITE_P(All, BitEngine, ::testing::ValuesIn(engine_cases(contract_shapes(40'000))),
                         EngineCaseName());

TEST_P(BitEngine, BatchesOfAllSizes) {
  Mixture mixture(1);
  for (const std::size_t n : {0u, 1u, 2u, 31u, 32u, 33u, 65u, 999u, 2049u}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    const auto keys = mixture.to_insert(n);
    ASSERT_NO_FATAL_FAILURE(insert(view(keys), keys));
    ASSERT_NO_FATAL_FAILURE(compare_lookups(device, filter, model, mixture.to_ask(n)));
  }
}

TEST_P(BitEngine, PassesOfFewKeysAndOneKeyForAll) {
  const auto keys = random_keys(3000, 2);
  ASSERT_NO_FATAL_FAILURE(insert(view(keys), keys, 1));
  const std::vector<std::uint64_t> same(scaled(20'000, 2000), 42);
  ASSERT_NO_FATAL_FAILURE(insert(view(same), same));
}

TEST_P(BitEngine, NullsAndReadyHashes) {
  const auto hashes = random_keys(1000, 4);
  std::vector<std::byte> bitmap(hashes.size() / 8 + 3);
  Random random(5);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const auto batch = scbf::KeyBatch::from_hashes(hashes).with_validity(bitmap, 11);
  const cuda::ValueKeys keys{hashes.data(), hashes.size(), true, cuda::Validity(bitmap.data(), 11)};
  ASSERT_NO_FATAL_FAILURE(insert(keys, batch));
  Answers out(keys.n, 0xCC);
  cuda::look<false>(device, filter, keys, cuda::ByteAnswers{out.data()});
  ASSERT_TRUE(same_answers(out, contains(model, batch)));
}

TEST_P(BitEngine, WholeFilters) {
  scbf::Filter counters(GetParam().shape.geometry, {.seed = kSeed, .backend = "scalar"});
  counters.insert(random_keys(2000, 6));
  device.for_each(words.size(), cuda::ProjectWords{words.data(), counters.words().data()});
  model = BloomFilter(counters);
  ASSERT_TRUE(same_words(words, model.words()));
  compare_histograms(device, filter);

  BloomFilter other = empty();
  other.insert(random_keys(1500, 7));
  const std::uint64_t* others = other.words().data();
  BloomFilter both = model;
  both.merge(other);
  EXPECT_EQ(device.reduce(words.size(), cuda::OnesInEither{words.data(), others}), both.nonzero());
  const auto before = words;
  device.for_each(words.size(), cuda::MergeWords<cuda::BitCells>{words.data(), others});
  ASSERT_TRUE(same_words(words, both.words()));
  words = before;
  device.for_each(words.size(), cuda::IntersectWords{words.data(), others});
  model.intersect(other);
  ASSERT_TRUE(same_words(words, model.words()));
}

// ---- several streams ----------------------------------------------------------------------------

/// Calls work() on two threads at the same time, then check(), as often as `rounds` says.
template <class Work, class Check>
void twice_at_once(int rounds, Work work, Check check) {
  std::atomic<int> ready{0}, done{0};
  std::thread other([&] {
    for (int round = 1; round <= rounds; ++round) {
      while (ready.load() < round) std::this_thread::yield();
      work();
      ++done;
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    ready = round;
    work();
    while (done.load() < round) std::this_thread::yield();
    check();
  }
  other.join();
}

TEST(SeveralStreams, PartitionedInsertionsLoseNothing) {
  constexpr std::uint64_t kWords = 2048;
  const Geometry geometry = Geometry::split(1, kWords * 16);
  std::vector<std::uint64_t> words(kWords), positions(kWords);
  for (std::uint64_t w = 0; w < kWords; ++w) positions[w] = w * 16 + w % 16;
  const cuda::Part part{0, kWords, 0, cuda::Part::kWhole};
  const std::uint64_t total = cuda::PartCount::of(kWords, 1u << 16);
  std::uint64_t filled = 0, want = 0;
  const cuda::AddToSlice<cuda::CounterCells, true, std::uint64_t> add{
      {cuda::Array(geometry, 0), words.data(), 11},
      positions.data(),
      &part,
      &total,
      false,
      &filled};
  std::uint64_t lost = 0;
  twice_at_once(
      static_cast<int>(scaled(2000, 200)),
      [&] {
        std::vector<std::uint64_t> demand(kWords, 0xCC);
        add(HostThreads(64), 0, demand.data());
      },
      [&] {
        for (std::uint64_t w = 0; w < kWords; ++w) {
          lost += 2 - (words[w] >> w % 16 * 4);
          words[w] = 0;
        }
        want += kWords;
      });
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(filled, want) << "both streams counted a counter, or neither did";
}

TEST(SeveralStreams, PartitionedInsertionsIntoBlocksLoseNothing) {
  constexpr std::uint64_t kBlocks = 256, kWords = kBlocks * 8;
  const Geometry geometry = Geometry::split_block(1, kBlocks);
  std::vector<std::uint64_t> words(kWords), positions(kBlocks);
  // A key in each block, whose counter in word i is number (block + i) % 16.
  for (std::uint64_t b = 0; b < kBlocks; ++b) {
    positions[b] = b << 32;
    for (unsigned i = 0; i < 8; ++i) positions[b] |= (b + i) % 16 << 4 * i;
  }
  const cuda::Part part{0, kBlocks, 0, cuda::Part::kWhole};
  const std::uint64_t total = cuda::PartCount::of(kBlocks, 1u << 16);
  std::uint64_t filled = 0, want = 0, lost = 0;
  const cuda::AddToBlocks<cuda::CounterCells, true> add{
      {cuda::Array(geometry, 0), words.data(), 11},
      positions.data(),
      &part,
      &total,
      100,
      false,
      &filled};
  twice_at_once(
      static_cast<int>(scaled(2000, 200)),
      [&] {
        std::vector<std::uint64_t> shared(
            cuda::KeysByBlock<cuda::CounterCells>::numbers(kBlocks, 100) / 2, 0xCC);
        add(HostThreads(64), 0, shared.data());
      },
      [&] {
        for (std::uint64_t w = 0; w < kWords; ++w) {
          lost += (words[w] ^ std::uint64_t{2} << (w / 8 + w % 8) % 16 * 4) != 0;
          words[w] = 0;
        }
        want += kWords;
      });
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(filled, want) << "both streams counted a counter, or neither did";
}

TEST(SeveralStreams, PartitionedInsertionsOfBitsLoseNothing) {
  constexpr std::uint64_t kWords = 2048;
  const Geometry geometry = Geometry::split(1, kWords * 64).with(Cell::bit);
  std::vector<std::uint64_t> words(kWords), positions[2];
  // Two threads set a bit each in every word.
  for (std::uint64_t w = 0; w < kWords; ++w) {
    for (unsigned t = 0; t < 2; ++t) positions[t].push_back(w * 64 + (w + 7 * t) % 64);
  }
  const cuda::Part part{0, kWords, 0, cuda::Part::kWhole};
  const std::uint64_t total = cuda::PartCount::of(kWords, 1u << 16);
  const auto first = std::this_thread::get_id();
  std::uint64_t filled = 0, want = 0, lost = 0;
  twice_at_once(
      static_cast<int>(scaled(2000, 200)),
      [&] {
        const auto& mine = positions[std::this_thread::get_id() == first ? 0 : 1];
        std::vector<std::uint64_t> demand(kWords, 0xCC);
        cuda::AddToSlice<cuda::BitCells, true, std::uint64_t>{
            {cuda::Array(geometry, 0), words.data(), 11},
            mine.data(),
            &part,
            &total,
            false,
            &filled}(HostThreads(64), 0, demand.data());
      },
      [&] {
        for (std::uint64_t& word : words) {
          lost += 2 - static_cast<unsigned>(std::popcount(word));
          word = 0;
        }
        want += 2 * kWords;
      });
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(filled, want);
}

TEST(SeveralStreams, BooksLoseNothing) {
  std::uint64_t books[2] = {0, 0}, others[2] = {1, 2};
  const std::function<void()> book = [&] { cuda::Book{&books[0], 1}(0); };
  const std::function<void()> add = [&] { cuda::AddBooks{books, others}(1); };
  std::uint64_t want = 0;
  twice_at_once(
      20,
      [&] {
        for (int i = 0; i < 5000; ++i) book(), add();
      },
      [&] { want += 10'000; });
  EXPECT_EQ(books[0], want);
  EXPECT_EQ(books[1], 2 * want);
}

// Both streams insert the same keys: each counter is filled by one of them.
TEST(SeveralStreams, DirectInsertionsCountWhatTheyFill) {
  for (const Geometry& geometry : {Geometry::split_block(2, 20), Geometry::split(7, 400),
                                   Geometry::split_block(2, 20).with(Cell::bit)}) {
    const auto keys = random_keys(64, 3);
    std::vector<std::uint64_t> words(geometry.words());
    const cuda::FilterRef filter(geometry, 5, words.data());
    cuda::Tuning tuning;
    tuning.path = Path::direct;
    std::uint64_t filled = 0, want = 0;
    twice_at_once(
        static_cast<int>(scaled(2000, 200)),
        [&] {
          HostDevice device;
          cuda::insert(device, filter, view(keys), tuning, &filled);
        },
        [&] {
          want += nonzero_in(geometry.cell(), words);
          std::fill(words.begin(), words.end(), 0);
        });
    EXPECT_EQ(filled, want);
  }
}

// ---- removal in hard cases ----------------------------------------------------------------------

std::vector<Shape> crowded_shapes() {
  return {
      {"g1_1_block", Geometry::split_block(1, 1)},
      {"g1_3_blocks", Geometry::split_block(1, 3)},
      {"g2_2_blocks", Geometry::split_block(2, 2)},
      {"g3_4_blocks", Geometry::split_block(3, 4)},
      {"g8_2_blocks", Geometry::split_block(8, 2)},
      {"k1_m3", Geometry::split(1, 3)},
      {"k2_m1", Geometry::split(2, 1)},
      {"k7_m16", Geometry::split(7, 16)},
      {"k7_m640", Geometry::split(7, 640)},
      {"k10_m129", Geometry::split(10, 129)},
      {"k20_m300", Geometry::split(20, 300)},
      {"g1_40_blocks", Geometry::split_block(1, 40)},
      {"g2_33_blocks", Geometry::split_block(2, 33)},
  };
}

class CrowdedEngine : public Engine {};
INSTANTIATE_TEST_SUITE_P(All, CrowdedEngine, ::testing::ValuesIn(engine_cases(crowded_shapes())),
                         EngineCaseName());

TEST_P(CrowdedEngine, RemovesInOrder) {
  Random random(17);
  for (std::size_t round = 0; round < scaled(60, 10); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::fill(words.begin(), words.end(), 0);
    model.clear();
    const std::size_t universe = 1 + random.below(80);
    std::vector<std::uint64_t> in(1 + random.below(120)), out(1 + random.below(400));
    for (auto& key : in) key = random.below(universe);
    for (auto& key : out) key = random.below(universe * 2);
    ASSERT_NO_FATAL_FAILURE(insert(in));
    ASSERT_NO_FATAL_FAILURE(compare_remove(out));
    ASSERT_NO_FATAL_FAILURE(compare_remove(out, 1));
  }
}

// `second` fails at first, because `stranger` was faster in slice 0, and gives back its counter in
// slice 1. That counter never ran short, but is not enough for both: `late` must not take it.
TEST(Removal, WhatIsGivenBackIsNotForOthers) {
  const Geometry geometry = Geometry::split(2, 1024);
  std::vector<std::uint64_t> words(geometry.words());
  const cuda::FilterRef filter(geometry, 0, words.data());
  const auto place = [&](std::uint64_t hash, unsigned slice) {
    const auto at = filter.probe(hash, slice);
    return at.word * 64 + at.shift;
  };
  Random random(23);
  std::vector<std::uint64_t> all;
  // Finds a hash that shares a line with an earlier one only where it shares the counter too.
  const auto find = [&](auto wanted) {
    for (;;) {
      const std::uint64_t hash = random();
      const auto too_near = [&](std::uint64_t other) {
        return (place(hash, 0) != place(other, 0) &&
                filter.line(hash, 0) == filter.line(other, 0)) ||
               (place(hash, 1) != place(other, 1) && filter.line(hash, 1) == filter.line(other, 1));
      };
      if (!wanted(hash) || std::any_of(all.begin(), all.end(), too_near)) continue;
      all.push_back(hash);
      return hash;
    }
  };
  const auto anywhere = [](std::uint64_t) { return true; };
  const std::uint64_t first = find(anywhere);
  const std::uint64_t second = find(anywhere);
  const std::uint64_t third = find(anywhere);
  const std::uint64_t stranger = find([&](std::uint64_t hash) {
    return place(hash, 0) == place(second, 0) && place(hash, 1) == place(first, 1);
  });
  const std::uint64_t late = find([&](std::uint64_t hash) {
    return place(hash, 0) == place(third, 0) && place(hash, 1) == place(second, 1);
  });

  scbf::Filter model(geometry, {.seed = 0, .backend = "scalar"});
  const std::vector<std::uint64_t> in{first, second, third};
  model.insert(scbf::KeyBatch::from_hashes(in));
  std::copy(model.words().begin(), model.words().end(), words.begin());
  const std::vector<std::uint64_t> out{first, stranger, second, ~first, late};
  Answers verdicts(out.size(), 0xCC);
  cuda::Tuning tuning;
  tuning.path = Path::direct;
  HostDevice device;
  ASSERT_NO_FATAL_FAILURE(remove_and_count(device, filter, {out.data(), out.size(), true, {}},
                                           verdicts.data(), tuning, true, words));
  EXPECT_TRUE(same_answers(verdicts, remove(model, scbf::KeyBatch::from_hashes(out))));
  EXPECT_TRUE(same_words(words, model.words()));
}

}  // namespace
}  // namespace scbf_test::cuda_engine_test
