// SPDX-License-Identifier: Apache-2.0
// Steps of single counters by table: the byte that holds a counter, and which half of it, give the
// byte after the step. Half the instructions of shifting and masking a 64-bit word.
//
// Entries say at the same time whether the counter became non-zero or zero: added up, they count
// that in their upper bits, for one addition per step.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu_simd/kernels.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf {

// Counter n of a row of words lies in byte n / 2 of it.
static_assert(std::endian::native == std::endian::little);

/// Indexed by nibble_index: the new byte, and from bit kTurnShift on 1 if the counter turned from
/// zero to non-zero or back.
using NibbleSteps = std::array<std::uint32_t, 512>;

inline constexpr unsigned kTurnShift = 20;
/// How many of the steps whose entries were added up to `sum` turned a counter; of a slice's steps,
/// one per key.
constexpr std::uint64_t turns_in(std::uint64_t sum) noexcept { return sum >> kTurnShift; }
static_assert(kMostKeys * 255 < 1u << kTurnShift);

/// `half` is 0 for the lower counter of the byte, 1 for the upper.
constexpr std::size_t nibble_index(std::uint8_t byte, std::uint64_t half) noexcept {
  return half << 8 | byte;
}

constexpr NibbleSteps nibble_steps(std::uint64_t (*step)(std::uint64_t word, unsigned shift)) {
  NibbleSteps table{};
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto next = static_cast<std::uint8_t>(step(byte, half * kCounterBits));
      const bool turned = (detail::counter_at(byte, half * kCounterBits) == 0) !=
                          (detail::counter_at(next, half * kCounterBits) == 0);
      table[nibble_index(static_cast<std::uint8_t>(byte), half)] = next | std::uint32_t{turned}
                                                                              << kTurnShift;
    }
  }
  return table;
}

inline constexpr NibbleSteps kIncremented = nibble_steps(
    [](std::uint64_t word, unsigned shift) { return detail::incremented(word, shift); });
inline constexpr NibbleSteps kDecremented = nibble_steps(
    [](std::uint64_t word, unsigned shift) { return detail::decremented(word, shift); });

}  // namespace scbf
