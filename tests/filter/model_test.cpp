// SPDX-License-Identifier: Apache-2.0
// The scalar backend, which is the model, against the reference (support/reference.hpp), which
// shares no code with it. Counters and answers are compared after every step.
#include <gtest/gtest.h>

#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::model_test {
namespace {

class Model : public ::testing::TestWithParam<Shape> {
 protected:
  /// Inserts, looks up and removes keys on both sides. Keys repeat, and most removals collide.
  template <class Keys>
  void compare(const Keys& keys, std::uint64_t seed) {
    scbf::Filter filter(GetParam().geometry, {.seed = seed, .backend = "scalar"});
    ReferenceFilter reference(GetParam().geometry, seed);
    Random random(seed + 5);
    const auto pick = [&](std::size_t n) {
      Keys picked;
      for (std::size_t i = 0; i < n; ++i) picked.push_back(keys[random.below(keys.size())]);
      return picked;
    };
    for (int round = 0; round < 12; ++round) {
      const Keys in = pick(keys.size() / 3), asked = pick(keys.size()), out = pick(keys.size() / 3);
      filter.insert(in);
      reference.insert_all(in);
      ASSERT_TRUE(reference.equals(filter)) << "after insert";
      ASSERT_TRUE(same_answers(contains(filter, asked), reference.contains_all(asked)));
      ASSERT_TRUE(same_answers(count(filter, asked), reference.count_all(asked)));
      ASSERT_TRUE(same_answers(remove(filter, out), reference.remove_all(out)));
      ASSERT_TRUE(reference.equals(filter)) << "after remove";
    }
  }
};

std::vector<Shape> shapes() {
  using scbf::Geometry;
  std::vector<Shape> all = contract_shapes(20'000);
  all.push_back({"split_block_one_block", Geometry::split_block(1, 1)});
  all.push_back({"split_block_g3_two_blocks", Geometry::split_block(3, 2)});
  all.push_back({"split_k7_m3", Geometry::split(7, 3)});
  all.push_back({"split_k64_m128", Geometry::split(64, 128)});
  all.push_back({"split_block_g8", Geometry::split_block(8, 11)});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Shapes, Model, ::testing::ValuesIn(shapes()),
                         [](const auto& test) { return test.param.name; });

TEST_P(Model, KeysOf64Bits) {
  for (const std::uint64_t seed : {0ull, 1ull, 0xFFFF'FFFF'0000'0001ull}) {
    for (const KeySet& set : key_sets()) {
      SCOPED_TRACE(set.name);
      ASSERT_NO_FATAL_FAILURE(compare(set.take(500), seed));
    }
  }
}

TEST_P(Model, Strings) {
  for (const StringSet& set : string_sets()) {
    SCOPED_TRACE(set.name);
    ASSERT_NO_FATAL_FAILURE(compare(set.keys, 3));
  }
}

}  // namespace
}  // namespace scbf_test::model_test
