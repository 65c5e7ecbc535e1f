// SPDX-License-Identifier: Apache-2.0
// Host code on a stream: fetching results, and the part of the engine's Device
// (engine/operations.hpp) that needs no kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "check.hpp"
#include "scbf/cuda/memory.hpp"
#include "temporary.hpp"

namespace scbf::cuda {

/// Copies results at `from` to the host, after the work on the stream, and waits for them. `what`
/// is for messages: "a sum".
inline void fetch(void* to, const void* from, std::size_t bytes, cudaStream_t stream,
                  const std::string& what) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
        ("copying " + what + " from the device").c_str());
  check(cudaStreamSynchronize(stream), ("waiting for " + what).c_str());
}

/// The same for one value.
template <class T>
T fetched(const T* from, cudaStream_t stream, const std::string& what) {
  T value{};
  fetch(&value, from, sizeof value, stream, what);
  return value;
}

/// A stream of the current device, and temporary memory for work enqueued there.
class StreamMemory {
 public:
  StreamMemory(cudaStream_t stream, MemoryResource& memory) : stream_(stream), memory_(memory) {}

  void fill(std::uint64_t* words, std::size_t n, std::uint64_t value) {
    if (n == 0) return;
    check(cudaMemsetAsync(words, value == 0 ? 0 : 0xFF, n * sizeof *words, stream_),
          "filling device memory");
  }

  void reserve(std::size_t bytes) { reserved_.emplace(memory_, stream_, bytes); }

  template <class T>
  Temporary<T> temporary(std::size_t n) {
    return Temporary<T>(memory_, stream_, n);
  }

 protected:
  ~StreamMemory() = default;

  cudaStream_t stream() const noexcept { return stream_; }

  /// Calls use(memory) with the reserved memory or, if that is too small, with memory for this
  /// call.
  template <class Use>
  void in_temporary(std::size_t bytes, Use use) {
    if (reserved_ && reserved_->bytes() >= bytes) return use(reserved_->get());
    const auto memory = temporary<std::byte>(bytes);
    use(memory.get());
  }

 private:
  cudaStream_t stream_;
  MemoryResource& memory_;
  std::optional<Temporary<std::byte>> reserved_;
};

}  // namespace scbf::cuda
