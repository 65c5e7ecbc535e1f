// SPDX-License-Identifier: Apache-2.0
// A filter in the memory of a GPU, for programs whose keys are there already: device pointers in,
// device results out, on the caller's stream. Nothing here synchronises but what says so.
//
// Counters and answers are those of scbf::Filter, byte for byte; upload and download move a filter
// either way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "scbf/cuda/errors.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Owns counters on the device that is current when it is made; calls are for that device. All
/// pointers are to device memory. Calls on one filter are ordered by their streams only: changes
/// by insert on several streams at once are exact, everything else needs the usual events.
///
/// Every call throws CudaError if CUDA refuses it; an error of a kernel shows, as CUDA has it, in
/// a later call or in synchronize().
class DeviceFilter {
 public:
  /// An empty filter, zeroed on `stream`. Throws OutOfDeviceMemory.
  DeviceFilter(const Geometry& geometry, std::uint64_t seed, cudaStream_t stream = nullptr);
  /// A copy of a filter of the host. Throws OutOfDeviceMemory. Returns when the copy is made.
  explicit DeviceFilter(const Filter& filter, cudaStream_t stream = nullptr);
  DeviceFilter(DeviceFilter&& other) noexcept;
  DeviceFilter& operator=(DeviceFilter&& other) noexcept;
  ~DeviceFilter();

  const Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t seed() const noexcept { return seed_; }
  /// For the caller's own kernels; valid as long as this object.
  FilterRef ref() const noexcept { return {geometry_, seed_, words_}; }

  /// Adds 1 to the k counters of each of n keys, saturating.
  void insert_async(const std::uint64_t* keys, std::size_t n, cudaStream_t stream);
  /// out[i] = 1 if keys[i] may be present, else 0.
  void contains_async(const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                      cudaStream_t stream) const;
  /// out[i] = the smallest of the k counters of keys[i].
  void count_async(const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                   cudaStream_t stream) const;
  /// Sets all counters to zero.
  void clear_async(cudaStream_t stream);

  /// Copies the counters to `words` on the host: geometry().words() of them, else InvalidArgument.
  /// Returns when they are there.
  void download(std::span<std::uint64_t> words, cudaStream_t stream = nullptr) const;
  /// Waits for the stream and reports its errors.
  static void synchronize(cudaStream_t stream);

 private:
  void release() noexcept;

  Geometry geometry_;
  std::uint64_t seed_;
  std::uint64_t* words_ = nullptr;
};

}  // namespace scbf::cuda
