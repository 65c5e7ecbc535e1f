// SPDX-License-Identifier: Apache-2.0
// Keys for the benchmarks: distinct, uniform, repeatable, and made faster than they are used.
// Key number i is a bijection of i, so keys of different numbers differ: present and absent keys
// come from disjoint ranges of numbers and need no checking.
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

/// What keys look like. Other seeds give other keys.
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
    // The second word of a 16-byte key: constant in its upper half, as real strings share parts.
    if (words_each_ == 2) words_.push_back(0x6B65'7930'0000'0000ull | (number & 0xFFFF'FFFFu));
  }
  std::size_t size() const noexcept { return words_.size() / words_each_; }
  KeySpan span() const noexcept { return {words_.data(), size(), words_each_}; }

 private:
  std::vector<std::uint64_t> words_;
  unsigned words_each_;
  std::uint64_t first_;  ///< what number 0 counts as
};

/// Numbers of present keys: `set` 0, 1, … are disjoint sets of fewer than 2^40 keys.
constexpr std::uint64_t present_number(std::uint64_t set, std::uint64_t i) noexcept {
  return (set << 40) + i;
}
/// Numbers that no set of present keys has.
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

/// `queries` keys of set 0 (of n keys), each of them once if queries == n, in an order of their
/// own for each `batch`; so that neither insertion order nor the last batch helps.
KeyList hit_keys(std::uint64_t batch, std::size_t n, std::size_t queries, KeyShape shape = {});

/// `queries` keys, each by the toss of a coin a present or an absent one. `hits` receives how
/// many are present.
KeyList mixed_keys(std::uint64_t batch, std::size_t n, std::size_t queries, std::size_t& hits,
                   KeyShape shape = {});

}  // namespace scbf::bench
