// SPDX-License-Identifier: Apache-2.0
// Where temporary device memory comes from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace scbf::cuda {

/// Gives and takes back device memory in the order of a stream. Derive to lend a pool of your own;
/// called by one thread at a time for each operation.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  /// `bytes` > 0 of memory, aligned to 256, usable by work that is enqueued on `stream` from now
  /// on. Throws OutOfDeviceMemory; nothing of the filter has been changed then.
  virtual void* allocate(std::size_t bytes, cudaStream_t stream) = 0;
  /// Takes it back once what is enqueued on `stream` by now is done.
  virtual void deallocate(void* memory, std::size_t bytes, cudaStream_t stream) noexcept = 0;
};

/// Memory from a pool of this library on the current device. What is given back stays in the pool
/// for the next operation; see release_device_scratch. Lives as long as the program.
MemoryResource& pool_memory();

/// Gives back, to all devices and to the host, what this library keeps for the next batch: what
/// lies unused in its pools, and the windows that batches of the host go through, their pinned
/// memory included. Waits for the devices. Done by itself where a filter finds no room.
void release_device_scratch() noexcept;

}  // namespace scbf::cuda
