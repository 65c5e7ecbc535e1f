// SPDX-License-Identifier: Apache-2.0
// Do a bank's rows agree with its counters, or with the filters of bits that were added, and is
// each stage in the slot that the bank gives it?
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bank/bank_state.hpp"
#include "kit/row_kernels.hpp"

namespace scbf_test {

/// The first bit of a level's rows that is not as the stages are. words_of(level, slot) are the
/// words of a stage, null if there is none; is_set(geometry, words, row) reads them.
template <class WordsOf, class IsSet>
std::optional<std::string> wrong_bit(const scbf::Level& level, const WordsOf& words_of,
                                     IsSet is_set) {
  const scbf::Geometry& geometry = level.shape.geometry;
  const scbf::RowsView rows = level.rows.view();
  struct Stage {
    std::uint32_t slot;
    const std::uint64_t* words;
  };
  std::vector<Stage> stages;
  for (std::uint32_t slot = 0; slot < level.slots(); ++slot) {
    if (const auto* words = words_of(level, slot)) stages.push_back({slot, words});
  }
  // Half of what tests of banks do is this loop: plain pointers, which cost nothing unoptimised
  // either.
  const Stage* const end = stages.data() + stages.size();
  std::vector<std::uint8_t> bytes(rows.stride);
  std::uint8_t* const want = bytes.data();
  for (std::uint64_t row = 0; row < geometry.padded_counters(); ++row) {
    std::memset(want, 0, rows.stride);
    for (const Stage* stage = stages.data(); stage != end; ++stage) {
      const bool set = is_set(geometry, stage->words, row);
      want[stage->slot / 8] |= static_cast<std::uint8_t>(set << stage->slot % 8);
    }
    const std::uint8_t* const got = rows.bytes + row * rows.stride;
    if (std::memcmp(want, got, rows.stride) == 0) continue;
    const std::ptrdiff_t at = std::mismatch(want, want + rows.stride, got).first - want;
    return fmt::format("row {}, byte {} is {:#04x}, by the stages {:#04x}", row, at, got[at],
                       want[at]);
  }
  return std::nullopt;
}

/// The first error found, or nothing. Cost: reads all counters or bits one at a time.
template <class WordsOf, class IsSet>
std::optional<std::string> state_error(const scbf::BankState& state, const WordsOf& words_of,
                                       IsSet is_set) {
  std::map<const scbf::Level*, std::size_t> stages;  // of members
  for (std::uint32_t m = 0; m < state.members.size(); ++m) {
    const auto& own = state.members[m].stages;
    if (own.empty() == state.first.has(m)) return fmt::format("member {}: map and bank differ", m);
    for (std::size_t s = 0; s < own.size(); ++s) {
      const auto& [level, slot] = own[s];
      ++stages[level];
      const bool is_first = level == &state.first;
      if (!level->has(slot)) return fmt::format("stage {} of member {}: there is none", s, m);
      const std::uint32_t owner = is_first ? slot : level->owner(slot);
      if (is_first != (s == 0) || owner != m) {
        return fmt::format("stage {} of member {} is not where it should be", s, m);
      }
    }
  }
  const auto wrong = [&](const scbf::Level& level) -> std::optional<std::string> {
    if (level.size != stages[&level]) {
      return fmt::format("{} stages of index {}, members have {}", level.size, level.index,
                         stages[&level]);
    }
    const bool has_owners = &level != &state.first;
    for (std::uint32_t slot = 0; has_owners && slot < level.slots(); ++slot) {
      if (level.has(slot) == (level.owner(slot) == scbf::kNoMember)) {
        return fmt::format("stages of index {}: slot {} has a stage or an owner, not both",
                           level.index, slot);
      }
    }
    if (const auto bit = wrong_bit(level, words_of, is_set)) {
      return fmt::format("stages of index {}: {}", level.index, *bit);
    }
    return std::nullopt;
  };
  if (const auto what = wrong(state.first)) return what;
  for (const auto& level : state.later) {
    if (level->size == 0) return fmt::format("index {}: the level is empty", level->index);
    if (const auto what = wrong(*level)) return what;
  }
  return std::nullopt;
}

inline std::optional<std::string> bank_error(const scbf::Bank& bank) {
  const scbf::BankState& state = scbf::BankAccess::state(bank);
  for (std::uint32_t m = 0; m < state.members.size(); ++m) {
    for (const auto& [level, slot] : state.members[m].stages) {
      const scbf::Stage& stage = level->at(slot);
      if (stage.nonzero_at_most < stage.nonzero({})) {
        return fmt::format("member {}, index {}: more counters than nonzero_at_most", m,
                           stage.index);
      }
    }
  }
  return state_error(
      state, [](const scbf::Level& level, std::uint32_t slot) { return level.column(slot).words; },
      scbf::is_in_row);
}

/// The same for a bank of bits to which these members were added.
inline std::optional<std::string> bits_error(
    const scbf::BloomBank& bank, const std::map<std::uint32_t, scbf::BloomFilter>& members) {
  const scbf::BankState& state = scbf::BankAccess::state(bank);
  std::map<std::pair<const scbf::Level*, std::uint32_t>, const std::uint64_t*> words;
  for (const auto& [member, filter] : members) {
    const auto& stages = state.members.at(member).stages;
    if (stages.size() != filter.stages()) return fmt::format("member {}: stages", member);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto& [level, slot] = stages[s];
      words[{level, slot}] = filter.stage(s).words().data();
      if (level->has(slot) && level->at(slot).store != nullptr) {
        return fmt::format("member {}: its bits are in memory beside the rows", member);
      }
    }
  }
  return state_error(
      state,
      [&](const scbf::Level& level, std::uint32_t slot) {
        const auto at = words.find({&level, slot});
        return at == words.end() ? nullptr : at->second;
      },
      [](const scbf::Geometry&, const std::uint64_t* bits, std::uint64_t row) {
        return (bits[row / 64] >> row % 64 & 1) != 0;
      });
}

}  // namespace scbf_test
