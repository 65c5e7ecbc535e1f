// SPDX-License-Identifier: Apache-2.0
// Checks the words of a `ranked` filter. Working with words that no filter has is safe, but the
// answers mean nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kit/ranked_block.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// What is wrong, and at which byte of the filter.
struct RankedFault {
  const char* what;
  std::uint64_t byte;
};

/// Looks at the words of a filter in order, in whatever pieces they come, of whole blocks.
class RankedCheck {
 public:
  explicit RankedCheck(const Geometry& geometry) noexcept : geometry_(geometry), shape_(geometry) {}

  /// The first fault among the next words: lists that do not fit their bitmaps, entries that are
  /// not in order or not in their place, and words that must be zero.
  std::optional<RankedFault> next(std::span<const std::uint64_t> words) noexcept;
  /// Positions whose counts no removal lowers: those at 255, and all of a stuck block (one that
  /// spilled but has no entry). To be called at the end.
  std::uint64_t saturated() const noexcept { return spilled_ - in_entries_ + at_most_; }

 private:
  const char* check_block(const std::uint64_t* line) noexcept;
  const char* check_table_word(std::uint64_t word) noexcept;
  const char* check_head(std::uint64_t word) noexcept;

  Geometry geometry_;
  RankedShape shape_;
  std::uint64_t word_ = 0;        ///< the next
  std::uint64_t spilled_ = 0;     ///< positions in use of blocks that spilled
  std::uint64_t in_entries_ = 0;  ///< counts in the table
  std::uint64_t at_most_ = 0;     ///< those of them that are 255
  std::uint64_t slot_ = 0, word_in_slot_ = 0;
  std::uint64_t before_ = 0, here_ = 0;  ///< numbers in the slot before this one, and in this one
};

/// Checks that the counts of spilled blocks match their bitmaps, and would not fit the lists. For
/// words in which RankedCheck found no fault.
std::optional<RankedFault> misfit_of_spilled(const Geometry& geometry, const std::uint64_t* words);

/// RankedCheck::saturated of a filter in memory, whatever its words are.
std::uint64_t saturated_positions(const Geometry& geometry, const std::uint64_t* words) noexcept;

}  // namespace scbf
