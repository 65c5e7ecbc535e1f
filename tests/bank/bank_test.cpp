// SPDX-License-Identifier: Apache-2.0
// Special cases of the bank: arguments, errors, memory, mapped members, members on a device, many
// members, large batches, concurrent questions. bank_contract_test covers what every bank does.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <utility>

#include "support/bank_model.hpp"
#include "support/far_backend.hpp"
#include "support/scale.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::bank_test {
namespace {

using scbf::Bank;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::MemberKeys;
using scbf::MemberLists;

const bool kAdded = add_far_backends();

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
  // The refused batches changed no member, not even those that exist.
  EXPECT_EQ(bank.stage(0, 0).keys_inserted(), 0u);
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
                    "stage 1 of the filter does not belong to its growth: merge added it");
  SCBF_EXPECT_THROW(bank.merge(0, Filter(growth, {.seed = 2})), scbf::Incompatible,
                    "the seeds differ");
  bank.insert(0, keys);
  bank.ask_always(0, true);
  // A stage that merge brought from another growth cannot be a stage of the bank.
  SCBF_EXPECT_THROW(bank.merge(0, other), scbf::Incompatible,
                    "stage 1 of the filter does not belong to its growth: merge added it");
  Filter absent = fits;
  absent.insert(Keys{4});
  SCBF_EXPECT_THROW(bank.subtract(0, absent), scbf::Incompatible, "contained in no stage");
  EXPECT_EQ(bank.stages(0), 1u);
  EXPECT_EQ(bank.stage(0, 0).keys_inserted(), 3u);
  bank.merge(0, fits);
  EXPECT_TRUE(bank.asked_always(0)) << "merge keeps the mark";
  bank.subtract(0, fits);
  EXPECT_TRUE(bank.asked_always(0)) << "subtract keeps the mark";
  EXPECT_EQ(bank.size(), 1u);
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
}

TEST(Bank, TakesWhatMergeBroughtOfTheSameGrowth) {
  // The merged filter has two full first stages. In the bank, one of them counts as a later stage.
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

TEST(Bank, MembersGrowToAllTheirStagesAfterAMergeThatLeavesGaps) {
  const Growth growth = Growth::fixed(Geometry::split(5, 300), 4);
  Bank bank(growth);
  BankModel model(growth, 0);
  add_members(bank, model, 1);
  const Filter late = with_late_stage_only(growth, 3);
  const Keys some = random_keys(120, 1), more = random_keys(2000, 2);
  bank.insert(0, some);
  model.members.at(0).insert(some);
  bank.merge(0, late);
  model.members.at(0).merge(late);
  ASSERT_EQ(bank.stages(0), 2u);
  SCBF_EXPECT_THROW(bank.insert(0, more), scbf::FilterFull, "all 4 stages are full");
  EXPECT_THROW(model.members.at(0).insert(more), scbf::FilterFull);
  EXPECT_EQ(bank.stages(0), 4u);
  EXPECT_TRUE(same_bank(bank, model, more, {}));
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
  // Later levels are dense: their rows have one byte, where a hundred members take sixteen.
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
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
  Bank moved = std::move(bank);
  EXPECT_EQ(moved.size(), 100u);
}

TEST(Bank, KeepsItsMembersOnTheHost) {
  const Growth growth = Growth::tightening(50, 0.1);
  SCBF_EXPECT_THROW(Bank(growth, {.backend = "far"}), scbf::InvalidArgument,
                    "backend 'far' keeps filters in the memory of far memory");
  Bank bank(growth);
  Filter filter(growth, {.backend = "far"});
  filter.insert(random_keys(200, 1));
  EXPECT_EQ(bank.add_member(filter), 0u);
  EXPECT_FALSE(bank.stage(0, 1).words().empty());  // words() throws if counters are elsewhere
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
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
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
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
  // Stages merged in from a mapped filter can be changed.
  bank.clear(0);
  bank.merge(0, Filter::map(path));
  bank.insert(0, keys);
  EXPECT_EQ(bank.remove(0, keys).absent, 0u);
  bank.merge(0, Filter::map(path));
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
  bank.remove_member(1);
  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
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

/// Counts how often a bank gathers lines of counters, which it does to rebuild columns.
class CountsGathering {
 public:
  explicit CountsGathering(Bank& bank) {
    scbf::Level& level = scbf::BankAccess::state(bank).first;
    kernels_ = *level.kernels;
    gather_ = kernels_.gather;
    gathered_ = 0;
    kernels_.gather = [](const Geometry& geometry, const auto& lines,
                         std::uint64_t* bits) noexcept {
      ++gathered_;
      gather_(geometry, lines, bits);
    };
    level.kernels = &kernels_;
  }
  std::uint64_t gathered() const { return gathered_; }

 private:
  scbf::RowKernels kernels_;
  static inline decltype(scbf::RowKernels::gather) gather_;
  static inline std::atomic<std::uint64_t> gathered_;
};

TEST(Bank, MarksOrRebuildsManyMembersInRowsThatAreInMemory) {
  // Rows take 18 MB, and too few keys are inserted for a rebuild to pay, unless marking takes long.
  const Geometry geometry = Geometry::split_block(1, 1100);
  constexpr std::uint32_t kMembers = 1000;
  const std::size_t each = scaled(60, 40);
  const auto keys = random_keys(kMembers * each, 1);
  for (const auto& [threads, slow] : {std::pair{1u, false}, {2u, false}, {1u, true}, {2u, true}}) {
    if (kThreadSanitizer && threads == 1) continue;  // has nothing to say of one
    SCOPED_TRACE(fmt::format("{} threads, marking is slow: {}", threads, slow));
    const auto options = Mode{.threads = threads, .path = scbf::Path::automatic}.options();
    Bank bank(Growth::one(geometry), {.capacity = kMembers});
    std::vector<MemberKeys> batches, halves;
    for (std::uint32_t m = 0; m < kMembers; ++m) {
      bank.add_member();
      const KeyBatch own = KeyBatch(keys).slice(m * each, each);
      batches.push_back({m, own.slice(0, each / 3)});
      halves.push_back({m, own.slice(0, each / 2)});
    }
    for (std::uint32_t m = 0; m < kMembers; ++m) {  // two batches for each
      batches.push_back({m, KeyBatch(keys).slice(m * each + each / 3, each - each / 3)});
    }
    const CountsGathering counts(bank);
    // The first members are marked, those that have not begun after that are not.
    scbf::BankAccess::state(bank).first.mark_ns = slow ? 1e9 : 1;
    EXPECT_EQ(bank.insert(batches, options).inserted, keys.size());
    ASSERT_EQ(scbf_test::bank_error(bank), std::nullopt);
    EXPECT_EQ(counts.gathered() > 0, slow);
    const auto report = bank.remove(halves, options);
    EXPECT_EQ(report.removed, kMembers * (each / 2));
    EXPECT_EQ(report.absent, 0u);
    ASSERT_EQ(scbf_test::bank_error(bank), std::nullopt);
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
  // The last member's batch is larger than a window of removal.
  const Keys keys = random_keys(kMembers * each + 9000, 1);
  for (const unsigned threads : {1u, 2u}) {
    const auto options = Mode{.threads = threads, .path = scbf::Path::automatic}.options();
    Bank bank(growth);
    BankModel model(growth, 0);
    std::vector<MemberKeys> all, halves;
    for (std::uint32_t m = 0; m < kMembers; ++m) {
      bank.add_member();
      // Sizes differ, so that members become full at different times.
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
  // Rows of later levels are longer than 256 bytes, so only few keys of a strip are asked at a
  // time.
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

TEST(Bank, QuestionsAndSavesMayRunAtOnce) {
  const Keys keys = random_keys(scaled(10'000, 3000), 5);
  for (const Growth& growth :
       {Growth::tightening(50, 0.05), Growth::one(Geometry::split_block(2, 50))}) {
    Bank bank(growth);
    for (std::uint32_t m = 0; m < 100; ++m) {
      bank.add_member();
      bank.insert(m, random_keys(m * 4, m), {.threads = 1});
    }
    const auto want = unpacked(bank, keys, {.threads = 1});
    const auto written = [&] {
      std::vector<std::byte> bytes;
      bank.write([&](auto part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
      return bytes;
    };
    const auto want_written = written();
    EXPECT_EQ(wrong_at_once(4,
                            [&](unsigned t) {
                              if (t == 3) return static_cast<int>(written() != want_written);
                              const Mode mode = contract_modes()[t % 2];
                              MemberLists lists;
                              bank.find(keys, lists, mode.options());
                              return (unpacked(bank, keys, mode.options()) != want) +
                                     !same_lists(lists, want);
                            }),
              0);
  }
}

}  // namespace
}  // namespace scbf_test::bank_test
