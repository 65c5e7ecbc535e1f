// SPDX-License-Identifier: Apache-2.0
// Few keys, often a single one, in counters on the host: the plain functions of OneKey, and batches
// that go key by key. An operation on a key mostly waits for memory, so the first cache lines of
// all keys in all filters are prefetched before any of them is read. Strips and their buffers pay
// only for more keys and are not used. (Batches of the scalar backend share nothing with this file:
// they are the model that it is tested against.)
//
// `Filters` is a std::span of views, or a type with the same size() and []. All
// filters have the seed of the hashes, and are looked up in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kit/hash_keys.hpp"
#include "kit/ranked_counts.hpp"
#include "kit/shared_words.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

/// Lookups go key by key up to kFewKeys keys, insertions up to kFewChanges
/// (docs/performance_notes.md, "Few keys").
inline constexpr std::size_t kFewKeys = 16, kFewChanges = 4;
static_assert(kFewChanges <= kFewKeys);
/// Up to how many keys removals and counts in so many filters go key by key.
constexpr std::size_t few_in(std::size_t filters) noexcept {
  return filters > 1 ? kFewKeys : kFewChanges;
}
/// Filters of at most this size together are assumed to lie in cache: nothing is prefetched.
inline constexpr std::uint64_t kCachedBytes = 1u << 20;
/// Slices of a `split` filter whose lines are prefetched. A lookup needs later slices only for keys
/// that are present, and by then the core is looking ahead by itself.
inline constexpr std::uint32_t kSlicesAhead = 8;

/// Are all eight counters of a key in a block non-zero? Branch-free, since it cannot be predicted
/// which of them is 0.
SCBF_INLINE bool block_holds(const std::uint64_t* block, std::uint64_t place) noexcept {
  std::uint64_t absent = 0;  // its highest bit: is a counter 0?
  for (unsigned i = 0; i < kWordsPerBlock; ++i) {
    absent |=
        std::uint64_t{detail::counter_at(load_word(block + i), detail::shift_of(place, i))} - 1;
  }
  return absent >> 63 == 0;
}
/// The smallest of them.
SCBF_INLINE unsigned block_least(const std::uint64_t* block, std::uint64_t place) noexcept {
  unsigned least = kCounterMax;
  for (unsigned i = 0; i < kWordsPerBlock; ++i) {
    least = std::min(least, detail::counter_at(load_word(block + i), detail::shift_of(place, i)));
  }
  return least;
}

/// split_block: the smallest of_block(block, place) over all groups. split: the smallest counter
/// over all slices. Stops at the first 0.
template <class OfBlock>
SCBF_INLINE unsigned least_over_groups(const Geometry& geometry, const std::uint64_t* words,
                                       std::uint64_t hash, OfBlock of_block) noexcept {
  unsigned least = kCounterMax;
  if (geometry.layout() == Layout::split_block) {
    for (std::uint32_t j = 0; j < geometry.groups() && least > 0; ++j) {
      const std::uint64_t place = detail::place_in_group(geometry, hash, j);
      const std::uint64_t* block = words + detail::block_of(place) * kWordsPerBlock;
      least = std::min<unsigned>(least, of_block(block, place));
      words += geometry.blocks_per_group() * kWordsPerBlock;
    }
  } else {
    for (std::uint32_t i = 0; i < geometry.probes() && least > 0; ++i) {
      const detail::Probe p = detail::probe(geometry, hash, i);
      least = std::min(least, detail::counter_at(load_word(words + p.word), p.shift));
    }
  }
  return least;
}
/// The smallest counter of a key.
SCBF_INLINE unsigned count_of(const Geometry& geometry, const std::uint64_t* words,
                              std::uint64_t hash) noexcept {
  if (geometry.layout() == Layout::ranked) {
    return ranked_count_key<SelectByBytes>(geometry, words, hash);
  }
  return least_over_groups(geometry, words, hash, block_least);
}

// The plain functions of OneKey.

SCBF_INLINE bool holds_key(const Geometry& geometry, const std::uint64_t* words,
                           std::uint64_t hash) noexcept {
  if (geometry.layout() == Layout::ranked) return ranked_holds_key(geometry, words, hash);
  return least_over_groups(geometry, words, hash, block_holds) > 0;
}
SCBF_INLINE std::uint32_t add_key(const Geometry& geometry, std::uint64_t* words,
                                  std::uint64_t hash) noexcept {
  if (geometry.layout() == Layout::ranked) {
    return ranked_add_key<SelectByBytes>(geometry, words, hash);
  }
  std::uint32_t filled = 0;
  detail::for_each_probe(geometry, hash, [&](const detail::Probe& p) {
    const std::uint64_t word = load_word(words + p.word);
    filled += detail::counter_at(word, p.shift) == 0;
    store_word(words + p.word, detail::incremented(word, p.shift));
  });
  return filled;
}
SCBF_INLINE std::uint32_t take_key(const Geometry& geometry, std::uint64_t* words,
                                   std::uint64_t hash) noexcept {
  if (geometry.layout() == Layout::ranked) {
    return ranked_take_key<SelectByBytes>(geometry, words, hash);
  }
  std::uint32_t emptied = 0;
  const auto take = [&](const detail::Probe& p) {
    const std::uint64_t word = load_word(words + p.word);
    emptied += detail::counter_at(word, p.shift) == 1;
    store_word(words + p.word, detail::decremented(word, p.shift));
  };
  if (geometry.layout() == Layout::split_block) {
    if (!holds_key(geometry, words, hash)) return OneKey::kNotThere;
    detail::for_each_probe(geometry, hash, take);
    return emptied;
  }
  std::array<detail::Probe, kMaxProbes>
      probes;  // located once, because that takes most of the time
  for (std::uint32_t i = 0; i < geometry.probes(); ++i) {
    probes[i] = detail::probe(geometry, hash, i);
    const std::uint64_t word = load_word(words + probes[i].word);
    if (detail::counter_at(word, probes[i].shift) == 0) return OneKey::kNotThere;
  }
  for (std::uint32_t i = 0; i < geometry.probes(); ++i) take(probes[i]);
  return emptied;
}

// The same in filters of bits.

SCBF_INLINE bool holds_bits(const Geometry& geometry, const std::uint64_t* words,
                            std::uint64_t hash) noexcept {
  bool all = true;
  const auto look = [&](const detail::Probe& counter) {
    const detail::Probe bit = detail::bit_of(geometry, counter);
    all &= detail::bit_at(load_word(words + bit.word), bit.shift);
  };
  // Within a block without a branch, since it cannot be predicted which bit is missing.
  const std::uint32_t at_once = geometry.in_blocks() ? geometry.slices_per_block() : 1;
  for (std::uint32_t i = 0; i < geometry.probes() && all; i += at_once) {
    for (std::uint32_t j = 0; j < at_once; ++j) look(detail::probe(geometry, hash, i + j));
  }
  return all;
}
SCBF_INLINE unsigned count_bits(const Geometry& geometry, const std::uint64_t* words,
                                std::uint64_t hash) noexcept {
  return holds_bits(geometry, words, hash);
}
SCBF_INLINE std::uint32_t add_bits(const Geometry& geometry, std::uint64_t* words,
                                   std::uint64_t hash) noexcept {
  std::uint32_t filled = 0;
  detail::for_each_probe(geometry, hash, [&](const detail::Probe& counter) {
    const detail::Probe bit = detail::bit_of(geometry, counter);
    const std::uint64_t word = load_word(words + bit.word);
    filled += !detail::bit_at(word, bit.shift);
    store_word(words + bit.word, word | std::uint64_t{1} << bit.shift);
  });
  return filled;
}

/// Prefetches the lines that these keys need first, unless there is only one or they are likely to
/// be in cache. (Inlining is forced: g++ drops calls of functions that only prefetch.)
template <class Filters>
SCBF_INLINE void fetch_keys(const Filters& filters,
                            std::span<const std::uint64_t> hashes) noexcept {
  const auto lines_of = [](const Geometry& geometry) {
    return geometry.in_blocks() ? 1 : std::min(geometry.probes(), kSlicesAhead);
  };
  std::uint64_t bytes = 0, lines = 0;
  const auto pays = [&] { return bytes > kCachedBytes && lines > 1; };
  for (std::size_t f = 0; f < filters.size() && !pays(); ++f) {
    const auto& filter = filters[f];
    bytes += filter.geometry.bytes();
    lines += lines_of(filter.geometry) * hashes.size();
  }
  if (!pays()) return;
  for (std::size_t f = 0; f < filters.size(); ++f) {
    const auto& filter = filters[f];
    const Geometry& geometry = filter.geometry;
    for (const std::uint64_t hash : hashes) {
      if (geometry.in_blocks()) {  // ranked chooses the block as split_block does
        const std::uint64_t block = detail::block_of(detail::place_in_group(geometry, hash, 0));
        __builtin_prefetch(filter.words + geometry.block_word(block));
        continue;
      }
      for (std::uint32_t i = 0; i < lines_of(geometry); ++i) {
        const detail::Probe probe = detail::probe(geometry, hash, i);
        __builtin_prefetch(filter.words + detail::word_of(geometry, probe));
      }
    }
  }
}

/// Functions for each shape of filter, to be called only for filters of that shape. Functions for
/// all would find out the shape with every key, and set up the registers and the stack that any of
/// them needs.
struct OneKeys {
  OneKey one_group, groups, slices, ranked;

  const OneKey& of(const Geometry& geometry) const noexcept {
    switch (geometry.layout()) {
      case Layout::split_block:
        return geometry.groups() == 1 ? one_group : groups;
      case Layout::ranked:
        return ranked;
      default:
        return slices;
    }
  }
};

/// How a backend hashes and treats single keys.
struct KeyByKey {
  HashKernels hashes;
  const OneKeys& one_key;
};

// The operations of Backend for keys.size() <= kFewKeys. Filters share a seed; there is at least
// one.

std::uint64_t contains_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                           const KeyByKey& how, std::uint8_t* out) noexcept;
std::uint64_t count_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                        const KeyByKey& how, std::uint8_t* out) noexcept;
std::uint64_t insert_few(CounterView, const KeyBatch& keys, const KeyByKey& how) noexcept;
NewKeys insert_new_few(CounterView, const KeyBatch& keys, const KeyByKey& how,
                       std::uint8_t* out) noexcept;
RemoveCounts remove_few(std::span<const CounterView> filters, const KeyBatch& keys,
                        const KeyByKey& how, std::uint8_t* verdicts,
                        std::span<RemovalChange> changes) noexcept;

}  // namespace scbf
