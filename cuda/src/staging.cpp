// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "allocation.hpp"
#include "check.hpp"
#include "kit/cut_short.hpp"
#include "kit/error_text.hpp"
#include "kit/executor.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/cuda/errors.hpp"

namespace scbf::cuda {

namespace {

// Keys that one thread copies or hashes at a time.
constexpr std::size_t kTaskKeys = 64 * 1024;

template <class Work>
void for_each_stretch(std::size_t n, const BatchOptions& options, Work work) {
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

/// Can the keys be sent from where they lie?
bool are_values(const KeyBatch& keys) noexcept {
  return keys.kind() == KeyBatch::Kind::u64 || keys.kind() == KeyBatch::Kind::hashes;
}

/// Do the keys lie one behind the other?
bool are_contiguous(const KeyBatch& keys) noexcept {
  using Kind = KeyBatch::Kind;
  return keys.kind() == Kind::fixed || keys.kind() == Kind::bytes32 || keys.kind() == Kind::bytes64;
}
/// Their bytes.
std::string_view all_bytes(const KeyBatch& keys) noexcept {
  const std::string_view first = keys.bytes(0), last = keys.bytes(keys.size() - 1);
  return {first.data(), static_cast<std::size_t>(last.data() + last.size() - first.data())};
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

Staging::Layout Staging::layout(const Room& room) noexcept {
  Layout l{};
  // 32-bit offsets, of which there is one more than keys, fit as well.
  l.validity = rounded(room.keys * sizeof(std::uint64_t));
  l.answers = l.validity + rounded(room.keys / 8 + 2);
  l.sums = l.answers + rounded(room.keys);
  l.strings = l.sums + rounded(room.sums * sizeof(std::uint64_t));
  l.all = l.strings + rounded(room.bytes);
  return l;
}

/// The bytes of a window that is sent as byte strings; 0 for others.
std::size_t Staging::bytes_to_send(const KeyBatch& window) const noexcept {
  if (!are_contiguous(window)) return 0;
  const std::size_t bytes = all_bytes(window).size();
  return bytes <= kMostBytesPerKey * window.size() ? bytes : 0;
}

void Staging::reserve(Slot& slot, Room wanted) {
  if (slot.room.keys >= wanted.keys && slot.room.bytes >= wanted.bytes &&
      slot.room.sums >= wanted.sums) {
    return;
  }
  constexpr std::size_t kLeast = 4096, kLeastSums = 32;
  const Room room{std::bit_ceil(std::max({slot.room.keys, wanted.keys, kLeast})),
                  wanted.bytes <= slot.room.bytes ? slot.room.bytes : std::bit_ceil(wanted.bytes),
                  std::bit_ceil(std::max({slot.room.sums, wanted.sums, kLeastSums}))};
  // The old memory is too small and not in use, so free it first. If the new allocation fails, the
  // old memory is lost, but it would only have to be allocated again.
  if (slot.pinned != nullptr) ignore(cudaFreeHost(std::exchange(slot.pinned, nullptr)));
  if (slot.device != nullptr) ignore(cudaFree(std::exchange(slot.device, nullptr)));
  slot.room = {};
  const std::size_t bytes = layout(room).all;
  slot.device = reinterpret_cast<std::byte*>(
      allocate_words(bytes / sizeof(std::uint64_t), "a window of a batch"));
  void* pinned = nullptr;
  const std::string what = fmt::format("allocating {} bytes of pinned memory of the host", bytes);
  check(cudaMallocHost(&pinned, bytes), what.c_str());
  slot.pinned = static_cast<std::byte*>(pinned);
  slot.room = room;
}

/// Sends the offsets, counted from the first byte, and the bytes.
DeviceKeys Staging::send_strings(Slot& slot, const KeyBatch& keys, const Batch& batch) {
  const std::size_t n = keys.size();
  const Layout at = layout(slot.room);
  const std::string_view bytes = all_bytes(keys);
  const void* source = bytes.data();
  if (!bytes.empty() && !is_pinned(source, bytes.size())) {
    std::byte* copy = slot.pinned + at.strings;
    for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
      const std::string_view some = all_bytes(keys.slice(first, count));
      if (!some.empty()) std::memcpy(copy + (some.data() - bytes.data()), some.data(), some.size());
    });
    source = copy;
  }
  if (!bytes.empty()) {
    check(cudaMemcpyAsync(slot.device + at.strings, source, bytes.size(), cudaMemcpyHostToDevice,
                          slot.stream),
          "copying keys to the device");
  }
  const std::byte* strings_there = slot.device + at.strings;
  if (keys.kind() == KeyBatch::Kind::fixed) {
    return DeviceKeys::from_fixed(strings_there, keys.bytes(0).size(), n);
  }
  auto* offsets = reinterpret_cast<std::int32_t*>(slot.pinned + at.values);
  for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      offsets[i] = static_cast<std::int32_t>(keys.bytes(i).data() - bytes.data());
    }
  });
  offsets[n] = static_cast<std::int32_t>(bytes.size());
  check(cudaMemcpyAsync(slot.device + at.values, offsets, (n + 1) * sizeof *offsets,
                        cudaMemcpyHostToDevice, slot.stream),
        "copying offsets to the device");
  return DeviceKeys::from_offsets(
      strings_there, reinterpret_cast<const std::int32_t*>(slot.device + at.values), n);
}

/// Sends 64-bit values: integers, widened, or hashes, which it makes of byte strings.
DeviceKeys Staging::send_values(Slot& slot, const KeyBatch& keys, const Batch& batch) {
  const std::size_t n = keys.size();
  const Layout at = layout(slot.room);
  auto* values = reinterpret_cast<std::uint64_t*>(slot.pinned + at.values);
  const void* source = values;
  if (batch.keys_pinned) {
    source = keys.values();
  } else if (are_values(keys)) {
    for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
      std::memcpy(values + first, keys.values() + first, count * sizeof *values);
    });
  } else {
    for_each_stretch(n, batch.options, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (!keys.valid(i)) continue;
        values[i] =
            keys.has_values() ? keys.value(i) : detail::hash_of_bytes(keys.bytes(i), batch.seed);
      }
    });
  }
  check(cudaMemcpyAsync(slot.device + at.values, source, n * sizeof *values, cudaMemcpyHostToDevice,
                        slot.stream),
        "copying keys to the device");
  const auto* on_device = reinterpret_cast<const std::uint64_t*>(slot.device + at.values);
  const bool integers = keys.has_values() && keys.kind() != KeyBatch::Kind::hashes;
  return integers ? DeviceKeys(on_device, n) : DeviceKeys::from_hashes(on_device, n);
}

DeviceKeys Staging::send(Slot& slot, const Batch& batch) {
  const KeyBatch keys = batch.keys.slice(slot.first, slot.count);
  const Layout at = layout(slot.room);
  const bool as_strings = are_contiguous(keys) && bytes_to_send(keys) > 0;
  const DeviceKeys all =
      as_strings ? send_strings(slot, keys, batch) : send_values(slot, keys, batch);
  if (!keys.has_validity()) return all;
  const std::size_t first_bit = keys.validity_offset() % 8;
  const std::size_t bytes = (first_bit + keys.size() + 7) / 8;
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
  const Layout at = layout(slot.room);
  auto* answers_there = reinterpret_cast<std::uint8_t*>(slot.device + at.answers);
  auto* sums_there = reinterpret_cast<std::uint64_t*>(slot.device + at.sums);
  if (!batch.sums.empty()) {
    check(cudaMemsetAsync(sums_there, 0, batch.sums.size_bytes(), slot.stream),
          "filling device memory");
  }
  batch.enqueue(sent, answers_there, sums_there, slot.stream);
  check(cudaEventRecord(slot.worked, slot.stream), "recording an event");
  if (batch.answers != nullptr) {
    void* back = batch.answers_pinned ? static_cast<void*>(batch.answers + first)
                                      : static_cast<void*>(slot.pinned + at.answers);
    check(cudaMemcpyAsync(back, answers_there, slot.count, cudaMemcpyDeviceToHost, slot.stream),
          "copying answers from the device");
  }
  if (!batch.sums.empty()) {
    check(cudaMemcpyAsync(slot.pinned + at.sums, sums_there, batch.sums.size_bytes(),
                          cudaMemcpyDeviceToHost, slot.stream),
          "copying sums from the device");
  }
  slot.under_way = true;
}

void Staging::finish(Slot& slot, const Batch& batch) {
  if (!slot.under_way) return;
  check(cudaStreamSynchronize(slot.stream), "waiting for a window of a batch");
  slot.under_way = false;
  const Layout at = layout(slot.room);
  const auto* sums = reinterpret_cast<const std::uint64_t*>(slot.pinned + at.sums);
  for (std::size_t i = 0; i < batch.sums.size(); ++i) batch.sums[i] += sums[i];
  if (batch.answers == nullptr || batch.answers_pinned) return;
  const std::byte* from = slot.pinned + at.answers;
  for_each_stretch(slot.count, batch.options, [&](std::size_t first, std::size_t count) {
    std::memcpy(batch.answers + slot.first + first, from + first, count);
  });
}

void Staging::run(const KeyBatch& keys, std::uint64_t seed, std::uint8_t* answers,
                  std::span<std::uint64_t> sums, bool in_order, const BatchOptions& options,
                  const Enqueue& enqueue) {
  if (keys.empty()) return;
  const bool keys_pinned =
      are_values(keys) && is_pinned(keys.values(), keys.size() * sizeof(std::uint64_t));
  const bool answers_pinned = answers != nullptr && is_pinned(answers, keys.size());
  const Batch batch{keys,        seed,           answers, sums,   in_order,
                    keys_pinned, answers_pinned, options, enqueue};
  std::size_t next = 0;
  const auto finish_all = [&] {  // the oldest first
    for (std::size_t i = 0; i < kSlots; ++i) finish(slots_[(next + i) % kSlots], batch);
  };
  // Reserve all slots now: if a later window found no memory, those before it would already be
  // done.
  Room room{std::min(window_, keys.size()), 0, sums.size()};
  for (std::size_t first = 0; first < keys.size(); first += window_) {
    const std::size_t count = std::min(window_, keys.size() - first);
    room.bytes = std::max(room.bytes, bytes_to_send(keys.slice(first, count)));
  }
  try {
    for (std::size_t i = 0; i < kSlots && i * window_ < keys.size(); ++i) reserve(slots_[i], room);
  } catch (const DeviceLost&) {
    throw;
  } catch (const CudaError& why) {
    throw CutShort(why, 0, std::current_exception());
  }
  const Slot* before = nullptr;
  for (std::size_t first = 0; first < keys.size(); first += window_) {
    Slot& slot = slots_[next++ % kSlots];
    finish(slot, batch);
    try {
      start(slot, first, before, batch);
    } catch (const OutOfDeviceMemory& why) {
      if (first == 0) throw CutShort(why, 0, std::current_exception());
      // There is too little temporary memory: that of the windows before is free once they are
      // done.
      finish_all();
      check(cudaStreamSynchronize(slot.stream), "waiting for a window of a batch");
      try {
        start(slot, first, nullptr, batch);
      } catch (const OutOfDeviceMemory& error) {
        throw CutShort(error_text("{}; {} {} done", error.what(), first, keys_of_batch_were(first)),
                       first, std::current_exception());
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
