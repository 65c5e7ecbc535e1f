// SPDX-License-Identifier: Apache-2.0
// The operations policy of plain integers, for hosts and GPUs, and the formulas of formulas.inl on
// it. Byte strings are hashed by xxHash itself, on the host.
#pragma once

#include <cstdint>
#include <string_view>

#if defined(__CUDACC__)
#define SCBF_HOST_DEVICE __host__ __device__
#else
#define SCBF_HOST_DEVICE
#endif
// Without forced inlining, g++ silently turns each vector operation of a policy into a call.
#define SCBF_INLINE SCBF_HOST_DEVICE inline __attribute__((always_inline))

namespace scbf::detail {

/// Plain 64-bit integers.
struct PlainOps {
  using U64 = std::uint64_t;
  SCBF_INLINE static constexpr U64 set(std::uint64_t v) noexcept { return v; }
  SCBF_INLINE static constexpr U64 add(U64 a, U64 b) noexcept { return a + b; }
  SCBF_INLINE static constexpr U64 mul(U64 a, U64 b) noexcept { return a * b; }
  SCBF_INLINE static constexpr U64 mul_high(U64 a, U64 b) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<U64>(static_cast<Wide>(a) * b >> 64);
  }
  SCBF_INLINE static constexpr U64 mul_middle(U64 a, U64 b) noexcept {
#if defined(__CUDA_ARCH__)  // two products of 32 bits are fewer instructions than one of 64
    return (a >> 32) * b + ((a & 0xFFFF'FFFFu) * b >> 32);
#else
    return mul_high(a, b << 32);
#endif
  }
  SCBF_INLINE static constexpr U64 mul32(U64 a, U64 b) noexcept {
    return (a & 0xFFFF'FFFFu) * (b & 0xFFFF'FFFFu);
  }
  SCBF_INLINE static constexpr U64 byte_swap(U64 a) noexcept {
    a = (a & 0x00FF'00FF'00FF'00FFu) << 8 | (a >> 8 & 0x00FF'00FF'00FF'00FFu);
    a = (a & 0x0000'FFFF'0000'FFFFu) << 16 | (a >> 16 & 0x0000'FFFF'0000'FFFFu);
    return a << 32 | a >> 32;
  }
  SCBF_INLINE static constexpr U64 bit_xor(U64 a, U64 b) noexcept { return a ^ b; }
  SCBF_INLINE static constexpr U64 bit_and(U64 a, U64 b) noexcept { return a & b; }
  SCBF_INLINE static constexpr U64 bit_or(U64 a, U64 b) noexcept { return a | b; }
  template <int n>
  SCBF_INLINE static constexpr U64 shl(U64 a) noexcept {
    return a << n;
  }
  template <int n>
  SCBF_INLINE static constexpr U64 shr(U64 a) noexcept {
    return a >> n;
  }
  template <int n>
  SCBF_INLINE static constexpr U64 rotl(U64 a) noexcept {
    return (a << n) | (a >> (64 - n));
  }
};

/// The seed's part in the hash of an 8-byte key: bytes 8 … 23 of XXH3's secret minus the seed,
/// after the seed's low half was byte-swapped and folded into its high half.
SCBF_INLINE constexpr std::uint64_t u64_seed_mask(std::uint64_t seed) noexcept {
  const std::uint64_t low = seed & 0xFFFF'FFFFu;
  const std::uint64_t swapped = ((low & 0xFFu) << 24) | ((low & 0xFF00u) << 8) |
                                ((low & 0xFF'0000u) >> 8) | ((low & 0xFF00'0000u) >> 24);
  return 0xC73A'B174'C5EC'D5A2u - (seed ^ (swapped << 32));
}

/// The seed's parts in the hash of a key of 16 bytes: bytes 24 … 39 and 40 … 55 of the secret,
/// folded, plus and minus the seed.
SCBF_INLINE constexpr std::uint64_t first_seed_mask(std::uint64_t seed) noexcept {
  return 0x6782'737B'EA42'39B9u + seed;
}
SCBF_INLINE constexpr std::uint64_t last_seed_mask(std::uint64_t seed) noexcept {
  return 0xAF56'BC3B'0996'523Au - seed;
}

#include "scbf/detail/formulas.inl"

/// XXH3-64 of a byte string.
std::uint64_t hash_of_bytes(std::string_view bytes, std::uint64_t seed) noexcept;

}  // namespace scbf::detail
