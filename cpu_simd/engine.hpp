// SPDX-License-Identifier: Apache-2.0
// Shared by both paths of the engine: a filter as arrays, with the kernels for its layout.
#pragma once

#include <cstdint>

#include "cpu_simd/kernels.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

/// Bits of an answer that is 0 or 1.
inline constexpr unsigned kYesOrNo = 1;

/// A lookup of keys in one array. The answer of a filter is the smallest answer of its arrays.
using Question = decltype(ArrayKernels::test);

/// A filter cut into arrays, and the kernels for them. Word is const for lookups.
template <class Word>
struct BasicFilterArrays {
  const Kernels& kernels;
  const ArrayKernels& array_kernels;
  BasicCounterView<Word> view;
  std::uint32_t arrays;
  std::uint64_t array_words;  ///< from one array to the next

  BasicFilterArrays(const Kernels& all, BasicCounterView<Word> counters)
      : kernels(all),
        array_kernels(all.of(counters.geometry)),
        view(counters),
        arrays(counters.geometry.cache_lines_per_key()),
        array_words(counters.geometry.in_blocks()
                        ? counters.geometry.block_word(counters.geometry.blocks_per_group())
                        : counters.geometry.slice_stride_words()) {}

  Array array(std::uint32_t index) const noexcept {
    const Geometry& g = view.geometry;
    const std::uint64_t extent = g.in_blocks() ? g.blocks_per_group() : g.counters_per_slice();
    return {index, extent, index * array_words, g.positions()};
  }
  Word* words(const Array& array) const noexcept { return view.words + array.first_word; }

  /// Where the line of a position in an array begins, or an address in it.
  Word* line_of(const Array& array, std::uint64_t position) const noexcept {
    const Geometry& g = view.geometry;
    return words(array) + (g.in_blocks() ? g.block_word(detail::block_of(position))
                                         : position / g.cells_per_word());
  }

  Question is_present() const noexcept { return array_kernels.test; }
  Question how_often() const noexcept { return array_kernels.least; }

  /// Hashes the valid keys of a stretch; see hash_keys.
  std::size_t hash(const KeyBatch& keys, std::size_t first, std::size_t count,
                   std::uint64_t* hashes) const noexcept {
    return hash_keys(keys, first, count, view.seed, kernels.hashes, hashes);
  }
};

using ConstFilterArrays = BasicFilterArrays<const std::uint64_t>;
using FilterArrays = BasicFilterArrays<std::uint64_t>;

}  // namespace scbf
