// SPDX-License-Identifier: Apache-2.0
// Arithmetic on packed 4-bit counters, sixteen to a 64-bit word: one counter at a time, and whole
// words at once without unpacking (SWAR). Counters saturate at 15; a 15 stays; nothing ever carries
// into a neighbour.
#pragma once

#include <bit>
#include <cstdint>

#include "scbf/detail/hash.hpp"

namespace scbf::detail {

inline constexpr std::uint64_t kLowBits = 0x1111'1111'1111'1111u;   // lowest bit of each counter
inline constexpr std::uint64_t kHighBits = 0x8888'8888'8888'8888u;  // highest bit of each counter

// ---- one counter, whose nibble begins at bit `shift` --------------------------------------------

SCBF_INLINE constexpr unsigned counter_at(std::uint64_t word, unsigned shift) noexcept {
  return static_cast<unsigned>(word >> shift) & 15u;
}
/// Adds 1 to the counter, unless it is 15.
SCBF_INLINE constexpr std::uint64_t incremented(std::uint64_t word, unsigned shift) noexcept {
  return word + (std::uint64_t{counter_at(word, shift) != 15} << shift);
}
/// Subtracts 1 from the counter, unless it is 15 (saturated) or 0.
SCBF_INLINE constexpr std::uint64_t decremented(std::uint64_t word, unsigned shift) noexcept {
  const unsigned c = counter_at(word, shift);
  return word - (std::uint64_t{c != 15 && c != 0} << shift);
}

/// Is the bit set?
SCBF_INLINE constexpr bool bit_at(std::uint64_t word, unsigned shift) noexcept {
  return (word >> shift & 1) != 0;
}

// ---- eight bytes to eight bits, or to eight counters; the first is lowest -----------------------

/// Bytes of 0 or 1.
SCBF_INLINE constexpr std::uint8_t bits_of_bytes(std::uint64_t bytes) noexcept {
  return static_cast<std::uint8_t>((bytes * 0x0102'0408'1020'4080u) >> 56);
}
/// Bytes of 0 … 15.
SCBF_INLINE constexpr std::uint32_t counters_of_bytes(std::uint64_t bytes) noexcept {
  bytes = (bytes | bytes >> 4) & 0x00FF'00FF'00FF'00FFu;
  bytes = (bytes | bytes >> 8) & 0x0000'FFFF'0000'FFFFu;
  return static_cast<std::uint32_t>(bytes | bytes >> 16);
}

// ---- sixteen counters at once -------------------------------------------------------------------

/// Lowest bit of each counter that is 15.
SCBF_INLINE constexpr std::uint64_t saturated_bits(std::uint64_t word) noexcept {
  return word & (word >> 1) & (word >> 2) & (word >> 3) & kLowBits;
}
/// Lowest bit of each counter that is not 0.
SCBF_INLINE constexpr std::uint64_t nonzero_bits(std::uint64_t word) noexcept {
  return (word | (word >> 1) | (word >> 2) | (word >> 3)) & kLowBits;
}
/// One bit for each counter, from the lowest on: is it not 0?
SCBF_INLINE constexpr std::uint64_t bits_of_counters(std::uint64_t word) noexcept {
  word = nonzero_bits(word);
  word = (word | word >> 3) & 0x0303'0303'0303'0303u;
  word = (word | word >> 6) & 0x000F'000F'000F'000Fu;
  word = (word | word >> 12) & 0x0000'00FF'0000'00FFu;
  return (word | word >> 24) & 0xFFFFu;
}
/// The word of bits that stands for four words of counters.
SCBF_INLINE constexpr std::uint64_t bits_of_four(const std::uint64_t* counters) noexcept {
  return bits_of_counters(counters[0]) | bits_of_counters(counters[1]) << 16 |
         bits_of_counters(counters[2]) << 32 | bits_of_counters(counters[3]) << 48;
}
/// How many bits are 1.
SCBF_INLINE constexpr unsigned bits_set(std::uint64_t word) noexcept {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popcll(static_cast<long long>(word)));
#else
  return static_cast<unsigned>(__builtin_popcountll(word));
#endif
}
/// Zeros below the lowest one; the word is not 0.
SCBF_INLINE constexpr unsigned zeros_below(std::uint64_t word) noexcept {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__ffsll(static_cast<long long>(word))) - 1;
#else
  return static_cast<unsigned>(__builtin_ctzll(word));
#endif
}
/// Bits up to the highest one; 0 if there is none.
SCBF_INLINE constexpr unsigned bits_up_to_highest(std::uint64_t word) noexcept {
#if defined(__CUDA_ARCH__)
  return 64 - static_cast<unsigned>(__clzll(static_cast<long long>(word)));
#else
  return word == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(word));
#endif
}
/// histogram[v] += how many counters of the word are v. Bits of equal weight are processed
/// together: sixteen counters per step, no table, no branch.
template <class Counts>
SCBF_INLINE constexpr void count_values(std::uint64_t word, Counts& histogram) noexcept {
  std::uint64_t pair[2][4] = {};
  for (unsigned half = 0; half < 2; ++half) {
    const std::uint64_t low = (word >> 2 * half) & kLowBits;
    const std::uint64_t high = (word >> (2 * half + 1)) & kLowBits;
    pair[half][0] = ~(low | high) & kLowBits;
    pair[half][1] = low & ~high;
    pair[half][2] = high & ~low;
    pair[half][3] = low & high;
  }
  for (unsigned value = 0; value < 16; ++value) {
    histogram[value] += bits_set(pair[0][value % 4] & pair[1][value / 4]);
  }
}
/// a + b, each counter saturating at 15.
SCBF_INLINE constexpr std::uint64_t added(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t sum = ((a & ~kHighBits) + (b & ~kHighBits)) ^ ((a ^ b) & kHighBits);
  const std::uint64_t overflow = ((a & b) | ((a | b) & ~sum)) & kHighBits;
  return sum | (overflow >> 3) * 15;
}

/// The outcome of a − b, counter by counter.
struct Difference {
  std::uint64_t word;     ///< a − b modulo 16; counters of a that are 15 stay
  std::uint64_t below;    ///< lowest bit of each counter with a < b (and a not 15)
  std::uint64_t inexact;  ///< lowest bit of each counter with a = 15 and b not 0
};

SCBF_INLINE constexpr Difference subtracted(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t difference = ((a | kHighBits) - (b & ~kHighBits)) ^ ((a ^ ~b) & kHighBits);
  const std::uint64_t borrow = ((~a & b) | (~(a ^ b) & difference)) & kHighBits;
  const std::uint64_t saturated = saturated_bits(a);
  const std::uint64_t keep = saturated * 15;
  return {(difference & ~keep) | (a & keep), (borrow >> 3) & ~saturated,
          saturated & nonzero_bits(b)};
}

}  // namespace scbf::detail
