// SPDX-License-Identifier: Apache-2.0
// What a bank should be: separate filters on the scalar backend; how the two are compared,
// counters, books, rows, slots and answers; and random steps taken by both.
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
#include "scbf/bank.hpp"
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

inline std::vector<std::pair<std::string, scbf::Growth>> bank_growths() {
  using scbf::Geometry, scbf::Growth;
  return {{"one_blocks_g1", Growth::one(Geometry::split_block(1, 5))},
          {"one_blocks_g2", Growth::one(Geometry::split_block(2, 4))},
          {"one_split_k7", Growth::one(Geometry::split(7, 129))},
          {"one_split_k20", Growth::one(Geometry::split(20, 16))},
          {"blocks", Growth::tightening(60, 0.1)},
          {"split", Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7)},
          {"fixed_split", Growth::fixed(Geometry::split(3, 200), 5)},
          {"fixed_blocks", Growth::fixed(Geometry::split_block(2, 9), 6)}};
}

/// What a bank should be: filters of this growth and seed, each alone, on the scalar backend.
struct BankModel {
  scbf::Growth growth;
  std::uint64_t seed;
  /// Keys of random steps are below this. Few, so that they come back and counters saturate; enough
  /// for members to grow, if they do.
  std::uint64_t some_keys;
  std::map<std::uint32_t, scbf::Filter> members = {};
  std::set<std::uint32_t> ask = {};

  BankModel(const scbf::Growth& of_members, std::uint64_t hash_seed)
      : growth(of_members),
        seed(hash_seed),
        some_keys(growth.policy() == scbf::Growth::Policy::one ? 60 : 800) {}

  scbf::Filter filter() const { return scbf::Filter(growth, {.seed = seed, .backend = "scalar"}); }
  /// Keys to ask for: some that may be in, some that never are.
  Keys asked_keys() const {
    Keys keys(70);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * some_keys / 60;
    return keys;
  }
  std::uint32_t lowest_free() const {
    std::uint32_t member = 0;
    while (members.contains(member)) ++member;
    return member;
  }
  /// Members that may hold each key.
  std::vector<std::vector<std::uint32_t>> answers(const scbf::KeyBatch& keys) const {
    std::vector<std::vector<std::uint32_t>> lists(keys.size());
    for (const auto& [member, filter] : members) {
      const Answers hits = contains(filter, keys);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys.valid(i) && (hits[i] != 0 || ask.contains(member))) lists[i].push_back(member);
      }
    }
    return lists;
  }
};

/// `members` empty ones, in both.
inline void add_members(scbf::Bank& bank, BankModel& model, std::uint32_t members) {
  for (std::uint32_t i = 0; i < members; ++i) {
    const std::uint32_t member = model.lowest_free();
    ASSERT_EQ(bank.add_member(), member);
    model.members.emplace(member, model.filter());
  }
}

/// The bank's answers as lists, read from its packed answers.
inline std::vector<std::vector<std::uint32_t>> unpacked(const scbf::Bank& bank,
                                                        const scbf::KeyBatch& keys,
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
inline void expect_questions_at_once(const scbf::Bank& bank, const scbf::KeyBatch& keys) {
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

inline ::testing::AssertionResult same_stage(const scbf::StageView& got,
                                             const scbf::StageView& want) {
  if (got.geometry() != want.geometry()) return ::testing::AssertionFailure() << "the geometry";
  if (got.keys_inserted() != want.keys_inserted() || got.keys_removed() != want.keys_removed()) {
    return ::testing::AssertionFailure() << "the books";
  }
  return same_words(words_of(got), words_of(want));
}

/// Counters, books, rows, places and answers.
inline ::testing::AssertionResult same_bank(const scbf::Bank& bank, const BankModel& model,
                                            const scbf::KeyBatch& keys,
                                            const scbf::BatchOptions& options) {
  if (const auto wrong = scbf::BankCheck::difference(bank)) {
    return ::testing::AssertionFailure() << "the bank is not in order: " << *wrong;
  }
  if (bank.size() != model.members.size()) {
    return ::testing::AssertionFailure() << bank.size() << " members";
  }
  for (const auto& [slot, filter] : model.members) {
    if (!bank.has_member(slot)) return ::testing::AssertionFailure() << "no member " << slot;
    if (bank.stages(slot) != filter.stages()) {
      return ::testing::AssertionFailure() << "member " << slot << " has " << bank.stages(slot)
                                           << " stages, the model " << filter.stages();
    }
    for (std::size_t s = 0; s < filter.stages(); ++s) {
      const auto same = same_stage(bank.stage(slot, s), filter.stage(s));
      if (!same) {
        return ::testing::AssertionFailure()
               << "member " << slot << ", stage " << s << ": " << same.message();
      }
    }
    if (bank.asked_always(slot) != model.ask.contains(slot)) {
      return ::testing::AssertionFailure() << "the mark of member " << slot;
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
};
inline constexpr Step kLastStep = Step::subtract;

/// Steps that need a member.
inline bool needs_member(Step step) {
  return step != Step::add_filter && step != Step::add_filters && step != Step::reserve;
}

/// One random step on both, of those that are about members and not about their keys: add_empty to
/// reserve. `filled()` is a filter with some keys, of which at most `most` are added at once.
template <class Filled, class SomeMember>
void take_member_step(Step step, scbf::Bank& bank, BankModel& model, Random& random,
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

struct Tally {
  std::size_t most_stages = 0;
  std::uint64_t ambiguous = 0, ambiguous_in_many = 0;
};

/// One random step on both.
inline void take_step(Step step, scbf::Bank& bank, BankModel& model, Random& random,
                      const scbf::BatchOptions& options, Tally* tally = nullptr) {
  const auto some_keys = [&](std::size_t most) {
    Keys keys(random.below(most + 1));
    for (auto& key : keys) key = random.below(model.some_keys);
    return keys;
  };
  // As much of it as there is room for; how much that is.
  const auto fill = [&](scbf::Filter& filter, const Keys& keys) -> std::uint64_t {
    try {
      return filter.insert(keys).inserted;
    } catch (const scbf::FilterFull& full) {
      return full.processed();
    }
  };
  const auto filled = [&](std::size_t most) {
    scbf::Filter filter = model.filter();
    fill(filter, some_keys(most));
    return filter;
  };
  // The first more often than the last, so that some grow.
  const auto some_member = [&] {
    const auto i = random.below(random.below(model.members.size()) + 1);
    return std::next(model.members.begin(), static_cast<std::ptrdiff_t>(i))->first;
  };
  const std::size_t most = random.below(2) == 0 ? 20 : 400;
  if (model.members.empty() && needs_member(step)) step = Step::add_empty;
  switch (step) {
    case Step::insert: {
      const std::uint32_t slot = some_member();
      const Keys keys = some_keys(most);
      const std::uint64_t want = fill(model.members.at(slot), keys);
      std::uint64_t got = 0;
      try {
        got = bank.insert(slot, keys, options).inserted;
      } catch (const scbf::FilterFull& full) {
        got = full.processed();
      }
      ASSERT_EQ(got, want);
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
      ASSERT_EQ(report.ambiguous, static_cast<std::uint64_t>(std::ranges::count(want, 2)));
      ASSERT_EQ(report.absent, keys.size() - report.removed - report.ambiguous);
      if (tally != nullptr) tally->ambiguous += report.ambiguous;
      break;
    }
    case Step::insert_many: {
      std::vector<Keys> columns(random.below(12));
      std::vector<scbf::MemberKeys> batches;
      std::set<std::uint32_t> full;
      std::uint64_t want = 0, got = 0;
      for (Keys& column : columns) {
        column = some_keys(most);
        const std::uint32_t slot = some_member();  // some twice
        batches.push_back({slot, column});
        if (full.contains(slot)) continue;
        const std::uint64_t in = fill(model.members.at(slot), column);
        if (in < column.size()) full.insert(slot);
        want += in;
      }
      try {
        got = bank.insert(batches, options).inserted;
        ASSERT_TRUE(full.empty());
      } catch (const scbf::MembersFull& e) {
        got = e.done().inserted;
        ASSERT_FALSE(full.empty());
      }
      ASSERT_EQ(got, want);
      break;
    }
    case Step::remove_many: {
      std::vector<Keys> columns(random.below(12));
      std::vector<scbf::MemberKeys> batches;
      scbf::RemoveReport want;
      for (Keys& column : columns) {
        column = some_keys(most);
        const std::uint32_t slot = some_member();  // some twice
        batches.push_back({slot, column});
        const auto part = model.members.at(slot).remove(column);
        want.removed += part.removed;
        want.absent += part.absent;
        want.ambiguous += part.ambiguous;
      }
      const auto got = bank.remove(batches, options);
      ASSERT_EQ(got.removed, want.removed);
      ASSERT_EQ(got.absent, want.absent);
      ASSERT_EQ(got.ambiguous, want.ambiguous);
      if (tally != nullptr) tally->ambiguous_in_many += got.ambiguous;
      break;
    }
    case Step::merge: {
      const std::uint32_t slot = some_member();
      const scbf::Filter other =
          random.below(2) == 0 ? filled(most) : bank.copy_member(some_member());
      try {
        model.members.at(slot).merge(other);
        bank.merge(slot, other, options);
      } catch (const scbf::Incompatible&) {
        SCBF_EXPECT_THROW(bank.merge(slot, other, options), scbf::Incompatible, "more than");
      }
      break;
    }
    case Step::subtract: {
      const std::uint32_t slot = some_member();
      const scbf::Filter other = random.below(2) == 0 ? filled(3) : bank.copy_member(some_member());
      try {
        model.members.at(slot).subtract(other);
        bank.subtract(slot, other, options);
      } catch (const scbf::Incompatible&) {
        SCBF_EXPECT_THROW(bank.subtract(slot, other, options), scbf::Incompatible, "");
      }
      break;
    }
    default:
      take_member_step(
          step, bank, model, random, options,
          [&] { return filled(step == Step::add_filters ? most / 10 : most); }, 8, some_member);
  }
  if (tally == nullptr) return;
  for (const auto& [slot, filter] : model.members) {
    tally->most_stages = std::max(tally->most_stages, filter.stages());
  }
}

}  // namespace scbf_test
