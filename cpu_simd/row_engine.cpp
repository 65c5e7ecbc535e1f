// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/row_engine.hpp"

#include <algorithm>

#include "cpu_simd/tuning.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

void SimdRowEngine::locate(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
                           std::uint64_t* rows) const noexcept {
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  const std::uint32_t k = geometry.probes();
  const bool blocks = geometry.layout() == Layout::split_block;
  const std::uint32_t stages = geometry.cache_lines_per_key();
  const std::uint64_t extent = blocks ? geometry.blocks_per_group() : geometry.counters_per_slice();
  const std::uint64_t stage_words = geometry.words() / stages;
  const StageKernels& kernels = blocks ? kernels_.block : kernels_.slice;
  for (std::size_t first = 0; first < n; first += kStripKeys) {
    const std::size_t keys = std::min(kStripKeys, n - first);
    for (std::uint32_t s = 0; s < stages; ++s) {
      const Stage stage = {s, extent, s * stage_words};
      kernels.locate(stage, hashes + first, keys, positions.data());
      const std::uint64_t first_row = stage.first_word * kCountersPerWord;
      std::uint64_t* to = rows + first * k + s * (blocks ? kWordsPerBlock : 1);
      for (std::size_t i = 0; i < keys; ++i, to += k) {
        if (!blocks) {
          *to = first_row + positions[i];
          continue;
        }
        const std::uint64_t place = positions[i];
        const std::uint64_t block_row = first_row + detail::block_of(place) * kCountersPerBlock;
        for (unsigned w = 0; w < kWordsPerBlock; ++w) {
          to[w] = block_row + w * kCountersPerWord + (place >> (4 * w)) % kCountersPerWord;
        }
      }
    }
  }
}

}  // namespace scbf
