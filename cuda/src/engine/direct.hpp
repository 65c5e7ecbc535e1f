// SPDX-License-Identifier: Apache-2.0
// Changes counters one by one, by compare-and-swap. Eight threads serve one key; in split_block
// they access the eight neighbouring words of its block together. Of bits, two threads serve a key,
// one for each word of its block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/marks.hpp"
#include "engine/value_keys.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// Adds keys. Run for i < keys.n · kTile.
template <class Cells>
struct AddDirect {
  static constexpr unsigned kTile = Cells::kBlockWords;

  FilterRef filter;
  ValueKeys keys;

  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    const std::size_t key = i / kTile;
    if (!keys.valid(key)) return;
    filter.add<Cells>(keys.hash(filter, key), static_cast<std::uint32_t>(i % kTile), kTile);
  }
};

/// Takes 1 from the counters of keys with verdict kRemoved. A key that finds one of them at 0 gives
/// back what it took, marks all its lines, and becomes contested. It must mark all its lines:
/// another key may take what this key gives back without underflow, though there was not enough for
/// both.
struct TakeDirect {
  static constexpr unsigned kTile = kWordsPerBlock;

  FilterRef filter;
  ValueKeys keys;
  std::uint8_t* verdicts;
  Marks marks;

  /// Runs lanes first … first + 31 of keys.n · kTile.
  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    constexpr unsigned kShort = 1u << 31;
    const auto key = [=](unsigned l) { return (first + l) / kTile; };
    const auto takes =
        warp.each([&](unsigned l) { return key(l) < keys.n && verdicts[key(l)] == kRemoved; });
    const auto hash = warp.each(
        [&](unsigned l) { return takes[l] ? keys.hash(filter, key(l)) : std::uint64_t{0}; });
    // How many of its counters each lane took, and whether it found one at 0.
    const auto taken = warp.each([&](unsigned l) {
      unsigned count = 0;
      if (!takes[l]) return count;
      for (std::uint32_t i = l % kTile; i < filter.probes(); i += kTile) {
        const detail::Probe at = filter.probe(hash[l], i);
        if (!take_one(Atomic(), filter.words() + at.word, at.shift)) return count | kShort;
        ++count;
      }
      return count;
    });
    const auto all_fine = warp.template least_among<kTile>(
        warp.each([&](unsigned l) { return unsigned{(taken[l] & kShort) == 0}; }));
    warp.sync();  // all lanes of a key have read its verdict; what lanes exchange orders no memory
    warp.each([&](unsigned l) {
      if (!takes[l] || all_fine[l] != 0) return;
      unsigned left = taken[l] & ~kShort;
      for (std::uint32_t i = l % kTile; i < filter.probes(); i += kTile) {
        const detail::Probe at = filter.probe(hash[l], i);
        marks.mark(at.word / kWordsPerBlock);
        if (left == 0) continue;
        --left;
        add_one(Atomic(), filter.words() + at.word, at.shift);
      }
      if (l % kTile == 0) verdicts[key(l)] = kContested;
    });
  }
};

}  // namespace scbf::cuda
