// SPDX-License-Identifier: Apache-2.0
// BankBase's functions. Most of their work is in bank_state.cpp.
#include "scbf/bank_base.hpp"

#include <utility>

#include "bank/bank_state.hpp"

namespace scbf {

BankBase::BankBase(std::unique_ptr<BankState> state) noexcept : state_(std::move(state)) {}
BankBase::BankBase(const BankBase& other) : state_(other.state_->copy()) {}
BankBase& BankBase::operator=(const BankBase& other) {
  if (this != &other) state_ = other.state_->copy();
  return *this;
}
BankBase::BankBase(BankBase&&) noexcept = default;
BankBase& BankBase::operator=(BankBase&&) noexcept = default;
BankBase::~BankBase() = default;

const Growth& BankBase::growth() const { return state_->growth; }
std::uint64_t BankBase::seed() const { return state_->seed; }
const Backend& BankBase::backend() const { return *state_->backend; }
std::size_t BankBase::size() const { return state_->first.size; }
std::uint32_t BankBase::slots() const { return state_->first.slots(); }
std::uint32_t BankBase::capacity() const { return state_->first.rows.capacity(); }

// ---- members ------------------------------------------------------------------------------------

void BankBase::reserve(std::uint32_t members, const BatchOptions& options) {
  state_->reserve(members, options);
}
bool BankBase::has_member(std::uint32_t member) const { return state_->first.has(member); }
std::size_t BankBase::stages(std::uint32_t member) const {
  return state_->at(member).stages.size();
}
double BankBase::fpr_bound(std::uint32_t member) const { return state_->fpr_bound(member); }
const std::string& BankBase::metadata(std::uint32_t member) const {
  return state_->at(member).metadata;
}
void BankBase::set_metadata(std::uint32_t member, std::string metadata) {
  state_->set_metadata(member, std::move(metadata));
}
void BankBase::ask_always(std::uint32_t member, bool ask) { state_->ask_always(member, ask); }
bool BankBase::asked_always(std::uint32_t member) const { return state_->asked_always(member); }

// ---- questions ----------------------------------------------------------------------------------

std::size_t BankBase::answer_bytes() const { return state_->first.rows.stride(); }
BankReport BankBase::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                   const BatchOptions& options) const {
  return state_->contains_bits(keys, bits, options);
}
BankReport BankBase::find(const KeyBatch& keys, MemberLists& lists,
                          const BatchOptions& options) const {
  return state_->find(keys, lists, options);
}
std::vector<std::uint32_t> BankBase::find(std::uint64_t key) const {
  return state_->find_one(std::span(&key, 1));
}
std::vector<std::uint32_t> BankBase::find(std::string_view key) const {
  return state_->find_one(std::span(&key, 1));
}

// ---- the whole ----------------------------------------------------------------------------------

const std::string& BankBase::metadata() const { return state_->metadata; }
void BankBase::set_metadata(std::string metadata) {
  check_metadata(metadata);
  state_->metadata = std::move(metadata);
}

}  // namespace scbf
