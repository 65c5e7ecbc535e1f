// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels once per Highway target and hands out the tables.

// AVX-512 as of Ice Lake and Zen 4, which Highway leaves out unless it is wanted. It counts bits in
// vectors. Highway lets g++ use AVX-VNNI there, too, which a Zen 4 lacks; it is for sums of
// products of bytes, and nothing here forms any.
#define HWY_WANT_AVX3_DL
// x86 processors without SSE4, which are those before 2008, take the portable kernels. SVE's
// vectors have no size known to the compiler, so they cannot be members or elements, as vectors are
// here: on ARM all processors take NEON.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/targets.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_simd/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "cpu_simd/bits-inl.h"
#include "cpu_simd/block-inl.h"
#include "cpu_simd/histogram-inl.h"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/ranked-inl.h"
#include "cpu_simd/ranked_bits-inl.h"
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

inline void Hash16BytesHere(const char* keys, std::size_t n, std::uint64_t seed,
                            std::uint64_t* hashes) noexcept {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // it has no second lane
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto first_mask = hn::Set(tag, detail::first_seed_mask(seed));
  const auto last_mask = hn::Set(tag, detail::last_seed_mask(seed));
  for (; i + lanes <= n; i += lanes) {
    const char* const at = keys + 16 * i;
    hwy::Prefetch(at + 16 * kStripKeys);  // as above
    // Two loads, because LoadInterleaved2 of the emulated vectors wants aligned keys.
    const auto low = hn::LoadU(tag, reinterpret_cast<const std::uint64_t*>(at));
    const auto high = hn::LoadU(tag, reinterpret_cast<const std::uint64_t*>(at + 8 * lanes));
    const auto first = hn::ConcatEven(tag, high, low), last = hn::ConcatOdd(tag, high, low);
    hn::StoreU(hash_16_bytes<VectorOps>(first, last, first_mask, last_mask), tag, hashes + i);
  }
#endif
  plain_hash_16_bytes(keys + 16 * i, n - i, seed, hashes + i);
}
inline constexpr HashKernels kHashes = {HashU64Here, Hash16BytesHere};

// ---- a single key -------------------------------------------------------------------------------

// Other threads may look keys up while one changes cells (views, `ref`). C++ has no vectors that
// may be read like this; the code relies on machines loading and storing each aligned 64-bit lane
// of a vector whole. The thread sanitizer knows only C++.
#define SCBF_READ_BESIDE_A_WRITER __attribute__((no_sanitize("thread")))

// Functions of OneKey, each for filters of one layout. The fewer instructions a key takes, the more
// keys of a loop a core works on at once.

template <Layout layout, auto function, class Word>
SCBF_READ_BESIDE_A_WRITER auto OfKey(const Geometry& geometry, Word* words,
                                     std::uint64_t hash) noexcept {
  if (geometry.layout() != layout) __builtin_unreachable();
  return function(geometry, words, hash);
}
/// Of a filter of this many groups; 0: as many as the geometry says.
template <std::uint32_t groups, auto in_blocks, class Word>
SCBF_READ_BESIDE_A_WRITER auto InGroups(const Geometry& geometry, Word* words,
                                        std::uint64_t hash) noexcept {
  if (geometry.layout() != Layout::split_block) __builtin_unreachable();
  return in_blocks(groups == 0 ? geometry.groups() : groups, geometry, words, hash);
}
using Word = std::uint64_t;
template <std::uint32_t groups>
inline constexpr OneKey kInGroups = {
    InGroups<groups, holds_key_in, const Word>, InGroups<groups, count_key_in, const Word>,
    InGroups<groups, add_key_in, Word>, InGroups<groups, take_key_in, Word>};
template <std::uint32_t groups>
inline constexpr OneKey kBitsInGroups = {InGroups<groups, holds_bits_in, const Word>,
                                         InGroups<groups, count_bits_in, const Word>,
                                         InGroups<groups, add_bits_in, Word>, nullptr};
inline constexpr auto kSplit = Layout::split, kRanked = Layout::ranked;
template <class Select>
inline constexpr OneKeys kOneKeys = {
    kInGroups<1>,
    kInGroups<0>,
    {OfKey<kSplit, holds_key, const Word>, OfKey<kSplit, count_of, const Word>,
     OfKey<kSplit, add_key, Word>, OfKey<kSplit, take_key, Word>},
    {OfKey<kRanked, holds_ranked_key, const Word>,
     OfKey<kRanked, ranked_count_key<Select>, const Word>,
     OfKey<kRanked, add_ranked_key<Select>, Word>, OfKey<kRanked, take_ranked_key<Select>, Word>}};
inline constexpr OneKeys kOneKeysOfBits = {
    kBitsInGroups<1>,
    kBitsInGroups<0>,
    {OfKey<kSplit, holds_bits, const Word>, OfKey<kSplit, count_bits, const Word>,
     OfKey<kSplit, add_bits, Word>, nullptr},
    {OfKey<kRanked, holds_ranked_bits, const Word>, OfKey<kRanked, count_ranked_bits, const Word>,
     OfKey<kRanked, add_ranked_bits, Word>, nullptr}};

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

template <class Select>
const Kernels* TableWith() {
  static const Kernels table = {hwy::TargetName(HWY_TARGET),
                                !std::is_same_v<Select, FastSelect>,
                                kHashes,
                                kOneKeys<Select>,
                                kOneKeysOfBits,
                                CountValuesHere,
                                PackAnswers,
                                kBlockKernels,
                                kSliceKernels,
                                kRankedKernels<Select>,
                                kBitBlockKernels,
                                kBitSliceKernels,
                                kBitRankedKernels,
                                ScatterPositions,
                                row_kernels(kHashes),
                                {AddLists<Select>, TooLargeInLists<Select>, SubtractLists<Select>}};
  return &table;
}
const Kernels* Table() { return TableWith<FastSelect>(); }
/// For processors whose `pdep` is slow: those have no AVX-512, and targets below AVX2 use none.
const Kernels* TableWithoutDeposit() {
  return TableWith<
      std::conditional_t<HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2, SelectByBytes, FastSelect>>();
}

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scbf {

HWY_EXPORT(Table);
HWY_EXPORT(TableWithoutDeposit);

std::vector<const Kernels*> kernel_tables(bool with_deposit) {
  return with_deposit ? results_by_target(HWY_DISPATCH_TABLE(Table))
                      : results_by_target(HWY_DISPATCH_TABLE(TableWithoutDeposit));
}

std::vector<std::string_view> unsupported_targets() {
  std::vector<std::string_view> names;
  for (std::int64_t rest = HWY_TARGETS & ~hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    names.push_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

}  // namespace scbf
#endif
