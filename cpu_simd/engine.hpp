// SPDX-License-Identifier: Apache-2.0
// What the two paths of the engine share: a filter cut into stages, and the kernels for it.
#pragma once

#include <cstdint>

#include "cpu_simd/kernels.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

/// Bits of an answer that is 0 or 1.
inline constexpr unsigned kYesOrNo = 1;

/// What a key is asked of in each stage; of the stages' answers the smallest counts.
struct Question {
  decltype(StageKernels::test) ask;
  unsigned answer_bits;  ///< kYesOrNo or kCounterBits
};

/// A filter as the engine sees it. Word is const for lookups.
template <class Word>
struct Work {
  const Kernels& kernels;
  const StageKernels& stage_kernels;
  BasicCounterView<Word> view;
  std::uint32_t stages;
  std::uint64_t stage_words;  ///< from one stage to the next

  Work(const Kernels& all, BasicCounterView<Word> counters)
      : kernels(all),
        stage_kernels(counters.geometry.layout() == Layout::split_block ? all.block : all.slice),
        view(counters),
        stages(counters.geometry.cache_lines_per_key()),
        stage_words(counters.geometry.words() / stages) {}

  Stage stage(std::uint32_t index) const noexcept {
    const Geometry& g = view.geometry;
    const std::uint64_t extent =
        g.layout() == Layout::split_block ? g.blocks_per_group() : g.counters_per_slice();
    return {index, extent, index * stage_words};
  }
  Word* words(const Stage& stage) const noexcept { return view.words + stage.first_word; }

  /// Where the line of a position in a stage begins, or an address in it.
  Word* line_of(const Stage& stage, std::uint64_t position) const noexcept {
    const bool blocks = view.geometry.layout() == Layout::split_block;
    return words(stage) +
           (blocks ? detail::block_of(position) * kWordsPerBlock : position / kCountersPerWord);
  }

  Question is_present() const noexcept { return {stage_kernels.test, kYesOrNo}; }
  Question how_often() const noexcept { return {stage_kernels.least, kCounterBits}; }

  /// Hashes of the valid keys of a stretch; see hash_keys.
  std::size_t hash(const KeyBatch& keys, std::size_t first, std::size_t count,
                   std::uint64_t* hashes) const noexcept {
    return hash_keys(keys, first, count, view.seed, kernels.hash_u64, hashes);
  }
};

using ReadWork = Work<const std::uint64_t>;
using WriteWork = Work<std::uint64_t>;

}  // namespace scbf
