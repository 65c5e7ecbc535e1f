// SPDX-License-Identifier: Apache-2.0
// The contract: every backend, vector target, layout, number of threads, path and scratch size
// gives the same counters and answers as the scalar backend, byte for byte, for batches of all
// sizes and keys of all kinds. model_test checks the scalar backend itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::contract_test {
namespace {

const bool kAdded = add_far_backends();

/// Empty batches, partial vectors of 2 to 64 lanes, and sizes next to those of buffers.
std::vector<std::size_t> batch_sizes() {
  return {0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,   17,   31,   32,
          33, 63, 64, 65, 66, 97, 127, 128, 129, 999, 1001, 4095, 4096, 4097};
}

class Contract : public ::testing::TestWithParam<Case> {
 protected:
  void compare_steps(const std::vector<std::size_t>& sizes, std::uint64_t seed) {
    const Case& c = GetParam();
    scbf::Filter filter = c.filter(seed), model = c.model(seed);
    ASSERT_EQ(&filter.backend(), c.backend);  // the one named, not the automatic choice
    const scbf::BatchOptions options = c.mode.options();
    Mixture mixture(seed + 1);
    for (const std::size_t n : sizes) {
      SCOPED_TRACE("batch of " + std::to_string(n));
      const auto in = mixture.to_insert(n), asked = mixture.to_ask(n), out = mixture.to_ask(n);
      filter.insert(in, options);
      model.insert(in);
      ASSERT_TRUE(same_words(words_of(filter), model.words())) << "after insert";
      ASSERT_TRUE(knows_its_fill(filter)) << "after insert";
      const Answers hits = contains(model, asked);
      ASSERT_TRUE(same_answers(contains(filter, asked, options), hits));
      ASSERT_EQ(filter.count_present(asked, options).hits, present_in(hits));
      ASSERT_TRUE(same_answers(count(filter, asked, options), count(model, asked)));
      ASSERT_TRUE(same_answers(remove(filter, out, options), remove(model, out)));
      ASSERT_TRUE(same_words(words_of(filter), model.words())) << "after remove";
      ASSERT_TRUE(knows_its_fill(filter)) << "after remove";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, Contract,
                         ::testing::ValuesIn(cases_with_one_far(all_shapes(150'000))), CaseName());

TEST_P(Contract, BatchesOfAllSizes) {
  ASSERT_NO_FATAL_FAILURE(compare_steps(batch_sizes(), 0x8000'0000'0000'0001u));
}

TEST_P(Contract, KeySetsAndSeeds) {
  const Case& c = GetParam();
  std::uint64_t seed = 0xFEDC'BA98'0000'0000u;
  for (const KeySet& set : key_sets()) {
    SCOPED_TRACE(set.name);
    seed = (seed << 7 | seed >> 57) + 1;
    scbf::Filter filter = c.filter(seed), model = c.model(seed);
    const auto keys = set.take(3001);
    const auto part = scbf::KeyBatch(keys).slice(500, 2001);
    filter.insert(part, c.mode.options());
    model.insert(part);
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
    ASSERT_TRUE(same_answers(contains(filter, keys, c.mode.options()), contains(model, keys)));
    ASSERT_TRUE(same_answers(count(filter, keys, c.mode.options()), count(model, keys)));
    ASSERT_TRUE(same_answers(remove(filter, keys, c.mode.options()), remove(model, keys)));
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
  }
}

TEST_P(Contract, StringsWithNulls) {
  const Case& c = GetParam();
  for (const StringSet& set : string_sets()) {
    SCOPED_TRACE(set.name);
    scbf::Filter filter = c.filter(5), model = c.model(5);
    const StringColumn column(set.keys, 2);
    std::vector<std::byte> bitmap(column.strings.size() / 8 + 2);
    Random random(3);
    for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
    const auto all = scbf::KeyBatch::from_offsets(column.data, column.offsets32);
    const auto some = all.with_validity(bitmap, 3);
    filter.insert(some, c.mode.options());
    model.insert(some);
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
    ASSERT_TRUE(same_answers(contains(filter, all, c.mode.options()), contains(model, all)));
    const scbf::ContainsReport present = filter.count_present(some, c.mode.options());
    ASSERT_EQ(present.hits, present_in(contains(model, some)));
    ASSERT_EQ(present.nulls, some.nulls());
    ASSERT_TRUE(same_answers(count(filter, some, c.mode.options()), count(model, some)));
    scbf::Filter without_verdicts = filter;
    ASSERT_TRUE(same_answers(remove(filter, some, c.mode.options()), remove(model, some)));
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
    ASSERT_EQ(without_verdicts.remove(some, {}, c.mode.options()).nulls, some.nulls());
    ASSERT_TRUE(same_words(words_of(without_verdicts), model.words())) << "without verdicts";
  }
}

TEST_P(Contract, WholeFilters) {
  const Case& c = GetParam();
  const auto options = c.mode.options();
  const auto few = random_keys(3000, 1), many = random_keys(9000, 2);
  scbf::Filter filter = c.filter(1), model = c.model(1), other = c.model(1);
  for (int i = 0; i < 4; ++i) other.insert(few);
  filter.insert(many, options);
  model.insert(many);
  for (int i = 0; i < 6; ++i) {  // until counters of `few` are saturated
    filter.merge(other, options);
    model.merge(other);
    ASSERT_TRUE(knows_its_fill(filter));
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
  }
  const auto got = filter.subtract(other, options), want = model.subtract(other);
  EXPECT_EQ(got.inexact_counters, want.inexact_counters);
  EXPECT_GT(want.inexact_counters, 0u);
  ASSERT_TRUE(same_words(words_of(filter), model.words()));
  ASSERT_TRUE(knows_its_fill(filter));
  const auto got_statistics = filter.statistics(options), want_statistics = model.statistics();
  EXPECT_EQ(got_statistics.stages[0].histogram, want_statistics.stages[0].histogram);
  EXPECT_EQ(got_statistics.stages[0].slice_fill, want_statistics.stages[0].slice_fill);
  EXPECT_EQ(got_statistics.saturated, want_statistics.saturated);
}

TEST(Threads, AreReallyUsedByLargeBatches) {
  const ThreadExecutor executor(2);
  scbf::Filter filter(scbf::Geometry::split_block(1, 100'000), {.backend = "simd"});
  const auto keys = random_keys(500'000, 1);
  Answers answers(keys.size());
  const auto runs_of = [&](auto operation) {
    const std::size_t before = executor.parallel_runs;
    operation();
    return executor.parallel_runs - before;
  };
  for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
    const scbf::BatchOptions options{.threads = 2, .path = path, .executor = &executor};
    EXPECT_GT(runs_of([&] { filter.contains(keys, answers, options); }), 0u);
    EXPECT_GT(runs_of([&] { filter.count(keys, answers, options); }), 0u);
    if (path == scbf::Path::partitioned) {
      EXPECT_GT(runs_of([&] { filter.insert(keys, options); }), 0u);
      EXPECT_GT(runs_of([&] { filter.remove(keys, answers, options); }), 0u);
    }
    const scbf::BatchOptions alone{.threads = 1, .path = path, .executor = &executor};
    EXPECT_EQ(runs_of([&] { filter.insert(keys, alone); }), 0u);
  }
  EXPECT_GT(executor.helped, 0u);
}

/// Names the backends that cannot run here and so were not compared. Fails if SCBF_REQUIRE_BACKEND
/// names one of them.
TEST(Targets, ThoseThatAreNotThereAreNamed) {
  const char* required = std::getenv("SCBF_REQUIRE_BACKEND");
  std::string absent;
  for (const scbf::Backend* backend : scbf::backends()) {
    const std::string reason = backend->unavailable_reason();
    if (reason.empty()) continue;
    EXPECT_NE(required == nullptr ? "" : required, backend->name()) << reason;
    absent += "\n  " + std::string(backend->name()) + ": " + reason;
  }
  if (required != nullptr && *required != '\0') {
    EXPECT_NO_THROW(scbf::find_backend(required)) << "SCBF_REQUIRE_BACKEND";
  }
  if (!absent.empty() && !HasFailure()) GTEST_SKIP() << "not available here, not tested:" << absent;
}

// A suite without cases would pass. These tests make sure that there are cases.
TEST(Targets, VectorTargetsAreListedAndThisMachinesAreTested) {
  std::size_t targets = 0, of_best = 0;
  for (const Case& c : cases_of(all_shapes(150'000))) {
    targets += c.backend->name().starts_with("simd:");
    of_best += is_best_target(*c.backend);
  }
  EXPECT_GT(targets, 0u) << "no vector target was tested";
  const std::size_t all = all_shapes(150'000).size() * contract_modes().size();
  EXPECT_EQ(of_best, all);
  if (!kSanitized) {  // see is_worthwhile
    EXPECT_EQ(targets % all, 0u);
  }
#if defined(__x86_64__)
  const auto is_available = [](std::string_view name) {
    const auto backends = available_backends();
    return std::any_of(backends.begin(), backends.end(),
                       [&](const scbf::Backend* b) { return b->name() == name; });
  };
  if (__builtin_cpu_supports("sse4.1")) {
    EXPECT_TRUE(is_available("simd:SSE4"));
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
    EXPECT_TRUE(is_available("simd:AVX2"));
  }
#endif
}

TEST(Targets, AForcedTargetSaysItsName) {
  for (const scbf::Backend* backend : available_backends()) {
    const scbf::Filter filter(scbf::Geometry::split(3, 100), {.backend = backend->name()});
    EXPECT_EQ(&filter.backend(), backend);
    if (backend->name().starts_with("simd:")) {
      EXPECT_EQ(backend->name(), "simd:" + std::string(backend->target()));
    }
  }
}

}  // namespace
}  // namespace scbf_test::contract_test
