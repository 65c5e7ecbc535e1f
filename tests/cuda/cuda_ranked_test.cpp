// SPDX-License-Identifier: Apache-2.0
// The layout ranked in the CUDA engine, on the host: lookups of counters, and filters of bits.
#include <gtest/gtest.h>

#include "cuda/engine_support.hpp"
#include "scbf/bloom_filter.hpp"

namespace {

using namespace scbf_test;
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
