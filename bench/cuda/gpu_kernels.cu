// SPDX-License-Identifier: Apache-2.0
#include "gpu_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>

namespace scbf::bench {

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kTextbookProbes = 7;
constexpr unsigned kReadsAtOnce = 4;

__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

/// The number of blocks for so many threads.
unsigned grid_for(std::size_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + kThreads - 1) / kThreads, 1, (1u << 31) - 1));
}

/// A bijection whose output looks random (the finaliser of SplitMix64; Steele, Lea, Flood 2014).
__device__ std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ x >> 27) * 0x94D0'49BB'1331'11EBu;
  return x ^ x >> 31;
}
/// x as a fraction of 2^64, scaled to 0 … n − 1.
__device__ std::uint64_t scaled_to(std::uint64_t x, std::uint64_t n) { return __umul64hi(x, n); }

__global__ void keys_kernel(std::uint64_t* keys, std::size_t n, std::uint64_t first) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    keys[i] = mixed((first + i + 1) * 0x9E37'79B9'7F4A'7C15u);
  }
}

__global__ void skewed_keys_kernel(std::uint64_t* keys, std::size_t n, std::uint64_t distinct) {
  // Inverts the continuous power law on [1, distinct]. Its exponent 1.2 gives powers of −0.2.
  const float most = 1.0f - __powf(static_cast<float>(distinct), -0.2f);
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    const float u = static_cast<float>(mixed(i + 1) >> 40) * 0x1p-24f;
    const auto rank = static_cast<std::uint64_t>(__powf(1.0f - u * most, -5.0f));
    keys[i] = mixed(min(rank, distinct) * 0x9E37'79B9'7F4A'7C15u);
  }
}

__global__ void sum_kernel(const std::uint8_t* answers, std::size_t n, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (std::size_t i = thread_index(); i < n; i += thread_count()) mine += answers[i];
  atomicAdd(sum, mine);
}

/// Neighbouring threads share an access, so that an instruction of a warp touches few lines. Each
/// thread has several accesses under way, so that memory is the limit and not latency.
template <unsigned each>
__global__ void read_kernel(const ulonglong2* memory, std::uint64_t sectors, std::size_t n,
                            unsigned long long* sink) {
  constexpr unsigned kSharers = each / sizeof(ulonglong2);
  const ulonglong2* mine = memory + thread_index() % kSharers;
  unsigned long long sum = 0;
  for (std::size_t i = thread_index() / kSharers; i < n / kReadsAtOnce;
       i += thread_count() / kSharers) {
    ulonglong2 loaded[kReadsAtOnce];
    for (unsigned a = 0; a < kReadsAtOnce; ++a) {
      loaded[a] = __ldcg(mine + scaled_to(mixed(i * kReadsAtOnce + a), sectors) * kSharers);
    }
    for (unsigned a = 0; a < kReadsAtOnce; ++a) sum += loaded[a].x ^ loaded[a].y;
  }
  if (sum == 0x1234'5678'9ABC'DEF1u) atomicAdd(sink, sum);  // never, but the compiler cannot know
}

__global__ void update_kernel(unsigned long long* words, std::uint64_t lines, std::size_t n) {
  const std::size_t rank = thread_index() % 8;
  for (std::size_t i = thread_index() / 8; i < n; i += thread_count() / 8) {
    atomicAdd(words + scaled_to(mixed(i), lines) * 8 + rank, 1ull);
  }
}

__global__ void occupy_kernel(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

/// The eight salts of the split block Bloom filter in the Apache Parquet format specification.
__device__ std::uint32_t bit_in_word(std::uint32_t hash, unsigned word) {
  constexpr std::uint32_t kOdd[8] = {0x47B6'137Bu, 0x4497'4D91u, 0x8824'AD5Bu, 0xA2B7'289Du,
                                     0x7054'95C7u, 0x2DF1'424Bu, 0x9EFC'4947u, 0x5C6B'FB31u};
  return 1u << (hash * kOdd[word] >> 27);
}

__global__ void bit_insert_kernel(std::uint32_t* words, std::uint64_t blocks,
                                  const std::uint64_t* keys, std::size_t n) {
  const unsigned word = thread_index() % 8;
  for (std::size_t i = thread_index() / 8; i < n; i += thread_count() / 8) {
    const std::uint64_t hash = mixed(keys[i]);
    atomicOr(words + scaled_to(hash, blocks) * 8 + word,
             bit_in_word(static_cast<std::uint32_t>(hash), word));
  }
}

__global__ void bit_contains_kernel(const std::uint32_t* words, std::uint64_t blocks,
                                    const std::uint64_t* keys, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    const std::uint64_t hash = mixed(keys[i]);
    const auto* block = reinterpret_cast<const uint4*>(words + scaled_to(hash, blocks) * 8);
    const uint4 low = block[0], high = block[1];
    const std::uint32_t all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    bool found = true;
    for (unsigned word = 0; word < 8; ++word) {
      found &= (all[word] & bit_in_word(static_cast<std::uint32_t>(hash), word)) != 0;
    }
    out[i] = found;
  }
}

__device__ std::uint64_t textbook_position(std::uint64_t hash, unsigned probe, std::uint64_t m) {
  return scaled_to(mixed(hash + probe * 0x9E37'79B9'7F4A'7C15u), m);
}

__global__ void textbook_insert_kernel(std::uint32_t* counters, std::uint64_t m,
                                       const std::uint64_t* keys, std::size_t n) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    for (unsigned probe = 0; probe < kTextbookProbes; ++probe) {
      atomicAdd(counters + textbook_position(keys[i], probe, m), 1u);
    }
  }
}

__global__ void textbook_contains_kernel(const std::uint32_t* counters, std::uint64_t m,
                                         const std::uint64_t* keys, std::size_t n,
                                         std::uint8_t* out) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    bool found = true;
    for (unsigned probe = 0; found && probe < kTextbookProbes; ++probe) {
      found = counters[textbook_position(keys[i], probe, m)] != 0;
    }
    out[i] = found;
  }
}

}  // namespace

void make_keys(std::uint64_t* keys, std::size_t n, std::uint64_t first, cudaStream_t stream) {
  keys_kernel<<<grid_for(n), kThreads, 0, stream>>>(keys, n, first);
}
void make_skewed_keys(std::uint64_t* keys, std::size_t n, std::uint64_t distinct,
                      cudaStream_t stream) {
  skewed_keys_kernel<<<grid_for(n), kThreads, 0, stream>>>(keys, n, distinct);
}
void sum_answers(const std::uint8_t* answers, std::size_t n, unsigned long long* sum,
                 cudaStream_t stream) {
  sum_kernel<<<std::min(grid_for(n), 4096u), kThreads, 0, stream>>>(answers, n, sum);
}
void occupy(cudaStream_t stream) { occupy_kernel<<<1, 1, 0, stream>>>(2'000'000); }
void read_sectors(const void* memory, std::size_t bytes, std::size_t n, unsigned each,
                  unsigned long long* sink, cudaStream_t stream) {
  const auto* at = static_cast<const ulonglong2*>(memory);
  if (each == 32) {
    read_kernel<32>
        <<<grid_for(n / kReadsAtOnce * 2), kThreads, 0, stream>>>(at, bytes / 32, n, sink);
  } else {
    read_kernel<64>
        <<<grid_for(n / kReadsAtOnce * 4), kThreads, 0, stream>>>(at, bytes / 64, n, sink);
  }
}
void update_lines(void* memory, std::size_t bytes, std::size_t n, cudaStream_t stream) {
  update_kernel<<<grid_for(n * 8), kThreads, 0, stream>>>(static_cast<unsigned long long*>(memory),
                                                          bytes / 64, n);
}
void bit_filter_insert(std::uint32_t* words, std::uint64_t blocks, const std::uint64_t* keys,
                       std::size_t n, cudaStream_t stream) {
  bit_insert_kernel<<<grid_for(n * 8), kThreads, 0, stream>>>(words, blocks, keys, n);
}
void bit_filter_contains(const std::uint32_t* words, std::uint64_t blocks,
                         const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                         cudaStream_t stream) {
  bit_contains_kernel<<<grid_for(n), kThreads, 0, stream>>>(words, blocks, keys, n, out);
}
void textbook_insert(std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                     std::size_t n, cudaStream_t stream) {
  textbook_insert_kernel<<<grid_for(n), kThreads, 0, stream>>>(counters, m, keys, n);
}
void textbook_contains(const std::uint32_t* counters, std::uint64_t m, const std::uint64_t* keys,
                       std::size_t n, std::uint8_t* out, cudaStream_t stream) {
  textbook_contains_kernel<<<grid_for(n), kThreads, 0, stream>>>(counters, m, keys, n, out);
}

}  // namespace scbf::bench
