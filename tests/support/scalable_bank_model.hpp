// SPDX-License-Identifier: Apache-2.0
// What a ScalableBank should be: separate scalable filters on the scalar backend; how the two are
// compared, counters, books, rows and answers; and random steps taken by both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scbf/scalable_bank.hpp"
#include "support/bank_model.hpp"
#include "support/scalable_model.hpp"

namespace scbf_test {

inline std::vector<std::pair<std::string, scbf::Growth>> bank_growths() {
  using scbf::Geometry, scbf::Growth;
  return {{"blocks", Growth::tightening(60, 0.1)},
          {"split", Growth::tightening(40, 0.3, scbf::Layout::split, 1.5, 0.7)},
          {"fixed_split", Growth::fixed(Geometry::split(3, 200), 5)},
          {"fixed_blocks", Growth::fixed(Geometry::split_block(2, 9), 6)}};
}

struct ScalableBankModel : MembersModel<scbf::ScalableFilter> {
  scbf::Growth growth;
  std::uint64_t seed;

  ScalableBankModel(const scbf::Growth& of_members, std::uint64_t hash_seed)
      : growth(of_members), seed(hash_seed) {}
  scbf::ScalableFilter filter() const {
    return scbf::ScalableFilter(growth, {.seed = seed, .backend = "scalar"});
  }
};

inline ::testing::AssertionResult same_stage(const scbf::Filter& got, const scbf::Filter& want) {
  if (got.geometry() != want.geometry()) return ::testing::AssertionFailure() << "the geometry";
  if (got.keys_inserted() != want.keys_inserted() || got.keys_removed() != want.keys_removed()) {
    return ::testing::AssertionFailure() << "the books";
  }
  return same_words(words_of(got), words_of(want));
}

/// Counters, books, rows, places and answers.
inline ::testing::AssertionResult same_bank(const scbf::ScalableBank& bank,
                                            const ScalableBankModel& model,
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

/// Keys below this may be in.
inline constexpr std::uint64_t kGrowingKeys = 800;
inline Keys growing_keys() {
  Keys keys(60);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 17;
  return keys;
}

struct Tally {
  std::size_t most_stages = 0;
  std::uint64_t ambiguous = 0, ambiguous_in_many = 0;
};

/// One random step on both.
inline void take_step(Step step, scbf::ScalableBank& bank, ScalableBankModel& model, Random& random,
                      const scbf::BatchOptions& options, Tally* tally = nullptr) {
  const auto some_keys = [&](std::size_t most) {
    Keys keys(random.below(most + 1));
    for (auto& key : keys) key = random.below(kGrowingKeys);
    return keys;
  };
  // As much of it as there is room for; how much that is.
  const auto fill = [&](scbf::ScalableFilter& filter, const Keys& keys) -> std::uint64_t {
    try {
      return filter.insert(keys).inserted;
    } catch (const scbf::FilterFull& full) {
      return full.processed();
    }
  };
  const auto filled = [&](std::size_t most) {
    scbf::ScalableFilter filter = model.filter();
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
      scbf::ScalableRemoveReport want;
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
      const scbf::ScalableFilter other =
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
      const scbf::ScalableFilter other =
          random.below(2) == 0 ? filled(3) : bank.copy_member(some_member());
      try {
        model.members.at(slot).subtract(other);
        bank.subtract(slot, other, options);
      } catch (const scbf::Incompatible&) {
        SCBF_EXPECT_THROW(bank.subtract(slot, other, options), scbf::Incompatible, "contained");
      }
      break;
    }
    default:
      take_member_step(
          step, bank, model, random, options, [&] { return filled(most); }, 8, some_member);
  }
  if (tally == nullptr) return;
  for (const auto& [slot, filter] : model.members) {
    tally->most_stages = std::max(tally->most_stages, filter.stages());
  }
}

}  // namespace scbf_test
