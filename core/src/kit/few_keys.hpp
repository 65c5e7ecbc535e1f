// SPDX-License-Identifier: Apache-2.0
// Lookups of few keys, a single one above all, in counters on the host. What they cost is waiting:
// so the first lines of a key in all filters are asked for before any of them is waited for. And
// what pays only for more keys, strips and their buffers, is left out. (Batches of the scalar
// backend share nothing with this page: they are the model that it is tested against.)
//
// `Filters` is a std::span<const ConstCounterView>, or has a size() and a [] as it has. All have
// the seed of the hashes, and are asked in their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

/// Batches of at most so many keys are asked this way (docs/performance.md, "Few keys").
inline constexpr std::size_t kFewKeys = 8;
/// Filters of so many bytes together are taken to lie in cache: nothing is asked for beforehand.
inline constexpr std::uint64_t kCachedBytes = 1u << 20;
/// Slices of a `split` filter whose lines are asked for beforehand; later ones matter for keys that
/// are present, and the core is looking ahead by then.
inline constexpr std::uint32_t kSlicesAhead = 8;

inline std::uint64_t hash_of(std::uint64_t key, std::uint64_t seed) noexcept {
  return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(seed));
}
inline std::uint64_t hash_of(std::string_view key, std::uint64_t seed) noexcept {
  return hash_of_bytes(key, seed);
}

/// Of a key's eight counters in a block: is none of them 0? Branch-free, as which of them is cannot
/// be foreseen.
SCBF_INLINE bool block_holds(const std::uint64_t* block, std::uint64_t place) noexcept {
  std::uint64_t absent = 0;  // its highest bit: one is
  for (unsigned i = 0; i < kWordsPerBlock; ++i) {
    absent |= std::uint64_t{detail::counter_at(block[i], detail::shift_of(place, i))} - 1;
  }
  return absent >> 63 == 0;
}
/// The smallest of them.
SCBF_INLINE unsigned block_least(const std::uint64_t* block, std::uint64_t place) noexcept {
  unsigned least = kCounterMax;
  for (unsigned i = 0; i < kWordsPerBlock; ++i) {
    least = std::min(least, detail::counter_at(block[i], detail::shift_of(place, i)));
  }
  return least;
}

/// The smallest over all groups of of_block(block, place), or over all slices of the counter; none
/// is looked at after a 0.
template <class OfBlock>
SCBF_INLINE unsigned least_over_groups(const ConstCounterView& filter, std::uint64_t hash,
                                       OfBlock of_block) noexcept {
  const Geometry& geometry = filter.geometry;
  unsigned least = kCounterMax;
  if (geometry.layout() == Layout::split_block) {
    const std::uint64_t* group = filter.words;
    for (std::uint32_t j = 0; j < geometry.groups() && least > 0; ++j) {
      const std::uint64_t place = detail::place_in_group(geometry, hash, j);
      const std::uint64_t* block = group + detail::block_of(place) * kWordsPerBlock;
      least = std::min<unsigned>(least, of_block(block, place));
      group += geometry.blocks_per_group() * kWordsPerBlock;
    }
  } else {
    for (std::uint32_t i = 0; i < geometry.probes() && least > 0; ++i) {
      const detail::Probe p = detail::probe(geometry, hash, i);
      least = std::min(least, detail::counter_at(filter.words[p.word], p.shift));
    }
  }
  return least;
}
/// Are all counters of the key non-zero? The plain HoldsKey.
SCBF_INLINE bool holds(const ConstCounterView& filter, std::uint64_t hash) noexcept {
  return least_over_groups(filter, hash, block_holds) > 0;
}
/// The smallest of them.
SCBF_INLINE unsigned count_of(const ConstCounterView& filter, std::uint64_t hash) noexcept {
  return least_over_groups(filter, hash, block_least);
}

/// Asks for the lines that lookups of these keys need first, unless there is but one, or they are
/// likely to be in cache. (Inlined by force: g++ drops calls of what does nothing but prefetch.)
template <class Filters>
SCBF_INLINE void fetch_keys(const Filters& filters,
                            std::span<const std::uint64_t> hashes) noexcept {
  const auto lines_of = [](const Geometry& geometry) {
    return geometry.layout() == Layout::split_block ? 1 : std::min(geometry.probes(), kSlicesAhead);
  };
  std::uint64_t bytes = 0, lines = 0;
  for (std::size_t f = 0; f < filters.size(); ++f) {
    const Geometry geometry = filters[f].geometry;
    bytes += geometry.bytes();
    lines += lines_of(geometry) * hashes.size();
  }
  if (bytes <= kCachedBytes || lines == 1) return;
  for (std::size_t f = 0; f < filters.size(); ++f) {
    const ConstCounterView filter = filters[f];
    for (const std::uint64_t hash : hashes) {
      for (std::uint32_t i = 0; i < lines_of(filter.geometry); ++i) {
        __builtin_prefetch(filter.words + detail::probe(filter.geometry, hash, i).word);
      }
    }
  }
}

/// Does any of the filters hold the key?
template <class Filters>
SCBF_INLINE bool any_holds(const Filters& filters, std::uint64_t hash, HoldsKey holds) noexcept {
  for (std::size_t f = 0; f < filters.size(); ++f) {
    if (holds(filters[f], hash)) return true;
  }
  return false;
}

/// The sum of its counts, at most 15.
template <class Filters>
SCBF_INLINE unsigned sum_of_counts(const Filters& filters, std::uint64_t hash) noexcept {
  unsigned sum = 0;
  for (std::size_t f = 0; f < filters.size(); ++f) sum += count_of(filters[f], hash);
  return std::min(sum, kCounterMax);
}

/// Backend::contains for at most kFewKeys keys. How they are hashed and looked up is the backend's.
std::uint64_t contains_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                           HashU64 hash_u64, HoldsKey holds, std::uint8_t* out) noexcept;

}  // namespace scbf
