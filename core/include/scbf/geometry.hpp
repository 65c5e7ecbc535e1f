// SPDX-License-Identifier: Apache-2.0
// The shape of a filter: how many counters there are and how they are laid out in memory.
// sizing.hpp chooses a shape for a number of keys and a rate; detail/positions.hpp says where the
// counters of a key lie.
#pragma once

#include "scbf/detail/language.hpp"  // first

#include <cstdint>
#include <string>
#include <string_view>

namespace scbf {

/// How the k slices of a filter lie in memory.
enum class Layout : std::uint32_t {
  /// k contiguous slices of m counters: fewest counters for a rate, k cache lines per key.
  split = 1,
  /// 64-byte blocks whose eight words are the eight slices: one cache line per key and group.
  split_block = 2,
  /// 64-byte blocks of four slices, each a bitmap of the positions in use and the list of their
  /// counts in unary: exact counts in less than half the memory, for sets of distinct keys. One
  /// cache line per key. It resembles rank-indexed hashing (Hua, Zhao, Lin, Xu 2008) and multilayer
  /// compressed counting (Ficara, Giordano, Procissi, Vitucci 2008).
  ranked = 3,
};

/// "split", "split_block" or "ranked".
std::string_view to_string(Layout layout) noexcept;
/// The inverse of to_string. Throws InvalidArgument for any other name.
Layout layout_from_string(std::string_view name);

/// What a filter keeps at each position.
enum class Cell : std::uint32_t {
  counter = 4,  ///< of 4 bits: a counting filter, which can take keys away
  bit = 1,      ///< is the counter non-zero? A plain Bloom filter, which only answers and grows
};
/// "counter" or "bit".
std::string_view to_string(Cell cell) noexcept;

inline constexpr std::uint32_t kCounterBits = 4;
inline constexpr std::uint32_t kCounterMax = 15;  ///< a counter at 15 is saturated and stays at 15
inline constexpr std::uint32_t kCountersPerWord = 16;  ///< in a 64-bit word
inline constexpr std::uint32_t kWordsPerBlock = 8;     ///< 64 bytes, one cache line
inline constexpr std::uint32_t kCountersPerBlock = kWordsPerBlock * kCountersPerWord;
inline constexpr std::uint32_t kMaxProbes = 64;
inline constexpr std::uint32_t kMaxGroups = 8;
inline constexpr std::uint64_t kMaxBlocksPerGroup = 0xFFFF'FFFFull;
inline constexpr std::uint64_t kMaxCountersPerSlice = 1ull << 40;

// Of `ranked`.
inline constexpr std::uint32_t kRankedSlices = 4;         ///< of 128 bits each, in a block
inline constexpr std::uint32_t kMinRankedPositions = 65;  ///< so that a slice's list is in one word
inline constexpr std::uint32_t kMaxRankedPositions = 112;
inline constexpr std::uint64_t kMaxSpillSlots = 0xFFFF'FFFFull;
inline constexpr std::uint64_t kMaxSpillReach = 32;

/// The shape of a filter; a small value type. Counters are numbered 0 … 15 from the least
/// significant nibble of a 64-bit word.
///
/// split: slice i occupies slice_stride_words() words from word i · slice_stride_words() on, so
/// that every slice begins on a cache line; counters past m in its last line are padding and
/// always zero. split_block: block b of group j is the eight words from
/// (j · blocks_per_group() + b) · 8 on; word i of a block belongs to slice 8·j + i.
///
/// ranked: block b is the eight words from 8·b on; its words i and 4 + i are slice i, 128 bits. The
/// lower S = positions() of them say which of its S positions are in use; the upper 128 − S are the
/// list of their counts: for each position in use, in order, c − 1 zeros and a one. With one count
/// per key and slice, a list holds 128 − S keys. The counts of a block with more keys are *spilled*
/// to a table behind the blocks; its lists are then zero, except for the highest bit of the first.
/// (In a block whose lists are full, the highest bits of all four are ones.) The table is
/// spill_slots() slots of spill_entry_words() words each, with entries in ascending order of
/// blocks. The upper half of an entry's first word is the number of the block plus 1; then come the
/// 4·S counts, slice by slice, a byte each. A count at 255 stays: it means 255 or more. An entry is
/// in the first slot that is free at or behind its home, which is block · spill_homes() / blocks,
/// and less than spill_reach() behind it; unused slots are zero. A spilled block that the table has
/// no room for is *stuck*: it keeps its bitmaps and forgets its counts. From then on its keys count
/// 15, as those of saturated counters do, and removals of them take nothing (Removal::kept). The
/// positions in use of stuck blocks, and counts at 255, are the saturated counters.
///
/// Filters of bits have one bit for each counter, padding included: bit i, counted from the least
/// significant bit of the first word, stands for counter i. A block of split_block is then two
/// words, with sixteen bits for each of its eight slices. Of ranked, only the bitmaps remain: bit
/// (4·b + i) · S + p is position p of slice i of block b. There is no table; after the last block
/// come zeros up to a multiple of two words.
class Geometry {
 public:
  /// k = `probes` slices of m = `counters_per_slice` counters.
  /// Throws InvalidArgument unless 1 ≤ probes ≤ 64 and 1 ≤ counters_per_slice ≤ 2^40.
  static Geometry split(std::uint32_t probes, std::uint64_t counters_per_slice);

  /// g = `groups` groups of `blocks_per_group` blocks, k = 8·g. Throws InvalidArgument unless 1 ≤
  /// groups ≤ 8 and 1 ≤ blocks_per_group ≤ 2^32 − 1.
  static Geometry split_block(std::uint32_t groups, std::uint64_t blocks_per_group);

  /// `blocks` blocks whose four slices have `positions` positions each, k = 4, and a table for the
  /// counts of up to `spill_slots` spilled blocks; with 0, a block that would spill is stuck.
  /// Throws InvalidArgument unless 65 ≤ positions ≤ 112, 1 ≤ blocks ≤ 2^32 − 1 and spill_slots ≤
  /// 2^32 − 1.
  static Geometry ranked(std::uint32_t positions, std::uint64_t blocks, std::uint64_t spill_slots);

  /// The same positions with other cells. Geometries are made with counters.
  constexpr Geometry with(Cell cell) const noexcept {
    Geometry other = *this;
    other.cell_ = cell;
    return other;
  }

  constexpr Layout layout() const noexcept { return layout_; }
  /// Are the counters of a key in blocks? True for all layouts but `split`.
  constexpr bool in_blocks() const noexcept { return layout_ != Layout::split; }
  constexpr Cell cell() const noexcept { return cell_; }
  constexpr std::uint32_t cell_bits() const noexcept { return static_cast<std::uint32_t>(cell_); }
  /// Counters, or bits, in a 64-bit word.
  constexpr std::uint32_t cells_per_word() const noexcept { return 64 / cell_bits(); }
  /// k, the number of hash functions, slices, and counters that a key touches.
  constexpr std::uint32_t probes() const noexcept { return probes_; }
  /// g; 0 for split, 1 for ranked.
  constexpr std::uint32_t groups() const noexcept {
    switch (layout_) {
      case Layout::split_block:
        return probes_ / kWordsPerBlock;
      case Layout::ranked:
        return 1;
      default:
        return 0;
    }
  }
  /// Blocks in each group; 0 for split.
  constexpr std::uint64_t blocks_per_group() const noexcept { return in_blocks() ? extent_ : 0; }
  /// S, counters of a slice in one block: 16 for split_block; 0 for split.
  constexpr std::uint32_t positions() const noexcept { return positions_; }
  /// m, counters in one slice; of a filter of bits, bits.
  constexpr std::uint64_t counters_per_slice() const noexcept {
    return in_blocks() ? extent_ * positions_ : extent_;
  }
  /// k · m, not counting padding.
  constexpr std::uint64_t counters() const noexcept { return counters_per_slice() * probes_; }
  /// The same with padding: the numbers that counters have (detail::number_of) are below it.
  constexpr std::uint64_t padded_counters() const noexcept {
    return in_blocks() ? counters() : slice_stride() * probes_;
  }
  /// split only: counters from the start of one slice to the start of the next; a multiple of 128.
  constexpr std::uint64_t slice_stride() const noexcept {
    return (extent_ + kCountersPerBlock - 1) / kCountersPerBlock * kCountersPerBlock;
  }
  /// split only: 64-bit words from the start of one slice to the start of the next.
  constexpr std::uint64_t slice_stride_words() const noexcept {
    return slice_stride() / cells_per_word();
  }
  /// In blocks only: slices of a block, 8, or 4 for ranked.
  constexpr std::uint32_t slices_per_block() const noexcept {
    return layout_ == Layout::ranked ? kRankedSlices : kWordsPerBlock;
  }
  /// In blocks only: counters in a block, over all its slices: 128, or 4·S for ranked.
  constexpr std::uint64_t cells_per_block() const noexcept {
    return slices_per_block() * positions_;
  }
  /// In blocks only: bits of memory from the start of one block to the start of the next: 512, or
  /// in a filter of bits one for each counter.
  constexpr std::uint64_t block_bits() const noexcept {
    return cell_ == Cell::bit ? cells_per_block() : 64 * kWordsPerBlock;
  }
  /// In blocks only: the 64-bit word in which a block begins, counted from the first of its group.
  constexpr std::uint64_t block_word(std::uint64_t block) const noexcept {
    return block * block_bits() / 64;
  }
  // ranked only: the table of spilled counts.
  constexpr std::uint64_t spill_slots() const noexcept { return spill_slots_; }
  constexpr std::uint64_t spill_reach() const noexcept {
    return spill_slots_ < kMaxSpillReach ? spill_slots_ : kMaxSpillReach;
  }
  constexpr std::uint64_t spill_homes() const noexcept {
    return spill_slots_ == 0 ? 0 : spill_slots_ - spill_reach() + 1;
  }
  constexpr std::uint64_t spill_entry_words() const noexcept {
    return 1 + (std::uint64_t{kRankedSlices} * positions_ + 7) / 8;
  }
  /// 64-bit words of all counters, padding included; a multiple of 8 (of bits: of 2).
  constexpr std::uint64_t words() const noexcept {
    switch (layout_) {
      case Layout::split:
        return slice_stride_words() * probes_;
      case Layout::split_block:
        return block_word(extent_) * groups();
      default:
        if (cell_ == Cell::bit) return (extent_ * block_bits() + 127) / 128 * 2;
        return (extent_ * kWordsPerBlock + spill_slots_ * spill_entry_words() + 7) / 8 * 8;
    }
  }
  /// Bytes of all counters, padding included; a multiple of 64 (of bits: of 16).
  constexpr std::uint64_t bytes() const noexcept { return words() * 8; }
  /// Cache lines that an insertion, or a lookup of a present key, touches. (A ranked block of bits
  /// may lie across two.)
  constexpr std::uint32_t cache_lines_per_key() const noexcept {
    return in_blocks() ? groups() : probes_;
  }
  /// For messages: "split_block, 2 groups of 1000 blocks", and of bits "split_block, 2 groups of
  /// 1000 blocks of bits"; "ranked, 1000 blocks of 4 times 82 positions, 10 may spill",
  /// and of bits "ranked, 1000 blocks of 4 times 82 bits, 10 may spill".
  std::string describe() const;

  friend bool operator==(const Geometry&, const Geometry&) = default;

 private:
  constexpr Geometry(Layout layout, std::uint32_t probes, std::uint64_t extent,
                     std::uint32_t positions = 0, std::uint64_t spill_slots = 0) noexcept
      : layout_(layout),
        probes_(probes),
        extent_(extent),
        spill_slots_(spill_slots),
        positions_(positions) {}

  Layout layout_;
  std::uint32_t probes_;
  std::uint64_t extent_;  // counters per slice, or blocks per group
  std::uint64_t spill_slots_;
  std::uint32_t positions_;  // counters of a slice in a block
  Cell cell_ = Cell::counter;
};

}  // namespace scbf
