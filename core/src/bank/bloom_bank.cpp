// SPDX-License-Identifier: Apache-2.0
// BloomBank's functions. What it shares with Bank is in bank_state.cpp.
#include "scbf/bloom_bank.hpp"

#include <utility>

#include "bank/bank_state.hpp"
#include "bank/member_answers.hpp"

namespace scbf {

BloomBank::BloomBank(const Growth& growth, const BankOptions& options)
    : state_(BankState::empty(growth, Cell::bit, options)) {}
BloomBank::BloomBank(const Bank& counters) {
  const BankState& from = BankAccess::state(counters);
  state_ = from.bits(from.backend_for_bits());
}
BloomBank::BloomBank(Bank&& counters) {
  const Backend& on = BankAccess::state(counters).backend_for_bits();
  state_ = BankAccess::take_state(counters);  // nothing fails from here on
  state_->drop_counters(on);
}
BloomBank::BloomBank(std::unique_ptr<BankState> state) noexcept : state_(std::move(state)) {}
BloomBank::BloomBank(BloomBank&&) noexcept = default;
BloomBank& BloomBank::operator=(BloomBank&&) noexcept = default;
BloomBank::~BloomBank() = default;

const Growth& BloomBank::growth() const { return state_->growth; }
std::uint64_t BloomBank::seed() const { return state_->seed; }
const Backend& BloomBank::backend() const { return *state_->backend; }
std::size_t BloomBank::size() const { return state_->first.size; }
std::uint32_t BloomBank::slots() const { return state_->first.slots(); }
std::uint32_t BloomBank::capacity() const { return state_->first.rows.capacity(); }
std::uint64_t BloomBank::bytes() const { return state_->memory().rows; }
bool BloomBank::read_only() const { return state_->read_only(); }

// ---- members ------------------------------------------------------------------------------------

void BloomBank::reserve(std::uint32_t members) { state_->reserve(members); }

std::uint32_t BloomBank::add_member(BloomFilter bits, const BatchOptions& options) {
  FilterState* const one = &FilterAccess::state(bits);
  return state_->add({&one, 1}, options).front();
}

std::vector<std::uint32_t> BloomBank::add_members(std::vector<BloomFilter> bits,
                                                  const BatchOptions& options) {
  return state_->add(states_of(bits), options);
}

void BloomBank::remove_member(std::uint32_t member, const BatchOptions& options) {
  state_->remove(member, options);
}

void BloomBank::replace_member(std::uint32_t member, BloomFilter bits,
                               const BatchOptions& options) {
  state_->replace(member, FilterAccess::state(bits), options);
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

bool BloomBank::has_member(std::uint32_t member) const { return state_->first.has(member); }
std::size_t BloomBank::stages(std::uint32_t member) const {
  return state_->at(member).stages.size();
}
double BloomBank::fpr_bound(std::uint32_t member) const { return state_->fpr_bound(member); }
const std::string& BloomBank::metadata(std::uint32_t member) const {
  return state_->at(member).metadata;
}
void BloomBank::set_metadata(std::uint32_t member, std::string metadata) {
  state_->set_metadata(member, std::move(metadata));
}
const std::string& BloomBank::metadata() const { return state_->metadata; }
void BloomBank::set_metadata(std::string metadata) {
  check_metadata(metadata);
  state_->metadata = std::move(metadata);
}
void BloomBank::ask_always(std::uint32_t member, bool ask) { state_->ask_always(member, ask); }
bool BloomBank::asked_always(std::uint32_t member) const { return state_->asked_always(member); }

// ---- questions ----------------------------------------------------------------------------------

std::size_t BloomBank::answer_bytes() const { return state_->first.rows.stride(); }

BankReport BloomBank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                    const BatchOptions& options) const {
  return state_->contains_bits(keys, bits, options);
}
BankReport BloomBank::find(const KeyBatch& keys, MemberLists& lists,
                           const BatchOptions& options) const {
  return state_->find(keys, lists, options);
}
std::vector<std::uint32_t> BloomBank::find(std::uint64_t key) const { return find_one(*this, key); }
std::vector<std::uint32_t> BloomBank::find(std::string_view key) const {
  return find_one(*this, key);
}

}  // namespace scbf
