// SPDX-License-Identifier: Apache-2.0
// Counts counters by value. Included once per target.
//
// The four bits of sixteen counters lie side by side in a word. Four words are first turned into
// four *planes*: plane b holds bit b of all their 64 counters. Population counts of planes say, for
// each v, how many counters have all the bits of v, and perhaps more; inclusion and exclusion then
// give how many equal v. That is 15 population counts for 64 counters, instead of 64.
#if defined(SCBF_HISTOGRAM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_HISTOGRAM_INL
#undef SCBF_HISTOGRAM_INL
#else
#define SCBF_HISTOGRAM_INL
#endif

#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cstdint>

#include "cpu_simd/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A word of each block of 64 bytes in each lane, so that lanes are slices of split_block.
using UnitTag = hn::CappedTag<std::uint64_t, kWordsPerBlock>;

/// Bit b of each counter of four vectors: of the first at the lowest bit of each nibble, and so on.
template <int b, class V>
HWY_INLINE V plane_of(V v0, V v1, V v2, V v3) noexcept {
  const UnitTag tag;
  const auto lowest = hn::Set(tag, 0x1111'1111'1111'1111u);
  const auto bit = [&](V v) { return hn::And(hn::ShiftRight<b>(v), lowest); };
  return hn::Or(hn::Or(bit(v0), hn::ShiftLeft<1>(bit(v1))),
                hn::Or(hn::ShiftLeft<2>(bit(v2)), hn::ShiftLeft<3>(bit(v3))));
}

/// Turns the numbers of counters that have at least the bits of v into those that are v.
inline void keep_exactly(Histogram& counts) noexcept {
  for (unsigned bit = 1; bit < counts.size(); bit *= 2) {
    for (unsigned v = 0; v < counts.size(); ++v) {
      if ((v & bit) == 0) counts[v] -= counts[v | bit];
    }
  }
}

inline void CountValuesHere(const std::uint64_t* units, std::uint64_t count,
                            HistogramByWord& by_word) noexcept {
  const UnitTag tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::uint64_t whole = count / 4 * 4;
  for (std::size_t first = 0; first < kWordsPerBlock; first += lanes) {
    const auto zero = hn::Zero(tag);
    decltype(hn::Zero(tag)) s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero,
                            s7 = zero, s8 = zero, s9 = zero, s10 = zero, s11 = zero, s12 = zero,
                            s13 = zero, s14 = zero, s15 = zero;
    const auto count_in = [](auto& sum, auto plane)
                              HWY_ATTR { sum = hn::Add(sum, hn::PopulationCount(plane)); };
    const std::uint64_t* at = units + first;
    for (std::uint64_t i = 0; i < whole; i += 4, at += 4 * kWordsPerBlock) {
      const auto v0 = hn::LoadU(tag, at), v1 = hn::LoadU(tag, at + kWordsPerBlock),
                 v2 = hn::LoadU(tag, at + 2 * kWordsPerBlock),
                 v3 = hn::LoadU(tag, at + 3 * kWordsPerBlock);
      const auto p1 = plane_of<0>(v0, v1, v2, v3), p2 = plane_of<1>(v0, v1, v2, v3),
                 p4 = plane_of<2>(v0, v1, v2, v3), p8 = plane_of<3>(v0, v1, v2, v3);
      const auto p3 = hn::And(p1, p2), p12 = hn::And(p4, p8);
      count_in(s1, p1);
      count_in(s2, p2);
      count_in(s3, p3);
      count_in(s4, p4);
      count_in(s5, hn::And(p1, p4));
      count_in(s6, hn::And(p2, p4));
      count_in(s7, hn::And(p3, p4));
      count_in(s8, p8);
      count_in(s9, hn::And(p1, p8));
      count_in(s10, hn::And(p2, p8));
      count_in(s11, hn::And(p3, p8));
      count_in(s12, p12);
      count_in(s13, hn::And(p1, p12));
      count_in(s14, hn::And(p2, p12));
      count_in(s15, hn::And(p3, p12));
    }
    HWY_ALIGN std::array<std::array<std::uint64_t, kWordsPerBlock>, kCounterMax + 1> sums{};
    decltype(hn::Zero(tag))* const all[] = {&s1, &s2,  &s3,  &s4,  &s5,  &s6,  &s7, &s8,
                                            &s9, &s10, &s11, &s12, &s13, &s14, &s15};
    for (std::size_t v = 1; v <= kCounterMax; ++v) hn::StoreU(*all[v - 1], tag, sums[v].data());
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      Histogram counts{};
      counts[0] = whole * kCountersPerWord;
      for (std::size_t v = 1; v <= kCounterMax; ++v) counts[v] = sums[v][lane];
      keep_exactly(counts);
      Histogram& histogram = by_word[first + lane];
      for (std::size_t v = 0; v <= kCounterMax; ++v) histogram[v] += counts[v];
    }
  }
  plain_count_values(units + whole * kWordsPerBlock, count - whole, by_word);
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
