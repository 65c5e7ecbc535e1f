// SPDX-License-Identifier: Apache-2.0
#include "kit/scratch.hpp"

#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "scbf/backend.hpp"

namespace scbf {

namespace {

// Larger blocks, which a caller must ask for explicitly, go back to the system at once.
constexpr std::uint64_t kMostKept = 1u << 30;

std::mutex cache_mutex;
HostMemory& cache() noexcept {
  // Never destroyed: filters may still be in use while the program ends. In memory of its own,
  // since it is asked for where nothing may throw.
  alignas(HostMemory) static std::byte room[sizeof(HostMemory)];
  static auto* kept = new (room) HostMemory();
  return *kept;
}

}  // namespace

Scratch::Scratch(std::uint64_t bytes) {
  {
    const std::scoped_lock lock(cache_mutex);
    memory_ = std::exchange(cache(), HostMemory());
  }
  if (memory_.bytes() < bytes) {
    memory_ = HostMemory();  // free first, then allocate: never both at once
    memory_ = HostMemory(bytes);
  }
}

Scratch::~Scratch() {
  if (memory_.bytes() == 0 || memory_.bytes() > kMostKept) return;
  const std::scoped_lock lock(cache_mutex);
  if (cache().bytes() < memory_.bytes()) cache() = std::move(memory_);
}

std::uint64_t kept_scratch() noexcept {
  const std::scoped_lock lock(cache_mutex);
  return cache().bytes();
}

bool pays_once_for_scratch(std::uint64_t bytes) noexcept {
  return bytes <= kMostKept && bytes > 2 * kept_scratch();
}

void release_scratch() noexcept {
  const std::scoped_lock lock(cache_mutex);
  cache() = HostMemory();
}

}  // namespace scbf
