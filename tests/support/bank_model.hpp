// SPDX-License-Identifier: Apache-2.0
// The model of a bank: separate filters on the scalar backend. A bank and its model take the same
// random steps; then counters, numbers of keys, rows, slots and answers are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "scbf/bank.hpp"
#include "support/bank_check.hpp"
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
          {"one_ranked", Growth::one(Geometry::ranked(82, 5, 2))},
          {"one_ranked_stuck", Growth::one(Geometry::ranked(112, 3, 0))},
          {"blocks", Growth::tightening(60, 0.1)},
          {"ranked", Growth::tightening(60, 0.1, scbf::Layout::ranked)},
          {"split", Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7)},
          {"fixed_split", Growth::fixed(Geometry::split(3, 200), 5)},
          {"fixed_blocks", Growth::fixed(Geometry::split_block(2, 9), 6)}};
}

/// Filters of this growth and seed, by member.
struct BankModel {
  scbf::Growth growth;
  std::uint64_t seed;
  /// Keys of random steps are below this. There are few, so that keys repeat and counters saturate,
  /// but enough for members to grow, if their growth allows it.
  std::uint64_t some_keys;
  std::map<std::uint32_t, scbf::Filter> members = {};
  std::set<std::uint32_t> ask = {};

  BankModel(const scbf::Growth& of_members, std::uint64_t hash_seed)
      : growth(of_members),
        seed(hash_seed),
        some_keys(growth.policy() == scbf::Growth::Policy::one ? 60 : 800) {}

  scbf::Filter filter() const { return scbf::Filter(growth, {.seed = seed, .backend = "scalar"}); }
  /// Keys to ask for: some may be present, some never are.
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

/// Adds this many empty members to both.
inline void add_members(scbf::Bank& bank, BankModel& model, std::uint32_t members) {
  for (std::uint32_t i = 0; i < members; ++i) {
    const std::uint32_t member = model.lowest_free();
    ASSERT_EQ(bank.add_member(), member);
    model.members.emplace(member, model.filter());
  }
}

/// The bank's answers as lists, read from its packed answers.
template <class AnyBank>
std::vector<std::vector<std::uint32_t>> unpacked(const AnyBank& bank, const scbf::KeyBatch& keys,
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

inline ::testing::AssertionResult same_stage(const scbf::StageView& got,
                                             const scbf::StageView& want) {
  if (got.geometry() != want.geometry()) return ::testing::AssertionFailure() << "another geometry";
  if (got.keys_inserted() != want.keys_inserted() || got.keys_removed() != want.keys_removed()) {
    return ::testing::AssertionFailure() << "another number of keys inserted or removed";
  }
  return same_words(words_of(got), words_of(want));
}

/// Compares counters, numbers of keys, rows, slots and answers.
inline ::testing::AssertionResult same_bank(const scbf::Bank& bank, const BankModel& model,
                                            const scbf::KeyBatch& keys,
                                            const scbf::BatchOptions& options) {
  if (const auto wrong = scbf_test::bank_error(bank)) {
    return ::testing::AssertionFailure() << "the bank contradicts itself: " << *wrong;
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
      return ::testing::AssertionFailure() << "asked_always differs for member " << slot;
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
inline Step some_step(Random& random) {
  return static_cast<Step>(random.below(static_cast<std::uint64_t>(Step::subtract) + 1));
}

struct Tally {
  std::size_t most_stages = 0;
  std::uint64_t ambiguous = 0, ambiguous_in_many = 0;
};

/// The number of keys that `insert` takes before a filter or a member of a bank is full.
template <class Insert>
std::uint64_t inserted(const Insert& insert) {
  try {
    return insert().inserted;
  } catch (const scbf::FilterFull& full) {
    return full.processed();
  }
}

inline void add_up(scbf::RemoveReport& sum, const scbf::RemoveReport& part) {
  sum.removed += part.removed;
  sum.absent += part.absent;
  sum.ambiguous += part.ambiguous;
}
inline void expect_equal(const scbf::RemoveReport& got, const scbf::RemoveReport& want) {
  ASSERT_EQ(got.removed, want.removed);
  ASSERT_EQ(got.absent, want.absent);
  ASSERT_EQ(got.ambiguous, want.ambiguous);
}

/// Takes one random step on both.
inline void take_step(Step step, scbf::Bank& bank, BankModel& model, Random& random,
                      const scbf::BatchOptions& options, Tally* tally = nullptr) {
  const std::size_t most = random.below(2) == 0 ? 20 : 400;
  const auto some_keys = [&](std::size_t at_most) {
    Keys keys(random.below(at_most + 1));
    for (auto& key : keys) key = random.below(model.some_keys);
    return keys;
  };
  const auto filled = [&](std::size_t at_most) {
    scbf::Filter filter = model.filter();
    const Keys keys = some_keys(at_most);
    inserted([&] { return filter.insert(keys); });
    return filter;
  };
  const bool needs_member =
      step != Step::add_filter && step != Step::add_filters && step != Step::reserve;
  if (model.members.empty() && needs_member) step = Step::add_empty;
  // Prefers low numbers, so that some members get enough keys to grow.
  const auto some_member = [&] {
    const auto i = random.below(random.below(model.members.size()) + 1);
    return std::next(model.members.begin(), static_cast<std::ptrdiff_t>(i))->first;
  };
  /// Batches for some members, for some of them two.
  std::vector<Keys> columns;
  const auto some_batches = [&] {
    columns.resize(random.below(12));
    std::vector<scbf::MemberKeys> batches;
    for (Keys& column : columns) {
      column = some_keys(most);
      batches.push_back({some_member(), column});
    }
    return batches;
  };
  switch (step) {
    case Step::add_empty:
      add_members(bank, model, 1);
      break;
    case Step::add_filter: {
      const std::uint32_t slot = model.lowest_free();
      const scbf::Filter filter = filled(most);
      ASSERT_EQ(bank.add_member(filter, options), slot);
      model.members.emplace(slot, filter);
      break;
    }
    case Step::add_filters: {
      std::vector<scbf::Filter> filters;
      for (std::size_t n = random.below(8); n > 0; --n) filters.push_back(filled(most / 10));
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
      const scbf::Filter filter = filled(most);
      ASSERT_TRUE(bank.replace_member(slot, filter, options) == model.members.at(slot));
      model.members.at(slot) = filter;
      model.ask.erase(slot);
      break;
    }
    case Step::ask: {
      const std::uint32_t slot = some_member();
      const bool ask = model.ask.erase(slot) == 0;
      if (ask) model.ask.insert(slot);
      bank.ask_always(slot, ask);
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
    case Step::insert: {
      const std::uint32_t slot = some_member();
      const Keys keys = some_keys(most);
      ASSERT_EQ(inserted([&] { return bank.insert(slot, keys, options); }),
                inserted([&] { return model.members.at(slot).insert(keys); }));
      break;
    }
    case Step::remove: {
      const std::uint32_t slot = some_member();
      const Keys keys = some_keys(most);
      Answers verdicts(keys.size(), 0xCC), want = verdicts;
      const auto report = bank.remove(slot, keys, verdicts, options);
      expect_equal(report, model.members.at(slot).remove(keys, want));
      ASSERT_EQ(verdicts, want);
      if (tally != nullptr) tally->ambiguous += report.ambiguous;
      break;
    }
    case Step::insert_many: {
      const auto batches = some_batches();
      std::set<std::uint32_t> full;
      std::uint64_t want = 0, got = 0;
      for (const auto& [slot, keys] : batches) {
        if (full.contains(slot)) continue;
        const auto in = inserted(
            [&, &slot = slot, &keys = keys] { return model.members.at(slot).insert(keys); });
        if (in < keys.size()) full.insert(slot);
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
      const auto batches = some_batches();
      scbf::RemoveReport want;
      for (const auto& [slot, keys] : batches) add_up(want, model.members.at(slot).remove(keys));
      const auto got = bank.remove(batches, options);
      expect_equal(got, want);
      if (tally != nullptr) tally->ambiguous_in_many += got.ambiguous;
      break;
    }
    case Step::merge:
    case Step::subtract: {
      const std::uint32_t slot = some_member();
      const scbf::Filter other = random.below(2) == 0 ? filled(step == Step::merge ? most : 3)
                                                      : bank.copy_member(some_member());
      const bool merges = step == Step::merge;
      scbf::Filter& member = model.members.at(slot);
      const auto change_model = [&] {
        merges ? void(member.merge(other)) : void(member.subtract(other));
      };
      const auto change_bank = [&] {
        merges ? void(bank.merge(slot, other, options)) : void(bank.subtract(slot, other, options));
      };
      try {
        change_model();
      } catch (const scbf::Incompatible&) {
        SCBF_EXPECT_THROW(change_bank(), scbf::Incompatible, merges ? "more than" : "");
        break;
      }
      change_bank();
    }
  }
  if (tally == nullptr) return;
  for (const auto& [slot, filter] : model.members) {
    tally->most_stages = std::max(tally->most_stages, filter.stages());
  }
}

/// A bank after some random steps, and its model.
inline std::pair<scbf::Bank, BankModel> some_bank(const scbf::Growth& growth,
                                                  std::uint32_t members) {
  scbf::Bank bank(growth, {.seed = 7, .capacity = members});
  BankModel model(growth, 7);
  Random random(members);
  add_members(bank, model, members);
  for (int i = 0; i < 40; ++i) {
    take_step(i < 12 ? Step::insert_many : some_step(random), bank, model, random, {});
  }
  bank.set_metadata("of a test");
  return {std::move(bank), std::move(model)};
}

}  // namespace scbf_test
