// SPDX-License-Identifier: Apache-2.0
// ScalableBank: members, their stages and where these lie; questions. Batches that change members
// are scalable_bank_changes.cpp.
#include "scbf/scalable_bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "bank/bank_answers.hpp"
#include "bank/bank_check.hpp"
#include "bank/scalable_bank_state.hpp"
#include "kit/hash_keys.hpp"

namespace scbf {

namespace {

// Keys hashed at once for a question: their hashes and rows stay in cache.
constexpr std::size_t kStripKeys = 512;
// Rows of later stages at a time: one of the longest at least.
constexpr std::size_t kLaterBytes = kMaxBankMembers / 8;

}  // namespace

std::uint64_t MembersFull::processed(std::size_t i) const {
  if (i < processed_.size()) return processed_[i];
  throw InvalidArgument(fmt::format("batch {}: there were {}", i, processed_.size()));
}

// ---- stages and their places --------------------------------------------------------------------

const ScalableBank::State::Member& ScalableBank::State::at(std::uint32_t member) const {
  first.inside().at(member);
  return members[member];
}

ScalableBank::State::Member& ScalableBank::State::changeable(std::uint32_t member) {
  for (const Place& stage : at(member).stages) {
    if (!stage.filter().read_only()) continue;
    throw ReadOnly(fmt::format(
        "member {} is mapped from a file, read-only: load the file to change it", member));
  }
  return members[member];
}

const StageShape& ScalableBank::State::shape(std::uint32_t index) {
  const auto known = shapes.find(index);
  return known != shapes.end() ? known->second
                               : shapes.emplace(index, growth.stage(index)).first->second;
}

ScalableBank::State::Level& ScalableBank::State::later_level(std::uint32_t index) {
  const auto at =
      std::ranges::lower_bound(later, index, {}, [](const auto& l) { return l->index; });
  if (at != later.end() && (*at)->index == index) return **at;
  const StageShape& of_level = shape(index);
  std::unique_ptr<Level> level(new Level{
      index, of_level, FilterBank(of_level.geometry, {.seed = seed, .backend = backend->name()})});
  return **later.insert(at, std::move(level));
}

void ScalableBank::State::drop_empty_levels() noexcept {
  std::erase_if(later, [](const auto& level) { return level->bank.size() == 0; });
}

std::vector<std::uint32_t> ScalableBank::State::place(Level& level, std::vector<Filter> filters,
                                                      const BatchOptions& options) {
  const std::size_t most = level.bank.slots() + filters.size();
  level.owners.resize(std::max(level.owners.size(), most), kNobody);
  return level.bank.add_members(std::move(filters), options);
}

void ScalableBank::State::displace(Level& level, std::uint32_t slot) noexcept {
  try {
    level.bank.remove_member(slot, {.threads = 1});
  } catch (...) {
    // Not even memory for its column: it stays, and is nobody's.
  }
}

void ScalableBank::State::add_stage(std::uint32_t member) {
  std::vector<Place>& stages = members[member].stages;
  stages.reserve(stages.size() + 1);
  std::uint32_t index = 0;
  for (const Place& stage : stages) index = std::max(index, stage.level->index + 1);
  Level& level = later_level(index);
  try {
    level.owners.resize(std::max<std::size_t>(level.owners.size(), level.bank.slots() + 1),
                        kNobody);
    const std::uint32_t slot = level.bank.add_member();
    level.owners[slot] = member;
    stages.push_back({&level, slot, 0});
  } catch (...) {
    drop_empty_levels();
    throw;
  }
}

void ScalableBank::State::blank(std::span<const Place> stages, const BatchOptions& options) {
  try {
    for (const Place& stage : stages) stage.level->inside().blank(stage.slot, options);
  } catch (...) {
    rebuild(stages);
    throw;
  }
}

void ScalableBank::State::rebuild(std::span<const Place> stages) {
  for (const Place& stage : stages) stage.level->inside().rebuild(stage.slot, {.threads = 1});
}

void ScalableBank::State::take_later(std::span<const Place> stages) noexcept {
  for (const Place& stage : stages) {
    stage.level->inside().take(stage.slot);
    stage.level->owners[stage.slot] = kNobody;
  }
  drop_empty_levels();
}

// ---- filters that become members ----------------------------------------------------------------

void ScalableBank::State::check(const ScalableFilter& filter) {
  if (!(filter.growth() == growth)) {
    throw Incompatible(fmt::format("the growths differ: the bank's is {}, the filter's {}",
                                   growth.describe(), filter.growth().describe()));
  }
  if (filter.seed() != seed) {
    throw Incompatible(
        fmt::format("the seeds differ: the bank's is {}, the filter's {}", seed, filter.seed()));
  }
  const auto& stages = ScalableAccess::stages(filter);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].index == ScalableAccess::kForeign) {
      throw Incompatible(fmt::format(
          "stage {} of the filter is none of its growth: merge brought it from a filter "
          "that grows otherwise",
          i));
    }
    if (!(stages[i].shape == shape(stages[i].index)) || (i == 0 && stages[i].index != 0)) {
      throw Incompatible(
          fmt::format("stage {} of the filter, number {} of its growth, is not as that says ({})",
                      i, stages[i].index, growth.describe()));
    }
  }
}

ScalableBank::State::Newcomers::~Newcomers() {
  for (const Member& member : members) {
    for (const Place& stage : member.stages) {
      if (stage.level != nullptr && stage.level != &of.first) {
        of.displace(*stage.level, stage.slot);
      }
    }
  }
  of.drop_empty_levels();
}

void ScalableBank::State::Newcomers::settle(std::vector<ScalableFilter> filters,
                                            const BatchOptions& options) {
  struct Later {
    std::vector<Place*> places;
    std::vector<Filter> filters;
  };
  std::map<std::uint32_t, Later> later;
  firsts.reserve(filters.size());
  members.resize(filters.size());
  for (std::size_t i = 0; i < filters.size(); ++i) {
    auto& stages = ScalableAccess::stages(filters[i]);
    members[i].metadata = filters[i].metadata();
    members[i].stages.resize(stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      Place& place = members[i].stages[s];
      place = {s == 0 ? &of.first : nullptr, 0, stages[s].at_most};
      if (s == 0) {
        firsts.push_back(std::move(stages[s].filter));
      } else {
        Later& there = later[stages[s].index];
        there.places.push_back(&place);
        there.filters.push_back(std::move(stages[s].filter));
      }
    }
  }
  for (auto& [index, there] : later) {
    Level& level = of.later_level(index);
    const auto slots = of.place(level, std::move(there.filters), options);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      there.places[i]->level = &level;
      there.places[i]->slot = slots[i];
    }
  }
}

void ScalableBank::State::Newcomers::give(std::size_t i, std::uint32_t member) noexcept {
  members[i].stages.front().slot = member;
  for (const Place& stage : std::span(members[i].stages).subspan(1)) {
    stage.level->owners[stage.slot] = member;
  }
  of.members[member] = std::move(members[i]);
  members[i].stages.clear();
}

// ---- members ------------------------------------------------------------------------------------

ScalableBank::ScalableBank(const Growth& growth, const BankOptions& options) {
  const StageShape shape = growth.stage(0);
  FilterBank bank(shape.geometry, options);
  const Backend* backend = &bank.backend();
  state_.reset(new State{growth, options.seed, backend, State::Level{0, shape, std::move(bank)}});
}
ScalableBank::ScalableBank(ScalableBank&&) noexcept = default;
ScalableBank& ScalableBank::operator=(ScalableBank&&) noexcept = default;
ScalableBank::~ScalableBank() = default;

const Growth& ScalableBank::growth() const noexcept { return state_->growth; }
std::uint64_t ScalableBank::seed() const noexcept { return state_->seed; }
const Backend& ScalableBank::backend() const noexcept { return *state_->backend; }
std::size_t ScalableBank::size() const noexcept { return state_->first.bank.size(); }
std::uint32_t ScalableBank::slots() const noexcept { return state_->first.bank.slots(); }
std::uint32_t ScalableBank::capacity() const noexcept { return state_->first.bank.capacity(); }

BankMemory ScalableBank::memory() const noexcept {
  BankMemory sum = state_->first.bank.memory();
  for (const auto& level : state_->later) {
    const BankMemory one = level->bank.memory();
    sum.counters += one.counters;
    sum.rows += one.rows;
  }
  return sum;
}

void ScalableBank::reserve(std::uint32_t members) { state_->first.bank.reserve(members); }

std::uint32_t ScalableBank::add_member() {
  State& state = *state_;
  state.members.resize(std::max<std::size_t>(state.members.size(), slots() + std::size_t{1}));
  std::vector<State::Place> stages{{&state.first, 0, 0}};
  const std::uint32_t member = state.first.bank.add_member();
  stages.front().slot = member;
  state.members[member].stages = std::move(stages);
  return member;
}

std::uint32_t ScalableBank::add_member(ScalableFilter filter, const BatchOptions& options) {
  std::vector<ScalableFilter> one;
  one.push_back(std::move(filter));
  return add_members(std::move(one), options).front();
}

std::vector<std::uint32_t> ScalableBank::add_members(std::vector<ScalableFilter> filters,
                                                     const BatchOptions& options) {
  State& state = *state_;
  for (ScalableFilter& filter : filters) {
    state.check(filter);
    filter.to(state.backend->name());
  }
  const std::size_t most = slots() + filters.size();
  state.members.resize(std::max(state.members.size(), most));
  State::Newcomers newcomers(state);
  newcomers.settle(std::move(filters), options);
  // The last thing that can fail.
  auto numbers = state.first.bank.add_members(std::move(newcomers.firsts), options);
  for (std::size_t i = 0; i < numbers.size(); ++i) newcomers.give(i, numbers[i]);
  return numbers;
}

ScalableFilter ScalableBank::remove_member(std::uint32_t member, const BatchOptions& options) {
  State& state = *state_;
  state.at(member);
  std::vector<ScalableAccess::Stage> parts;
  const std::vector<State::Place>& stages = state.members[member].stages;
  parts.reserve(stages.size());
  state.blank(stages, options);  // the last thing that can fail
  for (const State::Place& stage : stages) {
    parts.push_back({stage.level->inside().take(stage.slot), stage.level->shape, stage.level->index,
                     stage.at_most});
    if (stage.level != &state.first) stage.level->owners[stage.slot] = State::kNobody;
  }
  state.drop_empty_levels();
  State::Member gone = std::exchange(state.members[member], {});
  return ScalableAccess::assemble(state.growth, state.seed, *state.backend, std::move(parts),
                                  std::move(gone.metadata));
}

ScalableFilter ScalableBank::replace_member(std::uint32_t member, ScalableFilter filter,
                                            const BatchOptions& options) {
  State& state = *state_;
  state.at(member);
  state.check(filter);
  filter.to(state.backend->name());
  std::vector<ScalableAccess::Stage> parts;
  const std::vector<State::Place>& stages = state.members[member].stages;
  parts.reserve(stages.size());
  std::vector<ScalableFilter> one;
  one.push_back(std::move(filter));
  State::Newcomers newcomer(state);
  newcomer.settle(std::move(one), options);
  const auto later = std::span(stages).subspan(1);
  state.blank(later, options);
  try {
    parts.push_back(
        {state.first.bank.replace_member(member, std::move(newcomer.firsts[0]), options),
         state.first.shape, state.first.index, stages.front().at_most});
  } catch (...) {
    state.rebuild(later);
    throw;
  }
  for (const State::Place& stage : later) {  // nothing fails any more
    parts.push_back({stage.level->inside().take(stage.slot), stage.level->shape, stage.level->index,
                     stage.at_most});
    stage.level->owners[stage.slot] = State::kNobody;
  }
  State::Member gone = std::exchange(state.members[member], {});
  newcomer.give(0, member);
  return ScalableAccess::assemble(state.growth, state.seed, *state.backend, std::move(parts),
                                  std::move(gone.metadata));
}

void ScalableBank::merge(std::uint32_t member, const ScalableFilter& other,
                         const BatchOptions& options) {
  state_->changeable(member);
  ScalableFilter sum = copy_member(member);
  sum.merge(other, options);
  const bool ask = asked_always(member);
  replace_member(member, std::move(sum), options);
  ask_always(member, ask);
}

SubtractReport ScalableBank::subtract(std::uint32_t member, const ScalableFilter& other,
                                      const BatchOptions& options) {
  state_->changeable(member);
  ScalableFilter rest = copy_member(member);
  const SubtractReport report = rest.subtract(other, options);
  const bool ask = asked_always(member);
  replace_member(member, std::move(rest), options);
  ask_always(member, ask);
  return report;
}

ScalableFilter ScalableBank::copy_member(std::uint32_t member) const {
  const State::Member& from = state_->at(member);
  std::vector<ScalableAccess::Stage> parts;
  for (const State::Place& stage : from.stages) {
    parts.push_back({stage.filter(), stage.level->shape, stage.level->index, stage.at_most});
  }
  return ScalableAccess::assemble(state_->growth, state_->seed, *state_->backend, std::move(parts),
                                  from.metadata);
}

bool ScalableBank::has_member(std::uint32_t member) const noexcept {
  return state_->first.bank.has_member(member);
}

std::size_t ScalableBank::stages(std::uint32_t member) const {
  return state_->at(member).stages.size();
}

const Filter& ScalableBank::stage(std::uint32_t member, std::size_t i) const {
  const auto& stages = state_->at(member).stages;
  if (i >= stages.size()) {
    throw InvalidArgument(
        fmt::format("stage {} of member {}: there are {}", i, member, stages.size()));
  }
  return stages[i].filter();
}

double ScalableBank::fpr_bound(std::uint32_t member) const {
  std::vector<StageLoad> loads;
  for (const State::Place& stage : state_->at(member).stages) {
    loads.push_back({0, stage.level->shape.fpr});
  }
  return compound_fpr(loads);
}

const std::string& ScalableBank::metadata(std::uint32_t member) const {
  return state_->at(member).metadata;
}

void ScalableBank::ask_always(std::uint32_t member, bool ask) {
  state_->first.bank.ask_always(member, ask);
}
bool ScalableBank::asked_always(std::uint32_t member) const {
  return state_->first.bank.asked_always(member);
}

// ---- questions ----------------------------------------------------------------------------------

void ScalableBank::State::ask(const KeyBatch& keys, std::size_t first_key, std::size_t count,
                              std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint8_t, kLaterBytes> rows;
  const FilterBank::State& oldest = first.inside();
  const std::size_t stride = oldest.rows.stride();
  for (std::size_t i = first_key; i < first_key + count; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, first_key + count - i);
    const std::size_t valid = hash_keys(keys, i, n, seed, oldest.engine->hash_u64(), hashes.data());
    oldest.answer(hashes.data(), valid, out);
    for (const auto& level : later) {
      const std::size_t row_bytes = level->inside().rows.stride();
      const std::size_t at_once = std::min(kStripKeys, kLaterBytes / row_bytes);
      for (std::size_t begin = 0; begin < valid; begin += at_once) {
        const std::size_t asked = std::min(at_once, valid - begin);
        level->inside().answer(hashes.data() + begin, asked, rows.data());
        for (std::size_t key = 0; key < asked; ++key) {
          const std::uint8_t* row = rows.data() + key * row_bytes;
          std::uint8_t* answer = out + (begin + key) * stride;
          for (std::size_t b = 0; b < row_bytes; b += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, row + b, std::min(row_bytes - b, sizeof word));
            for (; word != 0; word &= word - 1) {
              const std::uint32_t owner = level->owners[8 * b + lowest_bit(word)];
              if (owner == kNobody) continue;
              answer[owner / 8] = static_cast<std::uint8_t>(answer[owner / 8] | 1u << owner % 8);
            }
          }
        }
      }
    }
    spread_rows(keys, i, n, stride, out);
    out += n * stride;
  }
}

std::size_t ScalableBank::answer_bytes() const noexcept {
  return state_->first.bank.answer_bytes();
}

BankReport ScalableBank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                       const BatchOptions& options) const {
  return pack_members(keys, answer_bytes(), bits, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}
BankReport ScalableBank::find(const KeyBatch& keys, MemberLists& lists,
                              const BatchOptions& options) const {
  return list_members(keys, answer_bytes(), lists, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}
std::vector<std::uint32_t> ScalableBank::find(std::uint64_t key) const {
  return find_one(*this, key);
}
std::vector<std::uint32_t> ScalableBank::find(std::string_view key) const {
  return find_one(*this, key);
}

std::optional<std::string> BankCheck::difference(const ScalableBank& bank) {
  const ScalableBank::State& state = *bank.state_;
  std::map<const void*, std::size_t> stages;  // of members, by level
  for (std::uint32_t m = 0; m < state.members.size(); ++m) {
    const auto& own = state.members[m].stages;
    if (own.empty() == bank.has_member(m)) return fmt::format("member {}: map and bank differ", m);
    for (std::size_t s = 0; s < own.size(); ++s) {
      const auto& place = own[s];
      ++stages[place.level];
      const std::uint32_t owner =
          place.level == &state.first ? place.slot : place.level->owners.at(place.slot);
      if ((place.level == &state.first) != (s == 0) || owner != m ||
          !place.level->bank.has_member(place.slot) || place.at_most < place.filter().nonzero()) {
        return fmt::format("stage {} of member {} is not where it should be", s, m);
      }
    }
  }
  const auto wrong = [&](const ScalableBank::State::Level& level) -> std::optional<std::string> {
    if (level.bank.size() != stages[&level]) {
      return fmt::format("{} stages of index {}, members have {}", level.bank.size(), level.index,
                         stages[&level]);
    }
    for (std::uint32_t slot = 0; slot < level.owners.size(); ++slot) {
      if (level.bank.has_member(slot) == (level.owners[slot] == ScalableBank::State::kNobody)) {
        return fmt::format("stages of index {}: whose is place {}?", level.index, slot);
      }
    }
    if (const auto rows = difference(level.bank)) {
      return fmt::format("stages of index {}: {}", level.index, *rows);
    }
    return std::nullopt;
  };
  if (const auto what = wrong(state.first)) return what;
  for (const auto& level : state.later) {
    if (level->bank.size() == 0) return fmt::format("index {}: a level of nobody", level->index);
    if (const auto what = wrong(*level)) return what;
  }
  return std::nullopt;
}

}  // namespace scbf
