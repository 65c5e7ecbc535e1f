// SPDX-License-Identifier: Apache-2.0
// Counting counters by value, inlined into code for any instruction set: without a population
// count instruction each of the sixteen per word is a function call.
#pragma once

#include <cstdint>

#include "scbf/backend.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf {

/// Counts the values of all counters of `count` words that lie `step` words apart. Bits of equal
/// weight are looked at together: sixteen counters per step, no table, no branch.
inline __attribute__((always_inline)) void count_values(const std::uint64_t* words,
                                                        std::uint64_t count, std::uint64_t step,
                                                        Histogram& histogram) noexcept {
  for (std::uint64_t w = 0; w < count; ++w) {
    const std::uint64_t word = words[w * step];
    std::uint64_t bit[4], pair[2][4];
    for (unsigned b = 0; b < 4; ++b) bit[b] = (word >> b) & detail::kLowBits;
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint64_t low = bit[2 * half], high = bit[2 * half + 1];
      pair[half][0] = ~(low | high) & detail::kLowBits;
      pair[half][1] = low & ~high;
      pair[half][2] = high & ~low;
      pair[half][3] = low & high;
    }
    for (unsigned value = 0; value < 16; ++value) {
      histogram[value] +=
          static_cast<unsigned>(__builtin_popcountll(pair[0][value % 4] & pair[1][value / 4]));
    }
  }
}

}  // namespace scbf
