// SPDX-License-Identifier: Apache-2.0
// The memory that the counters of a filter live in, allocated by a backend on the host or on a
// device, and copies into and out of it. Backends without memory of their own need none of this.
#pragma once

#include <cstdint>
#include <span>

namespace scbf {

/// The counters of one filter, in the memory of the backend that allocated them. Const functions
/// may run concurrently; the others need the store to themselves. A function that fails throws
/// std::bad_alloc or an Error with the device's own message.
class CounterStore {
 public:
  virtual ~CounterStore() = default;
  CounterStore(const CounterStore&) = delete;
  CounterStore& operator=(const CounterStore&) = delete;

  /// The words as the backend addresses them, 64-byte aligned. Dereference on the host only if
  /// on_host().
  std::uint64_t* words() const noexcept { return memory_.words; }
  bool on_host() const noexcept { return memory_.on_host; }
  /// False for a mapped file: then clear, write and copy_from must not be called.
  bool writable() const noexcept { return memory_.writable; }

  /// Sets all words to zero.
  virtual void clear() = 0;
  /// Copies out.size() words from word `first` on to the host. The caller has checked the bounds,
  /// here as in write.
  virtual void read(std::uint64_t first, std::span<std::uint64_t> out) const = 0;
  /// Copies words from the host to the words from `first` on.
  virtual void write(std::uint64_t first, std::span<const std::uint64_t> in) = 0;
  /// Copies all words of a store of the same size in the same memory.
  virtual void copy_from(const CounterStore& other) = 0;

 protected:
  /// What the first three functions return. These are not virtual, because every operation on a
  /// single key calls them.
  struct Memory {
    std::uint64_t* words = nullptr;
    bool on_host = true;
    bool writable = true;
  };
  CounterStore() noexcept = default;
  explicit CounterStore(const Memory& memory) noexcept : memory_(memory) {}

  Memory memory_;
};

}  // namespace scbf
