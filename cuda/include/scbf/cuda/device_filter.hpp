// SPDX-License-Identifier: Apache-2.0
// A filter in the memory of a GPU, for programs whose keys are there already: device pointers in,
// device results out, on the caller's stream.
//
//   scbf::cuda::DeviceFilter filter(geometry, seed);
//   filter.insert_async({keys, n}, {.stream = stream});          // nothing here waits
//   filter.contains_async({asked, m}, answers, {.stream = stream});
//
// Counters and answers are those of scbf::Filter, byte for byte. Programs whose keys are on the
// host use scbf::Filter with backend "cuda".
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scbf/cuda/device_keys.hpp"
#include "scbf/cuda/errors.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/memory.hpp"
#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Options of one operation. The defaults suit most callers.
struct DeviceOptions {
  cudaStream_t stream = nullptr;
  Path path = Path::automatic;  ///< of changes; lookups have one path
  /// Most temporary memory of the partitioned path, about; 0 = the filter's own size, but 64 MiB
  /// at least.
  std::size_t scratch_bytes = 0;
  /// Where temporary memory comes from; null = pool_memory().
  MemoryResource* memory = nullptr;
};

/// Owns counters on the device that is current when it is made. Calls throw InvalidArgument while
/// another device is current, and when the filter has been moved from. All pointers are to memory
/// that the device reads and writes, large enough for the batch; nobody checks them. Functions
/// named …_async return before the work is done, which is in the order of their stream; the others
/// wait for it. Calls on one filter are ordered by their streams only: insertions on several
/// streams at once are exact unless they are partitioned, everything else needs the usual events.
///
/// Temporary memory of a batch: lookups none; insertions and removals 18 bytes per key where they
/// are partitioned, within scratch_bytes; removals 4 bytes per key, a 512th of the filter, and 8
/// MiB more; byte strings 8 bytes per key for their hashes; find 1 byte per key.
///
/// Every call throws CudaError if CUDA refuses it and OutOfDeviceMemory, changing nothing, if its
/// temporary memory is not to be had. An error of a kernel shows, as CUDA has it, in a later call
/// or in synchronize(), as DeviceLost.
class DeviceFilter {
 public:
  /// An empty filter, zeroed on `stream`.
  DeviceFilter(const Geometry& geometry, std::uint64_t seed, cudaStream_t stream = nullptr);
  /// A copy of a filter, wherever it is, its books included. Waits until it is made.
  explicit DeviceFilter(const Filter& filter, cudaStream_t stream = nullptr);
  DeviceFilter(DeviceFilter&& other) noexcept;
  DeviceFilter& operator=(DeviceFilter&& other) noexcept;
  ~DeviceFilter();

  const Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t seed() const noexcept { return seed_; }
  /// For the caller's own kernels; valid as long as this object.
  FilterRef ref() const noexcept { return {geometry_, seed_, words_}; }

  // ---- batches ----------------------------------------------------------------------------------

  /// Adds 1 to the k counters of each valid key, saturating.
  void insert_async(const DeviceKeys& keys, const DeviceOptions& options = {});
  void insert(const DeviceKeys& keys, const DeviceOptions& options = {});

  /// out[i] = 1 if key i may be present, 0 if it is surely absent or null; keys.size() bytes.
  void contains_async(const DeviceKeys& keys, std::uint8_t* out,
                      const DeviceOptions& options = {}) const;
  void contains(const DeviceKeys& keys, std::uint8_t* out, const DeviceOptions& options = {}) const;
  /// The same as packed bits, least significant first; (keys.size() + 7) / 8 bytes.
  void contains_bits_async(const DeviceKeys& keys, std::uint8_t* bits,
                           const DeviceOptions& options = {}) const;
  void contains_bits(const DeviceKeys& keys, std::uint8_t* bits,
                     const DeviceOptions& options = {}) const;
  /// The same as ascending indices of the hits, room for keys.size() of them; *hits = how many.
  void find_async(const DeviceKeys& keys, std::uint64_t* indices, std::uint64_t* hits,
                  const DeviceOptions& options = {}) const;
  /// Returns how many.
  std::uint64_t find(const DeviceKeys& keys, std::uint64_t* indices,
                     const DeviceOptions& options = {}) const;

  /// out[i] = the smallest of the k counters of key i, 15 meaning 15 or more; 0 if it is null.
  void count_async(const DeviceKeys& keys, std::uint8_t* out,
                   const DeviceOptions& options = {}) const;
  void count(const DeviceKeys& keys, std::uint8_t* out, const DeviceOptions& options = {}) const;

  /// Removes keys as if one after another; verdicts[i] = 1 if key i was removed, 0 if it was absent
  /// at its turn or is null.
  void remove_async(const DeviceKeys& keys, std::uint8_t* verdicts,
                    const DeviceOptions& options = {});
  void remove(const DeviceKeys& keys, std::uint8_t* verdicts, const DeviceOptions& options = {});

  // ---- whole filters ----------------------------------------------------------------------------

  /// Adds the other filter's counters, saturating. Throws Incompatible.
  void merge_async(const DeviceFilter& other, const DeviceOptions& options = {});
  /// Takes them away; waits for the comparison that comes first. Throws Incompatible, changing
  /// nothing, if a counter would fall below zero.
  SubtractReport subtract(const DeviceFilter& other, const DeviceOptions& options = {});
  /// Sets all counters and the books to zero.
  void clear_async(cudaStream_t stream = nullptr);
  /// The counters by value, one histogram per slice. Waits for the result.
  std::vector<Histogram> histograms(const DeviceOptions& options = {}) const;

  /// Keys inserted and removed, as booked in the order of `stream`. Waits for them.
  std::uint64_t keys_inserted(cudaStream_t stream = nullptr) const;
  std::uint64_t keys_removed(cudaStream_t stream = nullptr) const;

  /// Copies the counters to `words` on the host: geometry().words() of them, else InvalidArgument.
  /// Returns when they are there.
  void download(std::span<std::uint64_t> words, cudaStream_t stream = nullptr) const;
  /// A filter with these counters, seed and books, for files and for the host. Waits for it.
  Filter to_filter(const FilterOptions& options = {}, cudaStream_t stream = nullptr) const;

  /// Waits for the stream and reports its errors.
  static void synchronize(cudaStream_t stream = nullptr);

 private:
  void release() noexcept;
  void check_usable() const;
  std::uint64_t booked(std::size_t which, cudaStream_t stream) const;
  void check_compatible(const DeviceFilter& other) const;

  Geometry geometry_;
  std::uint64_t seed_;
  int device_ = 0;
  std::uint64_t* words_ = nullptr;  // the counters, then the books
};

}  // namespace scbf::cuda
