// SPDX-License-Identifier: Apache-2.0
// Direct kernels: key by key, updates by compare-and-swap.
#include "kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>

namespace scbf::cuda {

namespace {

constexpr unsigned kBlockThreads = 256;
/// Threads that share the insertion of one key: its eight words in one coalesced access.
constexpr unsigned kTile = kWordsPerBlock;

/// This thread, and how many threads there are.
__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

__global__ void __launch_bounds__(kBlockThreads)
    insert_kernel(FilterRef filter, const std::uint64_t* __restrict__ keys, std::size_t n) {
  const auto rank = static_cast<std::uint32_t>(thread_index() % kTile);
  for (std::size_t i = thread_index() / kTile; i < n; i += thread_count() / kTile) {
    filter.insert_hash(filter.hash(keys[i]), rank, kTile);
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    contains_kernel(FilterRef filter, const std::uint64_t* __restrict__ keys, std::size_t n,
                    std::uint8_t* __restrict__ out) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    out[i] = filter.contains_hash(filter.hash(keys[i]));
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    count_kernel(FilterRef filter, const std::uint64_t* __restrict__ keys, std::size_t n,
                 std::uint8_t* __restrict__ out) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) {
    out[i] = static_cast<std::uint8_t>(filter.count_hash(filter.hash(keys[i])));
  }
}

/// Blocks of threads for so many; kernels take strides over what is more than a grid may have.
unsigned grid_for(std::size_t threads) {
  constexpr std::size_t kMost = (std::size_t{1} << 31) - 1;
  return static_cast<unsigned>(std::min((threads + kBlockThreads - 1) / kBlockThreads, kMost));
}

}  // namespace

cudaError_t launch_insert(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                          cudaStream_t stream) noexcept {
  insert_kernel<<<grid_for(n * kTile), kBlockThreads, 0, stream>>>(filter, keys, n);
  return cudaGetLastError();
}

cudaError_t launch_contains(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                            std::uint8_t* out, cudaStream_t stream) noexcept {
  contains_kernel<<<grid_for(n), kBlockThreads, 0, stream>>>(filter, keys, n, out);
  return cudaGetLastError();
}

cudaError_t launch_count(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                         std::uint8_t* out, cudaStream_t stream) noexcept {
  count_kernel<<<grid_for(n), kBlockThreads, 0, stream>>>(filter, keys, n, out);
  return cudaGetLastError();
}

}  // namespace scbf::cuda
