// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/caches.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

namespace scbf {

namespace {

constexpr std::uint64_t kMinL2Bytes = 1u << 20, kMaxL2Bytes = 4u << 20;

std::uint64_t reported(int name) noexcept {
  return static_cast<std::uint64_t>(std::max(sysconf(name), 0L));
}

/// What the kernel says of a cache of the first core: a number, in KiB or MiB if a K or an M
/// follows. 0 if it does not.
std::uint64_t number_of(int cache, const char* what) noexcept {
  std::array<char, 80> path{};
  std::snprintf(path.data(), path.size(), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", cache,
                what);
  std::FILE* const file = std::fopen(path.data(), "re");
  if (!file) return 0;
  unsigned long long number = 0;
  char unit = 0;
  const int found = std::fscanf(file, "%llu%c", &number, &unit);
  std::fclose(file);
  if (found < 1) return 0;
  return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

/// The level-3 cache that this machine's first core shares, as the kernel says; 0 if it does not.
std::uint64_t shared_l3() noexcept {
  for (int cache = 0; cache < 8; ++cache) {
    if (number_of(cache, "level") == 3) return number_of(cache, "size");
  }
  return 0;
}

}  // namespace

std::uint64_t l2_bytes() noexcept {
  static const std::uint64_t bytes =
      std::clamp(std::bit_floor(reported(_SC_LEVEL2_CACHE_SIZE)), kMinL2Bytes, kMaxL2Bytes);
  return bytes;
}

std::uint64_t l3_bytes() noexcept {
  // On processors with several level-3 caches the C library may report the sum of all: ten times
  // what one core reaches on a Zen 4 with 32 MiB for every eight cores.
  static const std::uint64_t bytes = [] {
    const std::uint64_t of_all = reported(_SC_LEVEL3_CACHE_SIZE), of_one = shared_l3();
    const std::uint64_t least =
        of_one == 0 || of_all == 0 ? of_one + of_all : std::min(of_all, of_one);
    return std::max(least, 2 * l2_bytes());
  }();
  return bytes;
}

}  // namespace scbf
