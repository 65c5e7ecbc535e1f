// SPDX-License-Identifier: Apache-2.0
// Threads or memory of a bank fail, at every place where they can. Afterwards rows, counters and
// the map of stages must agree, and all-or-nothing operations must have changed nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bank_model.hpp"

namespace {

// The number of allocations of this thread until one fails; 0: none fails.
thread_local std::size_t allocations_left = 0;

void* allocate(std::size_t bytes) {
  if (allocations_left > 0 && --allocations_left == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// All forms are replaced, because the address sanitizer brings its own version of any other.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace {

using namespace scbf_test;
using scbf::Bank;
using scbf::BatchOptions;
using scbf::Filter;
using scbf::FilterFull;
using scbf::Geometry;
using scbf::Growth;
using scbf::MemberKeys;

/// Succeeds `runs` times, then fails.
class FailsLater final : public scbf::Executor {
 public:
  explicit FailsLater(int runs) : left_(runs) {}
  unsigned concurrency() const noexcept override { return 2; }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    if (left_-- == 0) {
      task(0);
      throw std::runtime_error("no threads today");
    }
    for (std::size_t i = 0; i < count; ++i) task(i);
  }

 private:
  mutable int left_;
};

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
      {"add_empty", [](auto& bank, auto&, auto&) { bank.add_member(); }, true, false},
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
  };
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

TEST_P(FailingBank, AgreesWhenThreadsFail) {
  // So many keys that a stage takes more than one task.
  constexpr std::uint32_t kKeys = 4000;
  BankModel model = some_members(growth(kKeys), 66, kKeys);
  const Keys asked = random_keys(50, 3);
  for (const Operation& operation : operations(model.growth, 65, 3 * kKeys)) {
    SCOPED_TRACE(operation.name);
    int failed = 0;
    for (bool again = true; again; failed += again) {
      Bank bank = made_anew(model);
      const FailsLater executor(failed);
      try {
        operation.run(bank, model, {.threads = 2, .executor = &executor});
        again = false;
      } catch (const std::runtime_error& e) {
        ASSERT_EQ(e.what(), std::string("no threads today"));
      }
      if (operation.all_or_nothing && again) {
        ASSERT_TRUE(same_bank(bank, model, asked, {.threads = 1})) << "failure " << failed;
      } else {
        ASSERT_EQ(scbf::BankCheck::difference(bank), std::nullopt) << "failure " << failed;
      }
    }
    EXPECT_TRUE(failed > 0 || !operation.threads) << "nothing failed";
  }
}

TEST_P(FailingBank, AgreesWhenMemoryIsShort) {
  constexpr std::uint32_t kKeys = 300;
  BankModel model = some_members(growth(kKeys), 6, kKeys);
  const Keys asked = random_keys(20, 3);
  for (const Operation& operation : operations(model.growth, 5, 3 * kKeys)) {
    SCOPED_TRACE(operation.name);
    std::size_t failed = 0;
    for (bool again = true; again; failed += again) {
      Bank bank = made_anew(model);
      allocations_left = failed + 1;
      bool threw = true;
      try {
        operation.run(bank, model, {.threads = 1});
        threw = false;
      } catch (const std::bad_alloc&) {
      } catch (const FilterFull& e) {
        ASSERT_NE(std::string(e.what()).find("memory is short"), std::string::npos) << e.what();
      }
      again = allocations_left == 0;  // otherwise there were fewer allocations
      allocations_left = 0;
      if (operation.all_or_nothing && threw) {
        ASSERT_TRUE(same_bank(bank, model, asked, {.threads = 1})) << "allocation " << failed;
      } else {
        ASSERT_EQ(scbf::BankCheck::difference(bank), std::nullopt) << "allocation " << failed;
      }
    }
    EXPECT_GT(failed, 1u);
  }
}

}  // namespace
