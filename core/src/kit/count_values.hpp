// SPDX-License-Identifier: Apache-2.0
// Counts counters by value. Inlined, so that it is compiled for the caller's instruction set:
// without a population count instruction, each of the sixteen per word would be a function call.
#pragma once

#include <cstdint>

#include "scbf/backend.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf {

/// Counts the values of all counters of `count` words that lie `step` words apart.
inline __attribute__((always_inline)) void count_values(const std::uint64_t* words,
                                                        std::uint64_t count, std::uint64_t step,
                                                        Histogram& histogram) noexcept {
  for (std::uint64_t w = 0; w < count; ++w) detail::count_values(words[w * step], histogram);
}

}  // namespace scbf
