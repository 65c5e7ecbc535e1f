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

constexpr std::size_t kBits = 64;   // bytes that are searched at a time
constexpr std::size_t kLikely = 2;  // ends among these; more of them take a branch

template <class Bits>
HWY_INLINE std::uint64_t read_bits(const std::uint8_t* at) noexcept {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

/// Bit i says whether at[i] is `end`, for 64 bytes.
HWY_INLINE std::uint64_t ends_in(const std::uint8_t* at, std::uint8_t end) noexcept {
  const hn::CappedTag<std::uint8_t, kBits> tag;
  constexpr std::size_t lanes = hn::MaxLanes(tag);
  std::uint64_t ends = 0;
  for (std::size_t i = 0; i < kBits; i += lanes) {
#if HWY_TARGET == HWY_SCALAR
    ends |= std::uint64_t{at[i] == end} << i;
#else
    static_assert(lanes == 16 || lanes == 32 || lanes == 64);
    std::uint8_t bytes[8];
    hn::StoreMaskBits(tag, hn::Eq(hn::LoadU(tag, at + i), hn::Set(tag, end)), bytes);
    // As many bits as were stored: more would have to wait until they are in the cache.
    ends |= (lanes == 16   ? read_bits<std::uint16_t>(bytes)
             : lanes == 32 ? read_bits<std::uint32_t>(bytes)
                           : read_bits<std::uint64_t>(bytes))
            << i;
#endif
  }
  return ends;
}

std::size_t LineEnds(const std::uint8_t* bytes, std::size_t n, std::uint8_t end,
                     std::uint32_t* out) {
  std::size_t found = 0, i = 0;
  for (; i + kBits <= n; i += kBits) {
    std::uint64_t ends = ends_in(bytes + i, end);
    const auto here = static_cast<std::size_t>(std::popcount(ends));
    // Two are written whether they are there or not; what was not there is overwritten.
    for (std::size_t j = 0; j < kLikely || j < here; ++j, ends &= ends - 1) {
      out[found + j] =
          static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(ends));
    }
    found += here;
  }
  for (; i < n; ++i) {
    out[found] = static_cast<std::uint32_t>(i);
    found += bytes[i] == end;
  }
  return found;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace scbf::cli
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scbf::cli {

HWY_EXPORT(LineEnds);

std::size_t line_ends(std::string_view bytes, char end, std::uint32_t* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(LineEnds)(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                        bytes.size(), static_cast<std::uint8_t>(end), out);
}

}  // namespace scbf::cli
#endif
