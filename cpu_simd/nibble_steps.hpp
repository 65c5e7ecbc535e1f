// SPDX-License-Identifier: Apache-2.0
// Changes single counters by table. The index is the byte that holds the counter and which half of
// it the counter is; the entry is the byte after the step. This takes half the instructions of
// shifting and masking a 64-bit word.
//
// The upper bits of an entry say whether the counter became non-zero or zero. Adding up the entries
// therefore counts these changes, at one addition per step.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu_simd/kernels.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf {

// Counter n of consecutive words lies in byte n / 2.
static_assert(std::endian::native == std::endian::little);

/// Indexed by nibble_index: the new byte, and from bit kTurnShift on 1 if the counter turned from
/// zero to non-zero or back.
using NibbleSteps = std::array<std::uint32_t, 512>;

inline constexpr unsigned kTurnShift = 20;
/// How many steps turned a counter, if `sum` is the sum of their entries. One step per key and
/// slice, at most kMostKeys.
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
