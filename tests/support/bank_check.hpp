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

/// Rows that are compared at once: those of a word of counters.
constexpr std::uint64_t kRowsAtOnce = 16;

/// Of so many rows from `first` on, those in which a stage of counters has a bit, as bits 0 to 15.
inline std::uint64_t counters_in_rows(const scbf::Geometry& geometry, const std::uint64_t* words,
                                      std::uint64_t first) {
  std::uint64_t rows = 0;
  if (geometry.layout() == scbf::Layout::ranked) {
    const std::uint64_t n = std::min(kRowsAtOnce, geometry.padded_counters() - first);
    for (std::uint64_t i = 0; i < n; ++i) {
      rows |= std::uint64_t{scbf::is_in_row(geometry, words, first + i)} << i;
    }
    return rows;
  }
  const std::uint64_t word = words[first / kRowsAtOnce];
  for (std::uint64_t i = 0; i < kRowsAtOnce && word != 0; ++i) {
    rows |= std::uint64_t{(word >> 4 * i & 0xF) != 0} << i;
  }
  return rows;
}
/// The same for a stage of bits.
inline std::uint64_t bits_in_rows(const scbf::Geometry&, const std::uint64_t* words,
                                  std::uint64_t first) {
  return words[first / 64] >> first % 64 & 0xFFFF;
}

/// The first row of a level that is not as the stages are. words_of(level, slot) are the words of a
/// stage, null if there is none; in_rows reads them.
template <class WordsOf, class InRows>
std::optional<std::string> wrong_row(const scbf::Level& level, const WordsOf& words_of,
                                     InRows in_rows) {
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
  // Much of what tests of banks do is this loop: plain pointers, which cost nothing unoptimised
  // either.
  const Stage* const end = stages.data() + stages.size();
  std::vector<std::uint8_t> bytes(kRowsAtOnce * rows.stride);
  std::uint8_t* const want = bytes.data();
  for (std::uint64_t row = 0; row < geometry.padded_counters(); row += kRowsAtOnce) {
    const std::uint64_t n = std::min(kRowsAtOnce, geometry.padded_counters() - row);
    std::memset(want, 0, n * rows.stride);
    for (const Stage* stage = stages.data(); stage != end; ++stage) {
      std::uint8_t* const column = want + stage->slot / 8;
      const auto bit = static_cast<std::uint8_t>(1u << stage->slot % 8);
      for (std::uint64_t set = in_rows(geometry, stage->words, row); set != 0; set &= set - 1) {
        column[static_cast<std::uint64_t>(__builtin_ctzll(set)) * rows.stride] |= bit;
      }
    }
    const std::uint8_t* const got = rows.bytes + row * rows.stride;
    if (std::memcmp(want, got, n * rows.stride) == 0) continue;
    const auto at =
        static_cast<std::uint64_t>(std::mismatch(want, want + n * rows.stride, got).first - want);
    return fmt::format("row {}, byte {} is {:#04x}, by the stages {:#04x}", row + at / rows.stride,
                       at % rows.stride, got[at], want[at]);
  }
  return std::nullopt;
}

/// The first error found, or nothing. Cost: reads all counters or bits.
template <class WordsOf, class InRows>
std::optional<std::string> state_error(const scbf::BankState& state, const WordsOf& words_of,
                                       InRows in_rows) {
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
    if (const auto row = wrong_row(level, words_of, in_rows)) {
      return fmt::format("stages of index {}: {}", level.index, *row);
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
      counters_in_rows);
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
      bits_in_rows);
}

}  // namespace scbf_test
