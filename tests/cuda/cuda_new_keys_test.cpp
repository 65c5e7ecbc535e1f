// SPDX-License-Identifier: Apache-2.0
// insert_new in the CUDA engine, on the host: verdicts and words are those of the scalar model,
// which takes one key after another.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/operations.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/end_of_page.hpp"
#include "support/host_device.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::cuda_new_keys_test {
namespace {

namespace cuda = scbf::cuda;
using scbf::Cell;
using scbf::Geometry;
using scbf::KeyBatch;

using Keys = std::vector<std::uint64_t>;

struct NewKeysCase {
  Shape shape;
  Cell cell;
  unsigned threads;
  unsigned log2_owners;  ///< windows of few keys, or of all
};
std::ostream& operator<<(std::ostream& out, const NewKeysCase& c) { return out << c.shape; }

std::vector<NewKeysCase> new_keys_cases() {
  std::vector<Shape> shapes = all_shapes(40'000);
  shapes.push_back({"one_block", Geometry::split_block(1, 1)});
  shapes.push_back({"k40_m64", Geometry::split(40, 64)});
  shapes.push_back({"two_ranked_blocks", Geometry::ranked(82, 2, 1)});
  std::vector<NewKeysCase> cases;
  for (const Shape& shape : shapes) {
    for (const Cell cell : {Cell::counter, Cell::bit}) {
      cases.push_back({shape, cell, 1, 23});
      cases.push_back({shape, cell, 3, 23});
      cases.push_back({shape, cell, 2, 10});
      cases.push_back({shape, cell, 1, 7});  // of 64 slices, a key at a time
    }
  }
  return cases;
}
struct NewKeysCaseName {
  std::string operator()(const ::testing::TestParamInfo<NewKeysCase>& info) const {
    const NewKeysCase& c = info.param;
    return c.shape.name + (c.cell == Cell::bit ? "_bits_" : "_") + std::to_string(c.threads) +
           "_threads_" + std::to_string(c.log2_owners);
  }
};

/// Words that the engine changes, and the model's.
class NewKeys : public ::testing::TestWithParam<NewKeysCase> {
 protected:
  static constexpr std::uint64_t kSeed = 7;

  cuda::Tuning tuning() const {
    cuda::Tuning t;
    t.most_log2_owners = GetParam().log2_owners;
    t.limits.least_log2_blocks = 1;
    t.limits.most_log2_blocks = 3;
    return t;
  }
  void insert(const Keys& keys) {
    scalar().insert(model(), keys, {.threads = 1});
    words_ = model_words_;  // as long as before, so that they stay where they are
  }
  void insert_new(const cuda::ValueKeys& keys, const KeyBatch& batch) {
    Answers got(keys.n, 0xCC), want(keys.n, 0xCC);
    counts_ = !counts_;
    std::uint64_t filled = 1000;
    cuda::insert_new(device_, filter_, keys, got.data(), tuning(), counts_ ? &filled : nullptr);
    const scbf::NewKeys done = scalar().insert_new(model(), batch, want.data(), {.threads = 1});
    ASSERT_TRUE(same_answers(got, want));
    ASSERT_TRUE(same_words(words_, model_words_));
    EXPECT_EQ(filled, 1000 + (counts_ ? *done.filled : 0));
    inserted_ += done.keys;
    found_ += batch.size() - batch.nulls() - done.keys;
  }
  void insert_new(const Keys& keys) { insert_new({keys.data(), keys.size(), false, {}}, keys); }

  std::uint64_t inserted_ = 0, found_ = 0;

 private:
  static const scbf::Backend& scalar() { return scbf::find_backend("scalar"); }
  scbf::CounterView model() { return {geometry_, kSeed, model_words_.data()}; }

  Geometry geometry_ = GetParam().shape.geometry.with(GetParam().cell);
  HostDevice device_{GetParam().threads};
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(geometry_.words()),
                             model_words_ = words_;
  cuda::FilterRef filter_{geometry_, kSeed, words_.data()};
  bool counts_ = false;  // every other time
};
INSTANTIATE_TEST_SUITE_P(All, NewKeys, ::testing::ValuesIn(new_keys_cases()), NewKeysCaseName());

/// Many of the keys come several times, and in the smallest filters nearly all share their cells.
TEST_P(NewKeys, EqualALoop) {
  Random random(3);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{33},
                              std::size_t{257}, scaled(4000, 700)}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    Keys keys(n);
    for (auto& key : keys) key = random.below(3 * n / 2 + 1);
    ASSERT_NO_FATAL_FAILURE(insert_new(keys));
    insert(random_keys(n / 8, n));
  }
  EXPECT_GT(inserted_, 0u);
  EXPECT_GT(found_, 100u);
}

TEST_P(NewKeys, OneKeyForAll) {
  const Keys keys(scaled(5000, 500), 42);
  ASSERT_NO_FATAL_FAILURE(insert_new(keys));
  ASSERT_NO_FATAL_FAILURE(insert_new(keys));
  EXPECT_EQ(inserted_, 1u);
}

TEST_P(NewKeys, CountersAtTheirMost) {
  insert(Keys(300, 42));
  Random random(5);
  Keys keys(2000);
  for (auto& key : keys) key = random.below(1500);
  ASSERT_NO_FATAL_FAILURE(insert_new(keys));
}

TEST_P(NewKeys, NullsAreNotRead) {
  constexpr std::size_t kThere = 600, kNull = 70;
  const AtTheEndOfAPage values(kThere);
  const auto some = random_keys(kThere, 8);
  std::copy(some.begin(), some.end(), values.words());
  std::vector<std::byte> bitmap((kThere + kNull) / 8 + 1, std::byte{0});
  std::fill_n(bitmap.begin(), kThere / 8, std::byte{0x6F});
  Keys with_nulls = some;
  with_nulls.resize(kThere + kNull);
  for (const bool hashed : {false, true}) {
    const auto batch = hashed ? KeyBatch::from_hashes(with_nulls) : KeyBatch(with_nulls);
    ASSERT_NO_FATAL_FAILURE(
        insert_new({values.words(), kThere + kNull, hashed, cuda::Validity(bitmap.data())},
                   batch.with_validity(bitmap)));
  }
}

}  // namespace
}  // namespace scbf_test::cuda_new_keys_test
