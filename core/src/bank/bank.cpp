// SPDX-License-Identifier: Apache-2.0
// Bank's own functions. Batches that change members are in changes.cpp.
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bank/bank_state.hpp"

namespace scbf {

std::uint64_t MembersFull::processed(std::size_t i) const {
  if (i < processed_.size()) return processed_[i];
  throw InvalidArgument(fmt::format("batch {}: there were {}", i, processed_.size()));
}

// ---- members ------------------------------------------------------------------------------------

Bank::Bank(const Growth& growth, const BankOptions& options)
    : BankBase(BankState::empty(growth, Cell::counter, options)) {}
Bank::Bank(std::unique_ptr<BankState> state) noexcept : BankBase(std::move(state)) {}

bool operator==(const Bank& a, const Bank& b) { return a.state_->equals(*b.state_); }

BankMemory Bank::memory() const { return state_->memory(); }

std::uint32_t Bank::add_member(const BatchOptions& options) {
  BankState& state = *state_;
  state.members.resize(std::max<std::size_t>(state.members.size(), slots() + std::size_t{1}));
  std::vector<BankState::StageSlot> stages{{&state.first, 0}};
  const std::uint32_t member = state.first.add(options);
  stages.front().slot = member;
  state.members[member].stages = std::move(stages);
  return member;
}

std::uint32_t Bank::add_member(Filter&& filter, const BatchOptions& options) {
  FilterState* const one = &FilterAccess::state(filter);
  const std::uint32_t member = state_->add({&one, 1}, options).front();
  [[maybe_unused]] const Filter emptied = std::move(filter);  // its stages have gone
  return member;
}

std::uint32_t Bank::add_member(const Filter& filter, const BatchOptions& options) {
  return add_member(Filter(filter), options);
}

std::vector<std::uint32_t> Bank::add_members(std::vector<Filter>&& filters,
                                             const BatchOptions& options) {
  std::vector<std::uint32_t> numbers = state_->add(states_of(filters), options);
  filters.clear();
  return numbers;
}

std::vector<std::uint32_t> Bank::add_members(const std::vector<Filter>& filters,
                                             const BatchOptions& options) {
  return add_members(std::vector<Filter>(filters), options);
}

Filter Bank::remove_member(std::uint32_t member, const BatchOptions& options) {
  return FilterAccess::make(state_->remove(member, options));
}

Filter Bank::replace_member(std::uint32_t member, Filter&& filter, const BatchOptions& options) {
  Filter old = FilterAccess::make(state_->replace(member, FilterAccess::state(filter), options));
  [[maybe_unused]] const Filter emptied = std::move(filter);  // its stages have gone
  return old;
}

Filter Bank::replace_member(std::uint32_t member, const Filter& filter,
                            const BatchOptions& options) {
  return replace_member(member, Filter(filter), options);
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

StageView Bank::stage(std::uint32_t member, std::size_t i) const {
  const auto& stages = state_->at(member).stages;
  if (i >= stages.size()) {
    throw InvalidArgument(
        fmt::format("stage {} of member {}: there are {}", i, member, stages.size()));
  }
  return StageView(stages[i].stage());
}

}  // namespace scbf
