// SPDX-License-Identifier: Apache-2.0
// Zeroed memory with huge pages where offered, for floors and comparators: they get the same kind
// of memory as the filters, or a filter would win by its page table. Owns and releases it only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <sys/mman.h>

namespace scbf::bench {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Asks for huge pages in the part of [data, data + bytes) that consists of whole ones. Advice
/// only: where it is refused the memory works all the same.
inline void advise_huge(void* data, std::size_t bytes) noexcept {
  const auto first = (reinterpret_cast<std::uintptr_t>(data) + kHugePageBytes - 1) / kHugePageBytes;
  const auto last = (reinterpret_cast<std::uintptr_t>(data) + bytes) / kHugePageBytes;
  if (last > first) {
    ::madvise(reinterpret_cast<void*>(first * kHugePageBytes), (last - first) * kHugePageBytes,
              MADV_HUGEPAGE);
  }
}

class HugeMemory {
 public:
  /// Throws std::bad_alloc.
  explicit HugeMemory(std::size_t bytes) : bytes_(bytes) {
    // One huge page more than needed, so that the part in use can begin on a boundary.
    mapped_bytes_ = bytes + kHugePageBytes;
    void* raw =
        ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    raw_ = raw;
    const auto address = reinterpret_cast<std::uintptr_t>(raw);
    data_ = reinterpret_cast<std::uint64_t*>((address + kHugePageBytes - 1) / kHugePageBytes *
                                             kHugePageBytes);
    advise_huge(raw, mapped_bytes_);
  }
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  ~HugeMemory() { ::munmap(raw_, mapped_bytes_); }

  std::uint64_t* words() noexcept { return data_; }
  const std::uint64_t* words() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* raw_ = nullptr;
  std::uint64_t* data_ = nullptr;
  std::size_t bytes_;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace scbf::bench
