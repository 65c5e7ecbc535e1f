// SPDX-License-Identifier: Apache-2.0
// A filter of bitmaps and of counts that are found by rank and select: as in rank-indexed hashing
// (Hua, Zhao, Lin and Xu, "Rank-Indexed Hashing", ICNP 2008), with the counts in unary, as in
// multilayer compressed counting (Ficara, Giordano, Procissi and Vitucci, INFOCOM 2008), and all of
// a key in one cache line.
//
// A block is 64 bytes, four slices of 128 bits; a key has one position in each. S bits of a slice
// say which of its S positions are in use. The other 128 − S are the list of their counts: for each
// position in use, in order, c − 1 zeros and a one. Since a key is counted once in every slice, the
// four lists of a block with n keys are n bits long: n can be read, and nothing else need be kept.
//
// A block of more than 128 − S keys *spills*: its lists are emptied, which marks it, and its counts
// go to a table beside, as bytes; a lookup needs only the bitmaps. The table is ordered (Amble
// and Knuth 1974), so that the same keys give the same bytes in any order. When they are few enough
// again, the counts return. If the table is full, a key is refused.
//
// Sized for n keys: S and the load with the fewest bits, spilled blocks included, whose computed
// rate is at most the one asked for. At 1 %, S = 82, 30 keys a block, one block in 400 spills: 17.4
// bits a key.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cells.hpp"

namespace scbf::bench {

/// The four slices of a block, and what can be computed of blocks whose keys are Poisson.
struct RankedShape {
  static constexpr unsigned kSlices = 4, kLeast = 65, kMost = 112;

  unsigned positions;  ///< S, of each slice
  double load = 0;     ///< mean keys of a block
  double spilled = 0;  ///< share of blocks that spill

  unsigned capacity() const noexcept { return 128 - positions; }
  unsigned upper() const noexcept { return positions - 64; }  ///< positions in the second word
  std::uint64_t bitmap() const noexcept { return (std::uint64_t{1} << upper()) - 1; }
  std::size_t entry_words() const noexcept { return 1 + (kSlices * positions + 7) / 8; }

  /// P(N = 0), P(N = 1) … of a Poisson variable of this mean.
  static std::vector<double> poisson(double mean) {
    std::vector<double> p(static_cast<std::size_t>(mean + 12 * std::sqrt(mean) + 40));
    for (std::size_t n = 0; n < p.size(); ++n) {
      const auto x = static_cast<double>(n);
      p[n] = std::exp(x * std::log(mean) - mean - std::lgamma(x + 1));
    }
    return p;
  }
  /// That a block shows an absent key: with n keys, each slice does with 1 − (1 − 1/S)^n.
  double fpr(double mean) const {
    const std::vector<double> p = poisson(mean);
    double sum = 0;
    for (std::size_t n = 0; n < p.size(); ++n) {
      const double used = -std::expm1(static_cast<double>(n) * std::log1p(-1.0 / positions));
      sum += p[n] * used * used * used * used;
    }
    return sum;
  }
  double share_above_capacity(double mean) const {
    const std::vector<double> p = poisson(mean);
    return std::accumulate(p.begin() + capacity() + 1, p.end(), 0.0);
  }
  /// Bits of a block, and of its share of the table.
  double bits() const {
    return 512 + spilled / kTableLoad * 64 * static_cast<double>(entry_words());
  }
  static constexpr double kTableLoad = 0.75;

  /// The highest load with this rate.
  static RankedShape with(unsigned positions, double fpr) {
    RankedShape shape{positions};
    double low = 0.01, high = 200;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (shape.fpr(middle) <= fpr ? low : high) = middle;
    }
    shape.load = low;
    shape.spilled = shape.share_above_capacity(low);
    return shape;
  }
  static RankedShape smallest(double fpr) {
    RankedShape best = with(kLeast, fpr);
    for (unsigned positions = kLeast + 1; positions <= kMost; ++positions) {
      const RankedShape other = with(positions, fpr);
      if (other.bits() / other.load < best.bits() / best.load) best = other;
    }
    return best;
  }
};

/// The counts of spilled blocks, sorted by (home, block): the entry of a block is at its home or
/// behind it, with no gap between.
class SpillTable {
 public:
  SpillTable(double entries, std::size_t entry_words)
      : homes_(static_cast<std::uint64_t>(
            std::ceil((entries + 6 * std::sqrt(entries) + 4) / RankedShape::kTableLoad))),
        slots_(homes_ + 64),
        entry_(entry_words),
        memory_(8 * slots_ * entry_words) {}

  /// The first word of an entry is the block, plus 1, in the upper half, and its keys in the lower.
  static std::uint64_t head(std::uint64_t block, std::uint64_t keys) noexcept {
    return (block + 1) << 32 | keys;
  }

  /// The entry of a block that has one.
  std::uint64_t* find(std::uint64_t block) noexcept {
    std::uint64_t slot = home(block);
    while (block_at(slot) != block) ++slot;
    return at(slot);
  }
  const std::uint64_t* find(std::uint64_t block) const noexcept {
    return const_cast<SpillTable*>(this)->find(block);
  }
  /// A new entry, all zero but for its head; null if there is no room.
  std::uint64_t* add(std::uint64_t block) noexcept {
    std::uint64_t slot = home(block);
    while (slot < slots_ && *at(slot) != 0 && precedes(block_at(slot), block)) ++slot;
    std::uint64_t end = slot;
    while (end < slots_ && *at(end) != 0) ++end;
    if (end == slots_) return nullptr;
    std::copy_backward(at(slot), at(end), at(end + 1));
    std::fill_n(at(slot), entry_, 0);
    *at(slot) = head(block, 0);
    return at(slot);
  }
  void erase(std::uint64_t block) noexcept {
    const std::uint64_t slot = static_cast<std::uint64_t>(find(block) - at(0)) / entry_;
    std::uint64_t end = slot + 1;
    while (end < slots_ && *at(end) != 0 && home(block_at(end)) < end) ++end;
    std::copy(at(slot + 1), at(end), at(slot));
    std::fill_n(at(end - 1), entry_, 0);
  }

  void clear() { memory_.clear(); }
  bool empty() const noexcept { return memory_.empty(); }
  std::size_t size_bytes() const noexcept { return memory_.size_bytes(); }
  std::span<const std::uint64_t> words() const noexcept { return memory_.words(); }

 private:
  std::uint64_t* at(std::uint64_t slot) noexcept { return memory_.words().data() + slot * entry_; }
  std::uint64_t block_at(std::uint64_t slot) noexcept { return (*at(slot) >> 32) - 1; }
  std::uint64_t home(std::uint64_t block) const noexcept {
    return scaled(block * 0x9E37'79B9'7F4A'7C15ull, homes_);
  }
  bool precedes(std::uint64_t a, std::uint64_t b) const noexcept {
    return home(a) != home(b) ? home(a) < home(b) : a < b;
  }

  std::uint64_t homes_, slots_;
  std::size_t entry_;
  Memory memory_;
};

class RankedFilter {
 public:
  static constexpr const char* kName = "ranked";

  RankedFilter(std::size_t n, double fpr)
      : shape_(RankedShape::smallest(fpr)),
        blocks_(static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) / shape_.load))),
        memory_(64 * blocks_),
        lines_(memory_.words().data()),
        spilled_(shape_.spilled * static_cast<double>(blocks_), shape_.entry_words()) {
    powers_[0] = 1;
    for (unsigned j = 1; j < kSlices; ++j) powers_[j] = powers_[j - 1] * shape_.positions;
  }

  /// False if the block spills and there is no room; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    return fast_ ? insert_fast(hash) : insert_with<BySearch>(hash);
  }
  bool contains(std::uint64_t hash) const noexcept { return holds(place_of(hash)); }
  unsigned count(std::uint64_t hash) const noexcept {
    const Place place = place_of(hash);
    if (!holds(place)) return 0;
    unsigned least = ~0u;
    for (unsigned j = 0; j < kSlices; ++j) least = std::min(least, count_at(place, j));
    return least;
  }
  bool remove(std::uint64_t hash) noexcept {
    return fast_ ? remove_fast(hash) : remove_with<BySearch>(hash);
  }

  bool empty() const noexcept { return memory_.empty() && spilled_.empty(); }
  void clear() {
    memory_.clear();
    spilled_.clear();
  }
  std::size_t bytes() const noexcept { return memory_.size_bytes() + spilled_.size_bytes(); }
  double predicted_fpr(std::size_t n) const {
    return shape_.fpr(static_cast<double>(n) / static_cast<double>(blocks_));
  }
  const RankedShape& shape() const noexcept { return shape_; }
  std::uint64_t blocks() const noexcept { return blocks_; }
  std::uint64_t spilled_blocks() const noexcept {
    std::uint64_t spilled = 0;
    for (std::uint64_t b = 0; b < blocks_; ++b) spilled += is_spilled(lines_ + 8 * b);
    return spilled;
  }
  /// All bytes, to compare.
  std::vector<std::uint64_t> contents() const {
    std::vector<std::uint64_t> all(lines_, lines_ + 8 * blocks_);
    all.insert(all.end(), spilled_.words().begin(), spilled_.words().end());
    return all;
  }
  /// By search instead of `pdep`, as on machines without it.
  void use_portable_code() noexcept { fast_ = false; }

 private:
  static constexpr unsigned kSlices = RankedShape::kSlices, kMostCounted = 255;

  /// The number of a set bit → its place.
  struct ByDeposit {
    static std::uint64_t select(std::uint64_t word, unsigned rank) noexcept {
      std::uint64_t place;  // in assembly, as intrinsics are not inlined into code for any machine
      asm("pdep %2, %1, %0" : "=r"(place) : "r"(std::uint64_t{1} << rank), "r"(word));
      return place;
    }
  };
  struct BySearch {
    static std::uint64_t select(std::uint64_t word, unsigned rank) noexcept {
      unsigned base = 0;
      for (unsigned step = 32; step > 0; step /= 2) {
        const auto below =
            static_cast<unsigned>(std::popcount(word >> base & ((std::uint64_t{1} << step) - 1)));
        if (below > rank) continue;
        rank -= below;
        base += step;
      }
      return std::uint64_t{1} << base;
    }
  };

  struct Place {
    std::uint64_t block;
    std::uint64_t* line;
    unsigned position[kSlices];
  };
  /// The positions are the digits to the base S of what is left of the hash once the block is
  /// chosen.
  Place place_of(std::uint64_t hash) const noexcept {
    const Wide product = static_cast<Wide>(hash) * blocks_;
    const auto block = static_cast<std::uint64_t>(product >> 64);
    const auto fraction = static_cast<std::uint32_t>(static_cast<std::uint64_t>(product) >> 32);
    Place place{block, lines_ + 8 * block, {}};
    for (unsigned j = 0; j < kSlices; ++j) {
      const std::uint64_t digit = static_cast<std::uint32_t>(fraction * powers_[j]);
      place.position[j] = static_cast<unsigned>(digit * shape_.positions >> 32);
    }
    return place;
  }

  /// One slice of a block, and one position of it.
  struct Slice {
    std::uint64_t* words;     // the first 64 positions; the others, and the list
    std::uint64_t low, high;  // the position's bit in one of the two words

    Slice(std::uint64_t* line, unsigned j, unsigned position) noexcept : words(line + 2 * j) {
      const std::uint64_t second = std::uint64_t{0} - (position >> 6),
                          one = std::uint64_t{1} << (position & 63);
      low = one & ~second;
      high = one & second;
    }
    bool in_use() const noexcept { return ((words[0] & low) | (words[1] & high)) != 0; }
    /// Positions in use before this one.
    unsigned rank() const noexcept {
      const std::uint64_t first = low != 0 ? low - 1 : ~std::uint64_t{0};
      const std::uint64_t second = high != 0 ? high - 1 : 0;
      return static_cast<unsigned>(std::popcount(words[0] & first) +
                                   std::popcount(words[1] & second));
    }
    void set() noexcept {
      words[0] |= low;
      words[1] |= high;
    }
    /// Without a branch: whether it is the last of its position cannot be predicted.
    void reset_if(bool last) noexcept {
      const std::uint64_t all = std::uint64_t{0} - last;
      words[0] &= ~(low & all);
      words[1] &= ~(high & all);
    }
  };
  /// Where in the second word the count of that rank begins: at the beginning of the list, or after
  /// the one that ends the count before.
  template <class Select>
  std::uint64_t begin_of(const Slice& slice, unsigned rank) const noexcept {
    const std::uint64_t list = ~shape_.bitmap();
    const std::uint64_t begins = (slice.words[1] & list) << 1 | (shape_.bitmap() + 1);
    return Select::select(begins, rank);
  }

  bool holds(const Place& place) const noexcept {
    bool all = true;
    for (unsigned j = 0; j < kSlices; ++j) all &= Slice(place.line, j, place.position[j]).in_use();
    return all;
  }
  bool is_spilled(const std::uint64_t* line) const noexcept {
    return (line[1] & ~shape_.bitmap()) == 0 && (line[0] | line[1]) != 0;
  }
  static bool is_full(const std::uint64_t* line) noexcept { return line[1] >> 63 != 0; }

  unsigned count_at(const Place& place, unsigned j) const noexcept {
    if (is_spilled(place.line)) return counter(spilled_.find(place.block), j, place.position[j]);
    const Slice slice(place.line, j, place.position[j]);
    const std::uint64_t begin = begin_of<BySearch>(slice, slice.rank());
    return 1 + static_cast<unsigned>(std::countr_zero((slice.words[1] & (0 - begin)) / begin));
  }

  template <class Select>
  [[gnu::always_inline]] bool insert_with(std::uint64_t hash) noexcept {
    const Place place = place_of(hash);
    if (is_full(place.line) || is_spilled(place.line)) return insert_spilled(place);
    for (unsigned j = 0; j < kSlices; ++j) {
      Slice slice(place.line, j, place.position[j]);
      const std::uint64_t begin = begin_of<Select>(slice, slice.rank());
      const std::uint64_t list = slice.words[1];
      // The list from there on moves up by one. A new count is a one, a longer one has a zero more.
      const std::uint64_t ends = slice.in_use() ? 0 : begin;
      slice.words[1] = list + (list & (0 - begin)) + ends;
      slice.set();
    }
    return true;
  }
  template <class Select>
  [[gnu::always_inline]] bool remove_with(std::uint64_t hash) noexcept {
    const Place place = place_of(hash);
    if (!holds(place)) return false;
    if (is_spilled(place.line)) return remove_spilled(place), true;
    for (unsigned j = 0; j < kSlices; ++j) {
      Slice slice(place.line, j, place.position[j]);
      const std::uint64_t begin = begin_of<Select>(slice, slice.rank());
      const std::uint64_t list = slice.words[1];
      const bool last = (list & begin) != 0;
      slice.words[1] = (list & (begin - 1)) | (list & (0 - begin) & ~begin) >> 1;
      slice.reset_if(last);
    }
    return true;
  }
  [[gnu::target("popcnt"), gnu::noinline]] bool insert_fast(std::uint64_t hash) noexcept {
    return insert_with<ByDeposit>(hash);
  }
  [[gnu::target("popcnt"), gnu::noinline]] bool remove_fast(std::uint64_t hash) noexcept {
    return remove_with<ByDeposit>(hash);
  }

  // ---- blocks that spilled ----------------------------------------------------------------------

  unsigned counter(const std::uint64_t* entry, unsigned j, unsigned position) const noexcept {
    const unsigned i = j * shape_.positions + position;
    return static_cast<unsigned>(entry[1 + i / 8] >> (i % 8 * 8)) & kMostCounted;
  }
  void set_counter(std::uint64_t* entry, unsigned j, unsigned position, unsigned value) noexcept {
    const unsigned i = j * shape_.positions + position, shift = i % 8 * 8;
    std::uint64_t& word = entry[1 + i / 8];
    word = (word & ~(std::uint64_t{kMostCounted} << shift)) | std::uint64_t{value} << shift;
  }
  /// Calls visit(j, position) for the positions in use, in order.
  template <class Visit>
  void for_each_used(const std::uint64_t* line, Visit visit) const noexcept {
    for (unsigned j = 0; j < kSlices; ++j) {
      for (unsigned w = 0; w < 2; ++w) {
        std::uint64_t used = line[2 * j + w] & (w == 0 ? ~std::uint64_t{0} : shape_.bitmap());
        for (; used != 0; used &= used - 1) {
          visit(j, 64 * w + static_cast<unsigned>(std::countr_zero(used)));
        }
      }
    }
  }

  /// Moves the counts to the table. False if it is full.
  bool spill(const Place& place) noexcept {
    std::uint64_t* const entry = spilled_.add(place.block);
    if (entry == nullptr) return false;
    *entry = SpillTable::head(place.block, shape_.capacity());
    std::array<std::uint64_t, kSlices> list{};
    for (unsigned j = 0; j < kSlices; ++j) list[j] = place.line[2 * j + 1] >> shape_.upper();
    for_each_used(place.line, [&](unsigned j, unsigned position) {
      const auto zeros = static_cast<unsigned>(std::countr_zero(list[j]));
      set_counter(entry, j, position, std::min(zeros + 1, kMostCounted));
      list[j] = list[j] >> zeros >> 1;
    });
    for (unsigned j = 0; j < kSlices; ++j) place.line[2 * j + 1] &= shape_.bitmap();
    return true;
  }
  /// Moves them back.
  void unspill(const Place& place, const std::uint64_t* entry) noexcept {
    std::array<std::uint64_t, kSlices> list{};
    std::array<unsigned, kSlices> length{};
    for_each_used(place.line, [&](unsigned j, unsigned position) {
      length[j] += counter(entry, j, position);
      list[j] |= std::uint64_t{1} << (length[j] - 1);
    });
    for (unsigned j = 0; j < kSlices; ++j) place.line[2 * j + 1] |= list[j] << shape_.upper();
    spilled_.erase(place.block);
  }
  bool any_saturated(const std::uint64_t* entry) const noexcept {
    bool any = false;
    for (unsigned i = 0; i < kSlices * shape_.positions; ++i) {
      any |= counter(entry, 0, i) == kMostCounted;
    }
    return any;
  }

  [[gnu::noinline]] bool insert_spilled(const Place& place) noexcept {
    if (!is_spilled(place.line) && !spill(place)) return false;
    std::uint64_t* const entry = spilled_.find(place.block);
    ++*entry;
    for (unsigned j = 0; j < kSlices; ++j) {
      const unsigned had = counter(entry, j, place.position[j]);
      set_counter(entry, j, place.position[j], std::min(had + 1, kMostCounted));
      Slice(place.line, j, place.position[j]).set();
    }
    return true;
  }
  [[gnu::noinline]] void remove_spilled(const Place& place) noexcept {
    std::uint64_t* const entry = spilled_.find(place.block);
    --*entry;
    for (unsigned j = 0; j < kSlices; ++j) {
      const unsigned had = counter(entry, j, place.position[j]);
      if (had == kMostCounted) continue;
      set_counter(entry, j, place.position[j], had - 1);
      Slice(place.line, j, place.position[j]).reset_if(had == 1);
    }
    // A counter at 255 may stand for more: then the list could not be as long as it must.
    if ((*entry & 0xFFFF'FFFFu) <= shape_.capacity() && !any_saturated(entry))
      unspill(place, entry);
  }

  RankedShape shape_;
  std::uint64_t blocks_;
  Memory memory_;
  std::uint64_t* lines_;  // of it, whose first byte begins a cache line
  SpillTable spilled_;
  std::uint32_t powers_[kSlices];
  bool fast_ = __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
};

}  // namespace scbf::bench
