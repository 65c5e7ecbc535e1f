// SPDX-License-Identifier: Apache-2.0
#include "line_ends.hpp"

// As in cpu_simd/kernels.cpp: the compiler does not know how long the vectors of SVE are.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/targets.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "line_ends.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace scbf::cli {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBits = 64;  // bytes that are searched at a time

template <class Bits>
HWY_INLINE std::uint64_t read_bits(const std::uint8_t* at) noexcept {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

/// The bytes that are looked for.
template <std::size_t kCount>
struct OneOf {
  std::uint8_t bytes[kCount];

  HWY_INLINE bool is(std::uint8_t byte) const noexcept {
    bool found = false;
    for (const std::uint8_t one : bytes) found |= byte == one;
    return found;
  }
#if HWY_TARGET != HWY_SCALAR
  template <class Tag, class Vector>
  HWY_INLINE hn::Mask<Tag> is(Tag tag, Vector vector) const noexcept {
    auto found = hn::Eq(vector, hn::Set(tag, bytes[0]));
    for (std::size_t i = 1; i < kCount; ++i) {
      found = hn::Or(found, hn::Eq(vector, hn::Set(tag, bytes[i])));
    }
    return found;
  }
#endif
};

/// Bit i says whether at[i] is one of those that are wanted, for 64 bytes.
template <std::size_t kCount>
HWY_INLINE std::uint64_t places_in(const std::uint8_t* at, const OneOf<kCount>& wanted) noexcept {
  const hn::CappedTag<std::uint8_t, kBits> tag;
  constexpr std::size_t lanes = hn::MaxLanes(tag);
  std::uint64_t places = 0;
  for (std::size_t i = 0; i < kBits; i += lanes) {
#if HWY_TARGET == HWY_SCALAR
    places |= std::uint64_t{wanted.is(at[i])} << i;
#else
    static_assert(lanes == 16 || lanes == 32 || lanes == 64);
    std::uint8_t bytes[8];
    hn::StoreMaskBits(tag, wanted.is(tag, hn::LoadU(tag, at + i)), bytes);
    // As many bits as were stored: more would have to wait until they are in the cache.
    places |= (lanes == 16   ? read_bits<std::uint16_t>(bytes)
               : lanes == 32 ? read_bits<std::uint32_t>(bytes)
                             : read_bits<std::uint64_t>(bytes))
              << i;
#endif
  }
  return places;
}

/// Among 64 bytes, more places than kLikely take a branch.
template <std::size_t kLikely, std::size_t kCount>
HWY_INLINE std::size_t places(const std::uint8_t* bytes, std::size_t n, const OneOf<kCount>& wanted,
                              std::uint32_t* out) noexcept {
  std::size_t found = 0, i = 0;
  for (; i + kBits <= n; i += kBits) {
    std::uint64_t left = places_in(bytes + i, wanted);
    const auto here = static_cast<std::size_t>(std::popcount(left));
    // Some are written whether they are there or not; what was not there is overwritten.
    for (std::size_t j = 0; j < kLikely || j < here; ++j, left &= left - 1) {
      out[found + j] =
          static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(left));
    }
    found += here;
  }
  for (; i < n; ++i) {
    out[found] = static_cast<std::uint32_t>(i);
    found += wanted.is(bytes[i]);
  }
  return found;
}

std::size_t LineEnds(const std::uint8_t* bytes, std::size_t n, std::uint8_t end,
                     std::uint32_t* out) {
  return places<2>(bytes, n, OneOf<1>{{end}}, out);
}

std::size_t FindMarks(const std::uint8_t* bytes, std::size_t n, const std::uint8_t* marks,
                      std::uint32_t* out) {
  return places<4>(bytes, n, OneOf<4>{{marks[0], marks[1], marks[2], marks[3]}}, out);
}

std::uint64_t CountByte(const std::uint8_t* bytes, std::size_t n, std::uint8_t byte) {
  const OneOf<1> wanted{{byte}};
  std::uint64_t count = 0;
  std::size_t i = 0;
  for (; i + kBits <= n; i += kBits) {
    count += static_cast<std::uint64_t>(std::popcount(places_in(bytes + i, wanted)));
  }
  for (; i < n; ++i) count += wanted.is(bytes[i]) ? 1 : 0;
  return count;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace scbf::cli
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scbf::cli {

HWY_EXPORT(LineEnds);
HWY_EXPORT(FindMarks);
HWY_EXPORT(CountByte);

std::size_t line_ends(std::string_view bytes, char end, std::uint32_t* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(LineEnds)(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                        bytes.size(), static_cast<std::uint8_t>(end), out);
}

std::size_t find_marks(std::string_view bytes, const Marks& marks, std::uint32_t* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(FindMarks)(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                         bytes.size(),
                                         reinterpret_cast<const std::uint8_t*>(marks.data()), out);
}

std::uint64_t count_byte(std::string_view bytes, char byte) noexcept {
  return HWY_DYNAMIC_DISPATCH(CountByte)(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                         bytes.size(), static_cast<std::uint8_t>(byte));
}

}  // namespace scbf::cli
#endif
