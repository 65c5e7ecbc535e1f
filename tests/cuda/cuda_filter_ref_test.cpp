// SPDX-License-Identifier: Apache-2.0
// The view of a filter that kernels use (scbf/cuda/filter_ref.hpp), on host memory with several
// threads, against the scalar model.
#include "scbf/cuda/filter_ref.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "scbf/bloom_filter.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::cuda_filter_ref_test {
namespace {

using scbf::cuda::FilterRef;

static_assert(std::is_trivially_copyable_v<FilterRef>, "goes into a kernel by value");

class FilterRefOf : public ::testing::TestWithParam<Shape> {
 protected:
  static constexpr std::uint64_t kSeed = 77;

  FilterRefOf()
      : model(GetParam().geometry, {.seed = kSeed, .backend = "scalar"}),
        words(GetParam().geometry.words()),
        view(GetParam().geometry, kSeed, words.data()) {}

  scbf::Filter model;
  std::vector<std::uint64_t> words;
  FilterRef view;
};
INSTANTIATE_TEST_SUITE_P(All, FilterRefOf, ::testing::ValuesIn(contract_shapes(40'000)),
                         [](const auto& shape) { return shape.param.name; });

template <class Work>
void on_threads(unsigned count, Work work) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) threads.emplace_back([=] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(FilterRefOf, ThreadsInsertAsTheModelDoes) {
  constexpr unsigned kThreads = 4;
  auto keys = random_keys(scaled(3000, 1000), 1);
  keys.insert(keys.end(), 500, 42);  // all threads saturate the same counters
  on_threads(kThreads, [&](unsigned t) {
    for (std::size_t i = t; i < keys.size(); i += kThreads) view.insert(keys[i]);
  });
  model.insert(keys, {.threads = 1});
  EXPECT_TRUE(same_words(words, model.words()));
}

TEST_P(FilterRefOf, ThreadsShareAKeyByRank) {
  constexpr unsigned kThreads = 8;
  const auto keys = random_keys(scaled(2000, 500), 2);
  on_threads(kThreads, [&](unsigned rank) {
    for (const std::uint64_t key : keys) view.insert_hash(view.hash(key), rank, kThreads);
  });
  model.insert(keys, {.threads = 1});
  EXPECT_TRUE(same_words(words, model.words()));
}

TEST_P(FilterRefOf, AnswersAsTheModelDoes) {
  auto keys = random_keys(3000, 3);
  keys.insert(keys.end(), 20, 42);
  for (const std::uint64_t key : keys) view.insert(key);
  model.insert(keys, {.threads = 1});
  const auto others = random_keys(3000, 4);
  keys.insert(keys.end(), others.begin(), others.end());
  Answers found, counts;
  for (const std::uint64_t key : keys) {
    found.push_back(view.contains(key));
    counts.push_back(static_cast<std::uint8_t>(view.count(key)));
  }
  EXPECT_TRUE(same_answers(found, contains(model, keys)));
  EXPECT_TRUE(same_answers(counts, count(model, keys)));
}

/// A cooperative group of one thread, which asks for all of a key.
struct GroupOfOne {
  std::uint32_t thread_rank() const { return 0; }
  std::uint32_t num_threads() const { return 1; }
  bool all(bool found) const { return found; }
};

/// Threads set the bits of keys, and then ask for them and for others.
void compare_bits(const scbf::Geometry& counters) {
  constexpr unsigned kThreads = 4;
  constexpr std::uint64_t kSeed = 78;
  const scbf::Geometry geometry = counters.with(scbf::Cell::bit);
  scbf::BloomFilter bits(geometry, {.seed = kSeed, .backend = "scalar"});
  std::vector<std::uint64_t> words(geometry.words());
  const FilterRef of_bits(geometry, kSeed, words.data());
  auto keys = random_keys(scaled(3000, 1000), 6);
  // Each key is inserted by one thread, or by all of them together.
  on_threads(kThreads, [&](unsigned t) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % 2 == 0) {
        of_bits.insert_hash(of_bits.hash(keys[i]), t, kThreads);
      } else if (i / 2 % kThreads == t) {
        of_bits.insert(keys[i]);
      }
    }
  });
  bits.insert(keys, {.threads = 1});
  ASSERT_TRUE(same_words(words, bits.words()));
  const auto others = random_keys(3000, 7);
  keys.insert(keys.end(), others.begin(), others.end());
  Answers found, by_group, counts;
  for (const std::uint64_t key : keys) {
    found.push_back(of_bits.contains(key));
    by_group.push_back(of_bits.contains(GroupOfOne(), key));
    counts.push_back(static_cast<std::uint8_t>(of_bits.count(key)));
  }
  const Answers want = contains(bits, keys);
  EXPECT_TRUE(same_answers(found, want));
  EXPECT_TRUE(same_answers(by_group, want));
  EXPECT_TRUE(same_answers(counts, want));
}

TEST_P(FilterRefOf, BitsAreSetAndFoundAsTheModelDoes) { compare_bits(GetParam().geometry); }

TEST(FilterRefOfRanked, BitsAreSetAndFoundAsTheModelDoes) {
  for (const Shape& shape : ranked_shapes(40'000)) {
    SCOPED_TRACE(shape.name);
    compare_bits(shape.geometry);
  }
}

TEST(FilterRefOfRanked, FindsWhatTheModelDoes) {
  for (const Shape& shape : ranked_shapes(40'000)) {
    SCOPED_TRACE(shape.name);
    scbf::Filter model(shape.geometry, {.seed = 79, .backend = "scalar"});
    auto keys = random_keys(shape.geometry.counters() / 7, 8);  // blocks spill and are stuck
    model.insert(keys);
    std::vector<std::uint64_t> words(model.words().begin(), model.words().end());
    const FilterRef view(shape.geometry, 79, words.data());
    const auto others = random_keys(3000, 9);
    keys.insert(keys.end(), others.begin(), others.end());
    Answers found, by_group;
    for (const std::uint64_t key : keys) {
      found.push_back(view.contains(key));
      by_group.push_back(view.contains(GroupOfOne(), key));
    }
    const Answers want = contains(model, keys);
    EXPECT_TRUE(same_answers(found, want));
    EXPECT_TRUE(same_answers(by_group, want));
  }
}

TEST(FilterRefOfRankedDeathTest, IsNotChangedByKernels) {
  const auto geometry = ranked_shapes(40'000).front().geometry;
  std::vector<std::uint64_t> words(geometry.words());
  const FilterRef view(geometry, 0, words.data());
  EXPECT_DEATH(view.insert(1), "");
  EXPECT_DEATH(view.count(1), "");
}

TEST_P(FilterRefOf, HashesStringsAsTheModelDoes) {
  const auto bytes = random_keys(200, 5);  // aligned words, because the device hash reads words
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size() * 8);
  std::vector<std::string_view> strings;
  for (std::size_t length = 0; length < 600; length += 7) {
    strings.push_back(text.substr(length % 11, length));
  }
  for (const std::string_view string : strings) {
    view.insert_hash(view.hash(reinterpret_cast<const std::byte*>(string.data()), string.size()));
  }
  model.insert(strings, {.threads = 1});
  EXPECT_TRUE(same_words(words, model.words()));
}

}  // namespace
}  // namespace scbf_test::cuda_filter_ref_test
