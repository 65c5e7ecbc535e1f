// SPDX-License-Identifier: Apache-2.0
// Temporary device memory, for work that an operation enqueues.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "scbf/cuda/memory.hpp"

namespace scbf::cuda {

/// Memory of a MemoryResource, freed in stream order by the destructor.
template <class T>
class Temporary {
 public:
  Temporary(MemoryResource& memory, cudaStream_t stream, std::size_t n)
      : memory_(&memory),
        stream_(stream),
        bytes_(n * sizeof(T)),
        data_(bytes_ == 0 ? nullptr : memory.allocate(bytes_, stream)) {}
  Temporary(Temporary&& other) noexcept
      : memory_(other.memory_),
        stream_(other.stream_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)) {}
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (data_ != nullptr) memory_->deallocate(data_, bytes_, stream_);
  }
  std::size_t bytes() const noexcept { return bytes_; }
  T* get() const noexcept { return static_cast<T*>(data_); }

 private:
  MemoryResource* memory_;
  cudaStream_t stream_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace scbf::cuda
