// SPDX-License-Identifier: Apache-2.0
// What gpu_bench times besides scbf itself: the floors of device memory, and two filters as they
// are usually written. All work on the given stream; pointers are to device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace scbf::bench {

// ---- keys
// -----------------------------------------------------------------------------------------

/// keys[i] = a mix of first + i, one to one: distinct keys.
void make_keys(std::uint64_t* keys, std::size_t n, std::uint64_t first, cudaStream_t stream);
/// Every key one of `distinct` by a power law: number r has a share of about r^−1.2.
void make_skewed_keys(std::uint64_t* keys, std::size_t n, std::uint64_t distinct,
                      cudaStream_t stream);
/// Adds the answers (0 or 1) to *sum.
void sum_answers(const std::uint8_t* answers, std::size_t n, unsigned long long* sum,
                 cudaStream_t stream);

/// Does nothing for about a millisecond.
void occupy(cudaStream_t stream);

// ---- floors: n accesses at random places of `bytes` (a multiple of 64) of memory
// ------------------

/// Reads 32 or 64 bytes each time; n is a multiple of 4.
void read_sectors(const void* memory, std::size_t bytes, std::size_t n, unsigned each,
                  unsigned long long* sink, cudaStream_t stream);
/// Adds to all eight words of a line: eight threads, one atomic operation each.
void update_lines(void* memory, std::size_t bytes, std::size_t n, cudaStream_t stream);

// ---- the usual bit filter: blocks of 32 bytes, one bit in each of eight 32-bit words
// ----------------

void bit_filter_insert(std::uint32_t* words, std::uint64_t blocks, const std::uint64_t* keys,
                       std::size_t n, cudaStream_t stream);
void bit_filter_contains(const std::uint32_t* words, std::uint64_t blocks,
                         const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                         cudaStream_t stream);

// ---- the textbook's counting filter: m counters of 32 bits, seven of them per key
// -------------------

void textbook_insert(std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                     std::size_t n, cudaStream_t stream);
void textbook_contains(const std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                       std::size_t n, std::uint8_t* out, cudaStream_t stream);

}  // namespace scbf::bench
