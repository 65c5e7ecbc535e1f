// SPDX-License-Identifier: Apache-2.0
// Where temporary device memory comes from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace scbf::cuda {

/// Allocates and frees device memory in stream order. Derive from it to supply your own pool. Each
/// operation calls it from one thread at a time.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  /// Returns `bytes` > 0 bytes, aligned to 256, for work enqueued on `stream` from now on. May
  /// throw OutOfDeviceMemory; the filter is unchanged then.
  virtual void* allocate(std::size_t bytes, cudaStream_t stream) = 0;
  /// Frees the memory once the work enqueued on `stream` so far is done.
  virtual void deallocate(void* memory, std::size_t bytes, cudaStream_t stream) noexcept = 0;
};

/// The library's own pool on the current device. Freed memory stays in the pool for the next
/// operation; see release_device_scratch. Lives as long as the program.
MemoryResource& pool_memory();

/// Gives back to all devices and to the host the memory that the library keeps for the next batch:
/// unused memory in its pools, and the buffers for batches from the host, pinned memory included.
/// Waits for the devices. The library calls it itself when there is too little memory for a filter.
void release_device_scratch() noexcept;

}  // namespace scbf::cuda
