// SPDX-License-Identifier: Apache-2.0
// XXH3-64 with a seed, for byte strings of every length, on GPUs. The host uses xxHash itself
// (core/src/kit/hash_keys.cpp) and compiles this only to test it. Written from the published
// specification (xxHash 0.8, doc/xxhash_spec.md, "XXH3 Algorithm Overview").
//
// A GPU loads only aligned words, so eight bytes at any address are cut out of the two aligned
// words that contain them. Reads may therefore reach up to seven bytes before or beyond the string,
// but never into an aligned word that contains none of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/detail/hash.hpp"

namespace scbf::cuda {

namespace xxh3 {

inline constexpr std::uint64_t kPrime32_1 = 0x9E37'79B1u;
inline constexpr std::uint64_t kPrime32_2 = 0x85EB'CA77u;
inline constexpr std::uint64_t kPrime32_3 = 0xC2B2'AE3Du;
inline constexpr std::uint64_t kPrime64_1 = 0x9E37'79B1'85EB'CA87u;
inline constexpr std::uint64_t kPrime64_2 = 0xC2B2'AE3D'27D4'EB4Fu;
inline constexpr std::uint64_t kPrime64_3 = 0x1656'67B1'9E37'79F9u;
inline constexpr std::uint64_t kPrime64_4 = 0x85EB'CA77'C2B2'AE63u;
inline constexpr std::uint64_t kPrime64_5 = 0x27D4'EB2F'1656'67C5u;
inline constexpr std::uint64_t kPrimeMix = 0x1656'6791'9E37'79F9u;

inline constexpr std::size_t kSecretBytes = 192;
inline constexpr std::size_t kStripeBytes = 64;
inline constexpr std::size_t kLanes = kStripeBytes / 8;
inline constexpr std::size_t kStripesPerBlock = (kSecretBytes - kStripeBytes) / 8;
inline constexpr std::size_t kBlockBytes = kStripesPerBlock * kStripeBytes;

/// Word i of the default secret, little-endian.
SCBF_INLINE std::uint64_t secret_word(std::size_t i) noexcept {
  static constexpr std::uint64_t kSecret[kSecretBytes / 8] = {
      0xBE4B'A423'396C'FEB8u, 0x1CAD'21F7'2C81'017Cu, 0xDB97'9083'E96D'D4DEu,
      0x1F67'B3B7'A4A4'4072u, 0x78E5'C0CC'4EE6'79CBu, 0x2172'FFCC'7DD0'5A82u,
      0x8E24'43F7'7446'08B8u, 0x4C26'3A81'E690'35E0u, 0xCB00'C391'BB52'283Cu,
      0xA32E'531B'8B65'D088u, 0x4EF9'0DA2'9748'6471u, 0xD8AC'DEA9'46EF'1938u,
      0x3F34'9CE3'3F76'FAA8u, 0x1D4F'0BC7'C7BB'DCF9u, 0x3159'B4CD'4BE0'518Au,
      0x6473'78D9'C97E'9FC8u, 0xC3EB'D334'83AC'C5EAu, 0xEB63'13FA'FFA0'81C5u,
      0x49DA'F0B7'51DD'0D17u, 0x9E68'D429'2655'16D3u, 0xFCA1'477D'58BE'162Bu,
      0xCE31'D07A'D1B8'F88Fu, 0x2804'1695'8F3A'CB45u, 0x7E40'4BBB'CAFB'D7AFu};
  return kSecret[i];
}
/// Eight bytes of the secret from any offset.
SCBF_INLINE std::uint64_t secret_at(std::size_t offset) noexcept {
  const unsigned shift = static_cast<unsigned>(offset % 8) * 8;
  const std::uint64_t low = secret_word(offset / 8);
  return shift == 0 ? low : low >> shift | secret_word(offset / 8 + 1) << (64 - shift);
}

/// `bytes` (1, 4 or 8) bytes at any address, as a number.
template <std::size_t bytes>
SCBF_INLINE std::uint64_t read(const std::byte* at) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto* words = reinterpret_cast<const std::uint64_t*>(address & ~std::uintptr_t{7});
  const unsigned first = static_cast<unsigned>(address % 8);
  std::uint64_t word = words[0] >> 8 * first;
  if (first + bytes > 8) word |= words[1] << (64 - 8 * first);
  return bytes == 8 ? word : word & ((std::uint64_t{1} << 8 * (bytes % 8)) - 1);
}
SCBF_INLINE std::uint64_t read64(const std::byte* at) noexcept { return read<8>(at); }
SCBF_INLINE std::uint64_t read32(const std::byte* at) noexcept { return read<4>(at); }
SCBF_INLINE std::uint64_t read8(const std::byte* at) noexcept { return read<1>(at); }

SCBF_INLINE std::uint64_t swapped(std::uint64_t word) noexcept {
  word = (word & 0x00FF'00FF'00FF'00FFu) << 8 | (word >> 8 & 0x00FF'00FF'00FF'00FFu);
  word = (word & 0x0000'FFFF'0000'FFFFu) << 16 | (word >> 16 & 0x0000'FFFF'0000'FFFFu);
  return word << 32 | word >> 32;
}
/// The xor of the two halves of the 128-bit product.
SCBF_INLINE std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__CUDA_ARCH__)
  return a * b ^ __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#endif
}

SCBF_INLINE std::uint64_t avalanche(std::uint64_t h) noexcept {
  h = (h ^ h >> 37) * kPrimeMix;
  return h ^ h >> 32;
}
/// XXH64's avalanche, used for the shortest strings.
SCBF_INLINE std::uint64_t long_avalanche(std::uint64_t h) noexcept {
  h = (h ^ h >> 33) * kPrime64_2;
  h = (h ^ h >> 29) * kPrime64_3;
  return h ^ h >> 32;
}

/// Mixes sixteen bytes with sixteen bytes of the secret.
SCBF_INLINE std::uint64_t mix16(const std::byte* at, std::size_t secret,
                                std::uint64_t seed) noexcept {
  return folded_product(read64(at) ^ (secret_at(secret) + seed),
                        read64(at + 8) ^ (secret_at(secret + 8) - seed));
}

SCBF_INLINE std::uint64_t hash_0_to_16(const std::byte* at, std::size_t length,
                                       std::uint64_t seed) noexcept {
  if (length > 8) {
    const std::uint64_t low = read64(at) ^ ((secret_at(24) ^ secret_at(32)) + seed);
    const std::uint64_t high = read64(at + length - 8) ^ ((secret_at(40) ^ secret_at(48)) - seed);
    return avalanche(length + swapped(low) + high + folded_product(low, high));
  }
  if (length >= 4) {
    // For eight bytes this is detail::hash_u64, where a rotation swaps the halves.
    std::uint64_t h = read32(at + length - 4) + (read32(at) << 32);
    h ^= detail::u64_seed_mask(seed);
    h ^= detail::PlainOps::rotl<49>(h) ^ detail::PlainOps::rotl<24>(h);
    h *= 0x9FB2'1C65'1E98'DF25u;
    h ^= (h >> 35) + length;
    h *= 0x9FB2'1C65'1E98'DF25u;
    return h ^ h >> 28;
  }
  if (length > 0) {
    const std::uint64_t combined =
        read8(at) << 16 | read8(at + length / 2) << 24 | read8(at + length - 1) | length << 8;
    const std::uint64_t secret = secret_word(0);
    return long_avalanche(combined ^ (((secret ^ secret >> 32) & 0xFFFF'FFFFu) + seed));
  }
  return long_avalanche(seed ^ secret_at(56) ^ secret_at(64));
}

SCBF_INLINE std::uint64_t hash_17_to_128(const std::byte* at, std::size_t length,
                                         std::uint64_t seed) noexcept {
  std::uint64_t h = length * kPrime64_1;
  for (std::size_t i = 0; i * 32 < length; ++i) {  // pairs from both ends towards the middle
    h += mix16(at + 16 * i, 32 * i, seed);
    h += mix16(at + length - 16 * (i + 1), 32 * i + 16, seed);
  }
  return avalanche(h);
}

SCBF_INLINE std::uint64_t hash_129_to_240(const std::byte* at, std::size_t length,
                                          std::uint64_t seed) noexcept {
  std::uint64_t h = length * kPrime64_1;
  for (std::size_t i = 0; i < 8; ++i) h += mix16(at + 16 * i, 16 * i, seed);
  h = avalanche(h);
  for (std::size_t i = 8; i < length / 16; ++i) h += mix16(at + 16 * i, 16 * (i - 8) + 3, seed);
  h += mix16(at + length - 16, 136 - 17, seed);
  return avalanche(h);
}

/// The secret for long strings: the seed is added to even words and subtracted from odd ones.
SCBF_INLINE std::uint64_t seeded_word(std::size_t i, std::uint64_t seed) noexcept {
  return i % 2 == 0 ? secret_word(i) + seed : secret_word(i) - seed;
}
SCBF_INLINE std::uint64_t seeded_at(std::size_t offset, std::uint64_t seed) noexcept {
  const unsigned shift = static_cast<unsigned>(offset % 8) * 8;
  const std::uint64_t low = seeded_word(offset / 8, seed);
  return shift == 0 ? low : low >> shift | seeded_word(offset / 8 + 1, seed) << (64 - shift);
}

SCBF_INLINE void accumulate(std::uint64_t* acc, const std::byte* stripe, std::size_t secret,
                            std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::uint64_t data = read64(stripe + 8 * i);
    const std::uint64_t keyed = data ^ seeded_at(secret + 8 * i, seed);
    acc[i ^ 1] += data;
    acc[i] += (keyed & 0xFFFF'FFFFu) * (keyed >> 32);
  }
}

/// Not inlined: long strings are rare, and the code is large.
SCBF_HOST_DEVICE inline std::uint64_t hash_long(const std::byte* at, std::size_t length,
                                                std::uint64_t seed) noexcept {
  std::uint64_t acc[kLanes] = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                               kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
  const std::size_t stripes = (length - 1) / kStripeBytes;  // all but the last
  for (std::size_t s = 0; s < stripes; ++s) {
    const std::size_t in_block = s % kStripesPerBlock;
    accumulate(acc, at + s * kStripeBytes, 8 * in_block, seed);
    if (in_block + 1 == kStripesPerBlock) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        acc[i] = (acc[i] ^ acc[i] >> 47 ^ seeded_at(kSecretBytes - kStripeBytes + 8 * i, seed)) *
                 kPrime32_1;
      }
    }
  }
  accumulate(acc, at + length - kStripeBytes, kSecretBytes - kStripeBytes - 7, seed);
  std::uint64_t h = length * kPrime64_1;
  for (std::size_t i = 0; i < kLanes; i += 2) {
    h += folded_product(acc[i] ^ seeded_at(11 + 8 * i, seed),
                        acc[i + 1] ^ seeded_at(11 + 8 * i + 8, seed));
  }
  return avalanche(h);
}

}  // namespace xxh3

/// XXH3-64 of `length` bytes with this seed: XXH3_64bits_withSeed, bit for bit.
SCBF_INLINE std::uint64_t hash_bytes(const std::byte* at, std::size_t length,
                                     std::uint64_t seed) noexcept {
  if (length <= 16) return xxh3::hash_0_to_16(at, length, seed);
  if (length <= 128) return xxh3::hash_17_to_128(at, length, seed);
  if (length <= 240) return xxh3::hash_129_to_240(at, length, seed);
  return xxh3::hash_long(at, length, seed);
}

}  // namespace scbf::cuda
