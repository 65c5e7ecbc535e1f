// SPDX-License-Identifier: Apache-2.0
// Lookups through several filters: which keys does any of them hold? Strip by strip, directly or,
// where the filters outgrow the cache, in the order of the hashes.
//
// Blocks are chosen by the upper bits of the hash, in filters of all sizes: keys in the order of
// their hashes walk through the first groups of all filters at once. So keys are scattered once,
// by hash, and each partition is asked of all filters while its share of each lies in cache. Per
// further filter that costs what a filter in cache costs, not a line from memory.
#pragma once

#include <span>
#include <vector>

#include "cpu_simd/engine.hpp"

namespace scbf {

/// out[i] = 1 if any of the filters holds key i, else 0. The filters have one seed; there is at
/// least one.
void direct_any(std::span<const ReadWork> filters, const KeyBatch& keys, std::uint8_t* out,
                const BatchOptions& options);
/// The same; all filters are split_block. Throws std::bad_alloc.
void partitioned_any(std::span<const ReadWork> filters, const KeyBatch& keys, std::uint8_t* out,
                     unsigned threads, const BatchOptions& options);
/// Is partitioned_any the faster one, by size? For split_block.
bool worth_partitioning_any(std::span<const ReadWork> filters, std::size_t keys, unsigned threads,
                            const BatchOptions& options) noexcept;

}  // namespace scbf
