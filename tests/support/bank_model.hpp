// SPDX-License-Identifier: Apache-2.0
// What a FilterBank should be: separate scalar filters; how the two are compared, counters, rows
// and answers; and random steps taken by both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "bank/bank_check.hpp"
#include "scbf/filter_bank.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test {

using Keys = std::vector<std::uint64_t>;

inline std::vector<const scbf::Backend*> host_backends() {
  std::vector<const scbf::Backend*> all;
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() == scbf::kHostMemory) all.push_back(backend);
  }
  return all;
}

/// What a bank should be: filters, each alone, on the scalar backend.
template <class AnyFilter>
struct MembersModel {
  std::map<std::uint32_t, AnyFilter> members;
  std::set<std::uint32_t> ask;

  std::uint32_t lowest_free() const {
    std::uint32_t slot = 0;
    while (members.contains(slot)) ++slot;
    return slot;
  }
  /// Members that may hold each key.
  std::vector<std::vector<std::uint32_t>> answers(const scbf::KeyBatch& keys) const {
    std::vector<std::vector<std::uint32_t>> lists(keys.size());
    for (const auto& [slot, filter] : members) {
      const Answers hits = contains(filter, keys);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys.valid(i) && (hits[i] != 0 || ask.contains(slot))) lists[i].push_back(slot);
      }
    }
    return lists;
  }
};

struct BankModel : MembersModel<scbf::Filter> {
  scbf::Geometry geometry;
  std::uint64_t seed;

  BankModel(const scbf::Geometry& of_members, std::uint64_t hash_seed)
      : geometry(of_members), seed(hash_seed) {}
  scbf::Filter filter() const {
    return scbf::Filter(geometry, {.seed = seed, .backend = "scalar"});
  }
};

/// The bank's answers as lists, read from its packed answers.
template <class Bank>
std::vector<std::vector<std::uint32_t>> unpacked(const Bank& bank, const scbf::KeyBatch& keys,
                                                 const scbf::BatchOptions& options) {
  std::vector<std::uint8_t> bits(keys.size() * bank.answer_bytes(), 0xCC);
  bank.contains_bits(keys, bits, options);
  std::vector<std::vector<std::uint32_t>> lists(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::uint32_t m = 0; m < 8 * bank.answer_bytes(); ++m) {
      if (bits[i * bank.answer_bytes() + m / 8] >> m % 8 & 1) lists[i].push_back(m);
    }
  }
  return lists;
}

inline ::testing::AssertionResult same_lists(const scbf::MemberLists& got,
                                             const std::vector<std::vector<std::uint32_t>>& want) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " lists";
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::ranges::equal(got.of(i), want[i])) {
      return ::testing::AssertionFailure() << "key " << i << ": " << got.of(i).size()
                                           << " members, the model has " << want[i].size();
    }
  }
  return ::testing::AssertionSuccess();
}

/// Several threads ask what one was told before.
template <class Bank>
void expect_questions_at_once(const Bank& bank, const scbf::KeyBatch& keys) {
  const auto want = unpacked(bank, keys, {.threads = 1});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Mode mode = contract_modes()[t % 2];
      wrong += unpacked(bank, keys, mode.options()) != want;
      scbf::MemberLists lists;
      bank.find(keys, lists, mode.options());
      wrong += !same_lists(lists, want);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

/// Counters, rows and answers.
inline ::testing::AssertionResult same_bank(const scbf::FilterBank& bank, const BankModel& model,
                                            const scbf::KeyBatch& keys,
                                            const scbf::BatchOptions& options) {
  if (const auto wrong = scbf::BankCheck::difference(bank)) {
    return ::testing::AssertionFailure() << "rows and counters differ: " << *wrong;
  }
  if (bank.size() != model.members.size()) {
    return ::testing::AssertionFailure() << bank.size() << " members";
  }
  for (const auto& [slot, filter] : model.members) {
    if (!bank.has_member(slot)) return ::testing::AssertionFailure() << "no member " << slot;
    auto same = same_words(words_of(bank.member(slot)), words_of(filter));
    if (!same) return same;
    if (bank.member(slot).keys_inserted() != filter.keys_inserted() ||
        bank.member(slot).keys_removed() != filter.keys_removed()) {
      return ::testing::AssertionFailure() << "the books of member " << slot;
    }
  }
  const auto want = model.answers(keys);
  if (unpacked(bank, keys, options) != want) return ::testing::AssertionFailure() << "packed bits";
  scbf::MemberLists lists;
  bank.find(keys, lists, options);
  return same_lists(lists, want);
}

// ---- random sequences ---------------------------------------------------------------------------

enum class Step {
  add_empty,
  add_filter,
  add_filters,
  remove_member,
  replace,
  ask,
  clear,
  reserve,
  insert,
  remove,
  insert_many,
  remove_many,
  merge,
  subtract,
  merge_own,  ///< FilterBank only
};
inline constexpr Step kLastStep = Step::merge_own, kLastGrowingStep = Step::subtract;

/// Steps that need a member.
inline bool needs_member(Step step) {
  return step != Step::add_filter && step != Step::add_filters && step != Step::reserve;
}

/// One random step on both, of those that are about members and not about their keys: add_empty to
/// reserve. `filled()` is a filter with some keys, of which at most `most` are added at once.
template <class Bank, class Model, class Filled, class SomeMember>
void take_member_step(Step step, Bank& bank, Model& model, Random& random,
                      const scbf::BatchOptions& options, const Filled& filled, std::size_t most,
                      const SomeMember& some_member) {
  switch (step) {
    case Step::add_empty: {
      const std::uint32_t slot = model.lowest_free();
      ASSERT_EQ(bank.add_member(), slot);
      model.members.emplace(slot, model.filter());
      break;
    }
    case Step::add_filter: {
      const std::uint32_t slot = model.lowest_free();
      auto filter = filled();
      ASSERT_EQ(bank.add_member(filter, options), slot);
      model.members.emplace(slot, std::move(filter));
      break;
    }
    case Step::add_filters: {
      std::vector<decltype(filled())> filters;
      for (std::size_t n = random.below(most); n > 0; --n) filters.push_back(filled());
      std::vector<std::uint32_t> want;
      for (const auto& filter : filters) {
        want.push_back(model.lowest_free());
        model.members.emplace(want.back(), filter);
      }
      ASSERT_EQ(bank.add_members(std::move(filters), options), want);
      break;
    }
    case Step::remove_member: {
      const std::uint32_t slot = some_member();
      ASSERT_TRUE(bank.remove_member(slot, options) == model.members.at(slot));
      model.members.erase(slot);
      model.ask.erase(slot);
      break;
    }
    case Step::replace: {
      const std::uint32_t slot = some_member();
      const auto filter = filled();
      ASSERT_TRUE(bank.replace_member(slot, filter, options) == model.members.at(slot));
      model.members.at(slot) = filter;
      model.ask.erase(slot);
      break;
    }
    case Step::ask: {
      const std::uint32_t slot = some_member();
      const bool ask = !model.ask.contains(slot);
      bank.ask_always(slot, ask);
      ASSERT_EQ(bank.asked_always(slot), ask);
      if (ask) {
        model.ask.insert(slot);
      } else {
        model.ask.erase(slot);
      }
      break;
    }
    case Step::clear: {
      const std::uint32_t slot = some_member();
      bank.clear(slot, options);
      model.members.at(slot).clear();
      break;
    }
    case Step::reserve:
      bank.reserve(static_cast<std::uint32_t>(random.below(200)));
      break;
    default:
      FAIL() << "about keys";
  }
}

/// One random step on both. `keys` are few and come back.
inline void take_step(Step step, scbf::FilterBank& bank, BankModel& model, Random& random,
                      const scbf::BatchOptions& options) {
  const auto some_keys = [&](std::size_t most) {
    Keys keys(random.below(most + 1));
    for (auto& key : keys) key = random.below(60);
    return keys;
  };
  const auto filled = [&](std::size_t most) {
    scbf::Filter filter = model.filter();
    filter.insert(some_keys(most));
    return filter;
  };
  const auto some_member = [&] {
    return std::next(model.members.begin(),
                     static_cast<std::ptrdiff_t>(random.below(model.members.size())))
        ->first;
  };
  // Both small, so that rows are marked, and large, so that they are rebuilt.
  const std::size_t most = random.below(2) == 0 ? 20 : 400;
  if (model.members.empty() && needs_member(step)) step = Step::add_empty;
  switch (step) {
    case Step::insert: {
      const std::uint32_t slot = some_member();
      const Keys keys = some_keys(most);
      ASSERT_EQ(bank.insert(slot, keys, options).inserted, keys.size());
      model.members.at(slot).insert(keys);
      break;
    }
    case Step::remove: {
      const std::uint32_t slot = some_member();
      const Keys keys = some_keys(most);
      Answers verdicts(keys.size(), 0xCC);
      const auto report = bank.remove(slot, keys, verdicts, options);
      const Answers want = remove(model.members.at(slot), keys);
      ASSERT_EQ(verdicts, want);
      ASSERT_EQ(report.removed, static_cast<std::uint64_t>(std::ranges::count(want, 1)));
      ASSERT_EQ(report.absent, keys.size() - report.removed);
      break;
    }
    case Step::insert_many:
    case Step::remove_many: {
      std::vector<Keys> columns(random.below(12));
      std::vector<scbf::MemberKeys> batches;
      scbf::RemoveReport want;
      std::size_t keys = 0;
      for (Keys& column : columns) {
        column = some_keys(most);
        keys += column.size();
        const std::uint32_t slot = some_member();  // some twice
        batches.push_back({slot, column});
        if (step == Step::insert_many) {
          model.members.at(slot).insert(column);
        } else {
          const auto part = model.members.at(slot).remove(column);
          want.removed += part.removed;
          want.absent += part.absent;
        }
      }
      if (step == Step::insert_many) {
        ASSERT_EQ(bank.insert(batches, options).inserted, keys);
      } else {
        const auto got = bank.remove(batches, options);
        ASSERT_EQ(got.removed, want.removed);
        ASSERT_EQ(got.absent, want.absent);
      }
      break;
    }
    case Step::merge: {
      const std::uint32_t slot = some_member();
      const scbf::Filter filter = filled(most);
      bank.merge(slot, filter, options);
      model.members.at(slot).merge(filter);
      break;
    }
    case Step::merge_own: {
      const std::uint32_t slot = some_member(), other = some_member();  // the same at times
      bank.merge(slot, bank.member(other), options);
      model.members.at(slot).merge(model.members.at(other));
      break;
    }
    case Step::subtract: {
      const std::uint32_t slot = some_member();
      const scbf::Filter filter = filled(3);
      try {
        model.members.at(slot).subtract(filter);
        bank.subtract(slot, filter, options);
      } catch (const scbf::Incompatible&) {
        SCBF_EXPECT_THROW(bank.subtract(slot, filter, options), scbf::Incompatible, "below zero");
      }
      break;
    }
    default:
      take_member_step(
          step, bank, model, random, options,
          [&] { return filled(step == Step::add_filters ? 5 : most); }, 70, some_member);
  }
}

inline Keys all_keys() {
  Keys keys(70);  // 0 … 59 may be in, the others are not
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  return keys;
}

}  // namespace scbf_test
