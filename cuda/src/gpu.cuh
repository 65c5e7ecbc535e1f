// SPDX-License-Identifier: Apache-2.0
// The policies of the engine on a GPU (engine/operations.hpp says what each must do): lanes,
// blocks of threads, grids, and the stream that kernels are launched on.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <type_traits>
#include <utility>

#include "check.hpp"
#include "engine/warp.hpp"
#include "scbf/cuda/atomic.hpp"
#include "stream.hpp"

namespace scbf::cuda {

/// One lane's element of a value that every lane of a warp, or thread of a block, has.
template <class T>
struct OfLane {
  T value;
  SCBF_INLINE T& operator[](unsigned) noexcept { return value; }
  SCBF_INLINE const T& operator[](unsigned) const noexcept { return value; }
};

class GpuWarp {
 public:
  template <class T>
  using PerLane = OfLane<T>;

  SCBF_INLINE explicit GpuWarp(unsigned lane) noexcept : lane_(lane) {}

  template <class Work>
  SCBF_INLINE auto each(Work work) const {
    using Result = std::invoke_result_t<Work, unsigned>;
    if constexpr (std::is_void_v<Result>) {
      work(lane_);
    } else {
      return OfLane<Result>{work(lane_)};
    }
  }
  template <unsigned width, class T>
  SCBF_INLINE OfLane<T> of_neighbour(const OfLane<T>& v, unsigned which) const {
#if defined(__CUDA_ARCH__)
    return {__shfl_sync(kAll, v.value, static_cast<int>(which), width)};
#else
    return v;
#endif
  }
  template <unsigned distance, class T>
  SCBF_INLINE OfLane<T> across(const OfLane<T>& v) const {
#if defined(__CUDA_ARCH__)
    return {__shfl_xor_sync(kAll, v.value, static_cast<int>(distance))};
#else
    return v;
#endif
  }
  template <unsigned width, class T, class Join>
  SCBF_INLINE OfLane<T> joined_among(OfLane<T> v, [[maybe_unused]] Join join) const {
#if defined(__CUDA_ARCH__)
    for (unsigned distance = 1; distance < width; distance *= 2) {
      v.value = join(v.value, __shfl_xor_sync(kAll, v.value, static_cast<int>(distance)));
    }
#endif
    return v;
  }
  template <class T>
  SCBF_INLINE std::uint32_t ballot(const OfLane<T>& v) const {
#if defined(__CUDA_ARCH__)
    return __ballot_sync(kAll, v.value != 0);
#else
    return v.value != 0;
#endif
  }
  template <class T>
  SCBF_INLINE T sum(const OfLane<T>& v) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAll, v.value);
#else
    return joined_among<kWarp>(v, [](T a, T b) { return a + b; }).value;
#endif
  }
  SCBF_INLINE void sync() const {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }

 private:
  static constexpr unsigned kAll = 0xFFFF'FFFFu;
  unsigned lane_;
};

class GpuThreads {
 public:
  SCBF_INLINE unsigned size() const noexcept {
#if defined(__CUDA_ARCH__)
    return blockDim.x;
#else
    return 1;
#endif
  }
  template <class Work>
  SCBF_INLINE void each(Work work) const {
#if defined(__CUDA_ARCH__)
    work(threadIdx.x);
#else
    work(0u);
#endif
  }
  template <class Work>
  SCBF_INLINE auto kept(Work work) const {
#if defined(__CUDA_ARCH__)
    return OfLane<std::invoke_result_t<Work, unsigned>>{work(threadIdx.x)};
#else
    return OfLane<std::invoke_result_t<Work, unsigned>>{work(0u)};
#endif
  }
  template <class Work>
  SCBF_INLINE void add_up(std::uint64_t* total, Work work) const {
#if defined(__CUDA_ARCH__)
    const unsigned lane = threadIdx.x % kWarp;
    const std::uint32_t sum = GpuWarp(lane).sum(OfLane<std::uint32_t>{work(threadIdx.x)});
    if (lane == 0 && sum != 0) Atomic().add(total, sum);
#else
    *total += work(0u);
#endif
  }
  template <class Amount, class Place>
  SCBF_INLINE void allot(std::uint32_t* next, Amount amount, Place place) const {
#if defined(__CUDA_ARCH__)
    const unsigned lane = threadIdx.x % kWarp;
    const std::uint32_t mine = amount(threadIdx.x);
    std::uint32_t sum = mine;  // of this lane and those below
    for (unsigned distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(0xFFFF'FFFFu, sum, distance);
      if (lane >= distance) sum += below;
    }
    std::uint32_t first = lane == kWarp - 1 ? atomicAdd(next, sum) : 0;
    first = __shfl_sync(0xFFFF'FFFFu, first, kWarp - 1);
    place(threadIdx.x, first + sum - mine);
#else
    place(0u, std::exchange(*next, *next + amount(0u)));
#endif
  }
  template <class Work>
  SCBF_INLINE void each_warp(Work work) const {
#if defined(__CUDA_ARCH__)
    work(GpuWarp(threadIdx.x % kWarp), threadIdx.x / kWarp);
#else
    work(GpuWarp(0), 0u);
#endif
  }
  SCBF_INLINE void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
};

__device__ inline std::size_t thread_index() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

class GpuGrid {
 public:
  template <class Work>
  SCBF_INLINE void each(std::size_t n, Work work) const {
#if defined(__CUDA_ARCH__)
    for (std::size_t i = thread_index(); i < n; i += thread_count()) work(i);
#else
    for (std::size_t i = 0; i < n; ++i) work(i);
#endif
  }
  SCBF_INLINE void sync() const {
#if defined(__CUDA_ARCH__)
    cooperative_groups::this_grid().sync();
#endif
  }
};

inline constexpr unsigned kThreads = 256;
/// Threads of a block that uses shared memory. A multiprocessor of Hopper holds three blocks of 64
/// KiB each; of larger ones it holds one or two, which must then bring more threads.
inline constexpr unsigned kThreadsOfBlock = 512, kThreadsOfLargeBlock = 1024;
inline constexpr std::size_t kLargeBlockBytes = std::size_t{72} << 10;
inline constexpr unsigned kThreadsPerProcessor = 1536;

template <class Work>
__global__ void __launch_bounds__(kThreads) each_kernel(std::size_t n, Work work) {
  for (std::size_t i = thread_index(); i < n; i += thread_count()) work(i);
}
/// How many blocks of threads per multiprocessor the work insists on; 0: the compiler decides. The
/// compiler may use as many registers as these leave it, and is told so where it would otherwise
/// save registers by waiting for loads one by one.
template <class Work>
constexpr unsigned blocks_for() {
  if constexpr (requires { Work::kBlocksPerProcessor; }) return Work::kBlocksPerProcessor;
  return 0;
}

/// The same for blocks of this many threads, unless they use much shared memory.
template <unsigned threads, class Work>
constexpr unsigned thread_blocks_for() {
  return threads == kThreadsOfBlock && blocks_for<Work>() > 0 ? blocks_for<Work>()
                                                              : kThreadsPerProcessor / threads;
}

template <class Work>
__global__ void __launch_bounds__(kThreads, blocks_for<Work>())
    warps_kernel(std::size_t n, Work work) {
  const GpuWarp warp(threadIdx.x % kWarp);
  // A warp stays together: `begin` is the same for all its lanes.
  const std::size_t begin = thread_index() / kWarp * kWarp;
  for (std::size_t first = begin; first < n; first += thread_count()) work(warp, first);
}
template <unsigned threads, class Work>
__global__ void __launch_bounds__(threads, thread_blocks_for<threads, Work>())
    thread_blocks_kernel(Work work) {
  extern __shared__ std::uint64_t shared[];
  // Not a loop: the compiler would keep everything that is the same in each round in registers.
  work(GpuThreads(), blockIdx.x, shared);
}
/// Few blocks of threads synchronise faster than many. This many per multiprocessor are enough, and
/// may use all of its registers.
inline constexpr unsigned kGridBlocksPerProcessor = 2;
template <class Work>
__global__ void __launch_bounds__(kThreads, kGridBlocksPerProcessor) grid_kernel(Work work) {
  work(GpuGrid());
}

/// The engine's Device: kernels and algorithms on a stream.
class Gpu : public StreamMemory {
 private:
  // CUB's functions are called twice: first for the size of their temporary memory, then with it.
  auto summing(const std::uint64_t* in, std::uint64_t* out, std::size_t n) {
    return [=, this](void* memory, std::size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(memory, bytes, in, out, n, stream());
    };
  }
  template <class Index, class Wanted>
  auto selecting(Index n, Wanted wanted, Index* out, std::uint64_t* count) {
    return [=, this](void* memory, std::size_t& bytes) {
      return cub::DeviceSelect::If(memory, bytes, thrust::counting_iterator<Index>(0), out, count,
                                   n, wanted, stream());
    };
  }
  template <class Call>
  static std::size_t bytes_for(Call call) {
    std::size_t bytes = 0;
    check(call(nullptr, bytes), "asking for the temporary memory of an algorithm");
    return std::max<std::size_t>(bytes, 1);
  }
  template <class Call>
  void run(Call call) {
    std::size_t bytes = bytes_for(call);
    // CUB reports the last error of the thread, which may be from an earlier call of the program.
    (void)cudaGetLastError();
    in_temporary(bytes, [&](void* memory) { check(call(memory, bytes), "running an algorithm"); });
  }

 public:
  using StreamMemory::StreamMemory;

  template <class Work>
  void for_each(std::size_t n, Work work) {
    if (n == 0) return;
    launch(each_kernel<Work>, grid_for(n), kThreads, 0, n, work);
  }
  template <class Work>
  void for_warps(std::size_t n, Work work) {
    if (n == 0) return;
    launch(warps_kernel<Work>, grid_for(n), kThreads, 0, n, work);
  }
  template <class Work>
  void for_thread_blocks(std::size_t n, std::size_t bytes, Work work) {
    if (n == 0) return;
    if (bytes > kLargeBlockBytes) {
      launch_thread_blocks<kThreadsOfLargeBlock>(n, bytes, work);
    } else {
      launch_thread_blocks<kThreadsOfBlock>(n, bytes, work);
    }
  }
  std::size_t thread_blocks_at_once(std::size_t bytes) const {
    const unsigned threads = bytes > kLargeBlockBytes ? kThreadsOfLargeBlock : kThreadsOfBlock;
    return std::size_t{processors()} * (kThreadsPerProcessor / threads);
  }
  template <class Work>
  void for_grid(Work work) {
    int fitting = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, grid_kernel<Work>, kThreads, 0),
          "asking for the occupancy");
    const auto blocks =
        static_cast<unsigned>(static_cast<int>(processors()) *
                              std::clamp(fitting, 1, static_cast<int>(kGridBlocksPerProcessor)));
    void* arguments[] = {&work};
    check(cudaLaunchCooperativeKernel(grid_kernel<Work>, dim3(blocks), dim3(kThreads), arguments, 0,
                                      stream()),
          "launching a cooperative kernel");
  }

  std::size_t sum_bytes(std::size_t n) { return bytes_for(summing(nullptr, nullptr, n)); }
  void exclusive_sum(const std::uint64_t* in, std::uint64_t* out, std::size_t n) {
    run(summing(in, out, n));
  }
  template <class Index, class Wanted>
  std::size_t select_bytes(Index n, Wanted wanted) {
    return bytes_for(selecting(n, wanted, static_cast<Index*>(nullptr), nullptr));
  }
  template <class Index, class Wanted>
  void select(Index n, Wanted wanted, Index* out, std::uint64_t* count) {
    run(selecting(n, wanted, out, count));
  }
  template <class Value>
  auto reduce(std::size_t n, Value value) {
    using Sum = std::invoke_result_t<Value, std::size_t>;
    const thrust::counting_iterator<std::size_t> first(0);
    const auto on_device = temporary<Sum>(1);
    run([&](void* memory, std::size_t& bytes) {
      return cub::DeviceReduce::TransformReduce(memory, bytes, first, on_device.get(), n,
                                                ::cuda::std::plus<>(), value, Sum{}, stream());
    });
    return fetched(on_device.get(), stream(), "a sum");
  }

 private:
  static constexpr std::size_t kMostBlocks = (std::size_t{1} << 31) - 1;

  static unsigned processors() {
    int device = 0, processors = 0;
    check(cudaGetDevice(&device), "asking for the device");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
          "asking for the multiprocessors");
    return static_cast<unsigned>(processors);
  }
  static unsigned grid_for(std::size_t threads) {
    return static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kMostBlocks));
  }

  template <unsigned threads, class Work>
  void launch_thread_blocks(std::size_t n, std::size_t bytes, Work work) {
    const auto kernel = thread_blocks_kernel<threads, Work>;
    // Always the same value for one kernel on one device: it is an attribute of the kernel, not of
    // the launch, and other threads may be launching it with more bytes.
    int most = static_cast<int>(kLargeBlockBytes);
    if constexpr (threads == kThreadsOfLargeBlock) {
      int device = 0;
      check(cudaGetDevice(&device), "asking for the device");
      check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "asking for the shared memory of the device");
    }
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
          "asking for shared memory");
    // More would be the partitions of tebibytes.
    if (n > kMostBlocks) check(cudaErrorInvalidConfiguration, "launching a kernel");
    launch(kernel, static_cast<unsigned>(n), threads, bytes, work);
  }

  // Uses cudaLaunchKernel because <<<>>> with cudaGetLastError could report an error from an
  // earlier call of the program.
  template <class... Parameters>
  void launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, std::size_t shared,
              std::type_identity_t<Parameters>... parameters) {
    void* pointers[] = {&parameters...};
    check(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), pointers, shared, stream()),
          "launching a kernel");
  }
};

}  // namespace scbf::cuda
