// SPDX-License-Identifier: Apache-2.0
// Memory that ends: replaces operator new and mmap of a test program, so that allocations fail when
// they are told to. To be included by one source of the program.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace scbf_test {

/// While one exists, allocation number `nth` from now on, counted over all threads, fails; if
/// `ends`, so do all after it.
class ShortMemory {
 public:
  ShortMemory(std::uint64_t nth, bool ends) noexcept {
    refused_ = 0;
    all_ = 0;
    ends_ = ends;
    nth_ = nth;
  }
  ShortMemory(const ShortMemory&) = delete;
  ShortMemory& operator=(const ShortMemory&) = delete;
  ~ShortMemory() { heal(); }

  static void heal() noexcept { nth_ = 0; }
  /// How many allocations were refused since the last one was made.
  static std::uint64_t refused() noexcept { return refused_; }
  /// How many there were in all since then.
  static std::uint64_t tried() noexcept { return all_; }

  static bool refuses() noexcept {
    const std::uint64_t nth = nth_;
    if (nth == 0) return false;
    const std::uint64_t number = ++all_;
    const bool refuse = number == nth || (ends_ && number > nth);
    refused_ += refuse;
    return refuse;
  }

 private:
  static inline std::atomic<std::uint64_t> nth_{0}, all_{0}, refused_{0};
  static inline std::atomic<bool> ends_{false};
};

inline void* allocate_or_refuse(std::size_t bytes) noexcept {
  return ShortMemory::refuses() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}

}  // namespace scbf_test

extern "C" void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
                      off_t offset) noexcept {
  if (scbf_test::ShortMemory::refuses()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, access, flags, fd, offset));
}

// All forms are replaced, because the address sanitizer brings its own version of any other.
void* operator new(std::size_t bytes) {
  if (void* memory = scbf_test::allocate_or_refuse(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return scbf_test::allocate_or_refuse(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return scbf_test::allocate_or_refuse(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
