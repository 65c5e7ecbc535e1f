// SPDX-License-Identifier: Apache-2.0
// What a Bank and a BloomBank are made of and have in common (bank_state.cpp, questions.cpp). The
// rest of them is in bank.cpp, bloom_bank.cpp and changes.cpp (batches that change members).
//
// The first stages of all members form a level in which the slot is the member's number. Later
// stages are few at first, and every slot costs memory in the rows. So the slots of later levels
// are filled densely, and the level records which member owns each slot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bank/level.hpp"
#include "filter/member_fit.hpp"
#include "filter/state.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/delta.hpp"

namespace scbf {

struct BankState {
  static constexpr const char* kOwner = "bank";

  /// Where a stage of a member is stored.
  struct StageSlot {
    Level* level;
    std::uint32_t slot;

    Stage& stage() const noexcept { return level->at(slot); }
  };
  struct Member {
    std::vector<StageSlot> stages = {};  ///< oldest first; empty if there is no such member
    std::string metadata = {};
    Epoch epoch = {};  ///< of bits, as in FilterState
  };
  /// The stages of a member, in the form that walk.hpp asks for.
  struct Stages {
    BankState& of;
    std::uint32_t member;
    const BatchOptions& options;  ///< of what adds stages

    std::vector<StageSlot>& slots() const noexcept { return of.members[member].stages; }
    std::size_t size() const noexcept { return slots().size(); }
    const Growth& growth() const noexcept { return of.growth; }
    Stage& operator[](std::size_t i) const noexcept { return slots()[i].stage(); }
    void add(std::uint32_t index) { of.add_stage(member, index, options); }
  };

  Growth growth;
  std::uint64_t seed;
  const Backend* backend;
  Cell cell;  ///< of the members; of bits, only the rows are kept
  Level first;
  std::vector<std::unique_ptr<Level>> later = {};  ///< ascending by index; none is empty
  std::vector<Member> members = {};                ///< by number
  MemberFit fit{growth, seed};
  std::string metadata = {};  ///< of the bank

  /// A bank without members. Throws as Bank's constructor.
  static std::unique_ptr<BankState> empty(const Growth& growth, Cell cell,
                                          const BankOptions& options);
  /// The backend of the bits of this bank: its own, or "auto" if that works on counters only.
  /// Throws BackendUnavailable or InvalidArgument as Bank's constructor.
  const Backend& backend_for_bits() const;
  /// Throws as BankBase's copy constructor.
  std::unique_ptr<BankState> copy() const { return copy_as(cell, *backend); }
  /// The bank of bits of this bank of counters. Throws std::bad_alloc, or as backend_for_bits.
  std::unique_ptr<BankState> bits() const { return copy_as(Cell::bit, backend_for_bits()); }
  /// Turns into that bank of bits.
  void drop_counters(const Backend& on) noexcept;

  const Member& at(std::uint32_t member) const;
  /// The levels, the first one first.
  Level& level(std::size_t i) noexcept { return i == 0 ? first : *later[i - 1]; }
  /// As operator== of the banks.
  bool equals(const BankState& other) const;

  /// The later level of this index; made if there is none.
  Level& later_level(std::uint32_t index);
  void drop_empty_levels() noexcept;
  /// A FilterState of this bank's growth and seed, without stages but with room for them.
  std::unique_ptr<FilterState> room_for(std::size_t stages) const;

  BankMemory memory() const;
  /// Are the rows those of a mapped file?
  bool read_only() const noexcept { return !first.rows.writable(); }
  void check_writable() const;
  void reserve(std::uint32_t capacity, const BatchOptions& options);

  /// Throws Incompatible unless the filter can be a member.
  void check(const FilterState& filter);
  /// Copies a filter that is in another memory, such as a device's, into the bank's.
  void bring_here(FilterState& filter) const;
  class LaterStages;
  class Newcomers;
  /// Makes filters the members with these numbers, which are free and ascend. The filters have been
  /// checked and brought here. Takes their stages; if it throws, nothing is changed.
  void add(std::span<FilterState* const> filters, std::span<const std::uint32_t> numbers,
           const BatchOptions& options);
  /// The same after checking them and bringing them here. Returns their numbers.
  std::vector<std::uint32_t> add(std::span<FilterState* const> filters,
                                 const BatchOptions& options);
  /// As Bank::remove_member and Bank::replace_member. With bits, what they return has no words.
  std::unique_ptr<FilterState> remove(std::uint32_t member, const BatchOptions& options);
  std::unique_ptr<FilterState> replace(std::uint32_t member, FilterState& filter,
                                       const BatchOptions& options);
  /// As BloomBank::apply (bank_deltas.cpp). Of bits only.
  void apply(std::uint32_t member, const Delta& delta, const BatchOptions& options);
  double fpr_bound(std::uint32_t member) const;
  void set_metadata(std::uint32_t member, std::string text);
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;
  /// Makes the columns of these stages zero.
  void blank(std::span<const StageSlot> stages, const BatchOptions& options) noexcept;
  /// Moves stages whose columns are zero out of later levels, to `taken`, which has room for them.
  void take_later(std::span<const StageSlot> stages, std::vector<Stage>& taken) noexcept;

  // Questions (questions.cpp).

  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options) const;
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options) const;
  /// The members that may hold the one key of this batch.
  std::vector<std::uint32_t> find_one(const KeyBatch& key) const;
  /// Packed answers of keys first … first + count − 1.
  void ask(const KeyBatch& keys, std::size_t first, std::size_t count,
           std::uint8_t* out) const noexcept;

  // For counters only.

  /// A member, to be changed. Throws ReadOnly.
  Member& changeable(std::uint32_t member);
  void add_stage(std::uint32_t member, std::uint32_t index, const BatchOptions& options);

 private:
  std::unique_ptr<BankState> copy_as(Cell of_copy, const Backend& on) const;
  /// Have both the same members, with equal marks and stages of equal shapes?
  bool same_members(const BankState& other) const;
  // Of banks with the same members.
  bool same_counters(const BankState& other) const;
  bool same_bits(const BankState& other) const;
};

/// Later stages that are about to come into a bank. The constructor does everything that can fail.
/// The stages then have slots, but no owners. Levels that stay empty go with this object.
class BankState::LaterStages {
 public:
  LaterStages(BankState& bank, std::vector<Stage*> stages, const BatchOptions& options);
  LaterStages(const LaterStages&) = delete;
  LaterStages& operator=(const LaterStages&) = delete;

  /// Their slots, in the order of the stages.
  const std::vector<StageSlot>& slots() const noexcept { return slots_; }
  /// Moves the stages in. To be called once.
  void come_in(const BatchOptions& options) noexcept;

 private:
  struct EmptyLevels {
    BankState& of;
    ~EmptyLevels() { of.drop_empty_levels(); }
  };
  EmptyLevels dropped_;
  std::vector<StageSlot> slots_;
  std::vector<Level::Arrivals> arrivals_;
};

/// Filters that are about to become members. They have been checked and brought here.
/// The constructor does everything that can fail, except finding slots for the first stages.
class BankState::Newcomers {
 public:
  Newcomers(BankState& bank, std::span<FilterState* const> filters, const BatchOptions& options);

  /// Moves the later stages in. To be called once.
  void come_in(const BatchOptions& options) noexcept { later_.come_in(options); }
  /// Makes filter i this member, whose first stage is in already.
  void give(std::size_t i, std::uint32_t member) noexcept;

 private:
  BankState& of_;
  LaterStages later_;
  std::vector<Member> members_;
};

/// The states of filters, in the form that BankState::add takes.
template <class AnyFilter>
std::vector<FilterState*> states_of(std::vector<AnyFilter>& filters) {
  std::vector<FilterState*> states;
  states.reserve(filters.size());
  for (AnyFilter& filter : filters) states.push_back(&FilterAccess::state(filter));
  return states;
}

/// The backend that the options name. Throws as Bank's constructor.
const Backend& backend_for(const BankOptions& options);

struct BankAccess {
  static BankState& state(BankBase& bank) { return *bank.state_; }
  static const BankState& state(const BankBase& bank) { return *bank.state_; }
  /// Leaves the bank moved from.
  static std::unique_ptr<BankState> take_state(BankBase& bank) {
    *bank.state_;  // throws if it already is
    return std::move(bank.state_).release();
  }
  static Bank make(std::unique_ptr<BankState> state) noexcept { return Bank(std::move(state)); }
  static BloomBank make_bits(std::unique_ptr<BankState> state) noexcept {
    return BloomBank(std::move(state));
  }
};

}  // namespace scbf
