// SPDX-License-Identifier: Apache-2.0
#include "kit/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "scbf/backend.hpp"
#include "scbf/detail/io_error.hpp"
#include "scbf/errors.hpp"

namespace scbf {

namespace {
constexpr std::uint64_t kHugePage = 2u << 20;
}

HostMemory::HostMemory(std::uint64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // For large memory, map one huge page more than needed, so that it contains an aligned range, and
  // unmap the rest. A transparent huge page needs both address and length aligned.
  const bool huge = bytes >= kHugePage;
  const std::uint64_t align = huge ? kHugePage : 4096;
  mapped_bytes_ = (bytes + align - 1) / align * align;
  if (mapped_bytes_ < bytes || mapped_bytes_ + align < mapped_bytes_) throw std::bad_alloc();
  void* raw = ::mmap(nullptr, mapped_bytes_ + (huge ? align : 0), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto address = reinterpret_cast<std::uintptr_t>(raw);
  if (huge) {
    const std::uintptr_t aligned = (address + align - 1) / align * align;
    const std::uintptr_t head = aligned - address;
    if (head > 0) ::munmap(raw, head);
    if (align - head > 0) {
      ::munmap(reinterpret_cast<void*>(aligned + mapped_bytes_), align - head);
    }
    address = aligned;
    ::madvise(reinterpret_cast<void*>(address), mapped_bytes_, MADV_HUGEPAGE);
  }
  memory_.words = reinterpret_cast<std::uint64_t*>(address);
}

HostMemory HostMemory::sparse(std::uint64_t bytes) {
  HostMemory memory;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  memory.memory_.words = static_cast<std::uint64_t*>(data);
  memory.bytes_ = memory.mapped_bytes_ = bytes;
  return memory;
}

HostMemory::HostMemory(int file, const std::filesystem::path& path, std::uint64_t offset,
                       std::uint64_t bytes)
    : CounterStore({.writable = false}), bytes_(bytes) {
  // Pages may be larger than the 4 KiB by which files are aligned: begin at the page.
  before_ = offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  mapped_bytes_ = bytes + before_;
  void* const page = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file,
                            static_cast<off_t>(offset - before_));
  if (page == MAP_FAILED) throw detail::io_error(path, "cannot map", errno);
  ::madvise(page, mapped_bytes_, MADV_RANDOM);
  memory_.words = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(page) + before_);
}

HostMemory::~HostMemory() {
  if (words() == nullptr) return;
  ::munmap(reinterpret_cast<std::byte*>(words()) - before_, mapped_bytes_);
}

void HostMemory::swap(HostMemory& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(before_, other.before_);
}

void HostMemory::clear() {
  if (bytes_ != 0) std::memset(words(), 0, bytes_);
}

void HostMemory::read(std::uint64_t first, std::span<std::uint64_t> out) const {
  std::memcpy(out.data(), words() + first, out.size_bytes());
}

void HostMemory::write(std::uint64_t first, std::span<const std::uint64_t> in) {
  std::memcpy(words() + first, in.data(), in.size_bytes());
}

void HostMemory::copy_from(const CounterStore& other) {
  if (bytes_ != 0) std::memcpy(words(), other.words(), bytes_);
}

std::unique_ptr<CounterStore> Backend::allocate(std::uint64_t words) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / sizeof(std::uint64_t);
  if (words > kMost) throw std::bad_alloc();
  return std::make_unique<HostMemory>(words * sizeof(std::uint64_t));
}

}  // namespace scbf
