// SPDX-License-Identifier: Apache-2.0
// BloomBank's own functions.
#include "scbf/bloom_bank.hpp"

#include <utility>

#include "bank/bank_state.hpp"

namespace scbf {

BloomBank::BloomBank(const Growth& growth, const BankOptions& options)
    : BankBase(BankState::empty(growth, Cell::bit, options)) {}
BloomBank::BloomBank(const Bank& counters) : BankBase(BankAccess::state(counters).bits()) {}
BloomBank::BloomBank(Bank&& counters) : BankBase(nullptr) {
  const Backend& on = BankAccess::state(counters).backend_for_bits();
  state_ = BankAccess::take_state(counters);  // nothing fails from here on
  state_->drop_counters(on);
}
BloomBank::BloomBank(std::unique_ptr<BankState> state) noexcept : BankBase(std::move(state)) {}

bool operator==(const BloomBank& a, const BloomBank& b) { return a.state_->equals(*b.state_); }

std::uint64_t BloomBank::bytes() const { return state_->memory().rows; }
bool BloomBank::read_only() const { return state_->read_only(); }

// ---- members ------------------------------------------------------------------------------------

std::uint32_t BloomBank::add_member(BloomFilter&& bits, const BatchOptions& options) {
  FilterState* const one = &FilterAccess::state(bits);
  const std::uint32_t member = state_->add({&one, 1}, options).front();
  [[maybe_unused]] const BloomFilter emptied = std::move(bits);  // its stages have gone
  return member;
}

std::uint32_t BloomBank::add_member(const BloomFilter& bits, const BatchOptions& options) {
  return add_member(BloomFilter(bits), options);
}

std::vector<std::uint32_t> BloomBank::add_members(std::vector<BloomFilter>&& bits,
                                                  const BatchOptions& options) {
  std::vector<std::uint32_t> numbers = state_->add(states_of(bits), options);
  bits.clear();
  return numbers;
}

std::vector<std::uint32_t> BloomBank::add_members(const std::vector<BloomFilter>& bits,
                                                  const BatchOptions& options) {
  return add_members(std::vector<BloomFilter>(bits), options);
}

void BloomBank::remove_member(std::uint32_t member, const BatchOptions& options) {
  state_->remove(member, options);
}

void BloomBank::replace_member(std::uint32_t member, BloomFilter&& bits,
                               const BatchOptions& options) {
  state_->replace(member, FilterAccess::state(bits), options);
  [[maybe_unused]] const BloomFilter emptied = std::move(bits);  // its stages have gone
}

void BloomBank::replace_member(std::uint32_t member, const BloomFilter& bits,
                               const BatchOptions& options) {
  replace_member(member, BloomFilter(bits), options);
}

Epoch BloomBank::epoch(std::uint32_t member) const { return state_->at(member).epoch; }
void BloomBank::apply(std::uint32_t member, const Delta& delta, const BatchOptions& options) {
  state_->apply(member, delta, options);
}

BloomFilter BloomBank::copy_member(std::uint32_t member, const BatchOptions& options) const {
  const BankState::Member& from = state_->at(member);
  auto copy = state_->room_for(from.stages.size());
  for (const BankState::StageSlot& at : from.stages) {
    const Stage& stage = at.stage();
    const std::uint64_t words = stage.geometry().words();
    Stage bits(stage.shape, stage.index, stage.seed, *stage.backend,
               stage.backend->allocate(words));
    at.level->rows.read_column(at.slot, {bits.store->words(), words}, options);
    bits.take_records_of(stage);
    copy->stages.push_back(std::move(bits));
  }
  copy->metadata = from.metadata;
  copy->epoch = from.epoch;
  return FilterAccess::make_bits(std::move(copy));
}

}  // namespace scbf
