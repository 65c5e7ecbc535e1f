// SPDX-License-Identifier: Apache-2.0
// What gpu_bench times besides scbf itself: the floors of device memory, and two filters in their
// usual form. All functions work on the given stream. Pointers are to device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace scbf::bench {

// ---- keys ---------------------------------------------------------------------------------------

/// keys[i] = a bijection of first + i, so keys are distinct.
void make_keys(std::uint64_t* keys, std::size_t n, std::uint64_t first, cudaStream_t stream);
/// Draws keys from `distinct` different ones by a power law: key number r has a share of about
/// r^−1.2.
void make_skewed_keys(std::uint64_t* keys, std::size_t n, std::uint64_t distinct,
                      cudaStream_t stream);
/// Adds the answers (0 or 1) to *sum.
void sum_answers(const std::uint8_t* answers, std::size_t n, unsigned long long* sum,
                 cudaStream_t stream);

/// Keeps the device busy for about a millisecond.
void occupy(cudaStream_t stream);

// ---- floors -------------------------------------------------------------------------------------
//
// n accesses at random in `bytes` (a multiple of 64) of memory.

/// Each access reads 32 or 64 bytes; n is a multiple of 4.
void read_sectors(const void* memory, std::size_t bytes, std::size_t n, unsigned each,
                  unsigned long long* sink, cudaStream_t stream);
/// Each access adds to all eight words of a line: eight threads do one atomic operation each.
void update_lines(void* memory, std::size_t bytes, std::size_t n, cudaStream_t stream);

// ---- the usual bit filter -----------------------------------------------------------------------
//
// Blocks of 32 bytes; a key sets one bit in each of eight 32-bit words.

void bit_filter_insert(std::uint32_t* words, std::uint64_t blocks, const std::uint64_t* keys,
                       std::size_t n, cudaStream_t stream);
void bit_filter_contains(const std::uint32_t* words, std::uint64_t blocks,
                         const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                         cudaStream_t stream);

// ---- the counting filter of textbooks -----------------------------------------------------------
//
// m counters of 32 bits, seven per key.

void textbook_insert(std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                     std::size_t n, cudaStream_t stream);
void textbook_contains(const std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                       std::size_t n, std::uint8_t* out, cudaStream_t stream);

}  // namespace scbf::bench
