// SPDX-License-Identifier: Apache-2.0
// Packed counters against arithmetic on one nibble at a time: every pair of values in every lane,
// with neighbours that would show a carry or a borrow.
#include "scbf/detail/packed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/keys.hpp"

namespace scbf_test::packed_test {
namespace {

using namespace scbf::detail;

unsigned nibble(std::uint64_t word, unsigned lane) { return (word >> (4 * lane)) & 15; }
std::uint64_t with_nibble(std::uint64_t word, unsigned lane, std::uint64_t value) {
  return (word & ~(std::uint64_t{15} << (4 * lane))) | (value << (4 * lane));
}

/// A word whose nibble in each lane is f(lane).
template <class F>
std::uint64_t word_of(F f) {
  std::uint64_t word = 0;
  for (unsigned lane = 0; lane < 16; ++lane) word |= std::uint64_t{f(lane)} << (4 * lane);
  return word;
}

/// Calls check(a, b) for all pairs of values in all lanes. Neighbours are all 0, all 15 or random.
template <class Check>
void for_all_pairs(Check check) {
  scbf_test::Random random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> neighbours = {
      {0, 0}, {~0ull, ~0ull}, {0, ~0ull}, {~0ull, 0}};
  for (int i = 0; i < 20; ++i) neighbours.emplace_back(random(), random());
  for (unsigned lane = 0; lane < 16; ++lane) {
    for (unsigned a = 0; a < 16; ++a) {
      for (unsigned b = 0; b < 16; ++b) {
        for (const auto& [na, nb] : neighbours) {
          ASSERT_NO_FATAL_FAILURE(check(with_nibble(na, lane, a), with_nibble(nb, lane, b)));
        }
      }
    }
  }
}

TEST(Packed, OneCounter) {
  for_all_pairs([](std::uint64_t word, std::uint64_t) {
    for (unsigned lane = 0; lane < 16; ++lane) {
      const unsigned c = nibble(word, lane);
      ASSERT_EQ(counter_at(word, 4 * lane), c);
      ASSERT_EQ(incremented(word, 4 * lane), with_nibble(word, lane, c == 15 ? 15 : c + 1));
      ASSERT_EQ(decremented(word, 4 * lane),
                with_nibble(word, lane, c == 15 || c == 0 ? c : c - 1));
    }
  });
}

TEST(Packed, SaturatedAndNonzeroBits) {
  for_all_pairs([](std::uint64_t a, std::uint64_t) {
    ASSERT_EQ(saturated_bits(a), word_of([&](unsigned i) { return nibble(a, i) == 15 ? 1u : 0u; }));
    ASSERT_EQ(nonzero_bits(a), word_of([&](unsigned i) { return nibble(a, i) != 0 ? 1u : 0u; }));
  });
}

TEST(Packed, Added) {
  for_all_pairs([](std::uint64_t a, std::uint64_t b) {
    ASSERT_EQ(added(a, b),
              word_of([&](unsigned i) { return std::min(15u, nibble(a, i) + nibble(b, i)); }))
        << std::hex << a << " + " << b;
  });
}

TEST(Packed, Subtracted) {
  for_all_pairs([](std::uint64_t a, std::uint64_t b) {
    const Difference d = subtracted(a, b);
    ASSERT_EQ(d.word, word_of([&](unsigned i) {
                return nibble(a, i) == 15 ? 15u : (nibble(a, i) - nibble(b, i)) & 15u;
              }))
        << std::hex << a << " - " << b;
    ASSERT_EQ(d.below, word_of([&](unsigned i) {
                return nibble(a, i) != 15 && nibble(a, i) < nibble(b, i) ? 1u : 0u;
              }));
    ASSERT_EQ(d.inexact, word_of([&](unsigned i) {
                return nibble(a, i) == 15 && nibble(b, i) != 0 ? 1u : 0u;
              }));
  });
}

// All of these work in constant expressions.
static_assert(incremented(0xF0, 4) == 0xF0 && incremented(0xF0, 0) == 0xF1);
static_assert(decremented(0x0F, 0) == 0x0F && decremented(0x0E, 0) == 0x0D);
static_assert(added(0x8, 0x8) == 0xF && subtracted(0x0F, 0x01).inexact == 1);

}  // namespace
}  // namespace scbf_test::packed_test
