// SPDX-License-Identifier: Apache-2.0
// Bank against separate filters: random sequences of everything it can do, every policy and layout,
// all sizes of rows, all kinds of keys, both ways to keep rows in step, members that fill up in the
// middle of a batch; and after each step, rows against counters.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support/bank_model.hpp"
#include "support/far_backend.hpp"
#include "support/scale.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace scbf_test;
using scbf::Bank;
using scbf::BatchOptions;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::Layout;
using scbf::MemberKeys;
using scbf::MemberLists;
using scbf::MembersFull;
using scbf::Removal;

RC_GTEST_PROP(Bank, EqualsSeparateFilters, ()) {
  const Growth growth =
      *rc::gen::arbitrary<bool>()
          ? (*rc::gen::elementOf(bank_growths())).second
          : Growth::one(*rc::gen::arbitrary<bool>()
                            ? Geometry::split_block(*rc::gen::inRange<std::uint32_t>(1, 4),
                                                    *rc::gen::inRange<std::uint64_t>(1, 6))
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
    if (growth.policy() != Growth::Policy::one) continue;  // larger: at the end is enough
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
/// All backends but `simd`, which is one of its targets under another name. On each, growths take
/// one thread and two in turn; on the best target both.
std::vector<BankCase> bank_cases(bool growing, bool of_one_stage) {
  std::vector<BankCase> cases;
  unsigned turn = 0;
  for (const scbf::Backend* backend : host_backends()) {
    if (backend->name() == "simd") continue;
    ++turn;  // there is an even number of growths
    for (const auto& [name, growth] : bank_growths()) {
      ++turn;
      const bool one = growth.policy() == Growth::Policy::one;
      for (const unsigned threads : {1u, 2u}) {
        if (!is_best_target(*backend) && threads != 1 + turn % 2) continue;
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
  const Keys often(20, 5), once(17, 6), queries{5, 6, 7};
  bank.insert(1, often, options());
  model.members.at(1).insert(often);
  bank.insert(2, Keys{6}, options());
  model.members.at(2).insert(Keys{6});
  ASSERT_TRUE(same_bank(bank, model, queries, options()));
  // More often than it was inserted: saturated counters stay, others stop at zero.
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
  ASSERT_TRUE(same_bank(bank, model, keys, options()));  // nobody
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
      // Much goes in first; and removals come often enough to meet ambiguous keys.
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
    // A test of one stage, or of no ambiguous key, would say little.
    EXPECT_GE(tally.most_stages, 3u) << n;
  }
  EXPECT_GT(tally.ambiguous, 0u);
  EXPECT_GT(tally.ambiguous_in_many, 0u);
}

TEST_P(GrowingBank, FillsUpInTheMiddleOfABatch) {
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
    FAIL() << "no room, and nothing said";
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
  // One member, one batch: what a filter says.
  try {
    bank.insert(0, many, options());
    FAIL() << "no room, and nothing said";
  } catch (const FilterFull& e) {
    try {
      model.members.at(0).insert(many);
      FAIL() << "the model has room";
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
  // Claims by other stages vanish in the course of the batch: keys that several claim at first.
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

// ---- errors and edges ---------------------------------------------------------------------------

TEST(Bank, NamesWhatIsWrong) {
  const Growth growth = Growth::tightening(50, 0.1);
  SCBF_EXPECT_THROW(Bank(growth, {.capacity = scbf::kMaxBankMembers + 1}), scbf::InvalidArgument,
                    "capacity 1048577: a bank has at most 1048576");
  SCBF_EXPECT_THROW(Bank(growth, {.backend = "no such"}), scbf::BackendUnavailable, "no such");
  Bank bank(growth, {.seed = 1});
  EXPECT_EQ(bank.add_member(), 0u);
  const Keys keys{1, 2, 3};
  const Filter fits(growth, {.seed = 1});
  std::vector<std::uint8_t> bits(2);
  for (const auto& asks_member_5 : std::vector<std::function<void()>>{
           [&] { bank.insert(5, keys); },
           [&] { bank.remove(5, keys); },
           [&] {
             bank.insert(std::vector<MemberKeys>{{0, keys}, {5, keys}});
           },
           [&] {
             bank.remove(std::vector<MemberKeys>{{0, keys}, {5, keys}});
           },
           [&] { bank.remove_member(5); },
           [&] { bank.replace_member(5, fits); },
           [&] { bank.copy_member(5); },
           [&] { bank.stages(5); },
           [&] { bank.stage(5, 0); },
           [&] { bank.fpr_bound(5); },
           [&] { bank.metadata(5); },
           [&] { bank.merge(5, fits); },
           [&] { bank.subtract(5, fits); },
           [&] { bank.clear(5); },
           [&] { bank.ask_always(5, true); },
           [&] { bank.asked_always(5); },
       }) {
    SCBF_EXPECT_THROW(asks_member_5(), scbf::InvalidArgument,
                      "member 5: there is none; the bank has 1, numbered below 1");
  }
  EXPECT_EQ(bank.stage(0, 0).keys_inserted(), 0u);  // of the batches with one good member
  SCBF_EXPECT_THROW(bank.stage(0, 1), scbf::InvalidArgument, "stage 1 of member 0: there are 1");
  SCBF_EXPECT_THROW(bank.contains_bits(keys, bits), scbf::InvalidArgument,
                    "bits has 2 bytes: must be 3, 1 for each of 3 keys");
  SCBF_EXPECT_THROW(bank.remove(0, keys, bits), scbf::InvalidArgument,
                    "verdicts has room for 2: must be 3");
  SCBF_EXPECT_THROW(bank.reserve(scbf::kMaxBankMembers + 1), scbf::InvalidArgument, "1048576");
  SCBF_EXPECT_THROW(bank.add_member(Filter(growth.first_geometry(), {.seed = 1})),
                    scbf::Incompatible, "the growths differ: the bank's is tightening");
  SCBF_EXPECT_THROW(bank.add_member(Filter(Growth::tightening(51, 0.1), {.seed = 1})),
                    scbf::Incompatible, "the growths differ: the bank's is tightening: 50 keys");
  SCBF_EXPECT_THROW(bank.replace_member(0, Filter(growth, {.seed = 2})), scbf::Incompatible,
                    "the seeds differ: the bank's is 1, the filter's 2");
  Filter merged(growth, {.seed = 1}), other(Growth::tightening(70, 0.3), {.seed = 1});
  other.insert(keys);
  merged.merge(other);
  SCBF_EXPECT_THROW(bank.add_members({fits, merged}), scbf::Incompatible,
                    "stage 1 of the filter is none of its growth: merge brought it");
  SCBF_EXPECT_THROW(bank.merge(0, Filter(growth, {.seed = 2})), scbf::Incompatible,
                    "the seeds differ");
  bank.insert(0, keys);
  bank.ask_always(0, true);
  // What merge brings from elsewhere is no stage of the bank's.
  SCBF_EXPECT_THROW(bank.merge(0, other), scbf::Incompatible,
                    "stage 1 of the filter is none of its growth: merge brought it");
  Filter absent = fits;
  absent.insert(Keys{4});
  SCBF_EXPECT_THROW(bank.subtract(0, absent), scbf::Incompatible, "contained in no stage");
  EXPECT_EQ(bank.stages(0), 1u);
  EXPECT_EQ(bank.stage(0, 0).keys_inserted(), 3u);
  bank.merge(0, fits);
  EXPECT_TRUE(bank.asked_always(0)) << "as before";
  bank.subtract(0, fits);
  EXPECT_TRUE(bank.asked_always(0)) << "as before";
  EXPECT_EQ(bank.size(), 1u);
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

TEST(Bank, TakesWhatMergeBroughtOfTheSameGrowth) {
  // Two first stages, as full as they may be: one of them is a later stage of the bank.
  const Growth growth = Growth::tightening(50, 0.1);
  BankModel model(growth, 0);
  Filter filter = model.filter(), other = model.filter();
  filter.insert(random_keys(40, 1));
  other.insert(random_keys(300, 2));
  filter.merge(other);
  ASSERT_EQ(filter.stage(0).shape(), filter.stage(1).shape());
  Bank bank(growth);
  for (std::uint32_t m = 0; m < 3; ++m) {
    model.members.emplace(m, m == 1 ? model.filter() : filter);
    EXPECT_EQ(bank.add_member(model.members.at(m)), m);
  }
  const Keys more = random_keys(500, 3), asked = random_keys(400, 2);
  for (std::uint32_t m = 0; m < 3; ++m) {
    bank.insert(m, more);
    model.members.at(m).insert(more);
  }
  ASSERT_TRUE(same_bank(bank, model, asked, {}));
  Answers verdicts(asked.size());
  bank.remove(2, asked, verdicts);
  EXPECT_EQ(verdicts, remove(model.members.at(2), asked));
  ASSERT_TRUE(same_bank(bank, model, asked, {}));
}

TEST(Bank, GivesBackWhatItDoesNotNeed) {
  const Growth growth = Growth::tightening(50, 0.1);
  Bank bank(growth, {.capacity = 100});
  for (int m = 0; m < 100; ++m) bank.add_member();
  const scbf::BankMemory empty = bank.memory();
  for (const std::uint32_t m : {97u, 3u}) bank.insert(m, random_keys(1000, m));
  const std::size_t stages = bank.stages(97);
  EXPECT_GT(stages, 3u);
  EXPECT_NEAR(bank.fpr_bound(97), 0.1, 0.06);
  EXPECT_LT(bank.fpr_bound(97), 0.1);
  const scbf::BankMemory grown = bank.memory();
  std::uint64_t counters = empty.counters;
  for (std::size_t s = 1; s < stages; ++s) counters += 2 * bank.stage(97, s).geometry().bytes();
  EXPECT_EQ(grown.counters, counters);
  // Dense: rows of one byte, not of the hundred members' sixteen.
  std::uint64_t rows = empty.rows;
  for (std::size_t s = 1; s < stages; ++s) rows += bank.stage(97, s).geometry().words() * 16;
  EXPECT_EQ(grown.rows, rows);
  bank.clear(97);
  EXPECT_EQ(bank.stages(97), 1u);
  Filter gone = bank.remove_member(3);
  EXPECT_EQ(gone.stages(), stages);
  gone.set_metadata("{}");
  EXPECT_EQ(bank.memory().counters, empty.counters - bank.stage(97, 0).geometry().bytes());
  EXPECT_EQ(bank.memory().rows, empty.rows);
  EXPECT_EQ(bank.add_member(gone), 3u);
  EXPECT_EQ(bank.metadata(3), "{}");
  EXPECT_TRUE(bank.copy_member(3) == gone);
  EXPECT_EQ(bank.copy_member(3).metadata(), "{}");
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
  Bank moved = std::move(bank);
  EXPECT_EQ(moved.size(), 100u);
}

const bool far_is_there = add_far_backends();

TEST(Bank, KeepsItsMembersOnTheHost) {
  ASSERT_TRUE(far_is_there);
  const Growth growth = Growth::tightening(50, 0.1);
  SCBF_EXPECT_THROW(Bank(growth, {.backend = "far"}), scbf::InvalidArgument,
                    "backend 'far' keeps counters in the memory of far memory");
  Bank bank(growth);
  Filter filter(growth, {.backend = "far"});
  filter.insert(random_keys(200, 1));
  EXPECT_EQ(bank.add_member(filter), 0u);
  EXPECT_FALSE(bank.stage(0, 1).words().empty());  // which throws where counters are not
  EXPECT_TRUE(bank.copy_member(0) == filter);
  EXPECT_EQ(bank.remove_member(0).backend().memory(), scbf::kHostMemory);
}

TEST(Bank, MergesAndSubtractsInPlaceWhatHasOneStage) {
  const Geometry geometry = Geometry::split_block(1, 4);
  Bank bank(Growth::one(geometry));
  Filter filter(geometry, {.backend = "far"}), other = filter;
  filter.insert(Keys{7});
  other.insert(Keys{8});
  EXPECT_EQ(bank.add_member(filter), 0u);
  bank.ask_always(0, true);
  bank.merge(0, other);
  EXPECT_TRUE(bank.asked_always(0));
  bank.ask_always(0, false);
  EXPECT_EQ(bank.find(std::uint64_t{7}), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(bank.find(std::uint64_t{8}), (std::vector<std::uint32_t>{0}));
  bank.subtract(0, filter);
  EXPECT_TRUE(bank.copy_member(0) == other);
  SCBF_EXPECT_THROW(bank.subtract(0, filter), scbf::Incompatible, "below zero");
  SCBF_EXPECT_THROW(bank.merge(0, Filter(geometry, {.seed = 1})), scbf::Incompatible,
                    "the seeds differ");
  SCBF_EXPECT_THROW(bank.merge(0, Filter(Geometry::split(3, 9))), scbf::Incompatible,
                    "the growths differ");
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

TEST(Bank, SavesMembersAndAsksMappedOnes) {
  const TemporaryFolder folder;
  const auto path = folder / "member.scbf";
  const Growth growth = Growth::tightening(50, 0.1);
  Bank bank(growth);
  bank.add_member();
  const Keys keys = random_keys(300, 1);
  bank.insert(0, keys);
  bank.copy_member(0).save(path);
  EXPECT_EQ(bank.add_member(Filter::map(path)), 1u);
  EXPECT_EQ(bank.add_member(Filter::load(path)), 2u);
  EXPECT_EQ(bank.find(keys[299]), (std::vector<std::uint32_t>{0, 1, 2}));
  SCBF_EXPECT_THROW(bank.insert(1, keys), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.remove(1, keys), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.clear(1), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.merge(1, bank.copy_member(0)), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.subtract(1, bank.copy_member(0)), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.insert(std::vector<MemberKeys>{{0, keys}, {1, keys}}), scbf::ReadOnly,
                    "member 1 is mapped");
  EXPECT_TRUE(bank.copy_member(0) == bank.copy_member(2));
  bank.insert(2, keys);
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
  // A mapped filter that is merged in brings stages that can be changed.
  bank.clear(0);
  bank.merge(0, Filter::map(path));
  bank.insert(0, keys);
  EXPECT_EQ(bank.remove(0, keys).absent, 0u);
  bank.merge(0, Filter::map(path));
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
  bank.remove_member(1);
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

TEST(Bank, RowsAreAQuarterOfTheCountersWhenFull) {
  const Geometry geometry = Geometry::split_block(1, 100);
  for (const std::uint32_t n : {8u, 64u, 512u, 1024u}) {
    Bank bank(Growth::one(geometry), {.capacity = n});
    for (std::uint32_t m = 0; m < n; ++m) bank.add_member();
    EXPECT_EQ(bank.capacity(), n);
    EXPECT_EQ(bank.memory().counters, n * geometry.bytes());
    EXPECT_EQ(bank.memory().rows * 4, bank.memory().counters);
  }
}

TEST(Bank, MarksManyMembersInRowsThatAreInMemory) {
  // Rows of 18 MB, and fewer keys than are worth a rebuild.
  const Geometry geometry = Geometry::split_block(1, 1100);
  constexpr std::uint32_t kMembers = 1000;
  const std::size_t each = scaled(60, 40);
  const auto keys = random_keys(kMembers * each, 1);
  for (const unsigned threads : {1u, 2u}) {
    const auto options = Mode{.threads = threads, .path = scbf::Path::automatic}.options();
    Bank bank(Growth::one(geometry), {.capacity = kMembers});
    std::vector<MemberKeys> batches, halves;
    for (std::uint32_t m = 0; m < kMembers; ++m) {
      bank.add_member();
      const KeyBatch own = KeyBatch(keys).slice(m * each, each);
      batches.push_back({m, own});
      halves.push_back({m, own.slice(0, each / 2)});
    }
    EXPECT_EQ(bank.insert(batches, options).inserted, keys.size());
    ASSERT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
    const auto report = bank.remove(halves, options);
    EXPECT_EQ(report.removed, kMembers * (each / 2));
    EXPECT_EQ(report.absent, 0u);
    ASSERT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
    for (const std::uint32_t m : {0u, 511u, 512u, 999u}) {
      Filter alone(geometry);
      alone.insert(KeyBatch(keys).slice(m * each + each / 2, each - each / 2));
      EXPECT_TRUE(bank.copy_member(m) == alone) << m;
    }
  }
}

TEST(Bank, LargeBatchesOfManyMembers) {
  const Growth growth = Growth::tightening(500, 0.01);
  constexpr std::uint32_t kMembers = 130;
  const std::size_t each = scaled(3000, 1200);
  // The last one's are more than a window of removal.
  const Keys keys = random_keys(kMembers * each + 9000, 1);
  for (const unsigned threads : {1u, 2u}) {
    const auto options = Mode{.threads = threads, .path = scbf::Path::automatic}.options();
    Bank bank(growth);
    BankModel model(growth, 0);
    std::vector<MemberKeys> all, halves;
    for (std::uint32_t m = 0; m < kMembers; ++m) {
      bank.add_member();
      // They fill at different times.
      const std::size_t own = (m + 1) * each / kMembers + (m == kMembers - 1 ? 9000 : 0);
      all.push_back({m, KeyBatch(keys).slice(m * each, own)});
      halves.push_back({m, all.back().keys.slice(own / 3, own / 2)});
      model.members.emplace(m, model.filter());
      model.members.at(m).insert(all.back().keys);
    }
    bank.insert(all, options);
    EXPECT_GE(bank.stages(kMembers - 1), 2u);
    ASSERT_TRUE(same_bank(bank, model, random_keys(20, 2), options));
    scbf::RemoveReport want;
    for (const auto& [member, half] : halves) add_up(want, model.members.at(member).remove(half));
    expect_equal(bank.remove(halves, options), want);
    ASSERT_TRUE(same_bank(bank, model, random_keys(20, 2), options));
  }
}

TEST(Bank, MoreMembersThanAreAskedAtOnce) {
  // Rows of later stages longer than 256 bytes: few keys of a strip at a time.
  const Growth growth = Growth::fixed(Geometry::split(4, 10), 40);
  constexpr std::uint32_t kMembers = 2500, kEach = 10;
  Bank bank(growth, {.capacity = kMembers});
  BankModel model(growth, 0);
  const Keys keys = random_keys(kMembers * kEach, 1);
  std::vector<MemberKeys> all;
  for (std::uint32_t m = 0; m < kMembers; ++m) {
    bank.add_member();
    all.push_back({m, KeyBatch(keys).slice(m * kEach, kEach)});
    model.members.emplace(m, model.filter());
    model.members.at(m).insert(all.back().keys);
  }
  bank.insert(all, {.threads = 2});
  std::size_t grown = 0;
  for (std::uint32_t m = 0; m < kMembers; ++m) grown += bank.stages(m) > 1;
  EXPECT_GT(grown, 2048u);
  Keys asked;
  for (std::size_t i = 0; i < 600; ++i) asked.push_back(keys[i * 41]);
  ASSERT_TRUE(same_bank(bank, model, asked, {.threads = 2}));
}

TEST(Bank, QuestionsMayRunAtOnce) {
  const Keys keys = random_keys(scaled(10'000, 3000), 5);
  for (const Growth& growth :
       {Growth::tightening(50, 0.05), Growth::one(Geometry::split_block(2, 50))}) {
    Bank bank(growth);
    for (std::uint32_t m = 0; m < 100; ++m) {
      bank.add_member();
      bank.insert(m, random_keys(m * 4, m), {.threads = 1});
    }
    const auto want = unpacked(bank, keys, {.threads = 1});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const Mode mode = contract_modes()[t % 2];
        wrong += unpacked(bank, keys, mode.options()) != want;
        MemberLists lists;
        bank.find(keys, lists, mode.options());
        wrong += !same_lists(lists, want);
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
