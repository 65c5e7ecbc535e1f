// SPDX-License-Identifier: Apache-2.0
#include "kit/ranked_check.hpp"

#include <bit>

#include "kit/spill_table.hpp"

namespace scbf {

const char* RankedCheck::check_block(const std::uint64_t* line) noexcept {
  const bool spilled = is_spilled(line);
  spilled_ += spilled;
  const auto list_of = [&](unsigned j) { return line[kRankedSlices + j] >> shape_.upper; };
  const auto keys = std::bit_width(list_of(0));
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const unsigned used =
        detail::bits_set(line[j]) + detail::bits_set(line[kRankedSlices + j] & shape_.bitmap);
    if (spilled) {
      const std::uint64_t mark = j == 0 ? kLast >> shape_.upper : 0;
      if (list_of(j) != mark || used == 0) return "a block that spilled is not marked so";
      continue;
    }
    if (detail::bits_set(list_of(j)) != used) return "a list does not fit its bitmap";
    if (std::bit_width(list_of(j)) != keys) return "the lists of a block differ in length";
  }
  return nullptr;
}

const char* RankedCheck::check_table_word(std::uint64_t word) noexcept {
  const ConstSpillTable table(geometry_, nullptr);
  const std::uint64_t at = word_ - shape_.blocks * kWordsPerBlock;
  const std::uint64_t slot = at / geometry_.spill_entry_words();
  if (slot >= table.slots()) return word == 0 ? nullptr : "padding is not zero";
  if (at % geometry_.spill_entry_words() != 0) {
    return here_ != 0 || word == 0 ? nullptr : "an unused slot is not zero";
  }
  before_ = here_;
  here_ = word >> 32;
  if ((word & 0xFFFF'FFFFu) != 0) return "an entry has no block, or more than a block";
  if (here_ == 0) return nullptr;
  ++entries_;
  if (here_ > shape_.blocks) return "an entry is of a block that there is not";
  const std::uint64_t home = table.home(here_ - 1);
  if (here_ <= before_) return "entries are not in order";
  // At its home, or pushed on by the one before it.
  const bool in_place = slot == home || (before_ != 0 && slot > home);
  return in_place && slot < home + geometry_.spill_reach() ? nullptr
                                                           : "an entry is not in its place";
}

std::optional<RankedFault> RankedCheck::next(std::span<const std::uint64_t> words) noexcept {
  const std::uint64_t end_of_blocks = shape_.blocks * kWordsPerBlock;
  for (std::size_t i = 0; i < words.size();) {
    const bool block = word_ < end_of_blocks;
    const char* const fault = block ? check_block(&words[i]) : check_table_word(words[i]);
    if (fault != nullptr) return RankedFault{fault, word_ * sizeof(std::uint64_t)};
    const std::size_t step = block ? kWordsPerBlock : 1;
    word_ += step;
    i += step;
  }
  return std::nullopt;
}

std::optional<RankedFault> misfit_of_spilled(const Geometry& geometry, const std::uint64_t* words) {
  const RankedShape shape(geometry);
  const ConstSpillTable table(geometry, words);
  for (std::uint64_t slot = 0; slot < table.slots(); ++slot) {
    if (table.number(slot) == 0) continue;
    const std::uint64_t* const line = words + (table.number(slot) - 1) * kWordsPerBlock;
    bool fits = is_spilled(line);
    for (unsigned i = 0; i < kRankedSlices * shape.positions; ++i) {
      const unsigned slice = i / shape.positions, position = i % shape.positions;
      const bool used = (line[position / 64 * kRankedSlices + slice] >> position % 64 & 1) != 0;
      fits &= used == (table.count(table.at(slot), i) != 0);
    }
    if (!fits) {
      return RankedFault{
          "counts do not fit the bitmaps of their block",
          static_cast<std::uint64_t>(table.at(slot) - words) * sizeof(std::uint64_t)};
    }
  }
  return std::nullopt;
}

}  // namespace scbf
