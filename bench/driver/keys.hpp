// SPDX-License-Identifier: Apache-2.0
// Keys for the benchmarks: distinct, uniform, repeatable, and fast to make. Key number i is a
// bijection of i, so keys with different numbers differ. Present and absent keys come from disjoint
// ranges of numbers, so no check is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scbf::bench {

/// A batch of keys of 8 bytes (one word) or 16 (two words, back to back).
struct KeySpan {
  const std::uint64_t* words;
  std::size_t size;     ///< keys
  unsigned words_each;  ///< 1 or 2
};

/// A bijection of 64-bit numbers whose output is uniform (the finaliser of SplitMix64).
constexpr std::uint64_t key_word(std::uint64_t number) noexcept {
  std::uint64_t x = number + 0x9E37'79B9'7F4A'7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBull;
  return x ^ (x >> 31);
}

/// The form of keys. Each seed gives other keys.
struct KeyShape {
  unsigned words_each = 1;
  std::uint64_t seed = 0;
  bool operator==(const KeyShape&) const = default;
};

class KeyList {
 public:
  explicit KeyList(KeyShape shape)
      : words_each_(shape.words_each), first_(key_word(shape.seed) - key_word(0)) {}

  void reserve(std::size_t keys) { words_.reserve(keys * words_each_); }
  void add(std::uint64_t number) {
    words_.push_back(key_word(first_ + number));
    // The upper half of a 16-byte key's second word is constant, because real strings share parts.
    if (words_each_ == 2) words_.push_back(0x6B65'7930'0000'0000ull | (number & 0xFFFF'FFFFu));
  }
  std::size_t size() const noexcept { return words_.size() / words_each_; }
  KeySpan span() const noexcept { return {words_.data(), size(), words_each_}; }

 private:
  std::vector<std::uint64_t> words_;
  unsigned words_each_;
  std::uint64_t first_;  ///< added to every number
};

/// The number of the i-th key of a set of present keys. Sets are disjoint and have fewer than 2^40
/// keys.
constexpr std::uint64_t present_number(std::uint64_t set, std::uint64_t i) noexcept {
  return (set << 40) + i;
}
/// A number that is in no set of present keys.
constexpr std::uint64_t absent_number(std::uint64_t batch, std::uint64_t i) noexcept {
  return (1ull << 60) + (batch << 40) + i;
}

/// The n keys of a set, in their order of insertion.
inline KeyList present_keys(std::uint64_t set, std::size_t n, KeyShape shape = {}) {
  KeyList keys(shape);
  keys.reserve(n);
  for (std::size_t i = 0; i < n; ++i) keys.add(present_number(set, i));
  return keys;
}

inline KeyList absent_keys(std::uint64_t batch, std::size_t n, KeyShape shape = {}) {
  KeyList keys(shape);
  keys.reserve(n);
  for (std::size_t i = 0; i < n; ++i) keys.add(absent_number(batch, i));
  return keys;
}

/// `queries` of the n keys of set 0; each key once if queries == n. The order differs for each
/// `batch`, so that neither the order of insertion nor the last batch helps.
KeyList hit_keys(std::uint64_t batch, std::size_t n, std::size_t queries, KeyShape shape = {});

/// `queries` keys, each present or absent at random with equal probability. `hits` receives the
/// number of present keys.
KeyList mixed_keys(std::uint64_t batch, std::size_t n, std::size_t queries, std::size_t& hits,
                   KeyShape shape = {});

}  // namespace scbf::bench
