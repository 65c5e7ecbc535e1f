// SPDX-License-Identifier: Apache-2.0
#include "scbf/cuda/memory.hpp"

#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "check.hpp"
#include "devices.hpp"
#include "staging.hpp"

namespace scbf::cuda {

namespace {

/// A pool of one device, or plain allocations if the device has no pools.
class Pool final : public MemoryResource {
 public:
  explicit Pool(int device) : device_(device) {
    int has_pools = 0;
    check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device),
          "asking whether the device has memory pools");
    if (has_pools == 0) return;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    check(cudaMemPoolCreate(&pool_, &properties), "creating a memory pool");
    // Otherwise each wait for a stream would give all unused memory back to the system.
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    const cudaError_t result =
        cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    if (result != cudaSuccess) ignore(cudaMemPoolDestroy(pool_));
    check(result, "setting up a memory pool");
  }

  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    void* memory = nullptr;
    const cudaError_t result = pool_ != nullptr
                                   ? cudaMallocFromPoolAsync(&memory, bytes, pool_, stream)
                                   : cudaMalloc(&memory, bytes);
    if (result == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, "a batch");
    check(result, "allocating temporary device memory");
    return memory;
  }
  void deallocate(void* memory, std::size_t, cudaStream_t stream) noexcept override {
    if (pool_ != nullptr) {
      ignore(cudaFreeAsync(memory, stream));
    } else {
      ignore(cudaFree(memory));
    }
  }
  void trim() noexcept {
    if (pool_ == nullptr) return;
    try {
      const OnDevice on(device_);
      ignore(cudaDeviceSynchronize());  // memory that is still being freed does not count as unused
                                        // yet
      ignore(cudaMemPoolTrimTo(pool_, 0));
    } catch (const std::exception&) {
      // A device that cannot be made current has lost its memory anyway.
    }
  }

 private:
  int device_;
  cudaMemPool_t pool_ = nullptr;  // never destroyed: the driver may be gone before static objects
};

struct Pools {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Pool>> of_device;
};
Pools& pools() {
  static auto* all = new Pools;
  return *all;
}

}  // namespace

MemoryResource& pool_memory() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  const std::scoped_lock lock(pools().mutex);
  const auto found = pools().of_device.find(device);
  if (found != pools().of_device.end()) return *found->second;
  return *pools().of_device.emplace(device, std::make_unique<Pool>(device)).first->second;
}

void release_device_scratch() noexcept {
  release_idle_stagings();
  const std::scoped_lock lock(pools().mutex);
  for (const auto& [device, pool] : pools().of_device) pool->trim();
}

}  // namespace scbf::cuda
