// SPDX-License-Identifier: Apache-2.0
// The operations policy of core/include/scbf/detail/formulas.inl on Highway vectors of 64-bit
// lanes, and the formulas on it. Included once per target.
#if defined(SCBF_HWY_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_HWY_OPS_INL
#undef SCBF_HWY_OPS_INL
#else
#define SCBF_HWY_OPS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "scbf/detail/hash.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag64 = hn::ScalableTag<std::uint64_t>;

/// The operations that are the same on all targets.
struct LaneOps {
  using U64 = hn::Vec<Tag64>;

  static HWY_INLINE U64 set(std::uint64_t v) noexcept { return hn::Set(Tag64(), v); }
  static HWY_INLINE U64 add(U64 a, U64 b) noexcept { return hn::Add(a, b); }
  static HWY_INLINE U64 bit_xor(U64 a, U64 b) noexcept { return hn::Xor(a, b); }
  static HWY_INLINE U64 bit_and(U64 a, U64 b) noexcept { return hn::And(a, b); }
  static HWY_INLINE U64 bit_or(U64 a, U64 b) noexcept { return hn::Or(a, b); }
  template <int n>
  static HWY_INLINE U64 shl(U64 a) noexcept {
    return hn::ShiftLeft<n>(a);
  }
  template <int n>
  static HWY_INLINE U64 shr(U64 a) noexcept {
    return hn::ShiftRight<n>(a);
  }
};

#if HWY_TARGET == HWY_SCALAR

// There is one lane, and Highway cannot split it into two of 32 bits: wrap plain integers.
struct VectorOps : LaneOps {
  using Plain = detail::PlainOps;

  template <int n>
  static HWY_INLINE U64 rotl(U64 a) noexcept {
    return set(Plain::rotl<n>(hn::GetLane(a)));
  }
  static HWY_INLINE U64 mul(U64 a, U64 b) noexcept {
    return set(Plain::mul(hn::GetLane(a), hn::GetLane(b)));
  }
  static HWY_INLINE U64 mul_high(U64 a, U64 b) noexcept {
    return set(Plain::mul_high(hn::GetLane(a), hn::GetLane(b)));
  }
  static HWY_INLINE U64 byte_swap(U64 a) noexcept { return set(Plain::byte_swap(hn::GetLane(a))); }
  static HWY_INLINE U64 mul32(U64 a, U64 b) noexcept {
    return set(Plain::mul32(hn::GetLane(a), hn::GetLane(b)));
  }
  static HWY_INLINE U64 mul_middle(U64 a, U64 b) noexcept {
    return set(Plain::mul_middle(hn::GetLane(a), hn::GetLane(b)));
  }
};

using SliceOps = VectorOps;

#else

using Tag32 = hn::Repartition<std::uint32_t, Tag64>;

struct VectorOps : LaneOps {
  template <int n>
  static HWY_INLINE U64 rotl(U64 a) noexcept {
    if constexpr (n == 32) {
      return hn::BitCast(Tag64(), hn::Shuffle2301(hn::BitCast(Tag32(), a)));
    } else {
      return hn::RotateRight<64 - n>(a);
    }
  }
  static HWY_INLINE U64 byte_swap(U64 a) noexcept {
    alignas(16) static constexpr std::uint8_t kReversed[16] = {7,  6,  5,  4,  3,  2,  1, 0,
                                                               15, 14, 13, 12, 11, 10, 9, 8};
    const hn::Repartition<std::uint8_t, Tag64> tag8;
    return hn::BitCast(Tag64(),
                       hn::TableLookupBytes(hn::BitCast(tag8, a), hn::LoadDup128(tag8, kReversed)));
  }
  /// The product of the low halves.
  static HWY_INLINE U64 mul32(U64 a, U64 b) noexcept {
    return hn::MulEven(hn::BitCast(Tag32(), a), hn::BitCast(Tag32(), b));
  }
  /// The low 64 bits of the product. Highway 1.0.3 has no such operation; AVX-512 does.
  static HWY_INLINE U64 mul(U64 a, U64 b) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    return U64{_mm512_mullo_epi64(a.raw, b.raw)};
#else
    return mul_by_parts(a, b);
#endif
  }
  /// The same by three 32-bit products.
  static HWY_INLINE U64 mul_by_parts(U64 a, U64 b) noexcept {
    const U64 cross = hn::Add(mul32(hn::ShiftRight<32>(a), b), mul32(a, hn::ShiftRight<32>(b)));
    return hn::Add(mul32(a, b), hn::ShiftLeft<32>(cross));
  }
  static HWY_INLINE U64 mul_middle(U64 a, U64 b) noexcept {
    return hn::Add(mul32(hn::ShiftRight<32>(a), b), hn::ShiftRight<32>(mul32(a, b)));
  }
  static HWY_INLINE U64 mul_high(U64 a, U64 b) noexcept {
    const U64 a_high = hn::ShiftRight<32>(a), b_high = hn::ShiftRight<32>(b);
    const U64 middle = mul_middle(a, b);  // with the low half of b
    const U64 carry = hn::Add(mul32(a, b_high), hn::And(middle, set(0xFFFF'FFFFu)));
    return hn::Add(mul32(a_high, b_high),
                   hn::Add(hn::ShiftRight<32>(middle), hn::ShiftRight<32>(carry)));
  }
};

/// The policy for positions in slices. There, unlike in hashing, AVX-512's 64-bit product made
/// inserts and lookups in cache a third slower on Sapphire Rapids.
struct SliceOps : VectorOps {
  static HWY_INLINE U64 mul(U64 a, U64 b) noexcept { return mul_by_parts(a, b); }
};

#endif  // HWY_TARGET == HWY_SCALAR

/// The lanes in which a and b have no bit in common. Highway 1.0.3 does not use AVX-512's
/// instruction for it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> disjoint([[maybe_unused]] D d, V a, V b) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return hn::Mask<D>{_mm512_testn_epi64_mask(a.raw, b.raw)};
#else
  return hn::Eq(hn::And(a, b), hn::Zero(d));
#endif
}

/// Stores the lanes of `chosen` side by side, and anything up to a whole vector behind them.
/// Returns how many there are. (Highway 1.0.3's Compress copies its tables to the stack on every
/// call, and storing a compressed register is faster on Zen 4 than compressing into memory.)
template <class D, class V = hn::Vec<D>>
HWY_INLINE std::size_t store_chosen(D d, V v, hn::Mask<D> chosen, std::uint64_t* to) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  hn::StoreU(V{_mm512_maskz_compress_epi64(chosen.raw, v.raw)}, d, to);
  return hn::CountTrue(d, chosen);
#else
  alignas(64) std::uint64_t lanes[hn::MaxLanes(d)];
  std::uint8_t bits[8] = {};
  hn::Store(v, d, lanes);
  hn::StoreMaskBits(d, chosen, bits);
  std::size_t count = 0;
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {  // no branch: about half of them are chosen
    to[count] = lanes[i];
    count += bits[0] >> i & 1;
  }
  return count;
#endif
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
/// words[index], lane by lane. (Highway's gather begins with an undefined vector, and g++ takes
/// what is in the register: then each gather waits for all that was done with the one before it.)
template <class V>
HWY_INLINE V gather(const std::uint64_t* words, V index) noexcept {
#if HWY_TARGET <= HWY_AVX3
  __mmask8 all = 0xFF;
  asm("" : "+k"(all));  // else g++ sees that the zeros are overwritten, and leaves them out
  return V{_mm512_mask_i64gather_epi64(_mm512_setzero_si512(), all, index.raw, words, 8)};
#else
  __m256i all = _mm256_set1_epi64x(-1);
  asm("" : "+x"(all));
  return V{_mm256_mask_i64gather_epi64(
      _mm256_setzero_si256(), reinterpret_cast<const long long*>(words), index.raw, all, 8)};
#endif
}

/// Stores each lane as a byte.
template <class V>
HWY_INLINE void store_bytes(V v, std::uint8_t* bytes) noexcept {
  const hn::Rebind<std::uint8_t, Tag64> tag8;
  hn::StoreU(hn::TruncateTo(tag8, v), tag8, bytes);
}
#endif

#include "scbf/detail/formulas.inl"

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
