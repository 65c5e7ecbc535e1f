// SPDX-License-Identifier: Apache-2.0
// What a ScalableBank is made of; shared by scalable_bank.cpp (members, questions) and
// scalable_bank_changes.cpp (batches that change members).
//
// The first stages of all members are a bank in which each has the member's number. Later stages
// are few at first, and rows are paid for every place: their banks are dense, and know whose each
// place is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bank/bank_state.hpp"
#include "filter/scalable_access.hpp"
#include "scbf/scalable_bank.hpp"

namespace scbf {

struct ScalableBank::State {
  static constexpr std::uint32_t kNobody = 0xFFFF'FFFFu;

  /// Stages of one shape.
  struct Level {
    std::uint32_t index;  ///< in growth
    StageShape shape;
    FilterBank bank;
    /// By place: the member whose stage it is. Nobody's are not in answers. Not in the first level,
    /// where it is the member's number.
    std::vector<std::uint32_t> owners = {};

    FilterBank::State& inside() const noexcept { return *bank.state_; }
  };
  /// A stage of a member.
  struct Place {
    Level* level;
    std::uint32_t slot;
    std::uint64_t at_most;  ///< non-zero counters: an upper bound that costs nothing

    const Filter& filter() const { return level->bank.member(slot); }
  };
  struct Member {
    std::vector<Place> stages = {};  ///< oldest first; the first in `first`; empty: no member
    std::string metadata = {};
  };
  /// The stages of a member, as stage_walk.hpp wants them.
  struct Stages {
    State& of;
    std::uint32_t member;

    std::vector<Place>& places() const noexcept { return of.members[member].stages; }
    std::size_t size() const noexcept { return places().size(); }
    const Growth& growth() const noexcept { return of.growth; }
    const StageShape& shape(std::size_t i) const noexcept { return places()[i].level->shape; }
    const Filter& filter(std::size_t i) const { return places()[i].filter(); }
    std::uint64_t& at_most(std::size_t i) noexcept { return places()[i].at_most; }
    void add() { of.add_stage(member); }
    RemoveReport remove(std::size_t i, const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                        const BatchOptions& options) {
      return places()[i].level->bank.remove(places()[i].slot, keys, verdicts, options);
    }
  };

  Growth growth;
  std::uint64_t seed;
  const Backend* backend;
  Level first;
  std::vector<std::unique_ptr<Level>> later = {};  ///< ascending by index; none without members
  std::vector<Member> members = {};                ///< by number
  std::map<std::uint32_t, StageShape> shapes = {};

  const Member& at(std::uint32_t member) const;
  /// The same to be changed. Throws ReadOnly.
  Member& changeable(std::uint32_t member);
  const StageShape& shape(std::uint32_t index);

  /// The dense level of this index, which is made if there is none.
  Level& later_level(std::uint32_t index);
  void drop_empty_levels() noexcept;
  /// Filters as stages of a later level, nobody's yet; their places.
  std::vector<std::uint32_t> place(Level& level, std::vector<Filter> filters,
                                   const BatchOptions& options);
  /// Takes out what place put in.
  void displace(Level& level, std::uint32_t slot) noexcept;
  void add_stage(std::uint32_t member);

  /// Throws Incompatible unless the filter can be a member.
  void check(const ScalableFilter& filter);
  struct Newcomers;
  /// Makes the columns of these stages zero, or leaves them all as they are.
  void blank(std::span<const Place> stages, const BatchOptions& options);
  void rebuild(std::span<const Place> stages);
  /// Takes stages, whose columns are zero, out of later levels.
  void take_later(std::span<const Place> stages) noexcept;

  /// Packed answers of keys first … first + count − 1.
  void ask(const KeyBatch& keys, std::size_t first, std::size_t count,
           std::uint8_t* out) const noexcept;
};

/// Filters on their way to be members: their later stages have places, which are nobody's, and are
/// taken out again unless they are given away.
struct ScalableBank::State::Newcomers {
  explicit Newcomers(State& bank) : of(bank) {}
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;
  ~Newcomers();

  /// The filters have been checked and are on the bank's backend.
  void settle(std::vector<ScalableFilter> filters, const BatchOptions& options);
  /// Filter i is this member from now on.
  void give(std::size_t i, std::uint32_t member) noexcept;

  State& of;
  std::vector<Filter> firsts = {};   ///< their first stages
  std::vector<Member> members = {};  ///< a level that is null has no place yet
};

}  // namespace scbf
