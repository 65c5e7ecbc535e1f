// SPDX-License-Identifier: Apache-2.0
#include "kit/counter_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "scbf/errors.hpp"

namespace scbf {

namespace {
constexpr std::uint64_t kHugePage = 2u << 20;
}

CounterMemory CounterMemory::allocate(std::uint64_t bytes) {
  CounterMemory memory;
  memory.writable_ = true;
  memory.bytes_ = bytes;
  if (bytes == 0) return memory;
  // For large memory, map one huge page more than needed, so that it contains an aligned range, and
  // unmap the rest. A transparent huge page needs both address and length aligned.
  const bool huge = bytes >= kHugePage;
  const std::uint64_t align = huge ? kHugePage : 4096;
  const std::uint64_t rounded = (bytes + align - 1) / align * align;
  if (rounded < bytes || rounded + align < rounded) throw std::bad_alloc();
  void* raw = ::mmap(nullptr, rounded + (huge ? align : 0), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto address = reinterpret_cast<std::uintptr_t>(raw);
  if (huge) {
    const std::uintptr_t aligned = (address + align - 1) / align * align;
    const std::uintptr_t head = aligned - address;
    if (head > 0) ::munmap(raw, head);
    if (align - head > 0) ::munmap(reinterpret_cast<void*>(aligned + rounded), align - head);
    address = aligned;
    ::madvise(reinterpret_cast<void*>(address), rounded, MADV_HUGEPAGE);
  }
  memory.data_ = reinterpret_cast<void*>(address);
  memory.mapped_bytes_ = rounded;
  return memory;
}

CounterMemory CounterMemory::map_file(const std::filesystem::path& path, std::uint64_t offset,
                                      std::uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw IoError(fmt::format("{}: cannot open: {}", path.string(), strerror(errno)));
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    throw IoError(fmt::format("{}: cannot map: {}", path.string(), strerror(error)));
  }
  ::madvise(data, bytes, MADV_RANDOM);
  CounterMemory memory;
  memory.data_ = data;
  memory.bytes_ = bytes;
  memory.mapped_bytes_ = bytes;
  return memory;
}

CounterMemory::~CounterMemory() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

void CounterMemory::swap(CounterMemory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(writable_, other.writable_);
}

}  // namespace scbf
