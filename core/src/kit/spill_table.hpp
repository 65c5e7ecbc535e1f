// SPDX-License-Identifier: Apache-2.0
// The table after the blocks of a `ranked` filter: the counts of blocks that spilled (see
// Geometry). Linear probing in the order of the blocks, which is also that of their homes: the same
// spilled blocks lie in the same slots, whichever came first.
//
// A block whose slot would be spill_reach() or more after its home has no entry. When an entry that
// is pushed on gets there, it is dropped, and its block is stuck. So a new entry moves few others,
// however full the table is. Which blocks have no entry does not depend on the order of insertions
// either: once there is no room for a block, later entries never make room for it. (Ordered hash
// tables: Amble and Knuth, 1974.)
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "scbf/detail/hash.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

inline constexpr unsigned kMostSpilled = 255;  ///< a count at 255 stays: 255 or more

/// The slot where the entry of a block belongs.
inline std::uint64_t spill_home(const Geometry& geometry, std::uint64_t block) noexcept {
  return block * geometry.spill_homes() / geometry.blocks_per_group();  // both are below 2^32
}

/// Word is const for reading. Any words are safe: what is read and written lies in the table. find
/// and what concerns single entries also work in device code.
template <class Word>
class BasicSpillTable {
 public:
  /// `words` are those of the filter.
  BasicSpillTable(const Geometry& geometry, Word* words) noexcept
      : blocks_(geometry.blocks_per_group()),
        homes_(geometry.spill_homes()),
        slots_(geometry.spill_slots()),
        reach_(geometry.spill_reach()),
        entry_(geometry.spill_entry_words()),
        first_(words + blocks_ * kWordsPerBlock) {}

  /// The table with entries that lie elsewhere.
  BasicSpillTable with_entries_at(Word* first) const noexcept {
    BasicSpillTable table = *this;
    table.first_ = first;
    return table;
  }

  /// The entry of a block, or null.
  SCBF_INLINE Word* find(std::uint64_t block) const noexcept {
    const std::uint64_t slot = slot_of(block);
    return slot < end_of(block) && number(slot) == block + 1 ? at(slot) : nullptr;
  }
  /// A new entry, all zero but for the block; null if there is no room. The block must not have
  /// one. Other entries move, and one may be dropped.
  Word* add(std::uint64_t block) const noexcept;
  /// Removes an entry. Others move.
  void erase(const Word* entry) const noexcept;

  // In an entry.

  /// Count i of all 4·S.
  SCBF_INLINE static unsigned count(const Word* entry, unsigned i) noexcept {
    return static_cast<unsigned>(entry[1 + i / 8] >> (i % 8 * 8)) & 0xFFu;
  }
  /// The sum of the first n counts, n ≤ S.
  SCBF_INLINE static unsigned sum_of_first(const Word* entry, unsigned n) noexcept {
    constexpr std::uint64_t kEven = 0x00FF'00FF'00FF'00FFu;
    std::uint64_t sums = 0;  // four of 16 bits, at most 2 · 14 · 255 each
    for (unsigned i = 0; i < n; i += 8) {
      const std::uint64_t counts =
          entry[1 + i / 8] & ~std::uint64_t{0} >> (n - i < 8 ? 8 * (8 - (n - i)) : 0);
      sums += (counts & kEven) + (counts >> 8 & kEven);
    }
    return static_cast<unsigned>(sums * 0x0001'0001'0001'0001u >> 48);
  }
  SCBF_INLINE static void set_count(std::uint64_t* entry, unsigned i, unsigned count) noexcept {
    const unsigned shift = i % 8 * 8;
    std::uint64_t& word = entry[1 + i / 8];
    word = (word & ~(std::uint64_t{0xFF} << shift)) | std::uint64_t{count} << shift;
  }

  SCBF_INLINE std::uint64_t blocks() const noexcept { return blocks_; }
  SCBF_INLINE std::uint64_t slots() const noexcept { return slots_; }
  SCBF_INLINE std::uint64_t entry_words() const noexcept { return entry_; }
  SCBF_INLINE Word* at(std::uint64_t slot) const noexcept { return first_ + slot * entry_; }
  /// The block of a slot plus 1, or 0.
  SCBF_INLINE std::uint64_t number(std::uint64_t slot) const noexcept { return *at(slot) >> 32; }
  /// For a table with slots: as spill_home, but inside the table for any number.
  SCBF_INLINE std::uint64_t home(std::uint64_t block) const noexcept {
    const std::uint64_t home = block * homes_ / blocks_;
    return home < homes_ ? home : homes_ - 1;
  }
  /// An entry lies in one of this many slots from its home on.
  SCBF_INLINE std::uint64_t reach() const noexcept { return reach_; }

 private:
  /// The slot behind the last one in reach of the block.
  SCBF_INLINE std::uint64_t end_of(std::uint64_t block) const noexcept {
    return homes_ == 0 ? 0 : home(block) + reach_;
  }
  /// The first slot in reach that is unused or has this block or a later one.
  SCBF_INLINE std::uint64_t slot_of(std::uint64_t block) const noexcept {
    const std::uint64_t end = end_of(block);
    std::uint64_t slot = homes_ == 0 ? 0 : home(block);
    while (slot < end && number(slot) != 0 && number(slot) <= block) ++slot;
    return slot;
  }

  std::uint64_t blocks_, homes_, slots_, reach_, entry_;
  Word* first_;
};

using SpillTable = BasicSpillTable<std::uint64_t>;
using ConstSpillTable = BasicSpillTable<const std::uint64_t>;

/// Whoever uses the table while other threads may change it holds this. Threads that work on
/// different blocks of one filter share its table; few keys are in blocks that spilled.
std::mutex& spill_lock(const std::uint64_t* words) noexcept;
/// How many removals met a stuck block, in this filter and those that share its lock. Whoever meets
/// one counts it, so that whoever removes knows when to look for keys that were kept.
std::atomic<std::uint64_t>& removals_from_stuck(const std::uint64_t* words) noexcept;

}  // namespace scbf
