// SPDX-License-Identifier: Apache-2.0
// Bank: its members, the slots of their stages, and queries. Batches that change members are in
// changes.cpp.
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "bank/bank_state.hpp"
#include "bank/member_answers.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/detail/in_quotes.hpp"

namespace scbf {

namespace {

// Keys hashed at once for a query: their hashes and rows stay in cache.
constexpr std::size_t kStripKeys = 512;
// Memory for answers of later levels; large enough for one of the longest rows.
constexpr std::size_t kLaterBytes = kMaxBankMembers / 8;

}  // namespace

std::uint64_t MembersFull::processed(std::size_t i) const {
  if (i < processed_.size()) return processed_[i];
  throw InvalidArgument(fmt::format("batch {}: there were {}", i, processed_.size()));
}

// ---- stages and their slots ---------------------------------------------------------------------

const BankState::Member& BankState::at(std::uint32_t member) const {
  if (!first.has(member)) {
    throw InvalidArgument(
        fmt::format("member {}: there is none; the bank has {}, numbered below {}", member,
                    first.size, first.slots()));
  }
  return members[member];
}

BankState::Member& BankState::changeable(std::uint32_t member) {
  for (const StageSlot& stage : at(member).stages) {
    if (!stage.stage().read_only()) continue;
    throw ReadOnly(fmt::format(
        "member {} is mapped from a file, read-only: load the file to change it", member));
  }
  return members[member];
}

Level& BankState::later_level(std::uint32_t index) {
  const auto at =
      std::ranges::lower_bound(later, index, {}, [](const auto& l) { return l->index; });
  if (at != later.end() && (*at)->index == index) return **at;
  auto level =
      std::make_unique<Level>(index, fit.shape(index), seed, *backend, BankOptions{}.capacity);
  return **later.insert(at, std::move(level));
}

std::unique_ptr<FilterState> BankState::room_for(std::size_t stages) const {
  auto filter = std::make_unique<FilterState>(FilterState{growth, seed, backend});
  filter->stages.reserve(stages);
  return filter;
}

void BankState::drop_empty_levels() noexcept {
  std::erase_if(later, [](const auto& level) { return level->size == 0; });
}

std::vector<std::uint32_t> BankState::put_in(Level& level, std::vector<Stage> stages,
                                             const BatchOptions& options) {
  const std::size_t most = level.slots() + stages.size();
  level.owners.resize(std::max(level.owners.size(), most), kNoMember);
  std::vector<std::uint32_t> slots = level.free_slots(stages.size());
  level.add(std::move(stages), slots, options);
  return slots;
}

void BankState::take_out(Level& level, std::uint32_t slot) noexcept {
  level.blank(slot, {.threads = 1});
  level.take(slot);
}

void BankState::add_stage(std::uint32_t member, std::uint32_t index) {
  std::vector<StageSlot>& stages = members[member].stages;
  stages.reserve(stages.size() + 1);
  Level& level = later_level(index);
  try {
    level.owners.resize(std::max<std::size_t>(level.owners.size(), level.slots() + 1), kNoMember);
    const std::uint32_t slot = level.add();
    level.owners[slot] = member;
    stages.push_back({&level, slot});
  } catch (...) {
    drop_empty_levels();
    throw;
  }
}

void BankState::blank(std::span<const StageSlot> stages, const BatchOptions& options) noexcept {
  for (const StageSlot& stage : stages) stage.level->blank(stage.slot, options);
}

void BankState::take_later(std::span<const StageSlot> stages, std::vector<Stage>& taken) noexcept {
  for (const StageSlot& stage : stages) {
    taken.push_back(stage.level->take(stage.slot));
    stage.level->owners[stage.slot] = kNoMember;
  }
  drop_empty_levels();
}

// ---- filters that become members ----------------------------------------------------------------

void BankState::check(const Filter& filter) {
  const auto stages = stages_of_growth(FilterAccess::state(filter).stages);
  if (const auto misfit = fit.misfit(filter.growth(), filter.seed(), stages)) {
    throw Incompatible(*misfit);
  }
}

BankState::Newcomers::~Newcomers() {
  for (const Member& member : members) {
    for (const StageSlot& stage : member.stages) {
      if (stage.level != nullptr && stage.level != &of.first) {
        of.take_out(*stage.level, stage.slot);
      }
    }
  }
  of.drop_empty_levels();
}

void BankState::Newcomers::settle(std::vector<Filter> filters, const BatchOptions& options) {
  struct Later {
    std::vector<StageSlot*> targets;
    std::vector<Stage> stages;
  };
  std::map<std::uint32_t, Later> of_level;
  firsts.reserve(filters.size());
  members.resize(filters.size());
  for (std::size_t i = 0; i < filters.size(); ++i) {
    std::vector<Stage>& stages = FilterAccess::state(filters[i]).stages;
    members[i].metadata = filters[i].metadata();
    members[i].stages.resize(stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageSlot& target = members[i].stages[s];
      target = {s == 0 ? &of.first : nullptr, 0};
      if (s == 0) {
        firsts.push_back(std::move(stages[s]));
      } else {
        Later& there = of_level[stages[s].index];
        there.targets.push_back(&target);
        there.stages.push_back(std::move(stages[s]));
      }
    }
  }
  for (auto& [index, there] : of_level) {
    Level& level = of.later_level(index);
    const auto slots = of.put_in(level, std::move(there.stages), options);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      there.targets[i]->level = &level;
      there.targets[i]->slot = slots[i];
    }
  }
}

void BankState::Newcomers::give(std::size_t i, std::uint32_t member) noexcept {
  members[i].stages.front().slot = member;
  for (const StageSlot& stage : std::span(members[i].stages).subspan(1)) {
    stage.level->owners[stage.slot] = member;
  }
  of.members[member] = std::move(members[i]);
  members[i].stages.clear();
}

void BankState::add(std::vector<Filter> filters, std::span<const std::uint32_t> numbers,
                    const BatchOptions& options) {
  if (filters.empty()) return;
  members.resize(std::max<std::size_t>(members.size(), numbers.back() + std::size_t{1}));
  Newcomers newcomers(*this);
  newcomers.settle(std::move(filters), options);
  // The last thing that can fail.
  first.add(std::move(newcomers.firsts), numbers, options);
  for (std::size_t i = 0; i < numbers.size(); ++i) newcomers.give(i, numbers[i]);
}

// ---- members ------------------------------------------------------------------------------------

const Backend& backend_for(const BankOptions& options) {
  const Backend& backend = find_backend(options.backend);
  if (backend.memory() != kHostMemory) {
    throw InvalidArgument(
        fmt::format("backend {} keeps counters in the memory of {}: a bank "
                    "needs them on the host, as 'simd' does",
                    detail::in_quotes(backend.name()), backend.memory()));
  }
  if (options.capacity > kMaxBankMembers) {
    throw InvalidArgument(fmt::format("capacity {}: a bank has at most {} members",
                                      options.capacity, kMaxBankMembers));
  }
  return backend;
}

Bank::Bank(const Growth& growth, const BankOptions& options) {
  const Backend& backend = backend_for(options);
  state_ = std::unique_ptr<BankState>(
      new BankState{growth, options.seed, &backend,
                    Level(0, growth.stage(0), options.seed, backend, options.capacity)});
}
Bank::Bank(Bank&&) noexcept = default;
Bank& Bank::operator=(Bank&&) noexcept = default;
Bank::~Bank() = default;

const Growth& Bank::growth() const { return state_->growth; }
std::uint64_t Bank::seed() const { return state_->seed; }
const Backend& Bank::backend() const { return *state_->backend; }
std::size_t Bank::size() const { return state_->first.size; }
std::uint32_t Bank::slots() const { return state_->first.slots(); }
std::uint32_t Bank::capacity() const { return state_->first.rows.capacity(); }

BankMemory Bank::memory() const {
  BankMemory sum;
  const auto add = [&](const Level& level) {
    sum.counters += level.size * level.shape.geometry.bytes();
    sum.rows += level.rows.bytes();
  };
  add(state_->first);
  for (const auto& level : state_->later) add(*level);
  return sum;
}

void Bank::reserve(std::uint32_t members) {
  if (members > kMaxBankMembers) {
    throw InvalidArgument(
        fmt::format("reserve {}: a bank has at most {} members", members, kMaxBankMembers));
  }
  state_->first.reserve(members, {});
}

std::uint32_t Bank::add_member() {
  BankState& state = *state_;
  state.members.resize(std::max<std::size_t>(state.members.size(), slots() + std::size_t{1}));
  std::vector<BankState::StageSlot> stages{{&state.first, 0}};
  const std::uint32_t member = state.first.add();
  stages.front().slot = member;
  state.members[member].stages = std::move(stages);
  return member;
}

std::uint32_t Bank::add_member(Filter filter, const BatchOptions& options) {
  std::vector<Filter> one;
  one.push_back(std::move(filter));
  return add_members(std::move(one), options).front();
}

std::vector<std::uint32_t> Bank::add_members(std::vector<Filter> filters,
                                             const BatchOptions& options) {
  BankState& state = *state_;
  for (Filter& filter : filters) {
    state.check(filter);
    filter.to(state.backend->name());
  }
  std::vector<std::uint32_t> numbers = state.first.free_slots(filters.size());
  state.add(std::move(filters), numbers, options);
  return numbers;
}

Filter Bank::remove_member(std::uint32_t member, const BatchOptions& options) {
  BankState& state = *state_;
  state.at(member);
  const std::vector<BankState::StageSlot>& stages = state.members[member].stages;
  auto gone = state.room_for(stages.size());
  state.blank(stages, options);  // nothing fails from here on
  gone->stages.push_back(state.first.take(member));
  state.take_later(std::span(stages).subspan(1), gone->stages);
  gone->metadata = std::exchange(state.members[member], {}).metadata;
  return FilterAccess::make(std::move(gone));
}

Filter Bank::replace_member(std::uint32_t member, Filter filter, const BatchOptions& options) {
  BankState& state = *state_;
  state.at(member);
  state.check(filter);
  filter.to(state.backend->name());
  const std::vector<BankState::StageSlot>& stages = state.members[member].stages;
  auto gone = state.room_for(stages.size());
  std::vector<Filter> one;
  one.push_back(std::move(filter));
  BankState::Newcomers newcomer(state);
  newcomer.settle(std::move(one), options);
  const auto later = std::span(stages).subspan(1);
  // Nothing fails from here on.
  state.blank(later, options);
  gone->stages.push_back(state.first.replace(member, std::move(newcomer.firsts[0]), options));
  state.take_later(later, gone->stages);
  gone->metadata = std::exchange(state.members[member], {}).metadata;
  newcomer.give(0, member);
  return FilterAccess::make(std::move(gone));
}

namespace {

/// Changes a copy of a member and then replaces the member, so that nothing is left half done.
template <class Work>
void change_copy(Bank& bank, std::uint32_t member, const BatchOptions& options, Work work) {
  Filter copy = bank.copy_member(member);
  work(copy);
  const bool ask = bank.asked_always(member);
  bank.replace_member(member, std::move(copy), options);
  bank.ask_always(member, ask);
}

}  // namespace

void Bank::merge(std::uint32_t member, const Filter& other, const BatchOptions& options) {
  BankState& state = *state_;
  state.changeable(member);
  if (state.growth.policy() == Growth::Policy::one) {
    state.check(other);
    return state.first.and_rebuild(member, options, [&] {
      state.first.at(member).merge(FilterAccess::state(other).stages[0], options);
    });
  }
  change_copy(*this, member, options, [&](Filter& copy) { copy.merge(other, options); });
}

SubtractReport Bank::subtract(std::uint32_t member, const Filter& other,
                              const BatchOptions& options) {
  BankState& state = *state_;
  state.changeable(member);
  SubtractReport report;
  if (state.growth.policy() == Growth::Policy::one) {
    state.check(other);
    state.first.and_rebuild(member, options, [&] {
      report = state.first.at(member).subtract(FilterAccess::state(other).stages[0], options);
    });
  } else {
    change_copy(*this, member, options,
                [&](Filter& copy) { report = copy.subtract(other, options); });
  }
  return report;
}

Filter Bank::copy_member(std::uint32_t member) const {
  const BankState::Member& from = state_->at(member);
  auto copy = state_->room_for(from.stages.size());
  for (const BankState::StageSlot& at : from.stages) copy->stages.push_back(at.stage());
  copy->metadata = from.metadata;
  return FilterAccess::make(std::move(copy));
}

bool Bank::has_member(std::uint32_t member) const { return state_->first.has(member); }

std::size_t Bank::stages(std::uint32_t member) const { return state_->at(member).stages.size(); }

StageView Bank::stage(std::uint32_t member, std::size_t i) const {
  const auto& stages = state_->at(member).stages;
  if (i >= stages.size()) {
    throw InvalidArgument(
        fmt::format("stage {} of member {}: there are {}", i, member, stages.size()));
  }
  return StageView(stages[i].stage());
}

double Bank::fpr_bound(std::uint32_t member) const {
  std::vector<StageLoad> loads;
  for (const BankState::StageSlot& stage : state_->at(member).stages) {
    loads.push_back({0, stage.level->shape.fpr});
  }
  return compound_fpr(loads);
}

const std::string& Bank::metadata(std::uint32_t member) const {
  return state_->at(member).metadata;
}
void Bank::set_metadata(std::uint32_t member, std::string metadata) {
  state_->at(member);
  check_metadata(metadata);
  state_->members[member].metadata = std::move(metadata);
}
const std::string& Bank::metadata() const { return state_->metadata; }
void Bank::set_metadata(std::string metadata) {
  check_metadata(metadata);
  state_->metadata = std::move(metadata);
}

void Bank::ask_always(std::uint32_t member, bool ask) {
  state_->at(member);
  state_->first.set_always(member, ask);
}
bool Bank::asked_always(std::uint32_t member) const {
  state_->at(member);
  return state_->first.is_always(member);
}

// ---- questions ----------------------------------------------------------------------------------

namespace {

/// Adds to packed answers, rows of `stride` bytes, what a later level answers to n hashes.
void add_answers(const Level& level, const std::uint64_t* hashes, std::size_t n, std::size_t stride,
                 std::uint8_t* out) noexcept {
  alignas(64) std::array<std::uint8_t, kLaterBytes> rows;
  const std::size_t row_bytes = level.rows.stride();
  const std::size_t at_once = kLaterBytes / row_bytes;
  for (std::size_t begin = 0; begin < n; begin += at_once) {
    const std::size_t asked = std::min(at_once, n - begin);
    level.answer(hashes + begin, asked, rows.data());
    for (std::size_t key = 0; key < asked; ++key) {
      const std::uint8_t* row = rows.data() + key * row_bytes;
      std::uint8_t* answer = out + (begin + key) * stride;
      for (std::size_t b = 0; b < row_bytes; b += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, row + b, std::min(row_bytes - b, sizeof word));
        for (; word != 0; word &= word - 1) {
          const std::uint32_t owner = level.owners[8 * b + lowest_bit(word)];
          if (owner == kNoMember) continue;
          answer[owner / 8] = static_cast<std::uint8_t>(answer[owner / 8] | 1u << owner % 8);
        }
      }
    }
  }
}

}  // namespace

void BankState::ask(const KeyBatch& keys, std::size_t first_key, std::size_t count,
                    std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripKeys> hashes;
  const std::size_t stride = first.rows.stride();
  for (std::size_t i = first_key; i < first_key + count; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, first_key + count - i);
    const std::size_t valid = hash_keys(keys, i, n, seed, first.kernels->hash_u64, hashes.data());
    first.answer(hashes.data(), valid, out);
    for (const auto& level : later) add_answers(*level, hashes.data(), valid, stride, out);
    spread_rows(keys, i, n, stride, out);
    out += n * stride;
  }
}

std::size_t Bank::answer_bytes() const { return state_->first.rows.stride(); }

BankReport Bank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options) const {
  return pack_members(keys, answer_bytes(), bits, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}
BankReport Bank::find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options) const {
  return list_members(keys, answer_bytes(), lists, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}
std::vector<std::uint32_t> Bank::find(std::uint64_t key) const { return find_one(*this, key); }
std::vector<std::uint32_t> Bank::find(std::string_view key) const { return find_one(*this, key); }

}  // namespace scbf
