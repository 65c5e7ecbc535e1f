// SPDX-License-Identifier: Apache-2.0
// The memory that counters live in: anonymous zeroed memory, with huge pages where available, or a
// mapped file. Owns and releases it; knows nothing of its contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

namespace scbf {

class CounterMemory {
 public:
  CounterMemory() noexcept = default;
  /// Zeroed memory, 64-byte aligned (2 MiB aligned from 2 MiB on). Throws std::bad_alloc.
  static CounterMemory allocate(std::uint64_t bytes);
  /// Maps `bytes` of a file from `offset` (a multiple of the page size) read-only.
  /// Throws IoError. The caller has checked that the file is that long.
  static CounterMemory map_file(const std::filesystem::path& path, std::uint64_t offset,
                                std::uint64_t bytes);

  CounterMemory(CounterMemory&& other) noexcept { swap(other); }
  CounterMemory& operator=(CounterMemory&& other) noexcept {
    CounterMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~CounterMemory();

  std::uint64_t* words() const noexcept { return static_cast<std::uint64_t*>(data_); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool writable() const noexcept { return writable_; }

 private:
  void swap(CounterMemory& other) noexcept;

  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t mapped_bytes_ = 0;
  bool writable_ = false;
};

}  // namespace scbf
