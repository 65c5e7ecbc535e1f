// SPDX-License-Identifier: Apache-2.0
// Copies of banks of both kinds, which then go their own way; and which banks are equal.
// bits_bank_file_test has mapped ones, moving_test what moves into banks.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "scbf/bloom_bank.hpp"
#include "support/bank_model.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::bank_copies_test {
namespace {

using scbf::Bank;
using scbf::BloomBank;
using scbf::BloomFilter;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;

std::map<std::uint32_t, BloomFilter> bits_of(const BankModel& model) {
  std::map<std::uint32_t, BloomFilter> bits;
  for (const auto& [member, filter] : model.members) bits.emplace(member, filter);
  return bits;
}

class Copies : public ::testing::TestWithParam<std::pair<std::string, Growth>> {};
INSTANTIATE_TEST_SUITE_P(All, Copies, ::testing::ValuesIn(bank_growths()),
                         [](const auto& test) { return test.param.first; });

TEST_P(Copies, OfCounters) {
  for (const std::uint32_t members : {0u, 3u, 70u}) {
    SCOPED_TRACE(members);
    auto [bank, model] = some_bank(GetParam().second, members);
    Bank copy = bank, assigned(Growth::tightening(9, 0.1));
    assigned = bank;
    const Bank& itself = assigned;
    assigned = itself;
    for (Bank* same : {&copy, &assigned}) {
      ASSERT_TRUE(*same == bank);
      ASSERT_TRUE(same_bank(*same, model, model.asked_keys(), {}));
      EXPECT_EQ(same->metadata(), "of a test");
      EXPECT_EQ(same->capacity(), bank.capacity());
      EXPECT_EQ(same->backend().name(), bank.backend().name());
      BankModel later = model;
      Random random(5);
      for (int i = 0; i < 15; ++i) take_step(some_step(random), *same, later, random, {});
      ASSERT_TRUE(same_bank(*same, later, model.asked_keys(), {}));
      ASSERT_TRUE(same_bank(bank, model, model.asked_keys(), {}));
    }
    EXPECT_TRUE(copy == assigned);
  }
}

TEST_P(Copies, OfBits) {
  const auto [bank, model] = some_bank(GetParam().second, 9);
  const BloomBank bits(bank);
  BloomBank copy = bits, assigned(Growth::tightening(9, 0.1));
  assigned = bits;
  const std::uint32_t newcomer = model.lowest_free(), gone = model.members.begin()->first;
  for (BloomBank* same : {&copy, &assigned}) {
    ASSERT_TRUE(*same == bits);
    ASSERT_EQ(bits_error(*same, bits_of(model)), std::nullopt);
    EXPECT_EQ(unpacked(*same, model.asked_keys(), {}), model.answers(model.asked_keys()));
    EXPECT_EQ(same->metadata(), "of a test");
    EXPECT_EQ(same->capacity(), bits.capacity());
    auto later = bits_of(model);
    BloomFilter more(bits.growth(), {.seed = 7});
    more.insert(Keys{1, 2, 3});
    ASSERT_EQ(same->add_member(more), newcomer);
    same->remove_member(gone);
    later.emplace(newcomer, std::move(more));
    later.erase(gone);
    ASSERT_EQ(bits_error(*same, later), std::nullopt);
    EXPECT_FALSE(*same == bits);
    ASSERT_EQ(bits_error(bits, bits_of(model)), std::nullopt);
  }
  EXPECT_TRUE(copy == assigned);
}

TEST(Copies, OfAMappedMemberCanBeChanged) {
  const TemporaryFolder folder;
  const Growth growth = Growth::tightening(50, 0.1);
  Filter filter(growth);
  filter.insert(random_keys(300, 1));
  filter.save(folder / "filter");
  Bank bank(growth);
  bank.add_member(Filter::map(folder / "filter"));
  Bank copy = bank;
  EXPECT_TRUE(copy == bank);
  copy.insert(0, random_keys(9, 2));
  filter.insert(random_keys(9, 2));
  EXPECT_TRUE(copy.copy_member(0) == filter);
  EXPECT_EQ(bank_error(copy), std::nullopt);
  EXPECT_FALSE(copy == bank);
}

// ---- equality -----------------------------------------------------------------------------------

const Growth kGrowth = Growth::tightening(50, 0.05);
const Keys kKeys = random_keys(200, 1);

/// Four members of zero to three hundred keys. They grow in this order, so their later stages get
/// other slots.
Bank made_in_order(std::vector<std::uint32_t> order, const scbf::BankOptions& options) {
  Bank bank(kGrowth, options);
  for (std::size_t i = 0; i < order.size(); ++i) bank.add_member();
  for (const std::uint32_t m : order) bank.insert(m, random_keys(100 * m, m));
  bank.ask_always(2, true);
  return bank;
}
Bank made() { return made_in_order({0, 1, 2, 3}, {.seed = 7}); }

void expect_equal(const Bank& a, const Bank& b, bool equal) {
  EXPECT_EQ(a == b, equal);
  EXPECT_EQ(b == a, equal);
  EXPECT_EQ(BloomBank(a) == BloomBank(b), equal);
  EXPECT_EQ(BloomBank(b) == BloomBank(a), equal);
}

TEST(EqualBanks, MayDifferInWhatChangesNoAnswer) {
  const Bank bank = made();
  ASSERT_GT(bank.stages(2), 1u);
  expect_equal(bank, bank, true);
  expect_equal(bank, made(), true);
  expect_equal(Bank(kGrowth), Bank(kGrowth), true);
  Bank other = made_in_order({3, 0, 2, 1}, {.seed = 7, .backend = "scalar", .capacity = 500});
  other.set_metadata("another");
  other.set_metadata(1, "another");
  other.insert(1, Keys{77});
  other.remove(1, Keys{77});
  expect_equal(bank, other, true);
  other.add_member();
  expect_equal(bank, other, false);
  other.remove_member(4);
  expect_equal(bank, other, true);
}

TEST(EqualBanks, DifferInMembersMarksAndKeys) {
  const Bank bank = made();
  for (const auto& change : std::vector<std::function<void(Bank&)>>{
           [](Bank& b) { b = Bank(kGrowth, {.seed = 7}); },
           [](Bank& b) {
             b = made_in_order({0, 1, 2, 3}, {.seed = 8});
           },
           [](Bank& b) { b.remove_member(0); },
           [](Bank& b) {  // as many, with other numbers
             b.add_member();
             b.remove_member(0);
           },
           [](Bank& b) { b.ask_always(2, false); }, [](Bank& b) { b.ask_always(0, true); },
           [](Bank& b) { b.insert(0, Keys{77}); },
           [](Bank& b) { b.insert(3, Keys{77}); },  // into a later stage
           [](Bank& b) { b.insert(3, kKeys); },     // into further stages
           [](Bank& b) {                            // the same keys, in another member
             const Filter one = b.copy_member(1);
             b.replace_member(1, b.copy_member(3));
             b.replace_member(3, one);
           }}) {
    Bank other = made_in_order({3, 0, 2, 1}, {.seed = 7, .capacity = 500});
    expect_equal(bank, other, true);
    change(other);
    expect_equal(bank, other, false);
  }
  expect_equal(Bank(kGrowth, {.seed = 7}), Bank(kGrowth, {.seed = 8}), false);
  const Growth one = Growth::one(Geometry::split(3, 100));
  expect_equal(Bank(one), Bank(Geometry::split(3, 100)), true);
  expect_equal(Bank(one), Bank(Growth::one(Geometry::split(3, 101))), false);
  expect_equal(Bank(one), Bank(Growth::fixed(Geometry::split(3, 100), 2)), false);
}

TEST(EqualBanks, OfCountersHaveEqualCounts) {
  const Bank bank = made();
  Bank twice = made();
  twice.insert(1, Keys{77});
  const BloomBank bits(twice);
  Bank thrice = twice;
  thrice.insert(1, Keys{77});
  EXPECT_FALSE(twice == thrice);
  EXPECT_TRUE(bits == BloomBank(thrice));
}

// Rows of one byte, and of several words, against each other; the last bit counts.
TEST(EqualBanks, WhateverTheLengthOfTheirRows) {
  for (const std::uint32_t members : {1u, 7u, 8u, 63u, 64u, 65u, 300u}) {
    SCOPED_TRACE(members);
    const Growth growth = Growth::one(Geometry::split(3, 50));
    Bank bank(growth, {.capacity = members}), other(growth, {.capacity = 5 * members});
    for (std::uint32_t m = 0; m < members; ++m) {
      bank.insert(bank.add_member(), Keys{m});
      other.insert(other.add_member(), Keys{m});
    }
    expect_equal(bank, other, true);
    other.insert(members - 1, Keys{~std::uint64_t{0}});
    expect_equal(bank, other, false);
  }
}

}  // namespace
}  // namespace scbf_test::bank_copies_test
