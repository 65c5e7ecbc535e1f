// SPDX-License-Identifier: Apache-2.0
// The formulas from key to hash to positions. All backends share them, so all agree byte for
// byte. They are written only here, but for the hashes of strings on a device
// (scbf/cuda/xxh3.hpp); docs/file_format.md says the same in words.
//
// No include guard: the file is included once into scbf::detail (hash.hpp, positions.hpp) and once
// more for each vector target of cpu_simd/, because a function must be compiled for the instruction
// set of the operations that are inlined into it.
//
// An operations policy Ops has a type U64 and, on it: set, add, bit_xor, bit_and, bit_or, shl<n>,
// shr<n>, rotl<n>, and for the product of two numbers the low 64 bits (mul), the upper 64
// (mul_high) or, if the second is below 2^32, the 64 from bit 32 on (mul_middle); and the product
// of their lower halves (mul32). Only hash_16_bytes needs byte_swap.

/// XXH3-64 (xxHash 0.8) of the eight little-endian bytes of `key`; `seed_mask` is
/// set(u64_seed_mask(seed)).
template <class Ops>
SCBF_INLINE constexpr typename Ops::U64 hash_u64(typename Ops::U64 key,
                                                 typename Ops::U64 seed_mask) noexcept {
  const auto multiplier = Ops::set(0x9FB2'1C65'1E98'DF25u);
  auto h = Ops::bit_xor(Ops::template rotl<32>(key), seed_mask);
  h = Ops::bit_xor(h, Ops::bit_xor(Ops::template rotl<49>(h), Ops::template rotl<24>(h)));
  h = Ops::mul(h, multiplier);
  h = Ops::bit_xor(h, Ops::add(Ops::template shr<35>(h), Ops::set(8)));  // 8: bytes in the key
  h = Ops::mul(h, multiplier);
  return Ops::bit_xor(h, Ops::template shr<28>(h));
}

/// The same of sixteen bytes, the first eight and the last eight. The masks are
/// set(first_seed_mask(seed)) and set(last_seed_mask(seed)).
template <class Ops>
SCBF_INLINE constexpr typename Ops::U64 hash_16_bytes(typename Ops::U64 first,
                                                      typename Ops::U64 last,
                                                      typename Ops::U64 first_mask,
                                                      typename Ops::U64 last_mask) noexcept {
  const auto low = Ops::bit_xor(first, first_mask), high = Ops::bit_xor(last, last_mask);
  const auto product = Ops::bit_xor(Ops::mul(low, high), Ops::mul_high(low, high));
  auto h = Ops::add(Ops::add(Ops::set(16), Ops::byte_swap(low)), Ops::add(high, product));
  h = Ops::bit_xor(h, Ops::template shr<37>(h));
  h = Ops::mul(h, Ops::set(0x1656'6791'9E37'79F9u));
  return Ops::bit_xor(h, Ops::template shr<32>(h));
}

/// The hash that group j > 0 uses; `group_multiplier` is set(kMultipliers[j]).
template <class Ops>
SCBF_INLINE constexpr typename Ops::U64 group_hash(typename Ops::U64 hash,
                                                   typename Ops::U64 group_multiplier) noexcept {
  auto h = Ops::bit_xor(hash, Ops::template shr<32>(hash));
  h = Ops::mul(h, group_multiplier);
  // The shift is not 32: with close to 2^32 blocks, place() subtracts the upper half from the
  // lower. That would undo this xor and leave the lowest bits equal in all groups.
  return Ops::bit_xor(h, Ops::template shr<29>(h));
}

/// (hash · blocks) >> 32: block in the upper half, eight nibbles in the lower. blocks < 2^32.
template <class Ops>
SCBF_INLINE constexpr typename Ops::U64 place(typename Ops::U64 hash,
                                              typename Ops::U64 blocks) noexcept {
  return Ops::mul_middle(hash, blocks);
}

/// The same for blocks of four slices with `positions` < 256 positions each: block in the upper
/// half, below it a byte with the position in each slice. They are the first four digits, in base
/// `positions`, of the fraction that is left when the block is chosen.
template <class Ops>
SCBF_INLINE constexpr typename Ops::U64 ranked_place(typename Ops::U64 hash,
                                                     typename Ops::U64 blocks,
                                                     typename Ops::U64 positions) noexcept {
  const auto where = place<Ops>(hash, blocks);
  const auto first = Ops::mul32(where, positions), second = Ops::mul32(first, positions);
  const auto third = Ops::mul32(second, positions), fourth = Ops::mul32(third, positions);
  // Each product is a digit, from bit 32 on, and the fraction below it. Masks are cheaper than
  // shifts: processors do half as many shifts at a time.
  const auto one = Ops::template shr<32>(first);
  const auto two = Ops::bit_and(Ops::template shr<24>(second), Ops::set(0xFF00u));
  const auto three = Ops::bit_and(Ops::template shr<16>(third), Ops::set(0xFF'0000u));
  const auto four = Ops::bit_and(Ops::template shr<8>(fourth), Ops::set(0xFF00'0000u));
  const auto block = Ops::bit_and(where, Ops::set(0xFFFF'FFFF'0000'0000u));
  return Ops::bit_or(Ops::bit_or(block, four), Ops::bit_or(three, Ops::bit_or(two, one)));
}

/// The counter of slice i, in 0 … m − 1: the upper 64 bits of (hash · multiplier mod 2^64) · m.
/// `slice_multiplier` is set(kMultipliers[i]). `wide` must be true when m ≥ 2^32.
template <class Ops, bool wide>
SCBF_INLINE constexpr typename Ops::U64 slice_position(typename Ops::U64 hash,
                                                       typename Ops::U64 slice_multiplier,
                                                       typename Ops::U64 m) noexcept {
  const auto h = Ops::mul(hash, slice_multiplier);
  if constexpr (wide) return Ops::mul_high(h, m);
  return Ops::template shr<32>(Ops::mul_middle(h, m));
}
