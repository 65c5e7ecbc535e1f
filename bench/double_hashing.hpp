// SPDX-License-Identifier: Apache-2.0
// What the comparators share that have their counters at k positions anywhere in one array: the
// hash of a key, its positions by double hashing, and how many counters a false-positive rate
// takes.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace scbf::bench {

__extension__ using Wide = unsigned __int128;

/// hash / 2^64 of `range`, without a division: uniform in [0, range).
inline std::uint64_t scaled(std::uint64_t hash, std::uint64_t range) noexcept {
  return static_cast<std::uint64_t>((static_cast<Wide>(hash) * range) >> 64);
}

inline std::uint64_t hash_of(const void* key, std::size_t bytes) noexcept {
  return XXH3_64bits(key, bytes);
}

/// hash + i · step, for i = 0, 1, …: 64 bits each, of which a position takes the upper ones.
class DoubleHashing {
 public:
  explicit DoubleHashing(std::uint64_t hash) noexcept
      : at_(hash), step_(hash * 0x9E37'79B9'7F4A'7C15ull | 1) {
    step_ ^= step_ >> 32;
  }
  std::uint64_t next() noexcept {
    const std::uint64_t now = at_;
    at_ += step_;
    return now;
  }
  std::uint64_t next(std::uint64_t range) noexcept { return scaled(next(), range); }

 private:
  std::uint64_t at_, step_;
};

/// k = log2(1/fpr), rounded: with it, a filter of that rate has the fewest counters.
inline unsigned probes_for(double fpr) {
  return static_cast<unsigned>(std::lround(std::log2(1 / fpr)));
}

/// The counters of which n keys with so many probes each leave 1 − fpr^(1/probes) at zero.
inline std::uint64_t counters_for(std::size_t n, double fpr, unsigned probes) {
  return static_cast<std::uint64_t>(
      std::ceil(-static_cast<double>(probes) * static_cast<double>(n) /
                std::log1p(-std::pow(fpr, 1.0 / probes))));
}

/// The rate of n keys in so many counters: the inverse of counters_for.
inline double fpr_of(std::size_t n, std::uint64_t counters, unsigned probes) {
  return std::pow(-std::expm1(-static_cast<double>(probes) * static_cast<double>(n) /
                              static_cast<double>(counters)),
                  probes);
}

}  // namespace scbf::bench
