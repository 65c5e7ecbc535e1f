// SPDX-License-Identifier: Apache-2.0
// Answers as bits and as indices, against loops: every density of hits, every length, parts for
// several tasks, and more keys than one window has.
#include "kit/answer_forms.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::answer_forms_test {
namespace {

using namespace scbf;
using scbf_test::Answers;

/// Hits at this rate.
Answers answers_of(std::size_t count, double rate, std::uint64_t seed) {
  scbf_test::Random random(seed);
  Answers answers(count);
  for (std::uint8_t& answer : answers) {
    answer = static_cast<double>(random()) < rate * 0x1p64 ? 1 : 0;
  }
  return answers;
}

std::vector<std::uint64_t> indices_of(std::span<const std::uint8_t> answers, std::uint64_t first) {
  std::vector<std::uint64_t> indices;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 1) indices.push_back(first + i);
  }
  return indices;
}

constexpr double kRates[] = {0, 0.001, 0.05, 0.5, 0.95, 1};

TEST(AnswerForms, ListsAndPacks) {
  for (const double rate : kRates) {
    for (std::size_t count = 0; count < 300; ++count) {
      SCOPED_TRACE(testing::Message() << count << " at " << rate);
      const Answers answers = answers_of(count, rate, count);
      const auto want = indices_of(answers, 1'000'000);
      std::vector<std::uint64_t> indices(want.size() + 1, 77);
      list_answers(answers, 1'000'000, std::span(indices).first(want.size()));
      ASSERT_EQ(indices.back(), 77u);  // another task's
      indices.pop_back();
      ASSERT_EQ(indices, want);

      Answers bits((count + 7) / 8 + 1, 0xCC);
      pack_answers(answers, bits.data());
      ASSERT_EQ(bits.back(), 0xCC);
      for (std::size_t i = 0; i < bits.size() * 8 - 8; ++i) {
        ASSERT_EQ(bits[i / 8] >> i % 8 & 1, i < count && answers[i]) << i;
      }
    }
  }
}

/// Answers with what it is given: a key is 1 or 0.
struct Echo {
  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions&) const {
    std::size_t i = 0;
    for (const std::uint64_t key : keys.hashes(0)) out[i++] = static_cast<std::uint8_t>(key);
    return {count_hits(out), 0};
  }
};

TEST(AnswerForms, OfManyKeysInParts) {
  std::vector<std::size_t> counts = {
      0, 1, kAnswersPerTask - 1, kAnswersPerTask, kAnswersPerTask + 1, 5 * kAnswersPerTask + 123};
  if (!scbf_test::kSanitized) counts.push_back(kAnswerWindow + kAnswersPerTask + 5);
  for (const std::size_t count : counts) {
    for (const double rate : {0.001, 0.5}) {
      SCOPED_TRACE(testing::Message() << count << " at " << rate);
      const Answers answers = answers_of(count, rate, 3);
      const std::vector<std::uint64_t> keys(answers.begin(), answers.end());
      const KeyBatch batch = KeyBatch::from_hashes(keys);
      for (const BatchOptions& options :
           {BatchOptions{.threads = 1},
            BatchOptions{.threads = 2, .executor = &scbf_test::two_threads()}}) {
        std::vector<std::uint64_t> indices(count);
        const std::uint64_t hits = contains_as_indices(Echo{}, batch, indices, options).hits;
        const auto want = indices_of(answers, 0);
        ASSERT_EQ(hits, want.size());
        indices.resize(hits);
        ASSERT_EQ(indices, want);
        Answers bits((count + 7) / 8), want_bits((count + 7) / 8);
        EXPECT_EQ(contains_as_bits(Echo{}, batch, bits, options).hits, hits);
        pack_answers(answers, want_bits.data());
        ASSERT_EQ(bits, want_bits);
      }
    }
  }
}

}  // namespace
}  // namespace scbf_test::answer_forms_test
