// SPDX-License-Identifier: Apache-2.0
// Kernels of the split layout. Included once per target.
//
// The engine walks the slices one after another, for many keys each: positions of a slice are
// computed several keys to a vector, keys that a slice shows to be absent do not reach the next
// one. The counters themselves lie in lines of their own, so that is where time goes; one word is
// loaded, shifted and tested per key, many keys in flight.
#if defined(SCBF_SLICE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_SLICE_INL
#undef SCBF_SLICE_INL
#else
#define SCBF_SLICE_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/tuning.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool wide>
HWY_INLINE void slice_locate(const Stage& stage, const std::uint64_t* hashes, std::size_t n,
                             std::uint64_t* positions) noexcept {
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::uint64_t multiplier = detail::kMultipliers[stage.index];
  const auto factor = hn::Set(tag, multiplier);
  const auto counters = hn::Set(tag, stage.extent);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto position =
        slice_position<VectorOps, wide>(hn::LoadU(tag, hashes + i), factor, counters);
    hn::StoreU(position, tag, positions + i);
  }
  for (; i < n; ++i) {
    positions[i] =
        detail::slice_position<detail::PlainOps, wide>(hashes[i], multiplier, stage.extent);
  }
}

inline void SliceLocate(const Stage& stage, const std::uint64_t* hashes, std::size_t n,
                        std::uint64_t* positions) noexcept {
  if (stage.extent >> 32 == 0) {
    slice_locate<false>(stage, hashes, n, positions);
  } else {
    slice_locate<true>(stage, hashes, n, positions);
  }
}

/// Calls visit(i, word index, shift) for i in 0 … n − 1, prefetching ahead if `far`.
template <class Visit>
HWY_INLINE void for_each_counter(const std::uint64_t* words, const std::uint64_t* positions,
                                 std::size_t n, bool far, Visit visit) noexcept {
  const auto visit_one = [&](std::size_t i) HWY_ATTR {
    visit(i, positions[i] / kCountersPerWord,
          static_cast<unsigned>(positions[i] % kCountersPerWord) * kCounterBits);
  };
  std::size_t i = 0;
  if (far) {
    const std::size_t head = std::min(n, kPrefetchDistance);
    for (std::size_t j = 0; j < head; ++j) hwy::Prefetch(words + positions[j] / kCountersPerWord);
    for (; i + kPrefetchDistance < n; ++i) {
      hwy::Prefetch(words + positions[i + kPrefetchDistance] / kCountersPerWord);
      visit_one(i);
    }
  }
  for (; i < n; ++i) visit_one(i);
}

inline void SliceTest(const std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                      bool far, std::uint8_t* answers) noexcept {
  for_each_counter(words, positions, n, far,
                   [&](std::size_t i, std::uint64_t word, unsigned shift)
                       HWY_ATTR { answers[i] = detail::counter_at(words[word], shift) != 0; });
}

inline void SliceLeast(const std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                       bool far, std::uint8_t* answers) noexcept {
  for_each_counter(words, positions, n, far,
                   [&](std::size_t i, std::uint64_t word, unsigned shift) HWY_ATTR {
                     answers[i] = static_cast<std::uint8_t>(detail::counter_at(words[word], shift));
                   });
}

inline void SliceAdd(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                     bool far) noexcept {
  for_each_counter(words, positions, n, far,
                   [&](std::size_t, std::uint64_t word, unsigned shift)
                       HWY_ATTR { words[word] = detail::incremented(words[word], shift); });
}

inline void SliceTakePresent(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                             bool far, std::uint8_t* answers) noexcept {
  for_each_counter(words, positions, n, far,
                   [&](std::size_t i, std::uint64_t word, unsigned shift) HWY_ATTR {
                     answers[i] = detail::counter_at(words[word], shift) != 0;
                     words[word] = detail::decremented(words[word], shift);
                   });
}

inline std::size_t SliceTake(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                             bool far, std::uint64_t* underflows) noexcept {
  std::size_t count = 0;
  for_each_counter(words, positions, n, far,
                   [&](std::size_t i, std::uint64_t word, unsigned shift) HWY_ATTR {
                     // Always written, kept only if it counts: no branch to mispredict.
                     underflows[count] = positions[i];
                     count += detail::counter_at(words[word], shift) == 0;
                     words[word] = detail::decremented(words[word], shift);
                   });
  return count;
}

inline constexpr StageKernels kSliceKernels = {SliceLocate, SliceTest,        SliceLeast,
                                               SliceAdd,    SliceTakePresent, SliceTake};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
