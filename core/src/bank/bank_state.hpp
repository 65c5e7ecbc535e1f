// SPDX-License-Identifier: Apache-2.0
// What a FilterBank is made of; shared by filter_bank.cpp (members, questions) and
// bank_changes.cpp (batches that change members).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bank/member_rows.hpp"
#include "scbf/filter_bank.hpp"

namespace scbf {

/// Whether a batch adds keys to members or takes them away.
enum class Change : std::uint8_t { insert, remove };

struct ChangeCounts {
  std::uint64_t changed = 0, absent = 0, nulls = 0;

  ChangeCounts& operator+=(const ChangeCounts& other) noexcept {
    changed += other.changed;
    absent += other.absent;
    nulls += other.nulls;
    return *this;
  }
};

struct FilterBank::State {
  Geometry geometry;
  std::uint64_t seed;
  const Backend* backend;
  const RowEngine* engine;
  MemberRows rows;
  std::vector<std::optional<Filter>> members = {};  // by number
  std::size_t size = 0;
  std::size_t lowest_free = 0;            // no number below it is free
  std::vector<std::uint8_t> always = {};  // a row: members marked "ask"; ≥ rows.stride()

  bool has(std::uint32_t slot) const noexcept {
    return slot < members.size() && members[slot].has_value();
  }
  const Filter& at(std::uint32_t slot) const {
    if (!has(slot)) {
      throw InvalidArgument(
          fmt::format("member {}: there is none; the bank has {}, numbered below {}", slot, size,
                      members.size()));
    }
    return *members[slot];
  }
  /// The same to be changed.
  Filter& changeable(std::uint32_t slot) {
    if (at(slot).read_only()) {
      throw ReadOnly(fmt::format(
          "member {} is mapped from a file, read-only: load the file to change it", slot));
    }
    return *members[slot];
  }

  void check(const Filter& filter) const {
    if (filter.geometry() != geometry) {
      throw Incompatible(fmt::format("the geometries differ: the bank's is {}, the filter's {}",
                                     geometry.describe(), filter.geometry().describe()));
    }
    if (filter.seed() != seed) {
      throw Incompatible(
          fmt::format("the seeds differ: the bank's is {}, the filter's {}", seed, filter.seed()));
    }
  }

  MemberColumn column(std::uint32_t slot) const noexcept {
    return {slot, has(slot) ? members[slot]->words().data() : nullptr};
  }
  void rebuild(std::uint32_t slot, const BatchOptions& options) {
    const MemberColumn one = column(slot);
    rows.rebuild(*engine, {&one, 1}, options);
  }
  /// Runs a change of a member's counters; whether it succeeds or throws, the rows follow.
  template <class Work>
  void and_rebuild(std::uint32_t slot, const BatchOptions& options, Work work) {
    try {
      work();
      rebuild(slot, options);
    } catch (...) {
      rebuild(slot, {.threads = 1});
      throw;
    }
  }

  void set_always(std::uint32_t slot, bool ask) noexcept {
    const auto bit = static_cast<std::uint8_t>(1u << slot % 8);
    always[slot / 8] = static_cast<std::uint8_t>((always[slot / 8] & ~bit) | (ask ? bit : 0));
  }

  /// Room for this many numbers; grows the rows by half at least.
  void make_room(std::size_t slots, const BatchOptions& options) {
    if (slots > kMaxBankMembers) {
      throw InvalidArgument(
          fmt::format("{} members: a bank has at most {}", slots, kMaxBankMembers));
    }
    if (slots <= rows.capacity()) return;
    const std::size_t half_more = rows.capacity() + rows.capacity() / 2;
    const auto room = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::max(slots, half_more), kMaxBankMembers));
    always.resize(row_stride(room));
    rows.grow(room, options);
  }
  /// The n smallest numbers that are free.
  std::vector<std::uint32_t> free_slots(std::size_t n) const {
    std::vector<std::uint32_t> slots;
    slots.reserve(n);
    for (std::size_t slot = lowest_free; slots.size() < n; ++slot) {
      if (!has(static_cast<std::uint32_t>(slot))) slots.push_back(static_cast<std::uint32_t>(slot));
    }
    return slots;
  }

  void rebuild_all(std::span<const std::uint32_t> slots, const BatchOptions& options) {
    std::vector<MemberColumn> columns;
    columns.reserve(slots.size());
    for (const std::uint32_t slot : slots) columns.push_back(column(slot));
    rows.rebuild(*engine, columns, options);
  }

  /// A batch for one member, in pieces: hashed once, for counters and rows. `verdicts` may be
  /// empty. The member is changeable; without `mark` its column is left to be rebuilt.
  ChangeCounts change(Change what, std::uint32_t slot, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts, bool mark, const BatchOptions& options);
  ChangeCounts change_one(Change what, std::uint32_t slot, const KeyBatch& keys,
                          std::span<std::uint8_t> verdicts, const BatchOptions& options);
  ChangeCounts change_many(Change what, std::span<const MemberKeys> batches,
                           const BatchOptions& options);

  /// Makes a member's column zero; it is then to be taken out, or rebuilt.
  void blank(std::uint32_t slot, const BatchOptions& options) {
    const MemberColumn zeros = {slot, nullptr};
    try {
      rows.rebuild(*engine, {&zeros, 1}, options);
    } catch (...) {
      rebuild(slot, {.threads = 1});
      throw;
    }
  }
  /// Takes out a member whose column is zero.
  Filter take(std::uint32_t slot) noexcept {
    Filter filter = std::move(*members[slot]);
    members[slot].reset();
    set_always(slot, false);
    --size;
    lowest_free = std::min<std::size_t>(lowest_free, slot);
    return filter;
  }

  /// Packed answers to n hashes.
  void answer(const std::uint64_t* hashes, std::size_t n, std::uint8_t* out) const noexcept;
  /// The same to keys first … first + count − 1.
  void ask(const KeyBatch& keys, std::size_t first, std::size_t count,
           std::uint8_t* out) const noexcept;
};

}  // namespace scbf
