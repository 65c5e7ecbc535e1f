// SPDX-License-Identifier: Apache-2.0
// The bank against separate filters. Random sequences of all its operations run with every growth
// and layout, all sizes of rows, all kinds of keys and both ways to update the rows. Members also
// fill up in the middle of a batch. Rows are compared with counters throughout.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/bank_model.hpp"

namespace scbf_test::bank_contract_test {
namespace {

using scbf::Bank;
using scbf::BatchOptions;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::MemberKeys;
using scbf::MembersFull;

RC_GTEST_PROP(BankContract, EqualsSeparateFilters, ()) {
  const Growth growth =
      *rc::gen::arbitrary<bool>()
          ? (*rc::gen::elementOf(bank_growths())).second
          : Growth::one(*rc::gen::arbitrary<bool>()
                            ? Geometry::split_block(*rc::gen::inRange<std::uint32_t>(1, 4),
                                                    *rc::gen::inRange<std::uint64_t>(1, 6))
                        : *rc::gen::arbitrary<bool>()
                            ? Geometry::ranked(*rc::gen::inRange<std::uint32_t>(65, 113),
                                               *rc::gen::inRange<std::uint64_t>(1, 6),
                                               *rc::gen::inRange<std::uint64_t>(0, 4))
                            : Geometry::split(*rc::gen::element<std::uint32_t>(1, 2, 7, 20),
                                              *rc::gen::inRange<std::uint64_t>(1, 150)));
  const Mode mode = *rc::gen::elementOf(contract_modes());
  const scbf::Backend& backend = **rc::gen::elementOf(host_backends());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto capacity = *rc::gen::element<std::uint32_t>(0, 1, 9, 33, 64, 65, 300);
  RC_LOG() << growth.describe() << ' ' << backend.name() << ' ' << mode << '\n';
  Bank bank(growth, {.seed = seed, .backend = backend.name(), .capacity = capacity});
  BankModel model(growth, seed);
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const auto steps = *rc::gen::container<std::vector<int>>(
      rc::gen::inRange<int>(0, static_cast<int>(Step::subtract) + 1));
  for (const int step : steps) {
    take_step(static_cast<Step>(step), bank, model, random, mode.options());
    RC_ASSERT(!::testing::Test::HasFatalFailure());
    if (growth.policy() != Growth::Policy::one) continue;  // larger: compared at the end only
    RC_ASSERT(same_bank(bank, model, model.asked_keys(), mode.options()));
  }
  RC_ASSERT(same_bank(bank, model, model.asked_keys(), mode.options()));
}

struct BankCase {
  const scbf::Backend* backend;
  std::string name;
  Growth growth;
  unsigned threads;
};
std::ostream& operator<<(std::ostream& out, const BankCase& c) {
  return out << c.backend->name() << ' ' << c.name << ' ' << c.threads << " threads";
}
/// All backends but `simd`, which is one of its targets under another name. Growths alternate
/// between one thread and two; on the best target each growth runs with both.
std::vector<BankCase> bank_cases(bool growing, bool of_one_stage) {
  std::vector<BankCase> cases;
  unsigned turn = 0;
  for (const scbf::Backend* backend : host_backends()) {
    if (backend->name() == "simd") continue;
    ++turn;  // the number of growths is even: without this, all backends would alternate alike
    for (const auto& [name, growth] : bank_growths()) {
      ++turn;
      const bool one = growth.policy() == Growth::Policy::one;
      for (const unsigned threads : {1u, 2u}) {
        if (!is_best_target(*backend) && threads != 1 + turn % 2) continue;
        if (kThreadSanitizer && !is_worthwhile(*backend, {.threads = threads})) continue;
        if (one ? of_one_stage : growing) cases.push_back({backend, name, growth, threads});
      }
    }
  }
  return cases;
}

class BankContract : public ::testing::TestWithParam<BankCase> {
 protected:
  const Growth& growth() const { return GetParam().growth; }
  BatchOptions options() const {
    return Mode{.threads = GetParam().threads, .path = scbf::Path::automatic}.options();
  }
  Bank bank(std::uint32_t capacity) const {
    return Bank(growth(), {.seed = 7, .backend = GetParam().backend->name(), .capacity = capacity});
  }
};
class BankOfOneStage : public BankContract {};
class GrowingBank : public BankContract {};
std::string name_of(const ::testing::TestParamInfo<BankCase>& of) {
  return identifier(of.param.backend->name()) + "_" + of.param.name + "_" +
         std::to_string(of.param.threads) + "_threads";
}
INSTANTIATE_TEST_SUITE_P(All, BankContract, ::testing::ValuesIn(bank_cases(true, true)), name_of);
INSTANTIATE_TEST_SUITE_P(All, BankOfOneStage, ::testing::ValuesIn(bank_cases(false, true)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, GrowingBank, ::testing::ValuesIn(bank_cases(true, false)), name_of);

TEST_P(BankOfOneStage, AnyNumberOfMembers) {
  for (const std::uint32_t n : {1u, 8u, 9u, 63u, 64u, 65u, 129u, 513u, 1000u}) {
    for (const bool grow : {false, true}) {
      if (n > 65 && grow && n < 1000) continue;
      Bank bank = this->bank(grow ? 0 : n);
      BankModel model(growth(), 7);
      const Keys keys = model.asked_keys();
      Random random(n);
      for (std::uint32_t m = 0; m < n; ++m) {
        ASSERT_EQ(bank.add_member(), m);
        Keys own{m % 60, random.below(60)};
        Filter filter = model.filter();
        filter.insert(own);
        bank.insert(m, own, options());
        model.members.emplace(m, std::move(filter));
      }
      ASSERT_TRUE(same_bank(bank, model, keys, options())) << n << (grow ? " grown" : " at once");
      for (int i = 0; i < 12; ++i) {
        take_step(some_step(random), bank, model, random, options());
        ASSERT_FALSE(HasFatalFailure());
      }
      ASSERT_TRUE(same_bank(bank, model, keys, options())) << n << " after some steps";
      EXPECT_GE(bank.capacity(), bank.slots());
    }
  }
}

TEST_P(BankOfOneStage, SaturatedCountersStayInTheRows) {
  Bank bank = this->bank(3);
  BankModel model(growth(), 7);
  add_members(bank, model, 3);
  const Keys often(growth().layout() == scbf::Layout::ranked ? 300 : 20, 5), once(17, 6),
      queries{5, 6, 7};
  bank.insert(1, often, options());
  model.members.at(1).insert(often);
  bank.insert(2, Keys{6}, options());
  model.members.at(2).insert(Keys{6});
  ASSERT_TRUE(same_bank(bank, model, queries, options()));
  // Removed more often than inserted: saturated counters stay, others stop at zero.
  for (std::uint32_t m = 1; m < 3; ++m) {
    const Keys& out = m == 1 ? often : once;
    bank.remove(m, out, {}, options());
    model.members.at(m).remove(out);
    ASSERT_TRUE(same_bank(bank, model, queries, options()));
  }
  EXPECT_EQ(bank.find(std::uint64_t{5}), (std::vector<std::uint32_t>{1}));
}

TEST_P(BankContract, EmptyBatchesAndBanks) {
  Bank bank = this->bank(0);
  BankModel model(growth(), 7);
  const Keys none, keys = model.asked_keys();
  ASSERT_TRUE(same_bank(bank, model, keys, options()));  // no members
  ASSERT_TRUE(same_bank(bank, model, none, options()));
  EXPECT_TRUE(bank.add_members({}, options()).empty());
  add_members(bank, model, 1);
  EXPECT_EQ(bank.insert(0, none, options()).inserted, 0u);
  EXPECT_EQ(bank.remove(0, none, {}, options()).removed, 0u);
  EXPECT_EQ(bank.insert(std::span<const MemberKeys>(), options()).inserted, 0u);
  EXPECT_EQ(bank.remove(std::vector<MemberKeys>{{0, none}}, options()).removed, 0u);
  ASSERT_TRUE(same_bank(bank, model, none, options()));
}

TEST_P(GrowingBank, ManyStepsOfManyMembers) {
  Tally tally;
  for (const std::uint32_t n : {3u, 70u}) {
    Bank bank = this->bank(n);
    BankModel model(growth(), 7);
    Random random(n);
    add_members(bank, model, n);
    tally.most_stages = 0;
    for (int i = 0; i < 70; ++i) {
      // Insert much at first, then remove often enough to meet ambiguous keys.
      const Step any = some_step(random);
      const Step step = i < 15       ? Step::insert_many
                        : i % 5 == 0 ? Step::remove
                        : i % 5 == 2 ? Step::remove_many
                                     : any;
      take_step(step, bank, model, random, options(), &tally);
      ASSERT_FALSE(HasFatalFailure()) << n << " members, step " << i;
      if (i % 20 != 15) continue;
      ASSERT_TRUE(same_bank(bank, model, model.asked_keys(), options())) << i;
    }
    ASSERT_TRUE(same_bank(bank, model, model.asked_keys(), options()));
    // With one stage only, or without ambiguous keys, the sequence would test little.
    EXPECT_GE(tally.most_stages, 3u) << n;
  }
  EXPECT_GT(tally.ambiguous, 0u);
  EXPECT_GT(tally.ambiguous_in_many, 0u);
}

TEST_P(GrowingBank, FillsUpInTheMiddleOfABatch) {
  if (growth().layout() == scbf::Layout::ranked) return;  // takes 256 stages, or none
  const Growth few_stages = Growth::fixed(growth().first_geometry(), 5);
  Bank bank(few_stages, {.seed = 7, .backend = GetParam().backend->name()});
  BankModel model(few_stages, 7);
  add_members(bank, model, 3);
  const Keys many = random_keys(9000, 1), few = random_keys(10, 2);
  std::vector<std::byte> bitmap(many.size() / 8 + 1);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const KeyBatch some = KeyBatch(many).with_validity(bitmap);
  const std::vector<MemberKeys> batches{{2, few}, {1, some}, {0, few}, {2, many}, {1, few}};
  std::vector<std::uint64_t> want;
  scbf::InsertReport done;
  std::set<std::uint32_t> full;
  for (const MemberKeys& batch : batches) {
    if (full.contains(batch.member)) {
      want.push_back(0);
      continue;
    }
    try {
      const auto report = model.members.at(batch.member).insert(batch.keys);
      want.push_back(batch.keys.size());
      done.inserted += report.inserted;
      done.nulls += report.nulls;
    } catch (const FilterFull& e) {
      want.push_back(e.processed());
      done.inserted += e.done().inserted;
      done.nulls += e.done().nulls;
      full.insert(batch.member);
    }
  }
  try {
    bank.insert(batches, options());
    FAIL() << "a full member was not reported";
  } catch (const MembersFull& e) {
    EXPECT_EQ(e.batch(), 1u);
    EXPECT_EQ(e.processed(), want[1]);
    for (std::size_t i = 0; i < batches.size(); ++i) EXPECT_EQ(e.processed(i), want[i]) << i;
    SCBF_EXPECT_THROW(e.processed(batches.size()), scbf::InvalidArgument, "batch 5: there were 5");
    EXPECT_EQ(e.done().inserted, done.inserted);
    EXPECT_EQ(e.done().nulls, done.nulls);
    EXPECT_NE(std::string(e.what()).find("member 1: all "), std::string::npos) << e.what();
  }
  ASSERT_TRUE(same_bank(bank, model, few, options()));
  // For one member and one batch, the bank reports what a filter reports.
  try {
    bank.insert(0, many, options());
    FAIL() << "the full member was not reported";
  } catch (const FilterFull& e) {
    try {
      model.members.at(0).insert(many);
      FAIL() << "the model still has room";
    } catch (const FilterFull& alone) {
      EXPECT_EQ(e.processed(), alone.processed());
      EXPECT_EQ(e.done().inserted, alone.done().inserted);
      EXPECT_EQ(std::string(e.what()), "member 0: " + std::string(alone.what()));
    }
  }
  // Nulls need no room.
  const std::vector<std::byte> none(2);
  EXPECT_EQ(bank.insert(0, KeyBatch(few).with_validity(none), options()).nulls, few.size());
  ASSERT_TRUE(same_bank(bank, model, few, options()));
}

TEST_P(GrowingBank, EmptiesCompletelyInOneBatch) {
  // Several stages claim some keys at first. During the batch, all claims but one disappear.
  Bank bank = this->bank(3);
  BankModel model(growth(), 7);
  const Keys keys = random_keys(500, 5);
  std::vector<MemberKeys> all;
  for (std::uint32_t m = 0; m < 3; ++m) {
    bank.add_member();
    all.push_back({m, KeyBatch(keys).slice(m * 20, 300)});
    all.push_back({m, KeyBatch(keys).slice(m * 20 + 300, 100)});
    model.members.emplace(m, model.filter());
  }
  bank.insert(all, options());
  for (const MemberKeys& batch : all) model.members.at(batch.member).insert(batch.keys);
  for (int round = 0; round < 3; ++round) {
    scbf::RemoveReport want;
    for (const MemberKeys& batch : all) {
      if (batch.member == 0) continue;
      add_up(want, model.members.at(batch.member).remove(batch.keys));
    }
    expect_equal(bank.remove(std::span(all).subspan(2), options()), want);
    Answers verdicts(400, 0xCC);
    const KeyBatch own = KeyBatch(keys).slice(0, 400);
    bank.remove(0, own, verdicts, options());
    EXPECT_EQ(verdicts, remove(model.members.at(0), own));
    ASSERT_TRUE(same_bank(bank, model, keys, options())) << "round " << round;
  }
}

TEST_P(BankContract, NullsAndEveryKindOfKey) {
  const StringSet set = string_sets().front();
  const StringColumn column(set.keys, 3);
  const Keys hashes = random_keys(700, 9), words = random_keys(500, 10);
  std::vector<std::byte> bitmap(column.strings.size() / 8 + words.size() / 8 + 200);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const Growth room = growth().policy() == Growth::Policy::fixed
                          ? Growth::fixed(growth().first_geometry(), 40)
                          : growth();
  Bank bank(room, {.seed = 7, .backend = GetParam().backend->name()});
  BankModel model(room, 7);
  add_members(bank, model, 67);
  bank.ask_always(3, true);
  model.ask.insert(3);
  const std::vector<KeyBatch> kinds{
      column.strings,
      KeyBatch(column.views).with_validity(bitmap, 5),
      KeyBatch::from_offsets(column.data, column.offsets32),
      KeyBatch::from_offsets(column.data, column.offsets64).with_validity(bitmap),
      KeyBatch::from_fixed(std::as_bytes(std::span(words)).first(1500), 5),
      KeyBatch::from_hashes(hashes),
      KeyBatch(words).with_validity(bitmap, 3)};
  for (const KeyBatch& keys : kinds) {
    const auto in = bank.insert(66, keys, options());
    EXPECT_EQ(in.inserted, keys.size() - keys.nulls());
    EXPECT_EQ(in.nulls, keys.nulls());
    model.members.at(66).insert(keys);
    ASSERT_TRUE(same_bank(bank, model, keys, options()));
  }
  EXPECT_EQ(bank.stages(66) > 1, growth().policy() != Growth::Policy::one);
  EXPECT_EQ(bank.find(std::string_view(set.keys[7])), (std::vector<std::uint32_t>{3, 66}));
  EXPECT_EQ(bank.find(words[1]), model.answers(Keys{words[1]})[0]);
  for (const KeyBatch& keys : kinds) {
    Answers verdicts(keys.size(), 0xCC);
    const auto out = bank.remove(66, keys, verdicts, options());
    EXPECT_EQ(out.nulls, keys.nulls());
    EXPECT_EQ(verdicts, remove(model.members.at(66), keys));
    ASSERT_TRUE(same_bank(bank, model, keys, options()));
  }
}

}  // namespace
}  // namespace scbf_test::bank_contract_test
