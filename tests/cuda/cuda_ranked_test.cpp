// SPDX-License-Identifier: Apache-2.0
// The layout ranked in the CUDA engine, on the host: insertions into counters and lookups of them,
// and filters of bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "cuda/engine_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/key_batch.hpp"

namespace scbf_test::cuda_ranked_test {
namespace {

namespace cuda = scbf::cuda;
using scbf::BloomFilter;
using scbf::Cell;
using scbf::Geometry;
using scbf::Path;

/// A key for every seven counters, so that blocks spill and are stuck.
std::vector<std::uint64_t> crowding(const Geometry& geometry) {
  return random_keys(geometry.counters() / 7, 8);
}

class RankedEngine : public ::testing::TestWithParam<Shape> {
 protected:
  static constexpr std::uint64_t kSeed = 7;

  const Geometry geometry = GetParam().geometry;
  HostDevice device{2};
};
INSTANTIATE_TEST_SUITE_P(All, RankedEngine, ::testing::ValuesIn(ranked_shapes(40'000)),
                         [](const auto& shape) { return shape.param.name; });

/// How a batch is cut up.
struct Cut {
  const char* name;
  unsigned log2_blocks;      ///< of a partition
  std::size_t sorted_bytes;  ///< for the keys of a chunk
  std::size_t scratch_bytes;

  cuda::Tuning tuning() const {
    cuda::Tuning tuning;
    tuning.scratch_bytes = scratch_bytes;
    tuning.limits = {.least_log2_words = 4,
                     .most_log2_words = 6,
                     .least_log2_blocks = log2_blocks,
                     .most_log2_blocks = log2_blocks,
                     .sorted_bytes = sorted_bytes,
                     .part_positions = 64,
                     .tile_positions = 64,
                     .counted_bytes = log2_blocks == 1 ? 0u : 256u,
                     .digit_bits = 2};
    return tuning;
  }
};
constexpr Cut kCuts[] = {{"in one piece", 9, 96 << 10, 1 << 20},
                         {"partitions of two blocks", 1, 96 << 10, 1 << 20},
                         {"chunks of a few keys", 3, 400, 1 << 20},
                         {"passes of a few hundred keys", 3, 96 << 10, 20 * 300}};

/// Words that are inserted into, beside a model.
class Inserted {
 public:
  Inserted(HostDevice& device, const Geometry& geometry, std::uint64_t seed,
           const cuda::Tuning& tuning)
      : device_(device),
        tuning_(tuning),
        model_(geometry, {.seed = seed, .backend = "scalar"}),
        words_(geometry.words()),
        filter_(geometry, seed, words_.data()) {}

  void insert(const std::vector<std::uint64_t>& keys, std::span<const std::byte> validity = {}) {
    const std::uint64_t before = model_.nonzero();
    const scbf::KeyBatch batch(keys);
    model_.insert(validity.empty() ? batch : batch.with_validity(validity));
    counts_ = !counts_;
    std::uint64_t filled = 1000;
    auto values = view(keys);
    values.validity = cuda::Validity(validity.data());
    cuda::insert(device_, filter_, values, tuning_, counts_ ? &filled : nullptr);
    ASSERT_TRUE(same_words(words_, model_.words()));
    ASSERT_EQ(filled, 1000 + (counts_ ? model_.nonzero() - before : 0));
  }
  scbf::Filter& model() { return model_; }

 private:
  HostDevice& device_;
  cuda::Tuning tuning_;
  scbf::Filter model_;
  std::vector<std::uint64_t> words_;
  cuda::FilterRef filter_;
  bool counts_ = true;
};

TEST_P(RankedEngine, InsertionsIntoCounters) {
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(cut.name);
    Inserted filter(device, geometry, kSeed, cut.tuning());
    ASSERT_NO_FATAL_FAILURE(filter.insert({}));
    ASSERT_NO_FATAL_FAILURE(filter.insert({1}));
    // Blocks spill, then more between them, until some are stuck.
    const std::size_t part = geometry.counters() / 20;
    const auto keys = random_keys(5 * part, 8);
    for (auto begin = keys.begin(); begin != keys.end();
         begin += static_cast<std::ptrdiff_t>(part)) {
      ASSERT_NO_FATAL_FAILURE(filter.insert({begin, begin + static_cast<std::ptrdiff_t>(part)}));
    }
    EXPECT_GT(filter.model().statistics().saturated, 0u);
  }
}

/// A count that reaches 255 stays, in a block that spills by it.
TEST_P(RankedEngine, InsertionsOfOneKey) {
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(cut.name);
    Inserted filter(device, geometry, kSeed, cut.tuning());
    ASSERT_NO_FATAL_FAILURE(filter.insert(random_keys(100, 8)));
    for (const std::size_t times : {20, 100, 134, 1, 1, 300}) {  // 254, then 255, then more
      ASSERT_NO_FATAL_FAILURE(filter.insert(std::vector<std::uint64_t>(times, 7)));
    }
  }
}

/// More entries than get their slots at once, and more keys left over than threads count them.
TEST(RankedEngineOfManyBlocks, Insertions) {
  HostDevice device{2};
  const auto geometry = Geometry::ranked(112, 1500, 1400);
  Inserted filter(device, geometry, 7, kCuts[0].tuning());
  for (const std::uint64_t seed : {1, 2, 3}) {
    ASSERT_NO_FATAL_FAILURE(filter.insert(random_keys(12'000, seed)));
  }
  const scbf::Statistics statistics = filter.model().statistics();
  EXPECT_GT(statistics.saturated, 0u);
  EXPECT_LT(statistics.saturated, 1500u * 4 * 112 / 4);  // few blocks are stuck
  ASSERT_NO_FATAL_FAILURE(filter.insert(random_keys(80'000, 4)));
}

/// Words that no filter has give no counts that mean anything, but no access outside.
TEST(RankedEngineOfManyBlocks, AnyWordsAreSafe) {
  HostDevice device;
  const auto geometry = Geometry::ranked(82, 60, 20);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    auto words = random_keys(geometry.words(), seed);
    if (seed % 2 == 0) {
      for (std::uint64_t& word : words) word &= seed == 2 ? 0xFFFF'FFFFu : ~std::uint64_t{0} << 48;
    }
    const auto keys = random_keys(4000, seed);
    std::uint64_t filled = 0;
    cuda::insert(device, cuda::FilterRef(geometry, 7, words.data()), view(keys),
                 kCuts[seed % 4].tuning(), &filled);
    EXPECT_LE(filled, geometry.counters());
  }
}

/// Of as many blocks as there can be, the last position is in the last partition.
TEST(RankedEngineOfManyBlocks, PlanOfTheMost) {
  for (const std::uint64_t blocks :
       std::initializer_list<std::uint64_t>{1, 1u << 31, 0xFFFF'FE00, scbf::kMaxBlocksPerGroup}) {
    const auto plan = cuda::plan_partitions(cuda::RankedArray(Geometry::ranked(82, blocks, 0)),
                                            cuda::Tuning().limits);
    EXPECT_EQ(((blocks << 32) - 1) >> plan.shift, plan.partitions - 1) << blocks;
    EXPECT_LE(plan.shift + plan.bits, 64) << blocks;
  }
}

TEST_P(RankedEngine, NullKeysAreNotInserted) {
  Inserted filter(device, geometry, kSeed, kCuts[0].tuning());
  const auto keys = crowding(geometry);
  ASSERT_NO_FATAL_FAILURE(filter.insert(keys, std::vector(keys.size() / 8 + 1, std::byte{0x9D})));
}

TEST_P(RankedEngine, LookupsOfCounters) {
  scbf::Filter model(geometry, {.seed = kSeed, .backend = "scalar"});
  model.insert(crowding(geometry));
  std::vector<std::uint64_t> words(model.words().begin(), model.words().end());
  const cuda::FilterRef filter(geometry, kSeed, words.data());
  auto asked = crowding(geometry);
  const auto others = random_keys(3000, 9);
  asked.insert(asked.end(), others.begin(), others.end());
  for (const std::size_t n : {std::size_t{1}, std::size_t{31}, std::size_t{33}, asked.size()}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    ASSERT_NO_FATAL_FAILURE(compare_lookups(
        device, filter, model, {asked.end() - static_cast<std::ptrdiff_t>(n), asked.end()}));
  }
}

TEST_P(RankedEngine, Bits) {
  BloomFilter model(geometry.with(Cell::bit), {.seed = kSeed, .backend = "scalar"});
  std::vector<std::uint64_t> words(model.words().size());
  const cuda::FilterRef filter(model.geometry(), kSeed, words.data());
  const auto keys = crowding(geometry);
  for (const Path path : {Path::direct, Path::partitioned}) {
    cuda::Tuning tuning;
    tuning.path = path;
    ASSERT_NO_FATAL_FAILURE(
        insert_and_count(device, filter, view(keys), tuning, path == Path::direct, words));
    model.insert(keys);
    ASSERT_TRUE(same_words(words, model.words()));
  }
  ASSERT_NO_FATAL_FAILURE(compare_lookups(device, filter, model, random_keys(5000, 9)));
  ASSERT_NO_FATAL_FAILURE(compare_lookups(device, filter, model, keys));
}

}  // namespace
}  // namespace scbf_test::cuda_ranked_test
