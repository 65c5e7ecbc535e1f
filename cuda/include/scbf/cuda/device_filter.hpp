// SPDX-License-Identifier: Apache-2.0
// A filter in the memory of a GPU, for programs whose keys are already there: it takes and fills
// device pointers, on the caller's stream.
//
//   scbf::cuda::DeviceFilter filter(geometry, seed);
//   filter.insert_async({keys, n}, {.stream = stream});          // nothing here waits
//   filter.contains_async({asked, n_asked}, answers, {.stream = stream});
//
// Counters and answers are those of scbf::Filter, byte for byte, and bits those of
// scbf::BloomFilter. If the keys are on the host, use these with backend "cuda".
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scbf/bloom_filter.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/cuda/errors.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/memory.hpp"
#include "scbf/detail/owned.hpp"
#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Options of one operation. The defaults suit most callers.
struct DeviceOptions {
  cudaStream_t stream = nullptr;
  Path path = Path::automatic;  ///< for changes; lookups, and counters in ranked, have one path
  /// The limit of the partitioned path's temporary memory, approximately; 0 = the filter's own
  /// size, but at least 64 MiB.
  std::size_t scratch_bytes = 0;
  /// For insertions: the caller promises that nothing else changes the filter while this one runs.
  /// The partitioned path then adds to the filter by plain loads and stores instead of
  /// compare-and-swap. If the promise is broken, increments are lost.
  bool alone = false;
  /// Where temporary memory comes from; null = pool_memory().
  MemoryResource* memory = nullptr;
};

/// Owns counters, or bits, as its geometry says (Geometry::cell), on the device that is current
/// when it is made. Movable (errors.hpp: "Moving"). With bits, remove, subtract and to_filter throw
/// InvalidArgument. In the layout ranked, histograms throws it; if the filter has counters, so does
/// everything but insertions, lookups, clear, download and to_filter.
/// Calls throw InvalidArgument if another device is current. All pointers must be to memory
/// that the device can read and write, large enough for the batch; they are not checked. Functions
/// named …_async enqueue work on their stream and return before it is done; the others wait for it.
/// Only streams order the calls on one filter. Insertions on several streams may run concurrently,
/// on any path and beside FilterRef::insert in kernels of the caller's: counters and numbers of
/// keys are exact (unless DeviceOptions::alone says otherwise). That does not hold for insert_new,
/// which also looks keys up. Insertions into counters in the layout ranked take turns: each begins
/// on its stream when the one before, on any stream, is done; it cannot be captured into a graph
/// (InvalidArgument). Anything else on several streams needs events to order it.
///
/// Temporary memory of a batch: for lookups none; for partitioned insertions and removals 20 bytes
/// per key, or 12 in split below 2^32 counters a slice, within scratch_bytes; for removals also 4
/// bytes per key, a 512th of the filter, and up to 8 MiB; for insert_new up to 64 MiB; for
/// insertions into counters in the layout ranked, which are always partitioned, 16 bytes per key
/// within scratch_bytes, 8 bytes per block, a 512th of the filter, and as much as the table of
/// spilled counts; for byte strings 8 bytes per key, for their hashes; for find 1 byte per key.
///
/// Constructors throw BackendUnavailable where there is no device, or no driver for it.
/// Every call throws CudaError if CUDA refuses it, and OutOfDeviceMemory, changing nothing, if
/// there is too little temporary memory. As usual with CUDA, an error in a kernel is reported by a
/// later call or by synchronize(), as DeviceLost.
class DeviceFilter {
 public:
  /// An empty filter, zeroed on `stream`.
  DeviceFilter(const Geometry& geometry, std::uint64_t seed, cudaStream_t stream = nullptr);
  /// A copy of a filter, on host or device, with its numbers of keys inserted and removed. Waits
  /// until it is complete. Throws InvalidArgument if the filter has several stages.
  explicit DeviceFilter(const Filter& filter, cudaStream_t stream = nullptr);
  explicit DeviceFilter(const BloomFilter& filter, cudaStream_t stream = nullptr);
  DeviceFilter(DeviceFilter&& other) noexcept;
  DeviceFilter& operator=(DeviceFilter&& other) noexcept;
  ~DeviceFilter();

  const Geometry& geometry() const { return check_owner(), geometry_; }
  std::uint64_t seed() const { return check_owner(), seed_; }
  /// A view for the caller's own kernels; valid as long as this object holds the counters.
  FilterRef ref() const { return check_owner(), FilterRef{geometry_, seed_, words_}; }

  // ---- batches ----------------------------------------------------------------------------------

  /// Adds 1 to the k counters of each valid key, saturating, or sets its bits.
  void insert_async(const DeviceKeys& keys, const DeviceOptions& options = {});
  void insert(const DeviceKeys& keys, const DeviceOptions& options = {});

  /// Inserts keys as if one after another, each if the filter does not hold it at its turn;
  /// verdicts[i] = 1 if key i was inserted, 0 if it was found, or null. As Filter::insert_new.
  /// Takes the direct path; into counters in ranked, keys are inserted as by insert().
  void insert_new_async(const DeviceKeys& keys, std::uint8_t* verdicts,
                        const DeviceOptions& options = {});
  void insert_new(const DeviceKeys& keys, std::uint8_t* verdicts,
                  const DeviceOptions& options = {});

  /// out[i] = 1 if key i may be present, 0 if it is surely absent or null; keys.size() bytes.
  void contains_async(const DeviceKeys& keys, std::uint8_t* out,
                      const DeviceOptions& options = {}) const;
  void contains(const DeviceKeys& keys, std::uint8_t* out, const DeviceOptions& options = {}) const;
  /// The same as packed bits, least significant first; (keys.size() + 7) / 8 bytes.
  void contains_bits_async(const DeviceKeys& keys, std::uint8_t* bits,
                           const DeviceOptions& options = {}) const;
  void contains_bits(const DeviceKeys& keys, std::uint8_t* bits,
                     const DeviceOptions& options = {}) const;
  /// The same as ascending indices of the hits, with room for keys.size(); *hits = how many there
  /// are. Both pointers are to device memory.
  void find_async(const DeviceKeys& keys, std::uint64_t* indices, std::uint64_t* hits,
                  const DeviceOptions& options = {}) const;
  /// The same; waits, and returns how many hits there are.
  std::uint64_t find(const DeviceKeys& keys, std::uint64_t* indices,
                     const DeviceOptions& options = {}) const;

  /// out[i] = the smallest of the k counters of key i, 15 meaning 15 or more; 0 if it is null. With
  /// bits, the same as contains.
  void count_async(const DeviceKeys& keys, std::uint8_t* out,
                   const DeviceOptions& options = {}) const;
  void count(const DeviceKeys& keys, std::uint8_t* out, const DeviceOptions& options = {}) const;

  /// Removes keys as if one after another; verdicts[i] = 1 if key i was removed, 0 if it was absent
  /// at its turn or is null.
  void remove_async(const DeviceKeys& keys, std::uint8_t* verdicts,
                    const DeviceOptions& options = {});
  void remove(const DeviceKeys& keys, std::uint8_t* verdicts, const DeviceOptions& options = {});

  // ---- whole filters ----------------------------------------------------------------------------

  /// Adds the other filter's counters, saturating, or joins its bits. Throws Incompatible.
  void merge_async(const DeviceFilter& other, const DeviceOptions& options = {});
  /// Subtracts the other filter's counters. First compares the two, and waits for that. Throws
  /// Incompatible, changing nothing, if a counter would fall below zero.
  SubtractReport subtract(const DeviceFilter& other, const DeviceOptions& options = {});
  /// Writes the bits of these counters, and the numbers of keys, to a filter of bits, which can
  /// then be queried, in a quarter of the memory, while this one goes on changing. Throws
  /// Incompatible unless its geometry is geometry().with(Cell::bit) and the seeds are equal.
  void project_async(DeviceFilter& bits, const DeviceOptions& options = {}) const;
  /// Sets all counters and the numbers of keys to zero.
  void clear_async(cudaStream_t stream = nullptr);
  /// Counts the counters by value, one histogram per slice. Waits for the result.
  std::vector<Histogram> histograms(const DeviceOptions& options = {}) const;

  /// The numbers of keys inserted and removed, after the work enqueued on `stream`. Waits for it.
  std::uint64_t keys_inserted(cudaStream_t stream = nullptr) const;
  std::uint64_t keys_removed(cudaStream_t stream = nullptr) const;

  /// Copies the counters to `words` on the host and waits for them. Throws InvalidArgument unless
  /// words.size() == geometry().words().
  void download(std::span<std::uint64_t> words, cudaStream_t stream = nullptr) const;
  /// Makes a filter with these counters, seed and numbers of keys, for files or for use on the
  /// host. Waits for the copy.
  Filter to_filter(const FilterOptions& options = {}, cudaStream_t stream = nullptr) const;

  /// Waits for the stream and reports its errors.
  static void synchronize(cudaStream_t stream = nullptr);

 private:
  void release() noexcept;
  void check_owner() const {
    if (words_ == nullptr) detail::throw_moved_from("DeviceFilter");
  }
  void check_usable() const;
  std::uint64_t booked(std::size_t which, cudaStream_t stream) const;
  void check_compatible(const DeviceFilter& other, const Geometry& wanted) const;
  void check_counts(const char* what) const;
  void refuse_ranked_counters(const char* what) const;
  template <class Enqueue>
  void insert_in_turn(cudaStream_t stream, Enqueue enqueue);
  template <class AnyFilter>
  void copy_from(const AnyFilter& filter, cudaStream_t stream);

  class Turns;

  Geometry geometry_;
  std::uint64_t seed_;
  int device_ = 0;
  std::uint64_t* words_ = nullptr;  // the counters or bits, then the numbers of keys
  std::unique_ptr<Turns> turns_;    // of insertions, for counters in the layout ranked
};

}  // namespace scbf::cuda
