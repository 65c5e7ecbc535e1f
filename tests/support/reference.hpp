// SPDX-License-Identifier: Apache-2.0
// A second opinion on what a filter is: one byte per counter, positions by 128-bit integers, keys
// hashed by xxHash, everything one key and one counter at a time. Written from the documentation
// of the headers; shares no code with the library beyond Geometry, so that the scalar model has
// something to be compared with.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "scbf/geometry.hpp"
#include "support/keys.hpp"

namespace scbf_test {

inline std::uint64_t xxh3(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
inline std::uint64_t xxh3(std::uint64_t key, std::uint64_t seed) {
  unsigned char bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(key >> (8 * i));
  return XXH3_64bits_withSeed(bytes, 8, seed);
}

/// The i-th output of SplitMix64 from state 0, made odd.
inline std::uint64_t reference_multiplier(unsigned i) {
  std::uint64_t state = 0, z = 0;
  for (unsigned step = 0; step <= i; ++step) {
    state += 0x9E37'79B9'7F4A'7C15u;
    z = state;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
    z = z ^ (z >> 31);
  }
  return z | 1;
}

struct Place {
  std::uint64_t block;
  unsigned nibble[8];
};

/// Where a hash lies in group `group` of `blocks` blocks.
inline Place reference_place(std::uint64_t hash, std::uint64_t blocks, unsigned group) {
  if (group > 0) {
    hash ^= hash >> 32;
    hash *= reference_multiplier(group);
    hash ^= hash >> 29;
  }
  const Wide product = Wide{hash} * blocks;
  Place place{static_cast<std::uint64_t>(product >> 64), {}};
  for (unsigned i = 0; i < 8; ++i)
    place.nibble[i] = static_cast<unsigned>(product >> (32 + 4 * i)) & 15;
  return place;
}

/// Where a hash lies in slice `slice` of m counters.
inline std::uint64_t reference_position(std::uint64_t hash, std::uint64_t m, unsigned slice) {
  const std::uint64_t mixed = hash * reference_multiplier(slice);
  return static_cast<std::uint64_t>((Wide{mixed} * m) >> 64);
}

struct ReferenceProbe {
  std::uint64_t word;
  unsigned nibble;
};

inline std::vector<ReferenceProbe> reference_probes(const scbf::Geometry& g, std::uint64_t hash) {
  std::vector<ReferenceProbe> probes;
  if (g.layout() == scbf::Layout::split_block) {
    for (unsigned group = 0; group < g.groups(); ++group) {
      const Place place = reference_place(hash, g.blocks_per_group(), group);
      for (unsigned i = 0; i < 8; ++i) {
        probes.push_back({(group * g.blocks_per_group() + place.block) * 8 + i, place.nibble[i]});
      }
    }
  } else {
    const std::uint64_t lines = (g.counters_per_slice() + 127) / 128;
    for (unsigned slice = 0; slice < g.probes(); ++slice) {
      const std::uint64_t position = reference_position(hash, g.counters_per_slice(), slice);
      probes.push_back({slice * lines * 8 + position / 16, static_cast<unsigned>(position % 16)});
    }
  }
  return probes;
}

class ReferenceFilter {
 public:
  ReferenceFilter(const scbf::Geometry& geometry, std::uint64_t seed)
      : geometry_(geometry), seed_(seed), counters_(geometry.words() * 16) {}

  template <class Key>
  void insert(const Key& key) {
    for (auto p : probes(key))
      counters_[p] = static_cast<std::uint8_t>(std::min(counters_[p] + 1, 15));
  }
  template <class Key>
  unsigned count(const Key& key) const {
    unsigned smallest = 15;
    for (auto p : probes(key)) smallest = std::min<unsigned>(smallest, counters_[p]);
    return smallest;
  }
  template <class Key>
  bool contains(const Key& key) const {
    return count(key) > 0;
  }
  template <class Key>
  bool remove(const Key& key) {
    if (!contains(key)) return false;
    for (auto p : probes(key)) {
      if (counters_[p] != 15) --counters_[p];
    }
    return true;
  }
  void merge(const ReferenceFilter& other) {
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      counters_[i] = static_cast<std::uint8_t>(std::min(counters_[i] + other.counters_[i], 15));
    }
  }
  /// Number of counters that would fall below zero; a 15 never does.
  std::uint64_t below(const ReferenceFilter& other) const {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      n += counters_[i] != 15 && counters_[i] < other.counters_[i];
    }
    return n;
  }
  /// Number of counters at 15 that something is taken from; requires below(other) == 0.
  std::uint64_t subtract(const ReferenceFilter& other) {
    std::uint64_t inexact = 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      if (counters_[i] == 15) {
        inexact += other.counters_[i] > 0;
      } else {
        counters_[i] = static_cast<std::uint8_t>(counters_[i] - other.counters_[i]);
      }
    }
    return inexact;
  }
  std::uint64_t nonzero() const {
    return counters_.size() -
           static_cast<std::uint64_t>(std::count(counters_.begin(), counters_.end(), 0));
  }
  void clear() { std::fill(counters_.begin(), counters_.end(), std::uint8_t{0}); }

  std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> words(geometry_.words());
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      words[i / 16] |= std::uint64_t{counters_[i]} << (4 * (i % 16));
    }
    return words;
  }

 private:
  template <class Key>
  std::vector<std::size_t> probes(const Key& key) const {
    std::vector<std::size_t> result;
    for (auto p : reference_probes(geometry_, xxh3(key, seed_))) {
      result.push_back(static_cast<std::size_t>(p.word * 16 + p.nibble));
    }
    return result;
  }

  scbf::Geometry geometry_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> counters_;
};

}  // namespace scbf_test
