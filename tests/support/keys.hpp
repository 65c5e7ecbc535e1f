// SPDX-License-Identifier: Apache-2.0
// Keys for tests: seeded random numbers, key sets that have broken other filters, and strings in
// every form that a KeyBatch takes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scbf_test {

__extension__ typedef unsigned __int128 Wide;  // not ISO C++

/// The finaliser of SplitMix64.
inline std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return z ^ (z >> 31);
}

/// A small seeded generator, the same on every platform (SplitMix64). The seed is mixed first,
/// because seeds that differ by a multiple of the increment would give the same sequence, shifted.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mixed(seed + 0x1234'5678u)) {}
  std::uint64_t operator()() { return mixed(state_ += 0x9E37'79B9'7F4A'7C15u); }
  /// 0 … n − 1; the bias of n/2^64 does not matter here.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((Wide{(*this)()} * n) >> 64);
  }

 private:
  std::uint64_t state_;
};

/// n different keys: SplitMix64 visits each state once.
inline std::vector<std::uint64_t> random_keys(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint64_t> keys(n);
  for (auto& key : keys) key = random();
  return keys;
}

struct KeySet {
  std::string name;
  std::function<std::uint64_t(std::uint64_t)> key;  ///< the i-th
  std::vector<std::uint64_t> take(std::size_t n) const {
    std::vector<std::uint64_t> keys(n);
    for (std::size_t i = 0; i < n; ++i) keys[i] = key(i);
    return keys;
  }
};

inline std::vector<KeySet> key_sets() {
  return {
      {"uniform", [](std::uint64_t i) { return Random(i)(); }},
      {"sequential", [](std::uint64_t i) { return i; }},
      {"sequential_from_the_top", [](std::uint64_t i) { return ~i; }},
      {"clustered", [](std::uint64_t i) { return (Random(i / 100)() & ~1023ull) + i % 100; }},
      {"multiples_of_2_to_32", [](std::uint64_t i) { return i << 32; }},
      {"byte_swapped_sequential", [](std::uint64_t i) { return __builtin_bswap64(i); }},
      // One or two bits set: 2080 different keys, after which they repeat.
      {"powers_of_two", [](std::uint64_t i) { return (1ull << i % 64) | (1ull << i / 64 % 64); }},
      {"all_equal", [](std::uint64_t) { return 42u; }},
  };
}

/// Keys to insert, to ask for and to remove. Some have been inserted before, some have not.
class Mixture {
 public:
  explicit Mixture(std::uint64_t seed) : random_(seed) {}
  /// One in eight repeats an earlier key.
  std::vector<std::uint64_t> to_insert(std::size_t n) {
    std::vector<std::uint64_t> keys(n);
    for (auto& key : keys) {
      key = !inserted_.empty() && random_.below(8) == 0 ? known() : random_();
      inserted_.push_back(key);
    }
    return keys;
  }
  /// Half of them were inserted at some time. Some occur twice or have been removed since.
  std::vector<std::uint64_t> to_ask(std::size_t n) {
    std::vector<std::uint64_t> keys(n);
    for (auto& key : keys) key = !inserted_.empty() && random_.below(2) == 0 ? known() : random_();
    return keys;
  }

 private:
  std::uint64_t known() { return inserted_[random_.below(inserted_.size())]; }
  Random random_;
  std::vector<std::uint64_t> inserted_;
};

struct StringSet {
  std::string name;
  std::vector<std::string> keys;
};

inline std::string random_bytes(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::string bytes(n, '\0');
  for (auto& c : bytes) c = static_cast<char>(random());
  return bytes;
}

inline std::vector<StringSet> string_sets() {
  std::vector<StringSet> sets(6);
  sets[0].name = "common_prefixes";
  sets[1].name = "common_suffixes";
  sets[2].name = "lengths_0_to_300";  // all branches of XXH3; the last begins at 241
  sets[3].name = "only_nul_bytes";    // they differ only in length
  sets[4].name = "nul_bytes_inside";
  sets[5].name = "long_path";
  const std::string prefix = "https://example.org/a/rather/long/common/prefix/";
  for (unsigned i = 0; i < 400; ++i) {
    sets[0].keys.push_back(prefix + std::to_string(i));
    sets[1].keys.push_back(std::to_string(i) + prefix);
    sets[4].keys.push_back(std::string("a\0b\0", 4) + std::to_string(i) + std::string(i % 5, '\0'));
    sets[5].keys.push_back(random_bytes(241 + i * 7, i + 1000));
  }
  for (unsigned length = 0; length <= 300; ++length) {
    sets[2].keys.push_back(random_bytes(length, length));
    sets[3].keys.push_back(std::string(length, '\0'));
  }
  return sets;
}

/// The same strings in the forms that KeyBatch takes.
struct StringColumn {
  std::vector<std::string> strings;
  std::vector<std::string_view> views;
  std::vector<std::byte> data;
  std::vector<std::int32_t> offsets32;
  std::vector<std::int64_t> offsets64;

  /// `gap` bytes of rubbish lie before the first key, as in a sliced Arrow array.
  explicit StringColumn(std::vector<std::string> keys, std::size_t gap = 0)
      : strings(std::move(keys)), views(strings.begin(), strings.end()), data(gap, std::byte{7}) {
    offsets32.push_back(static_cast<std::int32_t>(gap));
    offsets64.push_back(static_cast<std::int64_t>(gap));
    for (const auto& s : strings) {
      const auto bytes = std::as_bytes(std::span(s));
      data.insert(data.end(), bytes.begin(), bytes.end());
      offsets32.push_back(static_cast<std::int32_t>(data.size()));
      offsets64.push_back(static_cast<std::int64_t>(data.size()));
    }
  }
};

}  // namespace scbf_test
