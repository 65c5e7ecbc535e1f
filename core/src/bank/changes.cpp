// SPDX-License-Identifier: Apache-2.0
// Batches that change members of a bank. Batches of several members advance in rounds: for each
// member filter/walk.hpp decides where its next keys go; then each level gets all its keys of the
// round in one call, in which members share the threads and the passes over the rows.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "bank/bank_state.hpp"
#include "filter/all_or_nothing.hpp"
#include "filter/walk.hpp"
#include "kit/answer_forms.hpp"
#include "kit/error_text.hpp"
#include "kit/executor.hpp"
#include "kit/removal.hpp"

namespace scbf {

namespace {

// Keys in all removal windows together.
constexpr std::size_t kRemoveTogether = 1u << 20;

/// The batches of one member, in order, and how far they have got.
struct Turn {
  std::uint32_t member;
  std::span<const std::size_t> batches;  ///< those left, as indices of the caller's
  std::size_t first = 0;                 ///< next key of the first of them
  bool over = false;                     ///< nothing is left, or there is no room for it

  std::optional<KeyBatch> rest(std::span<const MemberKeys> all) {
    for (; !batches.empty(); batches = batches.subspan(1), first = 0) {
      const KeyBatch& keys = all[batches.front()].keys;
      if (first < keys.size()) return keys.slice(first, keys.size() - first);
    }
    return std::nullopt;
  }
};

/// The caller's batches, grouped by member.
struct Turns {
  explicit Turns(std::span<const MemberKeys> all) : order(all.size()) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all[i].member; });
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      const std::uint32_t member = all[order[begin]].member;
      while (end < order.size() && all[order[end]].member == member) ++end;
      turns.push_back({member, std::span<const std::size_t>(order).subspan(begin, end - begin)});
    }
  }
  std::vector<std::size_t> order;
  std::vector<Turn> turns;
};

/// The stages of a member, in the form that removal.hpp asks for.
struct StageViews {
  const std::vector<BankState::StageSlot>& stages;

  std::size_t size() const noexcept { return stages.size(); }
  ConstCounterView operator[](std::size_t i) const noexcept {
    return std::as_const(stages[i].stage()).view();
  }
};

/// What each level is to insert or remove next.
class Round {
 public:
  Round(Change what, const BatchOptions& options) : what_(what), options_(options) {}

  /// If there is no memory to note the keys, they are inserted or removed at once.
  void add(Level* level, std::uint32_t slot, const KeyBatch& keys) {
    try {
      auto work = std::ranges::find(works_, level, &Work::level);
      if (work == works_.end()) work = works_.insert(works_.end(), {level, {}});
      work->batches.push_back({slot, keys});
    } catch (const std::bad_alloc&) {
      run();  // the keys before, of which some may be for the same slot
      done_ += level->change_one(what_, slot, keys, {}, options_);
    }
  }
  /// Inserts or removes all that was added.
  void run() {
    for (Work& work : works_) {
      if (work.batches.empty()) continue;
      done_ += work.level->change_many(what_, work.batches, options_);
      work.batches.clear();
    }
  }
  /// How many keys were inserted or removed, and how many were kept.
  const ChangeCounts& done() const noexcept { return done_; }

 private:
  struct Work {
    Level* level;
    std::vector<MemberKeys> batches;
  };
  Change what_;
  const BatchOptions& options_;
  std::vector<Work> works_;
  ChangeCounts done_;
};

/// Bank::remove for one member of several stages, without nulls and absent keys in its report.
RemoveCounts remove_claimed(BankState& state, std::uint32_t member, const KeyBatch& keys,
                            std::uint8_t* verdicts) {
  const std::vector<BankState::StageSlot>& stages = state.members[member].stages;
  return remove_claimed(
      *state.backend, StageViews{stages}, keys, verdicts,
      [&](std::size_t s, const KeyBatch& some, std::span<std::uint8_t> answers) {
        return stages[s]
            .level->change_one(Change::remove, stages[s].slot, some, answers, kOnThisThread)
            .changed;
      });
}

/// Bank::insert of many batches into members that grow.
class InsertionOfMany {
 public:
  InsertionOfMany(BankState& state, std::span<const MemberKeys> batches,
                  const BatchOptions& options)
      : state_(state),
        batches_(batches),
        options_(options),
        by_member_(batches),
        round_(Change::insert, options),
        processed_(batches.size()) {}

  InsertReport run() {
    std::vector<Turn>& turns = by_member_.turns;
    while (!turns.empty()) {
      for (Turn& turn : turns) plan(turn);
      std::erase_if(turns, [](const Turn& turn) { return turn.over; });
      round_.run();
    }
    if (full_) {
      throw MembersFull(error_text("member {}: {}", full_->member, full_->why.what()), full_->batch,
                        std::move(processed_), total_);
    }
    return total_;
  }

 private:
  /// A batch that has no room, its member, and why.
  struct Full {
    std::size_t batch;
    std::uint32_t member;
    Error why;
  };

  /// Plans a member's keys of this round.
  void plan(Turn& turn) {
    BankState::Stages stages{state_, turn.member, options_};
    std::size_t stage = InsertStep::kNowhere;
    while (const auto rest = turn.rest(batches_)) {
      const std::size_t batch = turn.batches.front();
      InsertStep step;
      if (stage == InsertStep::kNowhere) {
        const std::uint64_t nulls = batches_[batch].keys.slice(0, turn.first).nulls();
        try {
          step = next_insert_step(stages, *rest, turn.first, {turn.first - nulls, nulls}, options_);
        } catch (const FilterFull& why) {
          return give_up(turn, why);
        } catch (const std::bad_alloc&) {
          return give_up(turn, kNoMemoryForText);
        }
      } else {
        // The stage has not received this round's keys yet, so it takes a further batch only if
        // that surely fits as a whole.
        if (surely_taken(stages[stage]) < rest->size()) return;
        step = book_insert(stages[stage], stage, *rest, rest->size());
      }
      processed_[batch] += step.count;
      total_.inserted += step.valid;
      total_.nulls += step.count - step.valid;
      turn.first += step.count;
      if (step.stage == InsertStep::kNowhere) continue;
      stage = step.stage;
      const BankState::StageSlot& at = stages.slots()[stage];
      round_.add(at.level, at.slot, rest->slice(0, step.count));
      if (step.count < rest->size()) return;
    }
    turn.over = true;
  }

  void give_up(Turn& turn, const Error& why) {
    const std::size_t batch = turn.batches.front();
    if (!full_ || batch < full_->batch) full_ = Full{batch, turn.member, why};
    turn.over = true;
  }

  BankState& state_;
  std::span<const MemberKeys> batches_;
  const BatchOptions& options_;
  Turns by_member_;
  Round round_;
  std::vector<std::uint64_t> processed_;  ///< keys of each batch
  InsertReport total_;
  std::optional<Full> full_;  ///< the first of them
};

/// Removes the keys of members with one stage, which need no windows. Leaves the other turns.
void remove_directly(BankState& state, std::span<const MemberKeys> batches,
                     std::vector<Turn>& turns, Round& round) {
  const auto one_stage = [&](const Turn& turn) {
    return state.members[turn.member].stages.size() == 1;
  };
  for (const Turn& turn : turns) {
    if (!one_stage(turn)) continue;
    for (const std::size_t batch : turn.batches) {
      round.add(&state.first, turn.member, batches[batch].keys);
    }
  }
  round.run();
  std::erase_if(turns, one_stage);
}

/// A member with several stages, and the window of its next keys.
struct Cursor {
  Turn turn;
  std::size_t room;  ///< keys
  RemovalWindow window;
  std::uint64_t ambiguous = 0;
  bool over = false;  ///< no key is left

  /// Plans the member's next run, from the keys in its window or, when these are done, from further
  /// ones.
  void plan(std::span<const MemberKeys> batches) {
    while (!window.next_run()) {
      ambiguous += window.ambiguous();
      window.begin();
      std::size_t left = room;
      while (left > 0) {
        const auto rest = turn.rest(batches);
        if (!rest) break;
        const std::size_t count = std::min(left, rest->size());
        window.append(*rest, 0, count);
        turn.first += count;
        left -= count;
      }
      over = left == room;
      if (over) return;
      window.ask();
    }
  }
};

/// Makes cursors for the next members, as many as may have windows together, and takes these off
/// `turns`. If there is no memory for a window, that member's keys are removed at once.
std::vector<Cursor> next_cursors(BankState& state, std::span<const MemberKeys> batches,
                                 std::span<const Turn>& turns, RemoveReport& report) {
  std::vector<Cursor> cursors;
  for (std::size_t keys = 0; !turns.empty() && keys < kRemoveTogether; turns = turns.subspan(1)) {
    const Turn& turn = turns.front();
    std::size_t room = 0;
    for (const std::size_t batch : turn.batches) {
      room = std::min(kRemoveKeys, room + batches[batch].keys.size());
    }
    if (room == 0) continue;
    keys += room;
    try {
      const StageViews stages{state.members[turn.member].stages};
      cursors.push_back({turn, room, RemovalWindow(*state.backend, stages, room)});
    } catch (const std::bad_alloc&) {
      for (const std::size_t batch : turn.batches) {
        const RemoveCounts counts =
            remove_claimed(state, turn.member, batches[batch].keys, nullptr);
        report.removed += counts.removed;
        report.ambiguous += counts.ambiguous;
        report.kept += counts.kept;
      }
    }
  }
  return cursors;
}

/// Removes all keys of these members. What was removed is counted by `round`.
void run_cursors(BankState& state, std::span<const MemberKeys> batches, std::vector<Cursor> cursors,
                 Round& round, const BatchOptions& options, RemoveReport& report) {
  const unsigned threads = thread_count(options);
  while (!cursors.empty()) {
    run_tasks(options, threads, cursors.size(), [&](std::size_t i) { cursors[i].plan(batches); });
    for (const Cursor& cursor : cursors) {
      if (cursor.over) {
        report.ambiguous += cursor.ambiguous;
        continue;
      }
      const auto& stages = state.members[cursor.turn.member].stages;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto run = cursor.window.run(s);
        if (!run.empty()) {
          round.add(stages[s].level, stages[s].slot, KeyBatch::from_hashes(run));
        }
      }
    }
    round.run();
    std::erase_if(cursors, [](const Cursor& cursor) { return cursor.over; });
  }
}

}  // namespace

BankState::Member& BankState::changeable(std::uint32_t member) {
  for (const StageSlot& stage : at(member).stages) {
    if (!stage.stage().read_only()) continue;
    throw ReadOnly(fmt::format(
        "member {} is mapped, read-only: copy it, or load the file, to change it", member));
  }
  return members[member];
}

void BankState::add_stage(std::uint32_t member, std::uint32_t index, const BatchOptions& options) {
  std::vector<StageSlot>& stages = members[member].stages;
  stages.reserve(stages.size() + 1);
  Level& level = later_level(index);
  try {
    const std::uint32_t slot = level.add(options);
    level.own(slot, member);
    stages.push_back({&level, slot});
  } catch (...) {
    drop_empty_levels();
    throw;
  }
}

InsertReport Bank::insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options) {
  const MemberKeys one{member, keys};
  return insert(std::span(&one, 1), options);
}

InsertReport Bank::insert(std::span<const MemberKeys> batches, const BatchOptions& options) {
  BankState& state = *state_;
  for (const MemberKeys& batch : batches) state.changeable(batch.member);
  if (state.growth.policy() == Growth::Policy::one) {
    const ChangeCounts counts = state.first.change_many(Change::insert, batches, options);
    return {counts.changed, counts.nulls};
  }
  return InsertionOfMany(state, batches, options).run();
}

RemoveReport Bank::remove(std::uint32_t member, const KeyBatch& keys,
                          std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  BankState& state = *state_;
  state.changeable(member);
  if (!verdicts.empty()) check_answers(keys.size(), verdicts.size(), "verdicts");
  if (options.most_absent != kAnyNumber) {
    const auto change = [&](Change what, std::size_t s, const KeyBatch& some,
                            std::span<std::uint8_t> answers, const BatchOptions& how) {
      const BankState::StageSlot& at = state.members[member].stages[s];
      return at.level->change_one(what, at.slot, some, answers, how).changed;
    };
    return remove_all_or_nothing(
        BankState::Stages{state, member, options}, keys, verdicts, options,
        [&](std::size_t s, const KeyBatch& some, std::span<std::uint8_t> answers,
            const BatchOptions& how) { return change(Change::remove, s, some, answers, how); },
        [&](std::size_t s, const KeyBatch& some) { change(Change::insert, s, some, {}, options); });
  }
  if (state.members[member].stages.size() == 1) {
    const ChangeCounts counts =
        state.first.change_one(Change::remove, member, keys, verdicts, options);
    return {counts.changed, counts.absent, 0, counts.nulls, counts.kept};
  }
  const RemoveCounts counts =
      remove_claimed(state, member, keys, verdicts.empty() ? nullptr : verdicts.data());
  const std::uint64_t nulls = keys.nulls();
  return {counts.removed, keys.size() - nulls - counts.removed - counts.ambiguous - counts.kept,
          counts.ambiguous, nulls, counts.kept};
}

RemoveReport Bank::remove(std::span<const MemberKeys> batches, const BatchOptions& options) {
  if (options.most_absent != kAnyNumber) {
    throw InvalidArgument(
        fmt::format("most_absent {}: is for one batch at a time, and there are {}; remove the keys "
                    "of each member by themselves",
                    options.most_absent, batches.size()));
  }
  BankState& state = *state_;
  RemoveReport report;
  std::uint64_t valid = 0;
  for (const MemberKeys& batch : batches) {
    state.changeable(batch.member);
    const std::size_t nulls = batch.keys.nulls();
    report.nulls += nulls;
    valid += batch.keys.size() - nulls;
  }
  Turns by_member(batches);
  Round round(Change::remove, options);
  remove_directly(state, batches, by_member.turns, round);
  for (std::span<const Turn> turns = by_member.turns; !turns.empty();) {
    run_cursors(state, batches, next_cursors(state, batches, turns, report), round, options,
                report);
  }
  report.removed += round.done().changed;
  report.kept += round.done().kept;
  report.absent = valid - report.removed - report.ambiguous - report.kept;
  return report;
}

void Bank::clear(std::uint32_t member, const BatchOptions& options) {
  BankState& state = *state_;
  std::vector<BankState::StageSlot>& stages = state.changeable(member).stages;
  std::vector<Stage> gone;
  gone.reserve(stages.size());
  // Nothing fails from here on.
  state.blank(stages, options);
  state.first.at(member).clear();
  state.take_later(std::span(stages).subspan(1), gone);
  stages.resize(1);
}

}  // namespace scbf
