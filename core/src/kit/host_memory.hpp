// SPDX-License-Identifier: Apache-2.0
// Memory of the host, for counters, rows of bits and temporary data: anonymous and zeroed, with
// huge pages where the system has them, or a mapped file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "scbf/store.hpp"

namespace scbf {

class HostMemory final : public CounterStore {
 public:
  HostMemory() noexcept = default;
  /// Zeroed memory, 64-byte aligned (2 MiB aligned from 2 MiB on). Throws std::bad_alloc.
  explicit HostMemory(std::uint64_t bytes);
  /// The same for memory of which little is likely to be used: the system provides a page when it
  /// is first touched, and nothing is reserved. Throws std::bad_alloc if there is no address space
  /// for it.
  static HostMemory sparse(std::uint64_t bytes);
  /// Bytes of another owner, for reading, at a multiple of 64.
  static HostMemory borrow(std::span<const std::byte> bytes) noexcept;
  /// Maps `bytes` of an open file from `offset` (a multiple of 8) read-only. Throws IoError, which
  /// names the path. The caller has checked that the file is that long, and may close it
  /// afterwards.
  HostMemory(int file, const std::filesystem::path& path, std::uint64_t offset,
             std::uint64_t bytes);

  HostMemory(HostMemory&& other) noexcept { swap(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    HostMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~HostMemory() override;

  std::uint64_t bytes() const noexcept { return bytes_; }

  void clear() override;
  void read(std::uint64_t first, std::span<std::uint64_t> out) const override;
  void write(std::uint64_t first, std::span<const std::uint64_t> in) override;
  void copy_from(const CounterStore& other) override;

 private:
  void swap(HostMemory& other) noexcept;

  std::uint64_t bytes_ = 0;
  std::uint64_t mapped_bytes_ = 0;  ///< 0 if they are another's
  std::uint64_t before_ = 0;        ///< bytes that are mapped before the words
};

}  // namespace scbf
