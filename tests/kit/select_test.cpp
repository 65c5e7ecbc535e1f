// SPDX-License-Identifier: Apache-2.0
// Finding the n-th one of a word.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kit/ranked_slice.hpp"

namespace scbf_test::select_test {
namespace {

/// Sparse, dense and even words, and all words of one byte in each place.
std::vector<std::uint64_t> some_words() {
  std::vector<std::uint64_t> words = {0, 1, ~std::uint64_t{0}, std::uint64_t{1} << 63};
  for (std::uint64_t byte = 1; byte < 256; ++byte) {
    for (unsigned place = 0; place < 64; place += 8) words.push_back(byte << place);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 4'000; ++i) {
    const std::uint64_t a = random(), b = random();
    words.insert(words.end(), {a, a & b, a | b, a & b & random(), a | b | random()});
  }
  return words;
}

template <class Select>
void expect_each_one() {
  for (const std::uint64_t word : some_words()) {
    unsigned rank = 0;
    for (std::uint64_t left = word; left != 0; left &= left - 1, ++rank) {
      ASSERT_EQ(Select::select(word, rank), left & (0 - left)) << word << ", rank " << rank;
    }
    // Beyond the last: any single bit, or 0.
    for (; rank < 128; ++rank) {
      const std::uint64_t bit = Select::select(word, rank);
      ASSERT_EQ(bit & (bit - 1), 0u) << word << ", rank " << rank;
    }
  }
}

TEST(Select, BySearch) { expect_each_one<scbf::SelectBySearch>(); }

TEST(Select, ByBytes) { expect_each_one<scbf::SelectByBytes>(); }

#if defined(__x86_64__)
TEST(Select, ByDeposit) {
  if (!__builtin_cpu_supports("bmi2")) GTEST_SKIP() << "this machine has no BMI2";
  expect_each_one<scbf::SelectByDeposit>();
}
#endif

}  // namespace
}  // namespace scbf_test::select_test
