// SPDX-License-Identifier: Apache-2.0
// Steps of single counters by table: the byte that holds a counter, and which half of it, give the
// byte after the step. Half the instructions of shifting and masking a 64-bit word.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "scbf/detail/packed.hpp"

namespace scbf {

// Counter n of a row of words lies in byte n / 2 of it.
static_assert(std::endian::native == std::endian::little);

/// Indexed by nibble_index.
using NibbleSteps = std::array<std::uint8_t, 512>;

/// `half` is 0 for the lower counter of the byte, 1 for the upper.
constexpr std::size_t nibble_index(std::uint8_t byte, std::uint64_t half) noexcept {
  return half << 8 | byte;
}

constexpr NibbleSteps nibble_steps(std::uint64_t (*step)(std::uint64_t word, unsigned shift)) {
  NibbleSteps table{};
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      table[nibble_index(static_cast<std::uint8_t>(byte), half)] =
          static_cast<std::uint8_t>(step(byte, half * kCounterBits));
    }
  }
  return table;
}

inline constexpr NibbleSteps kIncremented = nibble_steps(
    [](std::uint64_t word, unsigned shift) { return detail::incremented(word, shift); });
inline constexpr NibbleSteps kDecremented = nibble_steps(
    [](std::uint64_t word, unsigned shift) { return detail::decremented(word, shift); });

}  // namespace scbf
