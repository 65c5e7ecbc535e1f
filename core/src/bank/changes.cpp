// SPDX-License-Identifier: Apache-2.0
// Batches that change members of a bank. Batches of several members advance in rounds: for each
// member filter/walk.hpp decides where its next keys go; then each level gets all its keys of the
// round in one call, in which members share the threads and the passes over the rows.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "bank/bank_state.hpp"
#include "filter/walk.hpp"
#include "kit/answer_forms.hpp"
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

std::vector<ConstCounterView> views_of(const std::vector<BankState::StageSlot>& stages) {
  std::vector<ConstCounterView> views;
  views.reserve(stages.size());
  for (const BankState::StageSlot& at : stages) views.push_back(std::as_const(at.stage()).view());
  return views;
}

/// What each level is to insert or remove next.
struct Round {
  struct Work {
    Level* level;
    std::vector<MemberKeys> batches;
  };
  std::vector<Work> works;

  void add(Level* level, std::uint32_t slot, const KeyBatch& keys) {
    auto work = std::ranges::find(works, level, &Work::level);
    if (work == works.end()) work = works.insert(works.end(), {level, {}});
    work->batches.push_back({slot, keys});
  }
  void clear() noexcept {
    for (Work& work : works) work.batches.clear();
  }
};

}  // namespace

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
  Turns by_member(batches);
  std::vector<Turn>& turns = by_member.turns;
  std::vector<std::uint64_t> processed(batches.size());
  InsertReport total;
  struct Full {
    std::size_t batch;
    std::string what;
  };
  std::optional<Full> full;
  Round round;
  // Plans a member's keys of this round.
  const auto plan = [&](Turn& turn) {
    BankState::Stages stages{state, turn.member};
    std::size_t stage = InsertStep::kNowhere;
    while (const auto rest = turn.rest(batches)) {
      const std::size_t batch = turn.batches.front();
      InsertStep step;
      if (stage == InsertStep::kNowhere) {
        const std::uint64_t nulls = batches[batch].keys.slice(0, turn.first).nulls();
        try {
          step = next_insert_step(stages, *rest, turn.first, {turn.first - nulls, nulls});
        } catch (const FilterFull& e) {
          if (!full || batch < full->batch) {
            full = Full{batch, fmt::format("member {}: {}", turn.member, e.what())};
          }
          turn.over = true;
          return;
        }
      } else {
        // The stage has not received this round's keys yet, so it takes a further batch only if
        // that surely fits as a whole.
        if (surely_taken(stages[stage]) < rest->size()) return;
        step = book_insert(stages[stage], stage, *rest, rest->size());
      }
      processed[batch] += step.count;
      total.inserted += step.valid;
      total.nulls += step.count - step.valid;
      turn.first += step.count;
      if (step.stage == InsertStep::kNowhere) continue;
      stage = step.stage;
      const BankState::StageSlot& at = stages.slots()[stage];
      round.add(at.level, at.slot, rest->slice(0, step.count));
      if (step.count < rest->size()) return;
    }
    turn.over = true;
  };
  while (!turns.empty()) {
    round.clear();
    for (Turn& turn : turns) plan(turn);
    std::erase_if(turns, [](const Turn& turn) { return turn.over; });
    for (const auto& work : round.works) {
      if (!work.batches.empty()) work.level->change_many(Change::insert, work.batches, options);
    }
  }
  if (full) throw MembersFull(full->what, full->batch, std::move(processed), total);
  return total;
}

RemoveReport Bank::remove(std::uint32_t member, const KeyBatch& keys,
                          std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  BankState& state = *state_;
  state.changeable(member);
  if (!verdicts.empty()) check_answers(keys.size(), verdicts.size(), "verdicts");
  const std::vector<BankState::StageSlot>& stages = state.members[member].stages;
  const auto remove_from = [&](std::size_t s, const KeyBatch& some, std::span<std::uint8_t> answers,
                               const BatchOptions& how) {
    return stages[s].level->change_one(Change::remove, stages[s].slot, some, answers, how);
  };
  if (stages.size() == 1) {
    const ChangeCounts counts = remove_from(0, keys, verdicts, options);
    return {counts.changed, counts.absent, 0, counts.nulls};
  }
  const RemoveCounts counts = remove_claimed(
      *state.backend, views_of(stages), keys, verdicts.empty() ? nullptr : verdicts.data(),
      [&](std::size_t s, const KeyBatch& some, std::span<std::uint8_t> answers) {
        return remove_from(s, some, answers, kOneKey).changed;
      });
  const std::uint64_t nulls = keys.nulls();
  return {counts.removed, keys.size() - nulls - counts.removed - counts.ambiguous, counts.ambiguous,
          nulls};
}

RemoveReport Bank::remove(std::span<const MemberKeys> batches, const BatchOptions& options) {
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
  Round round;
  const auto remove_round = [&] {
    for (const auto& work : round.works) {
      if (!work.batches.empty()) {
        report.removed += work.level->change_many(Change::remove, work.batches, options).changed;
      }
    }
    round.clear();
  };
  // Members with one stage need no windows: their batches go there directly.
  const auto one_stage = [&](const Turn& turn) {
    return state.members[turn.member].stages.size() == 1;
  };
  for (const Turn& turn : by_member.turns) {
    if (!one_stage(turn)) continue;
    for (const std::size_t batch : turn.batches) {
      round.add(&state.first, turn.member, batches[batch].keys);
    }
  }
  remove_round();
  std::erase_if(by_member.turns, one_stage);

  /// A member with several stages, and the window of its next keys.
  struct Cursor {
    Turn turn;
    std::size_t room;  // keys
    std::vector<ConstCounterView> stages;
    RemovalWindow window;
    std::uint64_t ambiguous = 0;
    bool active = true;
  };
  // Plans the member's next run, from the keys in its window or, when these are done, from further
  // ones.
  const auto plan = [&](Cursor& cursor) {
    while (!cursor.window.next_run()) {
      cursor.ambiguous += cursor.window.ambiguous();
      cursor.window.begin(cursor.stages);
      std::size_t left = cursor.room;
      while (left > 0) {
        const auto rest = cursor.turn.rest(batches);
        if (!rest) break;
        const std::size_t count = std::min(left, rest->size());
        cursor.window.append(*rest, 0, count);
        cursor.turn.first += count;
        left -= count;
      }
      if (left == cursor.room) {
        cursor.active = false;
        return;
      }
      cursor.window.ask();
    }
  };
  const unsigned threads = thread_count(options);
  for (std::size_t next = 0; next < by_member.turns.size();) {
    std::vector<Cursor> cursors;
    for (std::size_t keys = 0; next < by_member.turns.size() && keys < kRemoveTogether; ++next) {
      const Turn& turn = by_member.turns[next];
      std::size_t room = 0;
      for (const std::size_t batch : turn.batches) {
        room = std::min(kRemoveKeys, room + batches[batch].keys.size());
      }
      if (room == 0) continue;
      keys += room;
      cursors.push_back({turn, room, views_of(state.members[turn.member].stages),
                         RemovalWindow(*state.backend, room)});
    }
    while (!cursors.empty()) {
      run_tasks(options, threads, cursors.size(), [&](std::size_t i) { plan(cursors[i]); });
      for (const Cursor& cursor : cursors) {
        if (!cursor.active) {
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
      remove_round();
      std::erase_if(cursors, [](const Cursor& cursor) { return !cursor.active; });
    }
  }
  report.absent = valid - report.removed - report.ambiguous;
  return report;
}

void Bank::clear(std::uint32_t member, const BatchOptions& options) {
  BankState& state = *state_;
  std::vector<BankState::StageSlot>& stages = state.changeable(member).stages;
  std::vector<Stage> gone;
  gone.reserve(stages.size());
  state.blank(stages, options);
  try {
    state.first.at(member).clear();
  } catch (...) {
    state.rebuild(stages);
    throw;
  }
  state.take_later(std::span(stages).subspan(1), gone);
  stages.resize(1);
}

}  // namespace scbf
