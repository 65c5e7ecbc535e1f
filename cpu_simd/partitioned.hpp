// SPDX-License-Identifier: Apache-2.0
// The partitioned path: for filters that outgrow the cache and batches that are worth a pass over
// them. Window by window of the batch and stage by stage of the filter, every thread scatters the
// positions of its keys by region; then each region is worked on by one thread while it lies in
// cache, no atomics; then answers return to input order.
#pragma once

#include "cpu_simd/engine.hpp"

namespace scbf {

void partitioned_ask(const ReadWork& work, const Question& question, const KeyBatch& keys,
                     std::uint8_t* out, unsigned threads, const BatchOptions& options);
/// Returns how many counters became non-zero.
std::uint64_t partitioned_add(const WriteWork& work, const KeyBatch& keys, unsigned threads,
                              const BatchOptions& options);
/// Returns how many counters became zero.
std::uint64_t partitioned_remove(const WriteWork& work, const KeyBatch& keys,
                                 std::uint8_t* verdicts, unsigned threads,
                                 const BatchOptions& options);

}  // namespace scbf
