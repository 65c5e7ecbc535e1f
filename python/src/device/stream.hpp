// SPDX-License-Identifier: Apache-2.0
// Streams of work on a GPU, as Python hands them over, and what their work still uses.
#pragma once

#include <cuda_runtime_api.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace scbf::python {

struct Stream {
  cudaStream_t handle = nullptr;  ///< null: the default stream
  nanobind::object owner;         ///< keeps the handle valid
};

/// None or 0: the default stream; another int: its handle; or an object with `__cuda_stream__`
/// (cuda.core), `cuda_stream` (PyTorch) or `ptr` (CuPy). Throws InvalidArgument.
Stream stream_of(nanobind::object object);
/// How `__cuda_array_interface__` and DLPack number a stream, and back: 1 is the default stream.
std::int64_t number_of(cudaStream_t stream);
cudaStream_t stream_numbered(std::int64_t number);
/// Work that is enqueued on `later` from now on waits for all that `earlier` has to do.
void order(cudaStream_t earlier, cudaStream_t later);

/// Python objects whose memory is still used by work on a stream. Called with Python's global lock.
class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  /// Waits for all work, without the lock.
  ~InFlight();

  /// Keeps the objects until the work that `stream` has to do is done; where that cannot be told
  /// later, waits for it.
  void keep(cudaStream_t stream, std::vector<nanobind::object> objects) noexcept;
  /// Lets go of what is no longer used.
  void let_go() noexcept;

 private:
  struct Entry {
    cudaEvent_t done;
    std::vector<nanobind::object> objects;
  };
  std::vector<Entry> taken_done();

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace scbf::python
