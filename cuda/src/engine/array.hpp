// SPDX-License-Identifier: Apache-2.0
// An array is what one choice addresses: a group of split_block, a slice of split, all blocks of
// ranked. A key's position in an array is one 64-bit number that sorts by memory. Written in terms
// of these, the engine works for all layouts.
#pragma once

#include <bit>
#include <cstdint>

#include "scbf/cuda/cells.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

class Array {
 public:
  SCBF_INLINE Array(const Geometry& geometry, std::uint32_t index) noexcept
      : index_(index), geometry_(geometry) {}

  static std::uint32_t count(const Geometry& geometry) noexcept {
    return geometry.cache_lines_per_key();
  }

  SCBF_INLINE std::uint32_t index() const noexcept { return index_; }
  /// Is it an array of blocks?
  SCBF_INLINE bool in_blocks() const noexcept { return geometry_.in_blocks(); }
  SCBF_INLINE std::uint64_t words() const noexcept {
    return in_blocks() ? geometry_.blocks_per_group() * block_words()
                       : geometry_.slice_stride_words();
  }
  /// The index of the array's first word in the filter.
  SCBF_INLINE std::uint64_t first_word() const noexcept { return index_ * words(); }

  SCBF_INLINE std::uint64_t position(std::uint64_t hash) const noexcept {
    if (in_blocks()) return detail::place_in_group(geometry_, hash, index_);
    return detail::slice_position<detail::PlainOps, true>(hash, detail::multiplier_of(index_),
                                                          geometry_.counters_per_slice());
  }
  /// Makes positions of several hashes, in place. For the first group, which nearly all filters of
  /// blocks have alone, there is no branch for each hash.
  template <unsigned n>
  SCBF_INLINE void to_positions(std::uint64_t (&hashes)[n]) const noexcept {
    if (in_blocks() && index_ == 0) {
      for (std::uint64_t& h : hashes) h = detail::place_in_group(geometry_, h, 0);
    } else {
      for (std::uint64_t& h : hashes) h = position(h);
    }
  }
  /// How many slices it has.
  SCBF_INLINE std::uint32_t slices() const noexcept { return in_blocks() ? kWordsPerBlock : 1; }
  /// For b ≥ 3, position >> (word_bits() + b) is the number of the 2^b words that contain its
  /// shares.
  unsigned word_bits() const noexcept {
    return in_blocks() ? 32 - log2_block_words() : log2(geometry_.cells_per_word());
  }
  unsigned log2_block_words() const noexcept { return log2(block_words()); }

 private:
  static unsigned log2(std::uint64_t power) noexcept {
    return static_cast<unsigned>(std::countr_zero(power));
  }
  SCBF_INLINE std::uint64_t block_words() const noexcept {
    return kCountersPerBlock / 64 * geometry_.cell_bits();
  }

  std::uint32_t index_;

 protected:
  Geometry geometry_;
};

/// All blocks of a filter of layout ranked.
class RankedArray : public Array {
 public:
  explicit RankedArray(const Geometry& geometry) noexcept : Array(geometry, 0) {}
  SCBF_INLINE std::uint64_t position(std::uint64_t hash) const noexcept {
    return detail::ranked_place(geometry_, hash);
  }
  template <unsigned n>
  SCBF_INLINE void to_positions(std::uint64_t (&hashes)[n]) const noexcept {
    for (std::uint64_t& h : hashes) h = position(h);
  }
};

}  // namespace scbf::cuda
