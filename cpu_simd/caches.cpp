// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/caches.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

namespace scbf {

namespace {

constexpr std::uint64_t kMinL2Bytes = 1u << 20, kMaxL2Bytes = 4u << 20;

std::uint64_t reported(int name) noexcept {
  return static_cast<std::uint64_t>(std::max(sysconf(name), 0L));
}

}  // namespace

std::uint64_t l2_bytes() noexcept {
  static const std::uint64_t bytes =
      std::clamp(std::bit_floor(reported(_SC_LEVEL2_CACHE_SIZE)), kMinL2Bytes, kMaxL2Bytes);
  return bytes;
}

std::uint64_t l3_bytes() noexcept {
  static const std::uint64_t bytes = std::max(reported(_SC_LEVEL3_CACHE_SIZE), 2 * l2_bytes());
  return bytes;
}

}  // namespace scbf
