// SPDX-License-Identifier: Apache-2.0
#include "cuda_own_kernels.hpp"

#include <cooperative_groups.h>
#include <thrust/device_vector.h>

#include <array>
#include <cub/device/device_select.cuh>
#include <cuda/std/span>
#include <span>
#include <vector>

#include "scbf/cuda/device_filter.hpp"

namespace scbf_test {

namespace {

using scbf::cuda::FilterRef;
namespace cg = cooperative_groups;

constexpr unsigned kThreads = 128;
constexpr unsigned kGroup = 8;

// Vectors of Thrust can be passed as keys.
static_assert(
    std::is_constructible_v<scbf::cuda::DeviceKeys, const thrust::device_vector<std::uint64_t>&>);

__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * kThreads + threadIdx.x; }

__global__ void insert_thread_kernel(FilterRef filter, const std::uint64_t* keys, std::size_t n) {
  const std::size_t i = thread_index();
  if (i < n) filter.insert(keys[i]);
}
__global__ void insert_group_kernel(FilterRef filter, const std::uint64_t* keys, std::size_t n) {
  const auto group = cg::tiled_partition<kGroup>(cg::this_thread_block());
  const std::size_t i = thread_index() / kGroup;
  if (i < n) filter.insert(group, keys[i]);
}
__global__ void contains_thread_kernel(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                                       std::uint8_t* out) {
  const std::size_t i = thread_index();
  if (i < n) out[i] = filter.contains(keys[i]);
}
__global__ void contains_group_kernel(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                                      std::uint8_t* out) {
  const auto group = cg::tiled_partition<kGroup>(cg::this_thread_block());
  const std::size_t i = thread_index() / kGroup;
  if (i >= n) return;
  const bool found = filter.contains(group, keys[i]);
  if (group.thread_rank() == 0) out[i] = found;
}

unsigned blocks_for(std::size_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}
void wait() { cudaDeviceSynchronize(); }

}  // namespace

void insert_by_threads(FilterRef filter, const std::uint64_t* keys, std::size_t n) {
  insert_thread_kernel<<<blocks_for(n), kThreads>>>(filter, keys, n);
  wait();
}
void insert_by_groups(FilterRef filter, const std::uint64_t* keys, std::size_t n) {
  insert_group_kernel<<<blocks_for(n * kGroup), kThreads>>>(filter, keys, n);
  wait();
}
void contains_by_threads(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                         std::uint8_t* out) {
  contains_thread_kernel<<<blocks_for(n), kThreads>>>(filter, keys, n, out);
  wait();
}
void contains_by_groups(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                        std::uint8_t* out) {
  contains_group_kernel<<<blocks_for(n * kGroup), kThreads>>>(filter, keys, n, out);
  wait();
}
void select_by_cub(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                   std::uint64_t* selected, std::uint64_t* how_many) {
  std::size_t bytes = 0;
  void* temporary = nullptr;
  cub::DeviceSelect::If(nullptr, bytes, keys, selected, how_many, n, filter);
  cudaMalloc(&temporary, bytes);
  cub::DeviceSelect::If(temporary, bytes, keys, selected, how_many, n, filter);
  wait();
  cudaFree(temporary);
}

}  // namespace scbf_test
