// SPDX-License-Identifier: Apache-2.0
// Kernels of the split_block layout. Included once per target.
//
// A block is one cache line: eight words, sixteen counters each. The lower half of a key's place
// holds eight nibbles; nibble i, times four, is the bit at which the key's counter begins in word
// i. So a key takes one load (two or four where vectors are shorter), one shuffle that spreads its
// nibbles over the words, one variable shift and one comparison. There is no loop over probes and
// no branch before the answer.
#if defined(SCBF_BLOCK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SCBF_BLOCK_INL
#undef SCBF_BLOCK_INL
#else
#define SCBF_BLOCK_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu_simd/hwy_ops-inl.h"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/walk-inl.h"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A key's place, and its nibbles spread as Block::spread does. Either tells Block::shifts and full
/// which counter of each word is the key's.
struct Place {
  std::uint64_t place;
};
struct Spread {
  std::uint64_t bytes;
};

/// One block as vectors: `parts` of them, `lanes` words each.
struct Block {
  using Tag = hn::CappedTag<std::uint64_t, kWordsPerBlock>;
  using Vector = hn::Vec<Tag>;
  using Mask = hn::Mask<Tag>;
  static constexpr std::size_t lanes = hn::MaxLanes(Tag());
  static constexpr std::size_t parts = kWordsPerBlock / lanes;
  static constexpr std::uint64_t kSpread = 0x3C3C'3C3C;  ///< every second nibble, times four

  /// Spreads the nibbles of places, times four, to a byte each: those of even words in the lower
  /// half, those of odd words in the upper half. This is done for several keys per vector, so that
  /// each key then needs only a shuffle.
  static HWY_INLINE void spread(const std::uint64_t* places, std::size_t n,
                                std::uint64_t* bytes) noexcept {
    const Tag64 tag64;
    std::size_t i = 0;
    for (const auto mask = hn::Set(tag64, kSpread); i + hn::Lanes(tag64) <= n;
         i += hn::Lanes(tag64)) {
      const auto place = hn::LoadU(tag64, places + i);
      const auto even = hn::And(hn::ShiftLeft<2>(place), mask);
      const auto odd = hn::And(hn::ShiftRight<2>(place), mask);
      hn::StoreU(hn::Or(even, hn::ShiftLeft<32>(odd)), tag64, bytes + i);
    }
    for (; i < n; ++i) bytes[i] = spread_one(places[i]);
  }
  static HWY_INLINE std::uint64_t spread_one(std::uint64_t place) noexcept {
    return (place << 2 & kSpread) | (place >> 2 & kSpread) << 32;
  }

  /// The bit at which the key's counter begins in each word.
  static HWY_INLINE Vector shifts(Spread key, std::size_t part) noexcept {
    const Tag tag;
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(tag, key.bytes >> (8 * (part / 2 + part % 2 * 4)) & 0xFF);
#else
    // For word w: byte w/2 of its half, with zeros (index 0x80) above it.
    constexpr std::uint64_t kZeros = 0x8080'8080'8080'8000;
    alignas(64) static constexpr std::uint64_t kByte[kWordsPerBlock] = {
        kZeros | 0, kZeros | 4, kZeros | 1, kZeros | 5,
        kZeros | 2, kZeros | 6, kZeros | 3, kZeros | 7};
    const hn::Repartition<std::uint8_t, Tag> tag8;
    return hn::BitCast(
        tag, hn::TableLookupBytesOr0(hn::BitCast(tag8, hn::Set(tag, key.bytes)),
                                     hn::BitCast(tag8, hn::Load(tag, kByte + part * lanes))));
#endif
  }
  /// The same for a single key, whose nibbles are not spread yet.
  static HWY_INLINE Vector shifts(Place key, std::size_t part) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    const Tag tag;
    alignas(64) static constexpr std::uint64_t kNibble[kWordsPerBlock] = {0,  4,  8,  12,
                                                                          16, 20, 24, 28};
    return hn::And(hn::Shr(hn::Set(tag, key.place << 2), hn::Load(tag, kNibble + part * lanes)),
                   hn::Set(tag, 0x3C));
#else
    return shifts(Spread{spread_one(key.place)},
                  part);  // shifts by a vector are slow, or not there
#endif
  }
  /// Fifteen in the key's counter of each word.
  static HWY_INLINE Vector full(Spread key, std::size_t part) noexcept {
    return hn::Shl(hn::Set(Tag(), 15), shifts(key, part));
  }
  static HWY_INLINE Vector full(Place key, std::size_t part) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // By nibble, from a table that fits two registers. What is above the nibble does not count.
    const Tag tag;
    alignas(64) static constexpr std::uint64_t kNibble[kWordsPerBlock] = {0,  4,  8,  12,
                                                                          16, 20, 24, 28};
    alignas(64) static constexpr auto kFull = [] {
      std::array<std::uint64_t, kCountersPerWord> table{};
      for (unsigned n = 0; n < kCountersPerWord; ++n) table[n] = 15ull << n * kCounterBits;
      return table;
    }();
    const auto nibbles = hn::Shr(hn::Set(tag, key.place), hn::Load(tag, kNibble));
    return Vector{_mm512_permutex2var_epi64(hn::Load(tag, kFull.data()).raw, nibbles.raw,
                                            hn::Load(tag, kFull.data() + lanes).raw)};
#else
    return hn::Shl(hn::Set(Tag(), 15), shifts(key, part));
#endif
  }
  static HWY_INLINE std::uint64_t* words_of(std::uint64_t* words, std::uint64_t place) noexcept {
    return words + detail::block_of(place) * kWordsPerBlock;
  }
  static HWY_INLINE const std::uint64_t* words_of(const std::uint64_t* words,
                                                  std::uint64_t place) noexcept {
    return words + detail::block_of(place) * kWordsPerBlock;
  }
};

/// How the keys of a batch are looked up, and how they are removed. With AVX-512, the table spares
/// spreading nibbles. (For insertions that is slower, on a Zen 4.)
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
using Sought = Place;
#else
using Sought = Spread;
#endif

inline void BlockLocate(const Array& array, const std::uint64_t* hashes, std::size_t n,
                        std::uint64_t* positions) noexcept {
  const Tag64 tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto blocks = hn::Set(tag, array.extent);
  const std::uint64_t multiplier = detail::kMultipliers[array.index];
  std::size_t i = 0;
  if (array.index == 0) {
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(place<VectorOps>(hn::LoadU(tag, hashes + i), blocks), tag, positions + i);
    }
  } else {
    const auto factor = hn::Set(tag, multiplier);
    for (; i + lanes <= n; i += lanes) {
      const auto hash = group_hash<VectorOps>(hn::LoadU(tag, hashes + i), factor);
      hn::StoreU(place<VectorOps>(hash, blocks), tag, positions + i);
    }
  }
  for (; i < n; ++i) {
    const std::uint64_t hash =
        array.index == 0 ? hashes[i] : detail::group_hash<detail::PlainOps>(hashes[i], multiplier);
    positions[i] = detail::place<detail::PlainOps>(hash, array.extent);
  }
}

/// Calls visit(i, Key) for i in 0 … n − 1, in order; Key is Place or Spread. Before each stretch
/// calls begin(first), after it finish(first, end).
template <class Key = Spread, std::size_t unrolled = 1, class Visit, class Begin = Nothing,
          class Finish = Nothing>
HWY_INLINE void for_each_block(const std::uint64_t* words, const std::uint64_t* positions,
                               std::size_t n, const Fetch& fetch, Visit visit, Begin begin = {},
                               Finish finish = {}) noexcept {
  alignas(64) std::uint64_t bytes[kStretchKeys];
  std::size_t stretch = 0;
  walk<1, unrolled>(
      n, fetch, 1,
      [&](std::size_t i, std::uint32_t) HWY_ATTR { return Block::words_of(words, positions[i]); },
      [&](std::size_t first, std::size_t end) HWY_ATTR {
        stretch = first;
        if constexpr (std::is_same_v<Key, Spread>) {
          Block::spread(positions + first, end - first, bytes);
        }
        begin(first, end);
      },
      [&](std::size_t i) HWY_ATTR {
        if constexpr (std::is_same_v<Key, Spread>) {
          visit(i, Spread{bytes[i - stretch]});
        } else {
          visit(i, Place{positions[i]});
        }
      },
      finish);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
/// Turns masks into answers. Bit w of a key's mask says that its counter in word w is 0; the answer
/// is 1 if no bit is set.
HWY_INLINE void answers_of(const std::uint8_t* empty, std::size_t n,
                           std::uint8_t* answers) noexcept {
  const hn::CappedTag<std::uint8_t, kStretchKeys> tag;
  const auto one = hn::Set(tag, 1);
  std::size_t i = 0;
  for (; i + hn::Lanes(tag) <= n; i += hn::Lanes(tag)) {
    const auto none = hn::Eq(hn::Load(tag, empty + i), hn::Zero(tag));
    hn::StoreU(hn::IfThenElseZero(none, one), tag, answers + i);
  }
  for (; i < n; ++i) answers[i] = empty[i] == 0;
}

/// answers[i] = the smallest of the eight bytes of counters[i].
HWY_INLINE void least_of(const std::uint64_t* counters, std::size_t n,
                         std::uint8_t* answers) noexcept {
  const Tag64 tag;
  const hn::Repartition<std::uint8_t, Tag64> tag8;
  const auto smaller = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(tag, hn::Min(hn::BitCast(tag8, a), hn::BitCast(tag8, b)));
  };
  for (std::size_t i = 0; i < n; i += hn::Lanes(tag)) {  // whole vectors: `counters` has room
    auto least = hn::Load(tag, counters + i);
    least = smaller(least, hn::ShiftRight<32>(least));
    least = smaller(least, hn::ShiftRight<16>(least));
    least = smaller(least, hn::ShiftRight<8>(least));
    if (i + hn::Lanes(tag) <= n) {
      store_bytes(least, answers + i);
    } else {
      std::uint8_t last[hn::MaxLanes(Tag64())];
      store_bytes(least, last);
      std::copy_n(last, n - i, answers + i);
    }
  }
}

/// Calls note(i, Key, slot) for i in 0 … n − 1, in order, which leaves something of the key in
/// the slot, and answer(slots, m, answers) for the slots of each stretch, which turns them into
/// answers together. It does so a stretch late, because a vector cannot be loaded while parts of it
/// are still in the store buffer.
template <class Slot, class Key, std::size_t unrolled = 1, class Note, class Answer>
HWY_INLINE void answer_stretches(const std::uint64_t* words, const std::uint64_t* positions,
                                 std::size_t n, const Fetch& fetch, std::uint8_t* answers,
                                 Note note, Answer answer) noexcept {
  alignas(64) Slot slots[2][kStretchKeys] = {};
  Slot* own = slots[0];
  std::size_t stretch = 0;
  for_each_block<Key, unrolled>(
      words, positions, n, fetch,
      [&](std::size_t i, Key key) HWY_ATTR { note(i, key, own + (i - stretch)); },
      [&](std::size_t first, std::size_t) HWY_ATTR {
        stretch = first;
        own = slots[first / kStretchKeys % 2];
      },
      [&](std::size_t first, std::size_t) HWY_ATTR {
        const Slot* before = slots[(first / kStretchKeys + 1) % 2];
        if (first > 0) answer(before, kStretchKeys, answers + first - kStretchKeys);
      });
  answer(own, n - stretch, answers + stretch);
}
#endif

/// Are all counters of a key in this block non-zero?
template <class Key>
HWY_INLINE bool holds_all(const std::uint64_t* block, Key key) noexcept {
  const Block::Tag tag;
  Block::Mask absent;
  for (std::size_t part = 0; part < Block::parts; ++part) {
    const auto mine = Block::full(key, part);  // does not depend on the load
    const auto empty = disjoint(tag, hn::Load(tag, block + part * Block::lanes), mine);
    absent = part == 0 ? empty : hn::Or(absent, empty);
  }
  return hn::AllFalse(tag, absent);
}

inline void BlockTest(const Geometry&, const std::uint64_t* words, const std::uint64_t* positions,
                      std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const Block::Tag tag;
  // A mask of eight lanes is one byte.
  answer_stretches<std::uint8_t, Sought>(
      words, positions, n, fetch, answers,
      [&](std::size_t i, Sought key, std::uint8_t* empty) HWY_ATTR {
        const auto block = hn::Load(tag, Block::words_of(words, positions[i]));
        hn::StoreMaskBits(tag, disjoint(tag, block, Block::full(key, 0)), empty);
      },
      answers_of);
#else
  for_each_block<Sought>(words, positions, n, fetch, [&](std::size_t i, Sought key) HWY_ATTR {
    answers[i] = holds_all(Block::words_of(words, positions[i]), key);
  });
#endif
}

inline void BlockLeast(const Geometry&, const std::uint64_t* words, const std::uint64_t* positions,
                       std::size_t n, const Fetch& fetch, std::uint8_t* answers) noexcept {
  const Block::Tag tag;
  const auto fifteen = hn::Set(tag, 15);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  answer_stretches<std::uint64_t, Spread>(
      words, positions, n, fetch, answers,
      [&](std::size_t i, Spread key, std::uint64_t* counters) HWY_ATTR {
        const auto block = hn::Load(tag, Block::words_of(words, positions[i]));
        const auto own = hn::And(hn::Shr(block, Block::shifts(key, 0)), fifteen);
        store_bytes(own, reinterpret_cast<std::uint8_t*>(counters));
      },
      least_of);
#else
  const hn::RebindToSigned<Block::Tag> signed_tag;  // has the cheaper minimum; counters are small
  for_each_block(words, positions, n, fetch, [&](std::size_t i, Spread key) HWY_ATTR {
    const std::uint64_t* block = Block::words_of(words, positions[i]);
    auto least = hn::Set(signed_tag, kCounterMax);
    for (std::size_t part = 0; part < Block::parts; ++part) {
      const auto counters = hn::And(
          hn::Shr(hn::Load(tag, block + part * Block::lanes), Block::shifts(key, part)), fifteen);
      least = hn::Min(least, hn::BitCast(signed_tag, counters));
    }
    answers[i] = static_cast<std::uint8_t>(hn::GetLane(hn::MinOfLanes(signed_tag, least)));
  });
#endif
}

// Below, only some lanes are changed. On targets with masks, the forms in #if compile to one
// instruction.

// LaneTally and KeyTally count the counters that turn from zero to non-zero or back, by masks.

/// For many keys: lane by lane, in one register whatever the number of parts.
struct LaneTally {
  HWY_INLINE LaneTally() noexcept : lanes(hn::Zero(Block::Tag())) {}
  HWY_INLINE void operator+=(Block::Mask mask) noexcept {
    const Block::Tag tag;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    lanes = hn::IfThenElse(mask, hn::Add(lanes, hn::Set(tag, 1)), lanes);
#else
    lanes = hn::Sub(lanes, hn::VecFromMask(tag, mask));
#endif
  }
  HWY_INLINE std::uint64_t sum() const noexcept {
    return hn::GetLane(hn::SumOfLanes(Block::Tag(), lanes));
  }
  Block::Vector lanes;
};
/// For one key.
struct KeyTally {
  HWY_INLINE void operator+=(Block::Mask mask) noexcept {
    sum += static_cast<std::uint32_t>(hn::CountTrue(Block::Tag(), mask));
  }
  std::uint32_t sum = 0;
};

/// `counters` with `one` added, unless the key's own, `mine`, are `full`.
HWY_INLINE Block::Vector plus(Block::Vector counters, Block::Vector mine, Block::Vector full,
                              Block::Vector one) noexcept {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return hn::IfThenElse(hn::Ne(mine, full), hn::Add(counters, one), counters);
#else
  return hn::Add(counters, hn::IfThenZeroElse(hn::Eq(mine, full), one));
#endif
}

/// Adds one key to a block. `filled` counts the counters that became non-zero.
template <class Key, class Tally>
HWY_INLINE void add_to_block(std::uint64_t* block, Key key, Tally& filled) noexcept {
  const Block::Tag tag;
  const auto ones = hn::Set(tag, detail::kLowBits);
  for (std::size_t part = 0; part < Block::parts; ++part) {
    const auto counters = hn::Load(tag, block + part * Block::lanes);
    const auto full = Block::full(key, part);
    const auto mine = hn::And(counters, full);
    hn::Store(plus(counters, mine, full, hn::And(full, ones)), tag, block + part * Block::lanes);
    filled += hn::Eq(mine, hn::Zero(tag));
  }
}

/// The same if the key is new: if that is known, or the block does not hold it. Returns whether it
/// is. There is no branch, since it cannot be predicted which keys are new.
template <class Key, class Tally>
HWY_INLINE bool add_if_new(std::uint64_t* block, Key key, bool known, Tally& filled) noexcept {
  const Block::Tag tag;
  Block::Vector counters[Block::parts], full[Block::parts];
  Block::Mask any_empty;
  for (std::size_t part = 0; part < Block::parts; ++part) {
    counters[part] = hn::Load(tag, block + part * Block::lanes);
    full[part] = Block::full(key, part);
    const auto empty = hn::Eq(hn::And(counters[part], full[part]), hn::Zero(tag));
    filled += empty;  // none are if the block holds the key
    any_empty = part == 0 ? empty : hn::Or(any_empty, empty);
  }
  const bool is_new = known | !hn::AllFalse(tag, any_empty);
  const auto ones = hn::Set(tag, detail::kLowBits & (std::uint64_t{0} - is_new));
  for (std::size_t part = 0; part < Block::parts; ++part) {
    const auto mine = hn::And(counters[part], full[part]);
    hn::Store(plus(counters[part], mine, full[part], hn::And(full[part], ones)), tag,
              block + part * Block::lanes);
  }
  return is_new;
}

inline std::uint64_t BlockAdd(const Geometry&, std::uint64_t* words, const std::uint64_t* positions,
                              std::size_t n, const Fetch& fetch) noexcept {
  LaneTally filled;
  for_each_block(words, positions, n, fetch, [&](std::size_t i, Spread key) HWY_ATTR {
    add_to_block(Block::words_of(words, positions[i]), key, filled);
  });
  return filled.sum();
}

inline std::uint64_t BlockAddNew(const Geometry&, std::uint64_t* words,
                                 const std::uint64_t* positions, std::size_t n, const Fetch& fetch,
                                 std::uint8_t* answers) noexcept {
  LaneTally filled;
  for_each_block(words, positions, n, fetch, [&](std::size_t i, Spread key) HWY_ATTR {
    answers[i] = add_if_new(Block::words_of(words, positions[i]), key, answers[i] != 0, filled);
  });
  return filled.sum();
}

/// A block with one key taken away: counters at 15 or 0 stay.
struct LessOne {
  HWY_INLINE LessOne() noexcept {}  // g++ would compile an implicit one for the baseline only
  Block::Vector words[Block::parts];
  Block::Mask emptied[Block::parts];  ///< counters that become 0
  bool complete;                      ///< none of the key's counters was 0

  /// Stores the block. `tally` counts the counters that became 0.
  template <class Tally>
  HWY_INLINE void store(std::uint64_t* block, Tally& tally) const noexcept {
    for (std::size_t part = 0; part < Block::parts; ++part) {
      hn::Store(words[part], Block::Tag(), block + part * Block::lanes);
      tally += emptied[part];
    }
  }
};

/// Takes one key away. Unless `incomplete_too`, the resulting `words` are valid only if the key is
/// complete.
template <bool incomplete_too, class Key>
HWY_INLINE LessOne less_one(const std::uint64_t* block, Key key) noexcept {
  const Block::Tag tag;
  const auto ones = hn::Set(tag, detail::kLowBits);
  LessOne less;
  Block::Mask any_empty;
  for (std::size_t part = 0; part < Block::parts; ++part) {
    const auto counters = hn::Load(tag, block + part * Block::lanes);
    const auto full = Block::full(key, part);
    const auto mine = hn::And(counters, full);
    const auto one = hn::And(full, ones);
    const auto empty = hn::Eq(mine, hn::Zero(tag));
    any_empty = part == 0 ? empty : hn::Or(any_empty, empty);
    if (incomplete_too) {
      const auto keep = hn::Or(empty, hn::Eq(mine, full));
      less.words[part] = hn::Sub(counters, hn::IfThenZeroElse(keep, one));
    } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
      less.words[part] = hn::IfThenElse(hn::Ne(mine, full), hn::Sub(counters, one), counters);
#else
      less.words[part] = hn::Sub(counters, hn::IfThenZeroElse(hn::Eq(mine, full), one));
#endif
    }
    less.emptied[part] = hn::Eq(mine, one);
  }
  less.complete = hn::AllFalse(tag, any_empty);
  return less;
}

inline std::uint64_t BlockTakePresent(const Geometry&, std::uint64_t* words, const Located& keys,
                                      const Fetch& fetch, std::uint8_t* answers) noexcept {
  LaneTally emptied;
  if (keys.arrays == 1) {
    for_each_block<Sought>(words, keys.positions, keys.keys, fetch,
                           [&](std::size_t i, Sought key) HWY_ATTR {
                             std::uint64_t* block = Block::words_of(words, keys.positions[i]);
                             const LessOne less = less_one<false>(block, key);
                             answers[i] = less.complete;
                             if (less.complete) less.store(block, emptied);
                           });
    return emptied.sum();
  }
  const auto word_of = [](std::uint64_t place) { return detail::block_of(place) * kWordsPerBlock; };
  walk_arrays(words, keys, fetch, word_of, [&](std::size_t i) HWY_ATTR {
    const auto block_in = [&](std::uint32_t a) HWY_ATTR {
      return Block::words_of(words + a * keys.array_words, keys.position(a, i));
    };
    bool present = true;
    for (std::uint32_t a = 0; a < keys.arrays; ++a) {
      present &= holds_all(block_in(a), Place{keys.position(a, i)});
    }
    answers[i] = present;
    if (!present) return;
    for (std::uint32_t a = 0; a < keys.arrays; ++a) {
      less_one<false>(block_in(a), Place{keys.position(a, i)}).store(block_in(a), emptied);
    }
  });
  return emptied.sum();
}

inline Taken BlockTake(std::uint64_t* words, const std::uint64_t* positions, std::size_t n,
                       const Fetch& fetch, std::uint64_t* underflows) noexcept {
  std::size_t count = 0;
  LaneTally emptied;
  for_each_block<Sought>(words, positions, n, fetch, [&](std::size_t i, Sought key) HWY_ATTR {
    std::uint64_t* block = Block::words_of(words, positions[i]);
    const LessOne less = less_one<true>(block, key);
    if (HWY_UNLIKELY(!less.complete)) {
      for (unsigned word = 0; word < kWordsPerBlock; ++word) {
        const unsigned shift = detail::shift_of(positions[i], word);
        if (detail::counter_at(block[word], shift) == 0) {
          const std::uint64_t index = detail::block_of(positions[i]) * kWordsPerBlock + word;
          underflows[count++] = index * kCountersPerWord + shift / kCounterBits;
        }
      }
    }
    less.store(block, emptied);
  });
  return {count, emptied.sum()};
}

// ---- a single key -------------------------------------------------------------------------------

// `groups` is the number of the filter's groups, a constant where it is 1.

/// The key's place in one group of the filter, and its block there.
template <class Word>
struct KeyBlock {
  HWY_INLINE KeyBlock(const Geometry& geometry, Word* words, std::uint64_t hash,
                      std::uint32_t group) noexcept
      : place{detail::place_in_group(geometry, hash, group)},
        block(Block::words_of(words + group * geometry.blocks_per_group() * kWordsPerBlock,
                              place.place)) {}
  Place place;
  Word* block;
};

HWY_INLINE bool holds_key_in(std::uint32_t groups, const Geometry& geometry,
                             const std::uint64_t* words, std::uint64_t hash) noexcept {
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBlock key(geometry, words, hash, j);
    if (!holds_all(key.block, key.place)) return false;
  }
  return true;
}

HWY_INLINE unsigned count_key_in(std::uint32_t groups, const Geometry& geometry,
                                 const std::uint64_t* words, std::uint64_t hash) noexcept {
  const Block::Tag tag;
  const hn::RebindToSigned<Block::Tag> signed_tag;  // has the cheaper minimum; counters are small
  auto least = hn::Set(signed_tag, kCounterMax);
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBlock key(geometry, words, hash, j);
    for (std::size_t part = 0; part < Block::parts; ++part) {
      const auto own = hn::And(
          hn::Shr(hn::Load(tag, key.block + part * Block::lanes), Block::shifts(key.place, part)),
          hn::Set(tag, 15));
      least = hn::Min(least, hn::BitCast(signed_tag, own));
    }
  }
  return static_cast<unsigned>(hn::GetLane(hn::MinOfLanes(signed_tag, least)));
}

HWY_INLINE std::uint32_t add_key_in(std::uint32_t groups, const Geometry& geometry,
                                    std::uint64_t* words, std::uint64_t hash) noexcept {
  KeyTally filled;
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBlock key(geometry, words, hash, j);
    add_to_block(key.block, key.place, filled);
  }
  return filled.sum;
}

HWY_INLINE std::uint32_t take_key_in(std::uint32_t groups, const Geometry& geometry,
                                     std::uint64_t* words, std::uint64_t hash) noexcept {
  if (groups > 1 && !holds_key_in(groups, geometry, words, hash)) return OneKey::kNotThere;
  KeyTally emptied;
  for (std::uint32_t j = 0; j < groups; ++j) {
    const KeyBlock key(geometry, words, hash, j);
    const LessOne less = less_one<false>(key.block, key.place);
    if (!less.complete) return OneKey::kNotThere;  // the only group
    less.store(key.block, emptied);
  }
  return emptied.sum;
}

inline constexpr ArrayKernels kBlockKernels = {BlockLocate, BlockTest,        BlockLeast, BlockAdd,
                                               BlockAddNew, BlockTakePresent, BlockTake};

}  // namespace HWY_NAMESPACE
}  // namespace scbf
HWY_AFTER_NAMESPACE();

#endif
