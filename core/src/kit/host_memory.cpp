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

std::uint64_t page_bytes() noexcept {  // of some machines more than the usual 4 KiB
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  const std::uint64_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded < bytes) throw std::bad_alloc();
  return rounded;
}

/// Rounds up to huge pages; but to small pages where that would waste more than half a huge page
/// and more than an eighth of `bytes`, as for each of thousands of members that are a little larger
/// than a huge page. The small pages at the end take longer to fill for the first time.
std::uint64_t bytes_to_map(std::uint64_t bytes) {
  if (bytes < kHugePage) return round_up(bytes, page_bytes());
  const std::uint64_t huge = round_up(bytes, kHugePage), wasted = huge - bytes;
  const bool few = wasted <= bytes / 8 || wasted <= kHugePage / 2;
  return few ? huge : round_up(bytes, page_bytes());
}

}  // namespace

HostMemory::HostMemory(std::uint64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  mapped_bytes_ = bytes_to_map(bytes);
  // For large memory, map one huge page more than needed, so that it contains an aligned range, and
  // unmap the rest. A transparent huge page needs its address aligned.
  const bool huge = bytes >= kHugePage;
  const std::uint64_t spare = huge ? kHugePage : 0;
  if (mapped_bytes_ + spare < mapped_bytes_) throw std::bad_alloc();
  void* raw = ::mmap(nullptr, mapped_bytes_ + spare, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto address = reinterpret_cast<std::uintptr_t>(raw);
  if (huge) {
    const std::uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
    const std::uintptr_t head = aligned - address;
    if (head > 0) ::munmap(raw, head);
    if (spare > head) {
      ::munmap(reinterpret_cast<void*>(aligned + mapped_bytes_), spare - head);
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

HostMemory HostMemory::borrow(std::span<const std::byte> bytes) noexcept {
  HostMemory memory;
  memory.memory_ = {.words = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(bytes.data())),
                    .writable = false};
  memory.bytes_ = bytes.size();
  return memory;
}

HostMemory::HostMemory(int file, const std::filesystem::path& path, std::uint64_t offset,
                       std::uint64_t bytes)
    : CounterStore({.writable = false}), bytes_(bytes) {
  // Pages may be larger than the 4 KiB by which files are aligned: begin at the page.
  before_ = offset % page_bytes();
  mapped_bytes_ = bytes + before_;
  void* const page = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file,
                            static_cast<off_t>(offset - before_));
  if (page == MAP_FAILED) throw detail::io_error(path, "cannot map", errno);
  ::madvise(page, mapped_bytes_, MADV_RANDOM);
  memory_.words = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(page) + before_);
}

HostMemory::~HostMemory() {
  if (mapped_bytes_ == 0) return;
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
