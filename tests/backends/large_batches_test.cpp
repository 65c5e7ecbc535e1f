// SPDX-License-Identifier: Apache-2.0
// The contract for large batches: there are many partitions, threads share the work, and the
// scratch memory is filled several times. contract_test covers small batches.
#include <gtest/gtest.h>

#include <map>

#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::large_batches_test {
namespace {

struct Expected {
  std::vector<std::uint64_t> in, asked, out, words_inserted, words_removed;
  Answers hits, counts, verdicts;
};

/// What the model answers, computed once per shape and size.
const Expected& expected(const Shape& shape, std::size_t n) {
  static std::map<std::string, Expected> cache;
  const auto [entry, is_new] = cache.try_emplace(shape.name + "/" + std::to_string(n));
  Expected& e = entry->second;
  if (!is_new) return e;
  Mixture mixture(n);
  e.in = mixture.to_insert(n);
  e.asked = mixture.to_ask(n + 1);
  e.out = mixture.to_ask(n - 1);
  scbf::Filter model(shape.geometry, {.seed = 9, .backend = "scalar"});
  model.insert(e.in);
  e.words_inserted = words_of(model);
  e.hits = contains(model, e.asked);
  e.counts = count(model, e.asked);
  e.verdicts = remove(model, e.out);
  e.words_removed = words_of(model);
  return e;
}

void compare_large(const Case& c, std::size_t n) {
  const Expected& want = expected(c.shape, n);
  const auto options = c.mode.options();
  scbf::Filter filter = c.filter(9);
  filter.insert(want.in, options);
  ASSERT_TRUE(same_words(words_of(filter), want.words_inserted)) << "after insert";
  ASSERT_TRUE(same_answers(contains(filter, want.asked, options), want.hits));
  ASSERT_EQ(filter.count_present(want.asked, options).hits, present_in(want.hits));
  ASSERT_TRUE(same_answers(count(filter, want.asked, options), want.counts));
  scbf::Filter without_verdicts = filter;
  ASSERT_EQ(without_verdicts.remove(want.out, {}, options).removed, present_in(want.verdicts));
  ASSERT_TRUE(same_words(words_of(without_verdicts), want.words_removed)) << "without verdicts";
  ASSERT_TRUE(same_answers(remove(filter, want.out, options), want.verdicts));
  ASSERT_TRUE(same_words(words_of(filter), want.words_removed)) << "after remove";
}

class LargeBatch : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, LargeBatch, ::testing::ValuesIn(cases_of(contract_shapes(2'000'000))),
                         CaseName());

TEST_P(LargeBatch, EqualsTheModel) {
  compare_large(GetParam(), is_best_target(*GetParam().backend) ? scaled(80'000, 30'000) : 30'000);
}

/// Filters larger than the caches, and more keys than the smallest scratch holds at once. The best
/// target is enough, since all targets share this machinery.
std::vector<Case> bulk_cases() {
  const std::uint64_t counters = 1ull << (kSanitized ? 23 : 25);
  std::vector<Case> cases;
  for (const Case& c : cases_of(contract_shapes(counters))) {
    const bool wanted = c.shape.name == "split_block_g1" || c.shape.name == "split_block_g2" ||
                        c.shape.name == "split_k7";
    if (is_best_target(*c.backend) && wanted) cases.push_back(c);
  }
  return cases;
}
class BulkBatch : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, BulkBatch, ::testing::ValuesIn(bulk_cases()), CaseName());

TEST_P(BulkBatch, EqualsTheModel) { compare_large(GetParam(), scaled(800'000, 200'000)); }

TEST(Bulk, IsNotEmpty) { EXPECT_FALSE(bulk_cases().empty()); }

}  // namespace
}  // namespace scbf_test::large_batches_test
