// SPDX-License-Identifier: Apache-2.0
// Kernels of the split layout. Included once per target.
//
// The engine walks through the slices one after another, with many keys in each. Positions in a
// slice are computed for several keys per vector, and keys that a slice shows to be absent are not
// looked up in the next. Each counter lies in a cache line of its own, and loading these takes most
// of the time: per key one word is loaded, shifted and tested, with many keys in flight.
//
// Lanes are keys. The alternative, the k probes of one key in the lanes of a vector, would be no
// less work: a gather and a vector of positions per key, instead of k of each per eight keys. And
// it would touch all k lines of an absent key, of which two are needed on average.
#if defined(SCBF_SLICE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_SLICE_INL
#undef SCBF_SLICE_INL
#else
#define SCBF_SLICE_INL
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/nibble_steps.hpp"
#include "cpu_simd/walk-inl.h"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool wide>
HWY_INLINE void slice_locate(const Array& array, const std::uint64_t* hashes, std::size_t n,
                             std::uint64_t* positions) noexcept {
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::uint64_t multiplier = detail::kMultipliers[array.index];
  const auto factor = hn::Set(tag, multiplier);
  const auto counters = hn::Set(tag, array.extent);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto position =
        slice_position<SliceOps, wide>(hn::LoadU(tag, hashes + i), factor, counters);
    hn::StoreU(position, tag, positions + i);
  }
  for (; i < n; ++i) {
    positions[i] =
        detail::slice_position<detail::PlainOps, wide>(hashes[i], multiplier, array.extent);
  }
}

inline void SliceLocate(const Array& array, const std::uint64_t* hashes, std::size_t n,
                        std::uint64_t* positions) noexcept {
  if (array.extent >> 32 == 0) {
    slice_locate<false>(array, hashes, n, positions);
  } else {
    slice_locate<true>(array, hashes, n, positions);
  }
}

HWY_INLINE std::uint64_t word_of(std::uint64_t position) noexcept {
  return position / kCountersPerWord;
}
/// The byte that holds the counter at a position.
template <class Word>
HWY_INLINE auto* byte_of(Word* words, std::uint64_t position) noexcept {
  using Byte = std::conditional_t<std::is_const_v<Word>, const std::uint8_t, std::uint8_t>;
  return reinterpret_cast<Byte*>(words) + position / 2;
}
HWY_INLINE unsigned counter_in(std::uint8_t byte, std::uint64_t position) noexcept {
  return detail::counter_at(byte, static_cast<unsigned>(position % 2) * kCounterBits);
}
/// Changes a counter. Returns the table entry, to be added up for turns_in.
HWY_INLINE std::uint32_t step(std::uint8_t* byte, std::uint64_t position,
                              const NibbleSteps& steps) noexcept {
  const std::uint32_t entry = steps[nibble_index(*byte, position % 2)];
  *byte = static_cast<std::uint8_t>(entry);
  return entry;
}

/// Calls visit(i) for i in 0 … n − 1, in order.
template <Cell cell = Cell::counter, class Visit>
HWY_INLINE void for_each_counter(const std::uint64_t* words, const std::uint64_t* positions,
                                 std::size_t n, const Fetch& fetch, Visit visit) noexcept {
  walk<1>(
      n, fetch, 1,
      [&](std::size_t i, std::uint32_t)
          HWY_ATTR { return words + positions[i] / (64 / static_cast<unsigned>(cell)); },
      Nothing(), visit);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define SCBF_GATHER 1

/// Calls visit(i, counters), or bits, for as many keys at a time as there are lanes. Returns how
/// many keys were visited.
template <Cell cell = Cell::counter, class Visit>
HWY_INLINE std::size_t for_each_vector(const std::uint64_t* words, const std::uint64_t* positions,
                                       std::size_t n, const Fetch& fetch, Visit visit) noexcept {
  const Tag64 tag;
  constexpr std::size_t lanes = hn::MaxLanes(tag);
  constexpr unsigned bits = static_cast<unsigned>(cell), cells = 64 / bits;
  const auto last_shift = hn::Set(tag, (cells - 1) * bits);
  const auto all_bits = hn::Set(tag, (1u << bits) - 1);
  const std::size_t whole = n / lanes * lanes;
  walk<lanes>(
      whole, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return words + positions[i] / cells; },
      Nothing(),
      [&](std::size_t i) HWY_ATTR {
        const auto position = hn::LoadU(tag, positions + i);
        const auto index = hn::ShiftRight<std::countr_zero(cells)>(position);
        const auto shift = hn::And(hn::ShiftLeft<std::countr_zero(bits)>(position), last_shift);
        visit(i, hn::And(hn::Shr(gather(words, index), shift), all_bits));
      });
  return whole;
}

#else
#define SCBF_GATHER 0
#endif

/// The Fetch for keys left over by vectors: those have already fetched what is needed after the
/// call.
HWY_INLINE Fetch rest_of(const Fetch& fetch, std::size_t done) noexcept {
  return done == 0 ? fetch : Fetch{.distance = fetch.distance};
}

inline void SliceTest(const Geometry&, const std::uint64_t* words, const std::uint64_t* positions,
                      std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
  std::size_t done = 0;
#if SCBF_GATHER
  const Tag64 tag;
  const auto one = hn::Set(tag, 1);
  done = for_each_vector(words, positions, n, fetch, [&](std::size_t i, auto counters) HWY_ATTR {
    store_bytes(hn::IfThenZeroElse(hn::Eq(counters, hn::Zero(tag)), one), answers + i);
  });
#endif
  for_each_counter(words, positions + done, n - done, rest_of(fetch, done),
                   [&](std::size_t i) HWY_ATTR {
                     const std::uint64_t position = positions[done + i];
                     answers[done + i] = counter_in(*byte_of(words, position), position) != 0;
                   });
}

inline void SliceLeast(const Geometry&, const std::uint64_t* words, const std::uint64_t* positions,
                       std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
  std::size_t done = 0;
#if SCBF_GATHER
  done = for_each_vector(words, positions, n, fetch, [&](std::size_t i, auto counters) HWY_ATTR {
    store_bytes(counters, answers + i);
  });
#endif
  for_each_counter(words, positions + done, n - done, rest_of(fetch, done),
                   [&](std::size_t i) HWY_ATTR {
                     const std::uint64_t position = positions[done + i];
                     answers[done + i] =
                         static_cast<std::uint8_t>(counter_in(*byte_of(words, position), position));
                   });
}

inline std::uint64_t SliceAdd(const Geometry&, std::uint64_t* words, const std::uint64_t* positions,
                              std::size_t n, const Fetch& fetch) noexcept {
  std::uint64_t sum = 0;
  for_each_counter(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    sum += step(byte_of(words, positions[i]), positions[i], kIncremented);
  });
  return turns_in(sum);
}

inline std::uint64_t SliceAddNew(const Geometry&, std::uint64_t* words,
                                 const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                                 std::uint8_t* answers) noexcept {
  std::uint64_t filled = 0;
  for_each_counter(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    std::uint8_t* const byte = byte_of(words, positions[i]);
    const std::uint32_t stepped = kIncremented[nibble_index(*byte, positions[i] % 2)];
    const std::uint32_t absent = stepped >> kTurnShift, is_new = absent | answers[i];
    *byte ^= static_cast<std::uint8_t>((*byte ^ stepped) & (0u - is_new));  // no branch
    answers[i] = static_cast<std::uint8_t>(is_new);
    filled += absent;
  });
  return filled;
}

/// Calls work(arrays). The numbers of slices that suit rates of 5, 1 and 0.1 % are constants, so
/// that loops over them are unrolled.
template <class Work>
HWY_INLINE std::uint64_t with_known_number(std::uint32_t arrays, Work work) noexcept {
  switch (arrays) {
    case 4:
      return work(std::integral_constant<std::uint32_t, 4>());
    case 7:
      return work(std::integral_constant<std::uint32_t, 7>());
    case 10:
      return work(std::integral_constant<std::uint32_t, 10>());
    default:
      return work(arrays);
  }
}

inline std::uint64_t SliceTakePresent(const Geometry&, std::uint64_t* words, const Located& keys,
                                      const Fetch& fetch, std::uint8_t* answers) noexcept {
  return with_known_number(keys.arrays, [&](auto arrays) HWY_ATTR {
    std::uint64_t emptied = 0;
    walk_arrays(words, keys, fetch, word_of, [&](std::size_t i) HWY_ATTR {
      const auto byte = [&](std::uint32_t a) HWY_ATTR {
        return byte_of(words + a * keys.array_words, keys.position(a, i));
      };
      bool present = true;
      for (std::uint32_t a = 0; a < arrays; ++a) {
        present &= counter_in(*byte(a), keys.position(a, i)) != 0;
      }
      answers[i] = present;
      if (!present) return;
      std::uint64_t sum = 0;
      for (std::uint32_t a = 0; a < arrays; ++a) {
        sum += step(byte(a), keys.position(a, i), kDecremented);
      }
      emptied += turns_in(sum);
    });
    return emptied;
  });
}

inline Taken SliceTake(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                       const Fetch& fetch, std::uint64_t* underflows) noexcept {
  std::size_t count = 0;
  std::uint64_t sum = 0;
  for_each_counter(words, positions, n, fetch, [&](std::size_t i) HWY_ATTR {
    std::uint8_t* byte = byte_of(words, positions[i]);
    // Always written, but counted only if it is an underflow: no branch to mispredict.
    underflows[count] = positions[i];
    count += counter_in(*byte, positions[i]) == 0;
    sum += step(byte, positions[i], kDecremented);
  });
  return {count, turns_in(sum)};
}

#undef SCBF_GATHER

inline constexpr ArrayKernels kSliceKernels = {SliceLocate, SliceTest,        SliceLeast, SliceAdd,
                                               SliceAddNew, SliceTakePresent, SliceTake};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
