// SPDX-License-Identifier: Apache-2.0
// The direct path: strips of keys that fit into L1, with prefetching, stage by stage. No
// temporary memory on the heap.
#pragma once

#include "cpu_simd/engine.hpp"

namespace scbf {

/// out[i] = answer for key i, the smallest over all stages; 0 for null keys.
void direct_ask(const ReadWork& work, const Question& question, const KeyBatch& keys,
                std::uint8_t* out, const BatchOptions& options);
/// Returns how many counters became non-zero.
std::uint64_t direct_add(const WriteWork& work, const KeyBatch& keys) noexcept;
/// Key by key through all stages, so that verdicts are those of removal one after another.
/// Returns how many counters became zero.
std::uint64_t direct_remove(const WriteWork& work, const KeyBatch& keys,
                            std::uint8_t* verdicts) noexcept;

}  // namespace scbf
