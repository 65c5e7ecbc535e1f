// SPDX-License-Identifier: Apache-2.0
// Sends batches from the host to a device, in windows, and brings the answers back. While one
// window is worked on, the next is copied into pinned memory and on to the device, and the answers
// of the one before are copied back.
//
// Byte strings that lie one behind the other, as in Arrow columns, are sent as they are, with their
// offsets, and hashed on the device. Two kinds are hashed on the host, by all threads, and sent as
// eight bytes each: string views and std::strings, whose bytes would have to be gathered, and
// windows of long strings, which take longer to send than to hash.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::cuda {

/// Streams and buffers for one batch at a time, on one device.
class Staging {
 public:
  /// Keys of a window: enough that copying it hides the latency of launches, and few enough that
  /// the pinned memory stays small (37 MiB per window under way).
  static constexpr std::size_t kWindow = std::size_t{1} << 22;

  /// Made on the current device. Tests pass a smaller `window`.
  explicit Staging(std::size_t window = kWindow);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// A window is sent as byte strings if they have at most this many bytes on average: with offsets
  /// and answers, then, a window takes 101 MiB.
  static constexpr std::size_t kMostBytesPerKey = 16;

  /// Enqueues the work on some keys. It writes one byte per key to `answers` and adds to `sums`,
  /// both in device memory.
  using Enqueue = std::function<void(const DeviceKeys& keys, std::uint8_t* answers,
                                     std::uint64_t* sums, cudaStream_t stream)>;

  /// Calls `enqueue` for the windows of the batch, in order. If `in_order`, work on a window begins
  /// when the work on the one before is done. Returns when everything is done and `answers`, unless
  /// it is null, holds keys.size() answers; sums[i] += what the windows added to theirs. If memory
  /// ends in the middle, throws CutShort; answers and sums are then those of the keys done.
  void run(const KeyBatch& keys, std::uint64_t seed, std::uint8_t* answers,
           std::span<std::uint64_t> sums, bool in_order, const BatchOptions& options,
           const Enqueue& enqueue);

  /// A stream for work that needs no windows.
  cudaStream_t stream() const noexcept { return slots_[0].stream; }
  /// Waits until nothing is under way. Errors are not reported.
  void settle() noexcept;

 private:
  /// What the memory of a slot has room for.
  struct Room {
    std::size_t keys = 0, bytes = 0, sums = 0;
  };
  struct Slot {
    cudaStream_t stream = nullptr;
    cudaEvent_t worked = nullptr;  ///< recorded when this window's work is done
    std::byte* pinned = nullptr;
    std::byte* device = nullptr;
    Room room;
    bool under_way = false;
    std::size_t first = 0, count = 0;  ///< of the batch
  };
  // One window is being filled, one worked on, and one copied back.
  static constexpr std::size_t kSlots = 3;

  /// Offsets in the memory of a slot.
  struct Layout {
    std::size_t values;  ///< or offsets of byte strings
    std::size_t validity, answers, sums, strings, all;
  };
  static Layout layout(const Room& room) noexcept;

  /// The arguments of run().
  struct Batch {
    const KeyBatch& keys;
    std::uint64_t seed;
    std::uint8_t* answers;
    std::span<std::uint64_t> sums;
    bool in_order, keys_pinned, answers_pinned;
    const BatchOptions& options;
    const Enqueue& enqueue;
  };

  std::size_t bytes_to_send(const KeyBatch& window) const noexcept;
  void reserve(Slot& slot, Room wanted);
  void start(Slot& slot, std::size_t first, const Slot* before, const Batch& batch);
  DeviceKeys send(Slot& slot, const Batch& batch);
  DeviceKeys send_values(Slot& slot, const KeyBatch& keys, const Batch& batch);
  DeviceKeys send_strings(Slot& slot, const KeyBatch& keys, const Batch& batch);
  void finish(Slot& slot, const Batch& batch);
  void release() noexcept;

  std::size_t window_;
  std::array<Slot, kSlots> slots_;
};

/// The Staging objects of one device that are not in use.
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
  /// Lends one, on the current device. It is settled when it is given back.
  std::unique_ptr<Staging, GiveBack> borrow();
  /// Destroys all that are not in use.
  void release() noexcept;

 private:
  std::size_t window_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> idle_;
};

/// Destroys all, of all pools, that are not in use.
void release_idle_stagings() noexcept;

}  // namespace scbf::cuda
