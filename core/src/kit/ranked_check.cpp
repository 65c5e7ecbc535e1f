// SPDX-License-Identifier: Apache-2.0
#include "kit/ranked_check.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "kit/spill_table.hpp"

namespace scbf {

namespace {

/// Positions of a block that are in use.
unsigned in_use(const std::uint64_t* line, const RankedShape& shape) noexcept {
  unsigned used = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) used += positions_in_use(line, j, shape);
  return used;
}

}  // namespace

const char* RankedCheck::check_block(const std::uint64_t* line) noexcept {
  const auto list_of = [&](unsigned j) { return line[kRankedSlices + j] >> shape_.upper; };
  if (is_spilled(line)) {
    // A slice may be empty: a position that keys share stays at 255 when these keys are removed.
    const unsigned used = in_use(line, shape_);
    spilled_ += used;
    bool marked = used > 0 && list_of(0) == kLast >> shape_.upper;
    for (unsigned j = 1; j < kRankedSlices; ++j) marked &= list_of(j) == 0;
    return marked ? nullptr : "a block that spilled is not marked so";
  }
  const auto keys = std::bit_width(list_of(0));
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    if (detail::bits_set(list_of(j)) != positions_in_use(line, j, shape_)) {
      return "a list does not fit its bitmap";
    }
    if (std::bit_width(list_of(j)) != keys) return "the lists of a block differ in length";
  }
  return nullptr;
}

const char* RankedCheck::check_head(std::uint64_t word) noexcept {
  before_ = here_;
  here_ = word >> 32;
  if ((word & 0xFFFF'FFFFu) != 0)
    return "the first word of an entry is more than the number of a block";
  if (here_ == 0) return nullptr;
  if (here_ > shape_.blocks) return "an entry is of a block that there is not";
  if (here_ <= before_) return "entries are not in order";
  const std::uint64_t home = spill_home(geometry_, here_ - 1);
  // At its home, or pushed on by the one before it.
  const bool in_place = slot_ == home || (before_ != 0 && slot_ > home);
  return in_place && slot_ < home + geometry_.spill_reach() ? nullptr
                                                            : "an entry is not in its place";
}

const char* RankedCheck::check_table_word(std::uint64_t word) noexcept {
  if (slot_ >= geometry_.spill_slots()) return word == 0 ? nullptr : "padding is not zero";
  const std::uint64_t at = word_in_slot_++;
  if (at == 0) return check_head(word);
  if (here_ == 0 && word != 0) return "an unused slot is not zero";
  for (unsigned i = 0; i < 8; ++i) {
    const auto count = static_cast<unsigned>(word >> 8 * i) & 0xFFu;
    if (count != 0 && 8 * (at - 1) + i >= kRankedSlices * shape_.positions) {
      return "bytes after the counts of an entry are not zero";
    }
    in_entries_ += count != 0;
    at_most_ += count == kMostSpilled;
  }
  if (word_in_slot_ == geometry_.spill_entry_words()) {
    word_in_slot_ = 0;
    ++slot_;
    if (slot_ == geometry_.spill_slots() && in_entries_ > spilled_) {
      return "the entries have more counts than the blocks that spilled have positions in use";
    }
  }
  return nullptr;
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
    const std::uint64_t* const entry = table.at(slot);
    const std::uint64_t* const line = words + (table.number(slot) - 1) * kWordsPerBlock;
    bool fits = is_spilled(line), stays = false;
    std::array<unsigned, kRankedSlices> keys{};
    for (unsigned i = 0; i < kRankedSlices * shape.positions; ++i) {
      const unsigned slice = i / shape.positions, position = i % shape.positions;
      const unsigned count = table.count(entry, i);
      const bool used = (line[position / 64 * kRankedSlices + slice] >> position % 64 & 1) != 0;
      fits &= used == (count != 0);
      keys[slice] += count;
      stays |= count == kMostSpilled;
    }
    // Without counts that stay, all slices have counted the same keys, more than lists can hold.
    const auto other = std::ranges::find_if(keys, [&](unsigned n) { return n != keys[0]; });
    const bool belongs = stays || (other == keys.end() && keys[0] > shape.most_keys);
    if (!fits || !belongs) {
      return RankedFault{fits ? "the counts of an entry do not add up"
                              : "counts do not fit the bitmaps of their block",
                         static_cast<std::uint64_t>(entry - words) * sizeof(std::uint64_t)};
    }
  }
  return std::nullopt;
}

std::uint64_t saturated_positions(const Geometry& geometry, const std::uint64_t* words) noexcept {
  const RankedShape shape(geometry);
  const ConstSpillTable table(geometry, words);
  std::uint64_t saturated = 0;
  for (std::uint64_t block = 0; block < shape.blocks; ++block) {
    const std::uint64_t* const line = words + block * kWordsPerBlock;
    if (is_spilled(line) && table.find(block) == nullptr) saturated += in_use(line, shape);
  }
  for (std::uint64_t slot = 0; slot < table.slots(); ++slot) {
    if (table.number(slot) == 0) continue;
    for (unsigned i = 0; i < kRankedSlices * shape.positions; ++i) {
      saturated += table.count(table.at(slot), i) == kMostSpilled;
    }
  }
  return saturated;
}

}  // namespace scbf
