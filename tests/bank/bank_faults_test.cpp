// SPDX-License-Identifier: Apache-2.0
// Threads or memory of a bank fail, at every place where they can. Afterwards rows, counters and
// the map of stages must agree, and all-or-nothing operations must have changed nothing.
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kit/executor.hpp"
#include "support/bank_model.hpp"
#include "support/scale.hpp"
#include "support/short_memory.hpp"
#include "support/unreliable_executors.hpp"

namespace scbf_test::bank_faults_test {
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
using scbf::Path;

// oneTBB ends the process if it finds no memory when it is first used.
[[maybe_unused]] const unsigned kThreads = scbf::thread_count({});

// Each of the first kRarer allocations is made to fail; after them, ever rarer ones.
constexpr std::size_t kRarer = kSanitized ? 4 : 16;

/// If members grow, members 0 to 4 and the last one have one to three stages. The bit of the last
/// one may be in another word of the rows.
BankModel some_members(const Growth& growth, std::uint32_t members, std::size_t keys) {
  BankModel model(growth, 0);
  for (std::uint32_t m = 0; m < members; ++m) {
    Filter filter = model.filter();
    const std::uint32_t size = m == members - 1 ? 4 : m < 5 ? m : 0;
    filter.insert(random_keys(size * keys, m), {.threads = 1});
    model.members.emplace(m, std::move(filter));
  }
  EXPECT_EQ(model.members.at(4).stages(), growth.policy() == Growth::Policy::one ? 1u : 3u);
  model.ask = {3, 4};
  return model;
}
Bank made_anew(const BankModel& model) {
  Bank bank(model.growth, {.capacity = 66});
  std::vector<Filter> filters;
  for (const auto& [slot, filter] : model.members) filters.push_back(filter);
  bank.add_members(std::move(filters), {.threads = 1});
  for (const std::uint32_t member : model.ask) bank.ask_always(member, true);
  return bank;
}

struct Operation {
  std::string name;
  std::function<void(Bank&, BankModel&, const BatchOptions&)> run;
  bool all_or_nothing, threads = true;
};
/// `last`: the last member; `keys`: how many keys add two stages to it.
std::vector<Operation> operations(const Growth& growth, std::uint32_t last, std::size_t keys) {
  // With one stage, counters change in place and rows follow: not all or nothing.
  const bool copies = growth.policy() != Growth::Policy::one;
  static Keys many, few;
  many = random_keys(keys, 1), few = random_keys(keys / 50, 2);
  const auto grown = [](BankModel& model) {
    Filter filter = model.filter();
    filter.insert(many, {.threads = 1});
    return filter;
  };
  const std::vector<MemberKeys> large{{0, many}, {4, few}, {last - 1, many}, {last, few}},
      small{{0, few}, {4, few}, {last - 1, few}, {last, few}};
  return {
      {"add",
       [=](auto& bank, auto& model, auto& options) { bank.add_member(grown(model), options); },
       true},
      {"add_members",
       [=](auto& bank, auto& model, auto& options) {
         bank.add_members({grown(model), model.filter(), grown(model)}, options);
       },
       true},
      {"add_empty", [](auto& bank, auto&, auto& options) { bank.add_member(options); }, true,
       false},
      {"reserve", [](auto& bank, auto&, auto& options) { bank.reserve(5000, options); }, true},
      {"remove_member", [](auto& bank, auto&, auto& options) { bank.remove_member(4, options); },
       true},
      {"replace",
       [=](auto& bank, auto& model, auto& options) {
         bank.replace_member(3, grown(model), options);
       },
       true},
      {"merge",
       [=](auto& bank, auto& model, auto& options) { bank.merge(3, grown(model), options); },
       copies},
      {"subtract",
       [=](auto& bank, auto& model, auto& options) {
         bank.subtract(3, model.members.at(3), options);
       },
       copies},
      {"clear", [](auto& bank, auto&, auto& options) { bank.clear(4, options); }, true},
      {"insert", [](auto& bank, auto&, auto& options) { bank.insert(1, many, options); }, false,
       false},
      {"insert_large", [=](auto& bank, auto&, auto& options) { bank.insert(large, options); },
       false},
      {"insert_small", [=](auto& bank, auto&, auto& options) { bank.insert(small, options); },
       false},
      {"remove", [](auto& bank, auto&, auto& options) { bank.remove(4, few, {}, options); }, false,
       false},
      {"remove_large", [=](auto& bank, auto&, auto& options) { bank.remove(large, options); },
       false},
      {"remove_small", [=](auto& bank, auto&, auto& options) { bank.remove(small, options); },
       false},
      {"copy", [](auto& bank, auto&, auto&) { bank = Bank(std::as_const(bank)); }, true, false},
      {"save and load",
       [](auto& bank, auto&, auto&) {
         std::vector<std::byte> bytes;
         bank.write([&](auto part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
         std::size_t at = 0;
         bank = Bank::read([&](std::span<std::byte> out) {
           const std::size_t n = std::min(out.size(), bytes.size() - at);
           std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, out.begin());
           at += n;
           return n;
         });
       },
       true, false},
  };
}

/// Compares members, counters and numbers of keys. Members of `got` may have further stages that
/// are empty.
::testing::AssertionResult same_members(const Bank& got, const Bank& want) {
  for (std::uint32_t m = 0; m < std::max(got.slots(), want.slots()); ++m) {
    if (got.has_member(m) != want.has_member(m)) {
      return ::testing::AssertionFailure() << "member " << m << " is in one of them only";
    }
    if (!got.has_member(m)) continue;
    for (std::size_t s = 0; s < std::max(got.stages(m), want.stages(m)); ++s) {
      if (s >= want.stages(m) && got.stage(m, s).nonzero() == 0) continue;
      const bool same = s < got.stages(m) && s < want.stages(m) &&
                        got.stage(m, s) == want.stage(m, s) &&
                        got.stage(m, s).keys_inserted() == want.stage(m, s).keys_inserted() &&
                        got.stage(m, s).keys_removed() == want.stage(m, s).keys_removed();
      if (!same) return ::testing::AssertionFailure() << "member " << m << ", stage " << s;
    }
  }
  const auto difference = scbf_test::bank_error(got);
  if (difference) return ::testing::AssertionFailure() << *difference;
  return ::testing::AssertionSuccess();
}

class FailingBank : public ::testing::TestWithParam<Growth::Policy> {
 protected:
  static Growth growth(std::uint32_t keys) {
    switch (GetParam()) {
      case Growth::Policy::one:
        return Growth::one(Geometry::split_block(1, keys / 12));
      case Growth::Policy::fixed:
        return Growth::fixed(Geometry::split(5, keys * 5 / 2), 40);
      case Growth::Policy::tightening:
        break;
    }
    return Growth::tightening(keys, 0.05);
  }
};
INSTANTIATE_TEST_SUITE_P(All, FailingBank,
                         ::testing::Values(Growth::Policy::one, Growth::Policy::fixed,
                                           Growth::Policy::tightening),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(FailingBank, DoesAllWhenThreadsFail) {
  // So many keys that a stage takes more than one task.
  constexpr std::uint32_t kKeys = 4000;
  BankModel model = some_members(growth(kKeys), 66, kKeys);
  for (const Operation& operation : operations(model.growth, 65, 3 * kKeys)) {
    SCOPED_TRACE(operation.name);
    Bank want = made_anew(model);
    operation.run(want, model, {.threads = 1});
    int thrown = 0;
    for (const auto does :
         {FailsLater::Does::nothing, FailsLater::Does::one, FailsLater::Does::all}) {
      for (int runs = 0;; ++runs) {
        Bank bank = made_anew(model);
        const FailsLater executor(runs, does);
        operation.run(bank, model, {.threads = 2, .executor = &executor});
        ASSERT_TRUE(same_members(bank, want)) << runs << " runs before";
        thrown += executor.thrown;
        if (executor.thrown == 0) break;
      }
    }
    EXPECT_TRUE(thrown > 0 || !operation.threads) << "nothing failed";
  }
}

TEST_P(FailingBank, AgreesWhenMemoryIsShort) {
  constexpr std::uint32_t kKeys = 300;
  BankModel model = some_members(growth(kKeys), 6, kKeys);
  const Keys asked = random_keys(20, 3);
  std::size_t all_failed = 0;
  for (const Operation& operation : operations(model.growth, 5, 3 * kKeys)) {
    SCOPED_TRACE(operation.name);
    for (const bool ends : {false, true}) {
      std::size_t failed = 0;
      for (bool again = true; again; failed += again * (1 + failed / kRarer)) {
        Bank bank = made_anew(model);
        bool threw = true;
        {
          const ShortMemory short_memory(failed + 1, ends);
          try {
            operation.run(bank, model, {.threads = 1});
            threw = false;
          } catch (const std::bad_alloc&) {
          } catch (const FilterFull& e) {
            ShortMemory::heal();
            ASSERT_NE(std::string(e.what()).find("memory is"), std::string::npos) << e.what();
          }
        }
        again = ShortMemory::refused() > 0;  // otherwise there were fewer allocations
        if (operation.all_or_nothing && threw) {
          ASSERT_TRUE(same_bank(bank, model, asked, {.threads = 1})) << "allocation " << failed;
        } else {
          ASSERT_EQ(scbf_test::bank_error(bank), std::nullopt) << "allocation " << failed;
        }
      }
      all_failed += failed;
    }
  }
  EXPECT_GT(all_failed, 50u);
}

/// Everything that can be seen of filters.
template <class AnyFilter>
std::string contents(const std::vector<AnyFilter>& filters) {
  std::string all;
  for (const AnyFilter& filter : filters) {
    all += std::string(filter.backend().name()) + ":";
    filter.write([&](std::span<const std::byte> bytes) {
      all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
  }
  return all;
}

/// A filter that a bank refuses, or has no memory for, is still the caller's.
template <class AnyBank, class AnyFilter>
void expect_left_with_the_caller(const BankModel& model) {
  const auto given = [&] {
    std::vector<AnyFilter> filters;
    for (const std::uint32_t member : {5, 1, 5}) {
      Filter filter = model.members.at(member);
      filter.set_metadata(std::to_string(member));
      filters.emplace_back(std::move(filter));
    }
    return filters;
  };
  const std::string want = contents(given());
  const BatchOptions options{.threads = 1};
  using Take = std::function<void(AnyBank&, std::vector<AnyFilter>&)>;
  const std::vector<Take> ways{
      [&](AnyBank& bank, auto& filters) { bank.add_member(std::move(filters[0]), options); },
      [&](AnyBank& bank, auto& filters) { bank.add_members(std::move(filters), options); },
      [&](AnyBank& bank, auto& filters) {
        bank.replace_member(4, std::move(filters[0]), options);
      }};
  std::size_t kept = 0;
  for (const Take& take : ways) {
    for (std::size_t failed = 0, again = 1; again != 0; ++failed) {
      AnyBank bank(made_anew(model));
      std::vector<AnyFilter> filters = given();
      bool threw = true;
      {
        const ShortMemory short_memory(failed + 1, false);
        try {
          take(bank, filters);
          threw = false;
        } catch (const std::bad_alloc&) {
        }
      }
      again = ShortMemory::refused();
      if (!threw) continue;
      ++kept;
      ASSERT_TRUE(contents(filters) == want) << failed;
    }
    AnyBank other(model.growth, {.seed = 9});
    for (int i = 0; i < 5; ++i) other.add_member(AnyFilter(model.growth, {.seed = 9}));
    std::vector<AnyFilter> filters = given();
    EXPECT_THROW(take(other, filters), scbf::Incompatible);
    ASSERT_TRUE(contents(filters) == want);
  }
  EXPECT_GT(kept, 10u);
}

TEST_P(FailingBank, LeavesTheFiltersThatItDoesNotTake) {
  constexpr std::uint32_t kKeys = 300;
  const BankModel model = some_members(growth(kKeys), 6, kKeys);
  expect_left_with_the_caller<Bank, Filter>(model);
  expect_left_with_the_caller<scbf::BloomBank, scbf::BloomFilter>(model);
}

/// How far each batch got, and whether everything was done.
struct Progress {
  std::vector<std::uint64_t> processed;
  bool done;
};
Progress insert_until_short(Bank& bank, std::span<const MemberKeys> batches,
                            const BatchOptions& options, std::uint64_t nth, bool ends) {
  Progress progress{std::vector<std::uint64_t>(batches.size()), false};
  const ShortMemory short_memory(nth, ends);
  try {
    bank.insert(batches, options);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      progress.processed[i] = batches[i].keys.size();
    }
    progress.done = true;
  } catch (const MembersFull& full) {
    for (std::size_t i = 0; i < batches.size(); ++i) progress.processed[i] = full.processed(i);
  } catch (const std::bad_alloc&) {
  }
  return progress;
}
std::vector<MemberKeys> rest_of(std::span<const MemberKeys> batches, const Progress& progress) {
  std::vector<MemberKeys> rest;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::uint64_t done = progress.processed[i];
    rest.push_back({batches[i].member, batches[i].keys.slice(done, batches[i].keys.size() - done)});
  }
  return rest;
}

TEST_P(FailingBank, CountsExactlyTheKeysItSays) {
  constexpr std::uint32_t kKeys = 300;
  BankModel model = some_members(growth(kKeys), 6, kKeys);
  const Keys some = random_keys(3 * kKeys, 11), few = random_keys(kKeys / 3, 12);
  const std::vector<std::byte> validity((few.size() + 7) / 8, std::byte{0xB7});
  const std::vector<MemberKeys> batches{
      {4, some}, {0, KeyBatch(few).with_validity(validity)}, {5, few}, {4, few}, {2, some}};
  std::size_t in_part = 0, nothing = 0, all = 0;
  for (const Mode& mode : {Mode{1, Path::direct}, {1, Path::partitioned}, {2, Path::partitioned}}) {
    SCOPED_TRACE(mode.name());
    Bank inserted = made_anew(model);
    inserted.insert(batches, mode.options());
    Bank removed = made_anew(model);
    removed.insert(batches, mode.options());
    const auto want_report = removed.remove(batches, mode.options());
    for (const bool ends : {false, true}) {
      for (std::size_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
        SCOPED_TRACE("allocation " + std::to_string(nth) + (ends ? " and those after it" : ""));
        Bank bank = made_anew(model);
        const Progress progress = insert_until_short(bank, batches, mode.options(), nth, ends);
        refused = ShortMemory::refused();
        std::uint64_t sum = 0;
        for (const std::uint64_t done : progress.processed) sum += done;
        nothing += sum == 0;
        in_part += sum > 0 && !progress.done;
        all += progress.done && refused > 0;
        Bank so_far = made_anew(model);
        for (std::size_t i = 0; i < batches.size(); ++i) {
          so_far.insert(batches[i].member, batches[i].keys.slice(0, progress.processed[i]));
        }
        ASSERT_EQ(scbf_test::bank_error(bank), std::nullopt);
        ASSERT_TRUE(same_members(bank, so_far));
        bank.insert(rest_of(batches, progress), mode.options());
        ASSERT_TRUE(same_members(bank, inserted)) << "in the end";
        ASSERT_LT(nth, 100'000u);
      }
      for (std::size_t nth = 1, refused = 1; refused > 0; nth += 1 + nth / kRarer) {
        SCOPED_TRACE("removal, allocation " + std::to_string(nth));
        Bank bank = made_anew(model);
        bank.insert(batches, mode.options());
        std::optional<scbf::RemoveReport> report;
        {
          const ShortMemory short_memory(nth, ends);
          try {
            report = bank.remove(batches, mode.options());
          } catch (const std::bad_alloc&) {
          }
        }
        refused = ShortMemory::refused();
        nothing += !report;
        all += report && refused > 0;
        ASSERT_EQ(scbf_test::bank_error(bank), std::nullopt);
        if (!report) {
          ASSERT_TRUE(same_members(bank, inserted));
          report = bank.remove(batches, mode.options());
        }
        ASSERT_TRUE(same_members(bank, removed));
        ASSERT_EQ(report->removed, want_report.removed);
        ASSERT_EQ(report->absent, want_report.absent);
        ASSERT_EQ(report->ambiguous, want_report.ambiguous);
        ASSERT_LT(nth, 100'000u);
      }
    }
  }
  EXPECT_GT(nothing, 5u);
  EXPECT_GT(all, 5u);
  if (model.growth.policy() != Growth::Policy::one) {
    EXPECT_GT(in_part, 5u);
  }
}

}  // namespace
}  // namespace scbf_test::bank_faults_test
