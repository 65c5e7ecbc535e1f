// SPDX-License-Identifier: Apache-2.0
// Are these the words of a `ranked` filter? Whatever they are, working with them is safe; but words
// that no filter has would give answers that mean nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

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
  /// Blocks that are stuck: spilled ones without an entry. To be called at the end.
  std::uint64_t stuck() const noexcept { return spilled_ - entries_; }

 private:
  const char* check_block(const std::uint64_t* line) noexcept;
  const char* check_table_word(std::uint64_t word) noexcept;

  Geometry geometry_;
  RankedShape shape_;
  std::uint64_t word_ = 0;  ///< the next
  std::uint64_t spilled_ = 0, entries_ = 0;
  std::uint64_t before_ = 0;  ///< the number in the slot before this one
  std::uint64_t here_ = 0;
};

/// And do the counts of spilled blocks fit their bitmaps? For words without another fault.
std::optional<RankedFault> misfit_of_spilled(const Geometry& geometry, const std::uint64_t* words);

}  // namespace scbf
