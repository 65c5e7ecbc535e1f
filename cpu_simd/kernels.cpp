// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels once per Highway target and hands out the tables.
#include <hwy/targets.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_simd/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_simd/block-inl.h"
#include "cpu_simd/histogram-inl.h"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/rows-inl.h"
#include "cpu_simd/scatter-inl.h"
#include "cpu_simd/slice-inl.h"
#include "cpu_simd/targets.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/few_keys.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

inline void HashU64Here(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                        std::uint64_t* hashes) noexcept {
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::uint64_t mask = detail::u64_seed_mask(seed);
  const auto seed_mask = hn::Set(tag, mask);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // Prefetch the next strip: between strips other memory is read, and the hardware prefetcher
    // starts over.
    hwy::Prefetch(keys + i + kStripKeys);
    hn::StoreU(hash_u64<VectorOps>(hn::LoadU(tag, keys + i), seed_mask), tag, hashes + i);
  }
  for (; i < n; ++i) hashes[i] = detail::hash_u64<detail::PlainOps>(keys[i], mask);
}

// ---- a single key -------------------------------------------------------------------------------

/// The functions for one key, in filters of several groups or of slices.
struct OtherShapes {
  static HWY_NOINLINE bool holds(const Geometry& geometry, const std::uint64_t* words,
                                 std::uint64_t hash) noexcept {
    return geometry.layout() == Layout::split_block
               ? holds_key_in(geometry.groups(), geometry, words, hash)
               : holds_key(geometry, words, hash);
  }
  static HWY_NOINLINE unsigned count(const Geometry& geometry, const std::uint64_t* words,
                                     std::uint64_t hash) noexcept {
    return geometry.layout() == Layout::split_block
               ? count_key_in(geometry.groups(), geometry, words, hash)
               : count_of(geometry, words, hash);
  }
  static HWY_NOINLINE std::uint32_t add(const Geometry& geometry, std::uint64_t* words,
                                        std::uint64_t hash) noexcept {
    return geometry.layout() == Layout::split_block
               ? add_key_in(geometry.groups(), geometry, words, hash)
               : add_key(geometry, words, hash);
  }
  static HWY_NOINLINE std::uint32_t take(const Geometry& geometry, std::uint64_t* words,
                                         std::uint64_t hash) noexcept {
    return geometry.layout() == Layout::split_block
               ? take_key_in(geometry.groups(), geometry, words, hash)
               : take_key(geometry, words, hash);
  }
};

/// Most filters have one group. Their way is kept short: the fewer instructions a key takes, the
/// more keys of a loop does a core work on at once.
HWY_INLINE bool is_one_group(const Geometry& geometry) noexcept {
  return geometry.layout() == Layout::split_block && geometry.groups() == 1;
}

bool HoldsKeyHere(const Geometry& geometry, const std::uint64_t* words,
                  std::uint64_t hash) noexcept {
  if (is_one_group(geometry)) return holds_key_in(1, geometry, words, hash);
  return OtherShapes::holds(geometry, words, hash);
}
unsigned CountKeyHere(const Geometry& geometry, const std::uint64_t* words,
                      std::uint64_t hash) noexcept {
  if (is_one_group(geometry)) return count_key_in(1, geometry, words, hash);
  return OtherShapes::count(geometry, words, hash);
}
std::uint32_t AddKeyHere(const Geometry& geometry, std::uint64_t* words,
                         std::uint64_t hash) noexcept {
  if (is_one_group(geometry)) return add_key_in(1, geometry, words, hash);
  return OtherShapes::add(geometry, words, hash);
}
std::uint32_t TakeKeyHere(const Geometry& geometry, std::uint64_t* words,
                          std::uint64_t hash) noexcept {
  if (is_one_group(geometry)) return take_key_in(1, geometry, words, hash);
  return OtherShapes::take(geometry, words, hash);
}

inline std::size_t PackAnswers(const std::uint8_t* answers, std::size_t n,
                               std::uint64_t* bits) noexcept {
  constexpr std::size_t kAtOnce = 64;
  std::size_t ones = 0;
  for (std::size_t first = 0; first < n; first += kAtOnce) {
    std::uint64_t word = 0;
#if HWY_TARGET == HWY_SCALAR
    for (std::size_t i = 0; i < std::min(kAtOnce, n - first); ++i) {
      word |= std::uint64_t{answers[first + i]} << i;
    }
#else
    const hn::CappedTag<std::uint8_t, kAtOnce> tag;
    constexpr std::size_t lanes = hn::MaxLanes(tag);
    for (std::size_t i = 0; i < kAtOnce; i += lanes) {
      std::uint64_t part = 0;
      hn::StoreMaskBits(tag, hn::Eq(hn::LoadU(tag, answers + first + i), hn::Set(tag, 1)),
                        reinterpret_cast<std::uint8_t*>(&part));
      word |= part << i;
    }
#endif
    if (n - first < kAtOnce) word &= (std::uint64_t{1} << (n - first)) - 1;
    bits[first / kAtOnce] = word;
    ones += static_cast<std::size_t>(__builtin_popcountll(word));
  }
  return ones;
}

const Kernels* Table() {
  static const Kernels table = {hwy::TargetName(HWY_TARGET),
                                HashU64Here,
                                {HoldsKeyHere, CountKeyHere, AddKeyHere, TakeKeyHere},
                                CountValuesHere,
                                PackAnswers,
                                kBlockKernels,
                                kSliceKernels,
                                ScatterPositions,
                                row_kernels(HashU64Here)};
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scbf {

HWY_EXPORT(Table);

std::vector<const Kernels*> kernel_tables() { return results_by_target(HWY_DISPATCH_TABLE(Table)); }

std::vector<std::string_view> unsupported_targets() {
  std::vector<std::string_view> names;
  for (std::int64_t rest = HWY_TARGETS & ~hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    names.push_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

}  // namespace scbf
#endif
