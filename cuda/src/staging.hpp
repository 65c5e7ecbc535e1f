// SPDX-License-Identifier: Apache-2.0
// Batches of the host on their way to a device and back, in windows: while one window is worked on,
// the next is copied into pinned memory and on to the device, and the answers of the one before
// come back.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::cuda {

/// Streams and buffers for one batch at a time, on one device.
class Staging {
 public:
  /// Keys of a window: large enough that copying it hides the start of everything, small enough
  /// that the pinned memory is no burden (38 MiB per window under way).
  static constexpr std::size_t kWindow = std::size_t{1} << 22;

  /// On the current device; `window` is fewer keys only in tests.
  explicit Staging(std::size_t window = kWindow);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Enqueues the work on some keys; answers, one byte for each, go to device memory.
  using Enqueue =
      std::function<void(const DeviceKeys& keys, std::uint8_t* answers, cudaStream_t stream)>;

  /// Calls `enqueue` for window after window of the batch, in order; if `in_order`, work on one
  /// window begins when that on the one before is done. Returns when all is done and `answers`, if
  /// it is not null, holds keys.size() answers.
  void run(const KeyBatch& keys, std::uint64_t seed, std::uint8_t* answers, bool in_order,
           const BatchOptions& options, const Enqueue& enqueue);

  /// For work that needs no windows.
  cudaStream_t stream() const noexcept { return slots_[0].stream; }
  /// Waits until nothing is under way; errors are not reported.
  void settle() noexcept;

 private:
  struct Slot {
    cudaStream_t stream = nullptr;
    cudaEvent_t worked = nullptr;  ///< on this window
    std::byte* pinned = nullptr;
    std::byte* device = nullptr;
    std::size_t capacity = 0;  ///< keys
    bool under_way = false;
    std::size_t first = 0, count = 0;  ///< of the batch
  };
  // One window is filled, one is worked on, and one brings its answers back.
  static constexpr std::size_t kSlots = 3;

  /// What lies where in the memory of a slot.
  struct Layout {
    std::size_t values, validity, answers, bytes;
  };
  static Layout layout(std::size_t keys) noexcept;

  /// What run() was asked for.
  struct Batch {
    const KeyBatch& keys;
    std::uint64_t seed;
    std::uint8_t* answers;
    bool in_order, keys_pinned, answers_pinned;
    const BatchOptions& options;
    const Enqueue& enqueue;
  };

  void reserve(Slot& slot, std::size_t keys);
  void start(Slot& slot, std::size_t first, const Slot* before, const Batch& batch);
  DeviceKeys send(Slot& slot, const Batch& batch);
  void finish(Slot& slot, const Batch& batch);
  void release() noexcept;

  std::size_t window_;
  std::array<Slot, kSlots> slots_;
};

/// Stagings of one device that are not in use.
class StagingPool {
 public:
  explicit StagingPool(std::size_t window);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  ~StagingPool();

  struct GiveBack {
    StagingPool* pool;
    void operator()(Staging* staging) const noexcept;
  };
  /// One for the time being, on the current device; settled when it goes back.
  std::unique_ptr<Staging, GiveBack> borrow();
  /// Destroys those that are not in use.
  void release() noexcept;

 private:
  std::size_t window_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> idle_;
};

/// Destroys those of all pools that are not in use.
void release_idle_stagings() noexcept;

}  // namespace scbf::cuda
