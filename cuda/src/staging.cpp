// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "allocation.hpp"
#include "check.hpp"
#include "kit/executor.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/cuda/errors.hpp"

namespace scbf::cuda {

namespace {

// Keys that one thread copies or hashes at a time.
constexpr std::size_t kTaskKeys = 64 * 1024;

void for_each_stretch(std::size_t n, const BatchOptions& options,
                      const std::function<void(std::size_t first, std::size_t count)>& work) {
  run_tasks(options, thread_count(options), (n + kTaskKeys - 1) / kTaskKeys,
            [&](std::size_t i) { work(i * kTaskKeys, std::min(kTaskKeys, n - i * kTaskKeys)); });
}

/// Is this memory of the host pinned, so that the device can access it directly?
bool is_pinned(const void* memory, std::size_t bytes) {
  const auto is_pinned_at = [](const void* byte) {
    cudaPointerAttributes attributes{};
    const cudaError_t result = cudaPointerGetAttributes(&attributes, byte);
    ignore(result);  // an error means that CUDA does not know this memory
    return result == cudaSuccess && attributes.type == cudaMemoryTypeHost;
  };
  // Both ends are checked, since only a part may have been registered.
  return is_pinned_at(memory) && is_pinned_at(static_cast<const std::byte*>(memory) + bytes - 1);
}

/// All pools, in use or not.
struct Registry {
  std::mutex mutex;
  std::vector<StagingPool*> pools;
};
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

bool are_values(const KeyBatch& keys) noexcept {
  return keys.kind() == KeyBatch::Kind::u64 || keys.kind() == KeyBatch::Kind::hashes;
}

constexpr std::size_t rounded(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

}  // namespace

Staging::Staging(std::size_t window) : window_(window) {
  try {
    for (Slot& slot : slots_) {
      check(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking), "creating a stream");
      check(cudaEventCreateWithFlags(&slot.worked, cudaEventDisableTiming), "creating an event");
    }
  } catch (...) {
    release();
    throw;
  }
}

Staging::~Staging() { release(); }

void Staging::release() noexcept {
  settle();
  for (Slot& slot : slots_) {
    if (slot.pinned != nullptr) ignore(cudaFreeHost(slot.pinned));
    if (slot.device != nullptr) ignore(cudaFree(slot.device));
    if (slot.worked != nullptr) ignore(cudaEventDestroy(slot.worked));
    if (slot.stream != nullptr) ignore(cudaStreamDestroy(slot.stream));
    slot = {};
  }
}

void Staging::settle() noexcept {
  for (Slot& slot : slots_) {
    if (slot.stream != nullptr) ignore(cudaStreamSynchronize(slot.stream));
    slot.under_way = false;
  }
}

Staging::Layout Staging::layout(std::size_t keys) noexcept {
  Layout l{};
  l.validity = rounded(keys * sizeof(std::uint64_t));
  l.answers = l.validity + rounded(keys / 8 + 2);
  l.bytes = l.answers + rounded(keys);
  return l;
}

void Staging::reserve(Slot& slot, std::size_t keys) {
  if (slot.capacity >= keys) return;
  constexpr std::size_t kLeast = 4096;
  const std::size_t capacity = std::bit_ceil(std::max(keys, kLeast));
  // The old memory is too small and not in use, so free it first. If the new allocation fails, the
  // old memory is lost, but it would only have to be allocated again.
  if (slot.pinned != nullptr) ignore(cudaFreeHost(std::exchange(slot.pinned, nullptr)));
  if (slot.device != nullptr) ignore(cudaFree(std::exchange(slot.device, nullptr)));
  slot.capacity = 0;
  const std::size_t bytes = layout(capacity).bytes;
  slot.device = reinterpret_cast<std::byte*>(
      allocate_words(bytes / sizeof(std::uint64_t), "a window of a batch"));
  void* pinned = nullptr;
  const std::string what = fmt::format("allocating {} bytes of pinned memory of the host", bytes);
  check(cudaMallocHost(&pinned, bytes), what.c_str());
  slot.pinned = static_cast<std::byte*>(pinned);
  slot.capacity = capacity;
}

DeviceKeys Staging::send(Slot& slot, const Batch& batch) {
  const KeyBatch keys = batch.keys.slice(slot.first, slot.count);
  const std::size_t n = keys.size();
  const Layout at = layout(slot.capacity);
  auto* values = reinterpret_cast<std::uint64_t*>(slot.pinned + at.values);
  const void* source = values;
  if (batch.keys_pinned) {
    source = keys.values();
  } else if (are_values(keys)) {
    for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
      std::memcpy(values + first, keys.values() + first, count * sizeof *values);
    });
  } else {
    // Byte strings are hashed here, because the eight bytes of a hash are fewer to send than the
    // string.
    for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (keys.valid(i)) values[i] = hash_of_bytes(keys.bytes(i), batch.seed);
      }
    });
  }
  check(cudaMemcpyAsync(slot.device + at.values, source, n * sizeof *values, cudaMemcpyHostToDevice,
                        slot.stream),
        "copying keys to the device");
  const auto* on_device = reinterpret_cast<const std::uint64_t*>(slot.device + at.values);
  const DeviceKeys all = keys.kind() == KeyBatch::Kind::u64 ? DeviceKeys(on_device, n)
                                                            : DeviceKeys::from_hashes(on_device, n);
  if (!keys.has_validity()) return all;
  const std::size_t first_bit = keys.validity_offset() % 8;
  const std::size_t bytes = (first_bit + n + 7) / 8;
  std::memcpy(slot.pinned + at.validity, keys.validity() + keys.validity_offset() / 8, bytes);
  check(cudaMemcpyAsync(slot.device + at.validity, slot.pinned + at.validity, bytes,
                        cudaMemcpyHostToDevice, slot.stream),
        "copying validity to the device");
  return all.with_validity(Validity(slot.device + at.validity, first_bit));
}

/// Enqueues a window; its work begins after that of `before`, if that is not null.
void Staging::start(Slot& slot, std::size_t first, const Slot* before, const Batch& batch) {
  slot.first = first;
  slot.count = std::min(window_, batch.keys.size() - first);
  const DeviceKeys sent = send(slot, batch);
  if (before != nullptr) {
    check(cudaStreamWaitEvent(slot.stream, before->worked, 0), "ordering windows of a batch");
  }
  const Layout at = layout(slot.capacity);
  auto* answers_there = reinterpret_cast<std::uint8_t*>(slot.device + at.answers);
  batch.enqueue(sent, answers_there, slot.stream);
  check(cudaEventRecord(slot.worked, slot.stream), "recording an event");
  if (batch.answers != nullptr) {
    void* back = batch.answers_pinned ? static_cast<void*>(batch.answers + first)
                                      : static_cast<void*>(slot.pinned + at.answers);
    check(cudaMemcpyAsync(back, answers_there, slot.count, cudaMemcpyDeviceToHost, slot.stream),
          "copying answers from the device");
  }
  slot.under_way = true;
}

void Staging::finish(Slot& slot, const Batch& batch) {
  if (!slot.under_way) return;
  check(cudaStreamSynchronize(slot.stream), "waiting for a window of a batch");
  slot.under_way = false;
  if (batch.answers == nullptr || batch.answers_pinned) return;
  const std::byte* from = slot.pinned + layout(slot.capacity).answers;
  for_each_stretch(slot.count, batch.options, [&](std::size_t first, std::size_t count) {
    std::memcpy(batch.answers + slot.first + first, from + first, count);
  });
}

void Staging::run(const KeyBatch& keys, std::uint64_t seed, std::uint8_t* answers, bool in_order,
                  const BatchOptions& options, const Enqueue& enqueue) {
  if (keys.empty()) return;
  const bool keys_pinned =
      are_values(keys) && is_pinned(keys.values(), keys.size() * sizeof(std::uint64_t));
  const bool answers_pinned = answers != nullptr && is_pinned(answers, keys.size());
  const Batch batch{keys, seed, answers, in_order, keys_pinned, answers_pinned, options, enqueue};
  std::size_t next = 0;
  const auto finish_all = [&] {  // the oldest first
    for (std::size_t i = 0; i < kSlots; ++i) finish(slots_[(next + i) % kSlots], batch);
  };
  // Reserve all slots now: if a later window found no memory, those before it would already be
  // done.
  for (std::size_t i = 0; i < kSlots && i * window_ < keys.size(); ++i) {
    reserve(slots_[i], std::min(window_, keys.size()));
  }
  const Slot* before = nullptr;
  for (std::size_t first = 0; first < keys.size(); first += window_) {
    Slot& slot = slots_[next++ % kSlots];
    finish(slot, batch);
    try {
      start(slot, first, before, batch);
    } catch (const OutOfDeviceMemory&) {
      if (first == 0) throw;
      // There is too little temporary memory: that of the windows before is free once they are
      // done.
      finish_all();
      check(cudaStreamSynchronize(slot.stream), "waiting for a window of a batch");
      try {
        start(slot, first, nullptr, batch);
      } catch (const OutOfDeviceMemory& error) {
        throw OutOfDeviceMemory(
            fmt::format("{}; the first {} keys of the batch were done", error.what(), first));
      }
    }
    before = in_order ? &slot : nullptr;
  }
  finish_all();
}

void StagingPool::GiveBack::operator()(Staging* staging) const noexcept {
  std::unique_ptr<Staging> owned(staging);
  owned->settle();
  try {
    const std::scoped_lock lock(pool->mutex_);
    pool->idle_.push_back(std::move(owned));
  } catch (...) {
    // There is no memory to keep it, so it is destroyed.
  }
}

std::unique_ptr<Staging, StagingPool::GiveBack> StagingPool::borrow() {
  std::unique_ptr<Staging> staging;
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      staging = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!staging) staging = std::make_unique<Staging>(window_);
  return {staging.release(), GiveBack{this}};
}

void StagingPool::release() noexcept {
  std::vector<std::unique_ptr<Staging>> gone;
  const std::scoped_lock lock(mutex_);
  gone.swap(idle_);
}

StagingPool::StagingPool(std::size_t window) : window_(window) {
  const std::scoped_lock lock(registry().mutex);
  registry().pools.push_back(this);
}
StagingPool::~StagingPool() {
  const std::scoped_lock lock(registry().mutex);
  std::erase(registry().pools, this);
}

void release_idle_stagings() noexcept {
  const std::scoped_lock lock(registry().mutex);
  for (StagingPool* pool : registry().pools) pool->release();
}

}  // namespace scbf::cuda
