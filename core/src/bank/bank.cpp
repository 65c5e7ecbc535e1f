// SPDX-License-Identifier: Apache-2.0
// Bank's functions, except those that bank_state.cpp shares with BloomBank. Batches that change
// members are in changes.cpp.
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bank/bank_state.hpp"
#include "bank/member_answers.hpp"

namespace scbf {

std::uint64_t MembersFull::processed(std::size_t i) const {
  if (i < processed_.size()) return processed_[i];
  throw InvalidArgument(fmt::format("batch {}: there were {}", i, processed_.size()));
}

// ---- members ------------------------------------------------------------------------------------

Bank::Bank(const Growth& growth, const BankOptions& options)
    : state_(BankState::empty(growth, Cell::counter, options)) {}
Bank::Bank(std::unique_ptr<BankState> state) noexcept : state_(std::move(state)) {}
Bank::Bank(Bank&&) noexcept = default;
Bank& Bank::operator=(Bank&&) noexcept = default;
Bank::~Bank() = default;

const Growth& Bank::growth() const { return state_->growth; }
std::uint64_t Bank::seed() const { return state_->seed; }
const Backend& Bank::backend() const { return *state_->backend; }
std::size_t Bank::size() const { return state_->first.size; }
std::uint32_t Bank::slots() const { return state_->first.slots(); }
std::uint32_t Bank::capacity() const { return state_->first.rows.capacity(); }

BankMemory Bank::memory() const { return state_->memory(); }

void Bank::reserve(std::uint32_t members) { state_->reserve(members); }

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
  return state_->add(states_of(filters), options);
}

Filter Bank::remove_member(std::uint32_t member, const BatchOptions& options) {
  return FilterAccess::make(state_->remove(member, options));
}

Filter Bank::replace_member(std::uint32_t member, Filter filter, const BatchOptions& options) {
  return FilterAccess::make(state_->replace(member, FilterAccess::state(filter), options));
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
    state.check(FilterAccess::state(other));
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
    state.check(FilterAccess::state(other));
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

double Bank::fpr_bound(std::uint32_t member) const { return state_->fpr_bound(member); }

const std::string& Bank::metadata(std::uint32_t member) const {
  return state_->at(member).metadata;
}
void Bank::set_metadata(std::uint32_t member, std::string metadata) {
  state_->set_metadata(member, std::move(metadata));
}
const std::string& Bank::metadata() const { return state_->metadata; }
void Bank::set_metadata(std::string metadata) {
  check_metadata(metadata);
  state_->metadata = std::move(metadata);
}

void Bank::ask_always(std::uint32_t member, bool ask) { state_->ask_always(member, ask); }
bool Bank::asked_always(std::uint32_t member) const { return state_->asked_always(member); }

// ---- questions ----------------------------------------------------------------------------------

std::size_t Bank::answer_bytes() const { return state_->first.rows.stride(); }

BankReport Bank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options) const {
  return state_->contains_bits(keys, bits, options);
}
BankReport Bank::find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options) const {
  return state_->find(keys, lists, options);
}
std::vector<std::uint32_t> Bank::find(std::uint64_t key) const { return find_one(*this, key); }
std::vector<std::uint32_t> Bank::find(std::string_view key) const { return find_one(*this, key); }

}  // namespace scbf
