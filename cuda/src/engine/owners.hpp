// SPDX-License-Identifier: Apache-2.0
// Which key of a batch is the first that has a cell (new_keys.hpp).
#pragma once

#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// The owners of cells: a hash table with a word for each cell and its owner. Cells of one line of
/// counters are first looked for in one line of the table, so that the eight of a key in
/// split_block take one access of eight lanes; after that, anywhere. An entry stays that of the
/// cell that took it, so that all claims to a cell meet in the same one.
struct Owners {
  /// A key's number in its batch takes this many bits, its cell the others: enough for 2 TiB of
  /// bits.
  static constexpr unsigned kKeyBits = 20;
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  std::uint64_t* entries;  ///< kFree at first; 2^log2_entries of them, twice as many as cells
  unsigned log2_entries;

  static SCBF_INLINE unsigned log2_entries_for(std::uint64_t cells) noexcept {
    const unsigned wanted = cells == 0 ? 0 : detail::bits_up_to_highest(2 * cells - 1);
    return wanted < kLeastLog2Entries ? kLeastLog2Entries : wanted;
  }

  /// Key `first + i · step` has cell i, for each bit i of `which`. The accesses to all of them are
  /// under way at once.
  template <unsigned n>
  SCBF_INLINE void claim(const std::uint64_t (&cells)[n], std::uint32_t which, std::uint32_t first,
                         std::uint32_t step) const noexcept {
    const auto wanted = [&](unsigned i) { return (which >> i & 1) != 0; };
    const auto mine = [&](unsigned i) { return cells[i] << kKeyBits | (first + i * step); };
    std::uint64_t seen[n] = {};
    for (unsigned i = 0; i < n; ++i) {
      if (wanted(i)) seen[i] = Atomic().load(home(cells[i]));
    }
    for (unsigned i = 0; i < n; ++i) {
      if (wanted(i) && seen[i] == kFree) seen[i] = Atomic().swap(home(cells[i]), kFree, mine(i));
    }
    for (unsigned i = 0; i < n; ++i) {
      if (!wanted(i) || seen[i] == kFree) continue;
      std::uint64_t* entry = home(cells[i]);
      for (std::uint64_t attempt = 1; seen[i] >> kKeyBits != cells[i]; ++attempt) {
        entry = elsewhere(cells[i], attempt);
        seen[i] = Atomic().load(entry);
        if (seen[i] == kFree) seen[i] = Atomic().swap(entry, kFree, mine(i));
        if (seen[i] == kFree) break;
      }
      if (mine(i) < seen[i] && seen[i] != kFree) Atomic().lower(entry, mine(i));
    }
  }
  /// Does any of them own its cell? To be asked when all claims have been made. A bit for each.
  template <unsigned n>
  SCBF_INLINE std::uint32_t owned(const std::uint64_t (&cells)[n], std::uint32_t which,
                                  std::uint32_t first, std::uint32_t step) const noexcept {
    const auto wanted = [&](unsigned i) { return (which >> i & 1) != 0; };
    std::uint64_t seen[n] = {};
    for (unsigned i = 0; i < n; ++i) {
      if (wanted(i)) seen[i] = load_uncached(home(cells[i]));
    }
    std::uint32_t owned = 0;
    for (unsigned i = 0; i < n; ++i) {
      if (!wanted(i)) continue;
      for (std::uint64_t attempt = 1; seen[i] != kFree && seen[i] >> kKeyBits != cells[i];
           ++attempt) {
        seen[i] = load_uncached(elsewhere(cells[i], attempt));
      }
      owned |= std::uint32_t{seen[i] == (cells[i] << kKeyBits | (first + i * step))} << i;
    }
    return owned;
  }

 private:
  static constexpr unsigned kLeastLog2Entries = 3;
  static constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15u, kStride = 0xD1B5'4A32'D192'ED03u;

  SCBF_INLINE std::uint64_t* home(std::uint64_t cell) const noexcept {
    const std::uint64_t line = cell / kCountersPerBlock * kOdd >> 3 >> (64 - log2_entries);
    return entries + (line << 3 | (cell / kCountersPerWord & 7));
  }
  SCBF_INLINE std::uint64_t* elsewhere(std::uint64_t cell, std::uint64_t attempt) const noexcept {
    return entries + ((cell + attempt * kStride) * kOdd >> (64 - log2_entries));
  }
};

}  // namespace scbf::cuda
