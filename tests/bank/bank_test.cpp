// SPDX-License-Identifier: Apache-2.0
// FilterBank against separate scalar filters: random sequences of everything it can do, all sizes
// of rows, all key kinds, both ways to keep rows in step; and after each step, rows against
// counters.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <stdexcept>

#include "bank/bank_check.hpp"
#include "scbf/filter_bank.hpp"
#include "support/bank_model.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::Filter;
using scbf::FilterBank;
using scbf::Geometry;
using scbf::KeyBatch;
using scbf::MemberKeys;
using scbf::MemberLists;

RC_GTEST_PROP(Bank, EqualsSeparateFilters, ()) {
  const Geometry geometry = *rc::gen::arbitrary<bool>()
                                ? Geometry::split_block(*rc::gen::inRange<std::uint32_t>(1, 4),
                                                        *rc::gen::inRange<std::uint64_t>(1, 6))
                                : Geometry::split(*rc::gen::element<std::uint32_t>(1, 2, 7, 20),
                                                  *rc::gen::inRange<std::uint64_t>(1, 150));
  const Mode mode = *rc::gen::elementOf(contract_modes());
  const scbf::Backend& backend = **rc::gen::elementOf(host_backends());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto capacity = *rc::gen::element<std::uint32_t>(0, 1, 9, 33, 64, 65, 300);
  RC_LOG() << geometry.describe() << ' ' << backend.name() << ' ' << mode << '\n';
  FilterBank bank(geometry, {.seed = seed, .backend = backend.name(), .capacity = capacity});
  BankModel model(geometry, seed);
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Keys keys = all_keys();
  const auto steps = *rc::gen::container<std::vector<int>>(
      rc::gen::inRange<int>(0, static_cast<int>(kLastStep) + 1));
  for (const int step : steps) {
    take_step(static_cast<Step>(step), bank, model, random, mode.options());
    RC_ASSERT(!::testing::Test::HasFatalFailure());
    RC_ASSERT(same_bank(bank, model, keys, mode.options()));
  }
}

struct BankCase {
  const scbf::Backend* backend;
  Shape shape;
  unsigned threads;
};
std::ostream& operator<<(std::ostream& out, const BankCase& c) {
  return out << c.backend->name() << ' ' << c.shape << ' ' << c.threads << " threads";
}
std::vector<BankCase> bank_cases() {
  std::vector<BankCase> cases;
  for (const scbf::Backend* backend : host_backends()) {
    if (backend->name() == "simd") continue;  // one of its targets under another name
    for (const unsigned threads : {1u, 2u}) {
      cases.push_back({backend, {"split_block_g1", Geometry::split_block(1, 5)}, threads});
      cases.push_back({backend, {"split_block_g2", Geometry::split_block(2, 4)}, threads});
      cases.push_back({backend, {"split_k7", Geometry::split(7, 129)}, threads});
      cases.push_back({backend, {"split_k20", Geometry::split(20, 16)}, threads});
    }
  }
  return cases;
}

class BankContract : public ::testing::TestWithParam<BankCase> {
 protected:
  const Geometry& geometry() const { return GetParam().shape.geometry; }
  scbf::BatchOptions options() const {
    return Mode{.threads = GetParam().threads, .path = scbf::Path::automatic}.options();
  }
  FilterBank bank(std::uint32_t capacity, std::uint64_t seed = 7) const {
    return FilterBank(geometry(),
                      {.seed = seed, .backend = GetParam().backend->name(), .capacity = capacity});
  }
};
INSTANTIATE_TEST_SUITE_P(All, BankContract, ::testing::ValuesIn(bank_cases()),
                         [](const ::testing::TestParamInfo<BankCase>& of) {
                           return identifier(of.param.backend->name()) + "_" + of.param.shape.name +
                                  "_" + std::to_string(of.param.threads) + "_threads";
                         });

TEST_P(BankContract, AnyNumberOfMembers) {
  const Keys keys = all_keys();
  for (const std::uint32_t n : {1u, 8u, 9u, 63u, 64u, 65u, 129u, 500u, 513u, 1000u}) {
    for (const bool grow : {false, true}) {
      if (n > 65 && grow && n < 1000) continue;
      FilterBank bank = this->bank(grow ? 0 : n);
      BankModel model(geometry(), 7);
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
        take_step(static_cast<Step>(random.below(static_cast<std::uint64_t>(kLastStep) + 1)), bank,
                  model, random, options());
        ASSERT_FALSE(HasFatalFailure());
      }
      ASSERT_TRUE(same_bank(bank, model, keys, options())) << n << " after some steps";
      EXPECT_GE(bank.capacity(), bank.slots());
    }
  }
}

TEST_P(BankContract, SaturatedCountersStayInTheRows) {
  FilterBank bank = this->bank(3);
  BankModel model(geometry(), 7);
  for (std::uint32_t m = 0; m < 3; ++m) {
    bank.add_member();
    model.members.emplace(m, model.filter());
  }
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

TEST_P(BankContract, NullsAreInNoMember) {
  FilterBank bank = this->bank(70);
  BankModel model(geometry(), 7);
  const Keys keys = all_keys();
  std::vector<std::byte> bitmap(keys.size() / 8 + 2);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const KeyBatch some = KeyBatch(keys).with_validity(bitmap, 3);
  for (std::uint32_t m = 0; m < 70; ++m) {
    bank.add_member();
    model.members.emplace(m, model.filter());
  }
  bank.ask_always(66, true);
  model.ask.insert(66);
  const auto inserted = bank.insert(65, some, options());
  EXPECT_EQ(inserted.nulls, some.nulls());
  EXPECT_EQ(inserted.inserted, keys.size() - some.nulls());
  model.members.at(65).insert(some);
  ASSERT_TRUE(same_bank(bank, model, some, options()));
  ASSERT_TRUE(same_bank(bank, model, keys, options()));
  MemberLists lists;
  EXPECT_EQ(bank.find(some, lists, options()).nulls, some.nulls());
  const KeyBatch shifted = KeyBatch(keys).with_validity(bitmap, 4);
  Answers verdicts(keys.size(), 0xCC);
  const auto removed = bank.remove(65, shifted, verdicts, options());
  EXPECT_EQ(verdicts, remove(model.members.at(65), shifted));
  EXPECT_EQ(removed.nulls, shifted.nulls());
  ASSERT_TRUE(same_bank(bank, model, keys, options()));
}

TEST_P(BankContract, TakesEveryKindOfKey) {
  for (const StringSet& set : string_sets()) {
    const StringColumn column(set.keys, 3);
    BankModel model(geometry(), 7);
    model.members.emplace(0, model.filter());
    model.members.emplace(1, model.filter());
    model.members.at(1).insert(column.strings);
    for (const KeyBatch& batch : {KeyBatch(column.strings), KeyBatch(column.views),
                                  KeyBatch::from_offsets(column.data, column.offsets32),
                                  KeyBatch::from_offsets(column.data, column.offsets64)}) {
      FilterBank bank = this->bank(2);
      bank.add_member();
      bank.add_member();
      bank.insert(1, batch, options());
      ASSERT_TRUE(same_bank(bank, model, batch, options())) << set.name;
      EXPECT_EQ(bank.find(std::string_view(set.keys[7])), (std::vector<std::uint32_t>{1}));
      bank.remove(1, batch, {}, options());
      EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
    }
  }
  const Keys hashes = random_keys(50, 9);
  const auto bytes = std::as_bytes(std::span(hashes));
  for (const KeyBatch& batch : {KeyBatch::from_hashes(hashes), KeyBatch::from_fixed(bytes, 5)}) {
    FilterBank bank = this->bank(2);
    BankModel model(geometry(), 7);
    for (std::uint32_t m = 0; m < 2; ++m) {
      bank.add_member();
      model.members.emplace(m, model.filter());
    }
    bank.insert(0, batch, options());
    model.members.at(0).insert(batch);
    ASSERT_TRUE(same_bank(bank, model, batch, options()));
  }
}

TEST_P(BankContract, EmptyBatchesAndBanks) {
  FilterBank bank = this->bank(0);
  const Keys none, keys = all_keys();
  BankModel model(geometry(), 7);
  ASSERT_TRUE(same_bank(bank, model, keys, options()));  // nobody
  ASSERT_TRUE(same_bank(bank, model, none, options()));
  EXPECT_TRUE(bank.add_members({}, options()).empty());
  bank.add_member();
  model.members.emplace(0, model.filter());
  EXPECT_EQ(bank.insert(0, none, options()).inserted, 0u);
  EXPECT_EQ(bank.remove(0, none, {}, options()).removed, 0u);
  EXPECT_EQ(bank.insert(std::span<const MemberKeys>(), options()).inserted, 0u);
  EXPECT_EQ(bank.remove(std::vector<MemberKeys>{{0, none}}, options()).removed, 0u);
  ASSERT_TRUE(same_bank(bank, model, none, options()));
}

TEST_P(BankContract, AgreesAfterAFailedChange) {
  class Failing final : public scbf::Executor {
   public:
    unsigned concurrency() const noexcept override { return 2; }
    void run(std::size_t, const std::function<void(std::size_t)>& task) const override {
      task(0);
      throw std::runtime_error("no threads today");
    }
  };
  const Failing failing;
  const scbf::BatchOptions fails{.threads = 2, .executor = &failing};
  // Large enough for more than one task.
  const Geometry large = Geometry::split_block(1, 300);
  FilterBank bank(large, {.backend = GetParam().backend->name()});
  Filter filter(large);
  const Keys keys = random_keys(20'000, 1), few = random_keys(10, 2);
  filter.insert(random_keys(1000, 3));
  bank.add_members(std::vector<Filter>(65, filter), {.threads = 1});
  const std::vector<MemberKeys> rebuilt{{0, keys}, {1, keys}}, marked{{0, few}, {64, few}};
  for (const auto& batches : {rebuilt, marked}) {
    EXPECT_THROW(bank.insert(batches, fails), std::runtime_error);
    EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
    EXPECT_THROW(bank.remove(batches, fails), std::runtime_error);
    EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
  }
  EXPECT_THROW(bank.add_member(filter, fails), std::runtime_error);
  EXPECT_THROW(bank.remove_member(0, fails), std::runtime_error);
  EXPECT_THROW(bank.replace_member(1, Filter(large), fails), std::runtime_error);
  EXPECT_THROW(bank.merge(0, filter, fails), std::runtime_error);
  EXPECT_THROW(bank.clear(0, fails), std::runtime_error);
  EXPECT_EQ(bank.size(), 65u);
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Bank, NamesWhatIsWrong) {
  const Geometry geometry = Geometry::split_block(1, 4);
  SCBF_EXPECT_THROW(FilterBank(geometry, {.capacity = scbf::kMaxBankMembers + 1}),
                    scbf::InvalidArgument, "capacity 1048577: a bank has at most 1048576");
  SCBF_EXPECT_THROW(FilterBank(geometry, {.backend = "no such"}), scbf::BackendUnavailable,
                    "no such");
  FilterBank bank(geometry, {.seed = 1});
  EXPECT_EQ(bank.add_member(), 0u);
  const Keys keys{1, 2, 3};
  std::vector<std::uint8_t> bits(2);
  for (const auto& asks_member_5 : std::vector<std::function<void()>>{
           [&] { bank.insert(5, keys); },
           [&] { bank.remove(5, keys); },
           [&] {
             bank.insert(std::vector<MemberKeys>{{0, keys}, {5, keys}});
           },
           [&] { bank.remove_member(5); },
           [&] { bank.replace_member(5, Filter(geometry, {.seed = 1})); },
           [&] { bank.member(5); },
           [&] { bank.clear(5); },
           [&] { bank.merge(5, bank.member(0)); },
           [&] { bank.ask_always(5, true); },
           [&] { bank.asked_always(5); },
       }) {
    SCBF_EXPECT_THROW(asks_member_5(), scbf::InvalidArgument,
                      "member 5: there is none; the bank has 1, numbered below 1");
  }
  EXPECT_EQ(bank.member(0).keys_inserted(), 0u);  // of the batch with one good member
  SCBF_EXPECT_THROW(bank.contains_bits(keys, bits), scbf::InvalidArgument,
                    "bits has 2 bytes: must be 3, 1 for each of 3 keys");
  SCBF_EXPECT_THROW(bank.remove(0, keys, bits), scbf::InvalidArgument,
                    "verdicts has room for 2: must be 3");
  SCBF_EXPECT_THROW(bank.reserve(scbf::kMaxBankMembers + 1), scbf::InvalidArgument, "1048576");
  SCBF_EXPECT_THROW(bank.add_member(Filter(Geometry::split(3, 9), {.seed = 1})), scbf::Incompatible,
                    "the geometries differ");
  SCBF_EXPECT_THROW(bank.replace_member(0, Filter(geometry, {.seed = 2})), scbf::Incompatible,
                    "the seeds differ: the bank's is 1, the filter's 2");
  SCBF_EXPECT_THROW(bank.merge(0, Filter(geometry)), scbf::Incompatible, "the seeds differ");
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

const bool far_is_there = add_far_backends();

TEST(Bank, KeepsItsMembersOnTheHost) {
  ASSERT_TRUE(far_is_there);
  const Geometry geometry = Geometry::split_block(1, 4);
  SCBF_EXPECT_THROW(FilterBank(geometry, {.backend = "far"}), scbf::InvalidArgument,
                    "backend 'far' keeps counters in the memory of far memory");
  FilterBank bank(geometry);
  Filter filter(geometry, {.backend = "far"}), other = filter;
  filter.insert(Keys{7});
  other.insert(Keys{8});
  EXPECT_EQ(bank.add_member(filter), 0u);
  EXPECT_EQ(bank.member(0).backend().memory(), scbf::kHostMemory);
  bank.merge(0, other);
  EXPECT_EQ(bank.find(std::uint64_t{7}), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(bank.find(std::uint64_t{8}), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
}

TEST(Bank, AsksMappedMembersAndDoesNotChangeThem) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("scbf_bank_" + std::to_string(::getpid()));
  const Geometry geometry = Geometry::split(5, 100);
  Filter filter(geometry);
  filter.insert(Keys{1, 2});
  filter.save(path);
  FilterBank bank(geometry);
  bank.add_member();
  EXPECT_EQ(bank.add_member(Filter::map(path)), 1u);
  EXPECT_EQ(bank.find(std::uint64_t{2}), (std::vector<std::uint32_t>{1}));
  SCBF_EXPECT_THROW(bank.insert(1, Keys{3}), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.clear(1), scbf::ReadOnly, "member 1 is mapped");
  SCBF_EXPECT_THROW(bank.insert(std::vector<MemberKeys>{{0, Keys{9}}, {1, Keys{9}}}),
                    scbf::ReadOnly, "member 1 is mapped");
  EXPECT_EQ(bank.member(0).keys_inserted(), 0u);
  EXPECT_EQ(scbf::BankCheck::difference(bank), std::nullopt);
  std::filesystem::remove(path);
}

TEST(Bank, RowsAreAQuarterOfTheCountersWhenFull) {
  const Geometry geometry = Geometry::split_block(1, 100);
  for (const std::uint32_t n : {8u, 64u, 512u, 1024u}) {
    FilterBank bank(geometry, {.capacity = n});
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
    FilterBank bank(geometry, {.capacity = kMembers});
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
      EXPECT_TRUE(bank.member(m) == alone) << m;
    }
  }
}

TEST(Bank, QuestionsMayRunAtOnce) {
  const Geometry geometry = Geometry::split_block(2, 50);
  FilterBank bank(geometry, {.capacity = 100});
  for (std::uint32_t m = 0; m < 100; ++m) {
    bank.add_member();
    bank.insert(m, random_keys(40, m), {.threads = 1});
  }
  expect_questions_at_once(bank, random_keys(scaled(10'000, 3000), 5));
}

}  // namespace
