// SPDX-License-Identifier: Apache-2.0
// The loop that all kernels share: it visits located keys and prefetches ahead. Included once per
// target.
#if defined(SCBF_WALK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_WALK_INL
#undef SCBF_WALK_INL
#else
#define SCBF_WALK_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu_simd/kernels.hpp"
#include "cpu_simd/tuning.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

/// Keys in a stretch. Between stretches, lines that are needed after the call are fetched.
inline constexpr std::size_t kStretchKeys = 64;

/// For callers with nothing to do at the beginning, or the end, of a stretch.
struct Nothing {
  HWY_INLINE void operator()(std::size_t, std::size_t) const noexcept {}
};

/// For each stretch of the keys 0 … n − 1 calls begin(first, end), then visit(i) for its keys,
/// `step` of them at a time, then finish(first, end); n must be a multiple of `step`. If counters
/// are to be fetched, those of key i are at line_of(i, 0) … line_of(i, arrays − 1).
///
/// `unrolled` says by how much the loop that fetches is unrolled, for visitors of one number. What
/// is best depends on the visitor.
///
/// A visitor of two numbers, visit(i, later), fetches for itself, in between its other work: the
/// lines of keys later … later + step − 1, or none if `later` is 0.
///
/// Callables return addresses instead of prefetching them, because g++ treats a function that only
/// prefetches as one that does nothing, and drops its calls.
template <std::size_t step, std::size_t unrolled = 1, class LineOf, class Begin, class Visit,
          class Finish = Nothing>
HWY_INLINE void walk(std::size_t n, const Fetch& fetch, std::uint32_t arrays, LineOf line_of,
                     Begin begin, Visit visit, Finish finish = {}) noexcept {
  static_assert(kStretchKeys % step == 0);
  if (n == 0) return;
  const std::size_t stretches = (n + kStretchKeys - 1) / kStretchKeys;
  Lines ahead[] = {fetch.ahead[0], fetch.ahead[1]};
  const std::size_t share[] = {(ahead[0].count + stretches - 1) / stretches,
                               (ahead[1].count + stretches - 1) / stretches};
  const std::size_t distance = std::max<std::size_t>(1, fetch.distance / arrays);
  std::size_t prefetching = 0;  // keys before this index prefetch for a later key
  if (fetch.distance > 0) {
    for (std::size_t i = 0; i < std::min(n, distance); ++i) {
      for (std::uint32_t a = 0; a < arrays; ++a) hwy::Prefetch(line_of(i, a));
    }
    prefetching = n > distance ? n - distance : 0;
  }
  for (std::size_t first = 0; first < n; first += kStretchKeys) {
    const std::size_t end = std::min(n, first + kStretchKeys);
    for (std::size_t which = 0; which < 2; ++which) {
      const Lines now = ahead[which].take(share[which]);
      for (std::size_t j = 0; j < now.count; ++j) {
        __builtin_prefetch(now.at + j * kWordsPerBlock, 0, 2);  // into L2
      }
    }
    begin(first, end);
    std::size_t i = first;
    if constexpr (std::is_invocable_v<Visit, std::size_t, std::size_t>) {
      for (; i < end; i += step) visit(i, i + step <= prefetching ? i + distance : 0);
    } else {
      const std::size_t stop = std::min(end, prefetching);
      const auto fetch_and_visit = [&](std::size_t at) HWY_ATTR __attribute__((always_inline)) {
        for (std::size_t j = 0; j < step; ++j) {
          for (std::uint32_t a = 0; a < arrays; ++a) hwy::Prefetch(line_of(at + distance + j, a));
        }
        visit(at);
      };
      if constexpr (unrolled > 1) {
        for (; i + unrolled * step <= stop; i += unrolled * step) {
#pragma GCC unroll 8
          for (std::size_t u = 0; u < unrolled; ++u) fetch_and_visit(i + u * step);
        }
      }
      for (; i + step <= stop; i += step) fetch_and_visit(i);
#pragma GCC unroll 4
      for (; i < end; i += step) visit(i);
    }
    finish(first, end);
  }
}

/// The same, key by key, for keys located in several arrays. word_of(position) is the index of a
/// word of the line within its array.
template <class WordOf, class Visit>
HWY_INLINE void walk_arrays(const std::uint64_t* words, const Located& keys, const Fetch& fetch,
                            WordOf word_of, Visit visit) noexcept {
  walk<1>(
      keys.keys, fetch, keys.arrays,
      [&](std::size_t i, std::uint32_t a)
          HWY_ATTR { return words + a * keys.array_words + word_of(keys.position(a, i)); },
      Nothing(), visit);
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
