// SPDX-License-Identifier: Apache-2.0
// The reference: an independent filter with which the scalar backend, the model of all others, is
// compared. It has one byte per counter, computes positions with 128-bit integers, hashes with
// xxHash, and works on one key and one counter at a time. It was written from the documentation in
// the headers and takes only the shapes of stages from the library.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support/keys.hpp"
#include "support/setups.hpp"

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

/// The place of a hash in group `group` of `blocks` blocks.
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

/// The position of a hash in slice `slice` of m counters.
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
  probes.reserve(g.probes());
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

/// The counters of one geometry.
class ReferenceStage {
 public:
  ReferenceStage(const scbf::StageShape& shape, std::uint64_t seed, std::uint32_t number = 0)
      : index(number), shape_(shape), seed_(seed), counters_(shape.geometry.words() * 16) {}

  std::uint32_t index;  // in the growth
  std::uint64_t keys_inserted = 0;

  bool full() const { return nonzero_ >= shape_.full_at; }
  template <class Key>
  void insert(const Key& key) {
    for (const std::size_t i : places(key)) set(i, std::min(counters_[i] + 1, 15));
    ++keys_inserted;
  }
  template <class Key>
  unsigned count(const Key& key) const {
    unsigned smallest = 15;
    for (const std::size_t i : places(key)) smallest = std::min<unsigned>(smallest, counters_[i]);
    return smallest;
  }
  template <class Key>
  void remove(const Key& key) {
    for (const std::size_t i : places(key)) set(i, counters_[i] - (counters_[i] != 15));
  }
  void merge(const ReferenceStage& other) {
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      set(i, std::min(counters_[i] + other.counters_[i], 15));
    }
    keys_inserted += other.keys_inserted;
  }
  /// Merges the other stage, if the shapes are equal and insertions could have filled the sum.
  bool join(const ReferenceStage& other) {
    if (!(shape_ == other.shape_)) return false;
    ReferenceStage sum = *this;
    sum.merge(other);
    if (sum.nonzero_ >= shape_.full_at + shape_.geometry.probes()) return false;
    *this = std::move(sum);
    return true;
  }
  bool empty() const { return keys_inserted == 0 && nonzero_ == 0; }
  /// The number of counters that would fall below zero; a saturated one never does.
  std::uint64_t below(const ReferenceStage& other) const {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      n += counters_[i] != 15 && counters_[i] < other.counters_[i];
    }
    return n;
  }
  /// Returns the number of saturated counters that should have decreased. Requires
  /// below(other) == 0.
  std::uint64_t subtract(const ReferenceStage& other) {
    std::uint64_t inexact = 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      inexact += counters_[i] == 15 && other.counters_[i] > 0;
      if (counters_[i] != 15) set(i, counters_[i] - other.counters_[i]);
    }
    return inexact;
  }
  std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> words(shape_.geometry.words());
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      words[i / 16] |= std::uint64_t{counters_[i]} << (4 * (i % 16));
    }
    return words;
  }

 private:
  template <class Key>
  std::vector<std::size_t> places(const Key& key) const {
    std::vector<std::size_t> result;
    result.reserve(shape_.geometry.probes());
    for (const auto& p : reference_probes(shape_.geometry, xxh3(key, seed_))) {
      result.push_back(static_cast<std::size_t>(p.word * 16 + p.nibble));
    }
    return result;
  }
  void set(std::size_t i, int value) {
    nonzero_ += value != 0;
    nonzero_ -= counters_[i] != 0;
    counters_[i] = static_cast<std::uint8_t>(value);
  }

  scbf::StageShape shape_;
  std::uint64_t seed_, nonzero_ = 0;
  std::vector<std::uint8_t> counters_;
};

/// A filter of any growth.
class ReferenceFilter {
 public:
  ReferenceFilter(const scbf::Growth& growth, std::uint64_t seed) : growth_(growth), seed_(seed) {
    clear();
  }
  ReferenceFilter(const scbf::Geometry& geometry, std::uint64_t seed)
      : ReferenceFilter(scbf::Growth::one(geometry), seed) {}

  /// Returns false and changes nothing if there is no room.
  template <class Key>
  bool insert(const Key& key) {
    for (ReferenceStage& stage : stages_) {
      if (stage.full()) continue;
      stage.insert(key);
      return true;
    }
    if (stages_.size() == growth_.most_stages()) return false;
    add_stage();
    stages_.back().insert(key);
    return true;
  }
  template <class Key>
  unsigned count(const Key& key) const {
    unsigned sum = 0;
    for (const ReferenceStage& stage : stages_) sum += stage.count(key);
    return std::min(sum, 15u);
  }
  template <class Key>
  bool contains(const Key& key) const {
    return count(key) > 0;
  }
  template <class Key>
  scbf::Removal remove(const Key& key) {
    ReferenceStage* claims = nullptr;
    for (ReferenceStage& stage : stages_) {
      if (stage.count(key) == 0) continue;
      if (claims != nullptr) return scbf::Removal::ambiguous;
      claims = &stage;
    }
    if (claims == nullptr) return scbf::Removal::absent;
    claims->remove(key);
    return scbf::Removal::removed;
  }
  void clear() {
    stages_.clear();
    add_stage();
  }
  /// Merges a filter of this growth. Returns false and changes nothing if there would be too many
  /// stages.
  bool merge(const ReferenceFilter& other) {
    std::vector<ReferenceStage> all = stages_;
    for (const ReferenceStage& theirs : other.stages_) {
      if (theirs.empty()) continue;
      if (!std::ranges::any_of(all, [&](ReferenceStage& mine) { return mine.join(theirs); })) {
        all.push_back(theirs);
      }
    }
    if (all.size() > growth_.most_stages()) return false;
    stages_ = std::move(all);
    return true;
  }

  // Batches, with answers in bytes as a filter gives them.
  template <class Keys>
  void insert_all(const Keys& keys) {
    for (const auto& key : keys) insert(key);
  }
  template <class Keys>
  std::vector<std::uint8_t> contains_all(const Keys& keys) const {
    return of_each(keys, [&](const auto& key) { return contains(key); });
  }
  template <class Keys>
  std::vector<std::uint8_t> count_all(const Keys& keys) const {
    return of_each(keys, [&](const auto& key) { return count(key); });
  }
  template <class Keys>
  std::vector<std::uint8_t> remove_all(const Keys& keys) {
    return of_each(keys, [&](const auto& key) { return remove(key); });
  }

  ::testing::AssertionResult equals(const scbf::Filter& filter) const {
    if (filter.stages() != stages_.size()) {
      return ::testing::AssertionFailure()
             << filter.stages() << " stages, the reference has " << stages_.size();
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const auto same = same_words(words_of(filter.stage(s)), stages_[s].words());
      if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
    }
    return knows_its_fill(filter);
  }
  /// The only stage of a filter that has one.
  ReferenceStage& stage() { return stages_.at(0); }
  /// How many stages were added where the growth had come to its end.
  std::size_t gaps_filled = 0;

 private:
  /// Adds the growth's next stage after the last one present; if the growth ends there, the first
  /// stage that is missing.
  void add_stage() {
    const auto has = [&](std::uint32_t index) {
      return std::ranges::count(stages_, index, &ReferenceStage::index) > 0;
    };
    std::uint32_t index = growth_.most_stages();
    while (index > 0 && !has(index - 1)) --index;
    if (index == growth_.most_stages()) {
      for (index = 0; has(index);) ++index;
      ++gaps_filled;
    }
    stages_.emplace_back(growth_.stage(index), seed_, index);
  }
  template <class Keys, class Ask>
  static std::vector<std::uint8_t> of_each(const Keys& keys, Ask ask) {
    std::vector<std::uint8_t> answers;
    for (const auto& key : keys) answers.push_back(static_cast<std::uint8_t>(ask(key)));
    return answers;
  }

  scbf::Growth growth_;
  std::uint64_t seed_;
  std::vector<ReferenceStage> stages_;
};

}  // namespace scbf_test
