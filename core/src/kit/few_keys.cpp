// SPDX-License-Identifier: Apache-2.0
#include "kit/few_keys.hpp"

#include <array>

namespace scbf {

namespace {

// As functions with addresses.

template <auto function, class Word>
auto of_key(const Geometry& geometry, Word* words, std::uint64_t hash) noexcept {
  return function(geometry, words, hash);
}
using Word = std::uint64_t;
constexpr OneKey kOfCounters = {of_key<holds_key, const Word>, of_key<count_of, const Word>,
                                of_key<add_key, Word>, of_key<take_key, Word>};
constexpr OneKey kOfBits = {of_key<holds_bits, const Word>, of_key<count_bits, const Word>,
                            of_key<add_bits, Word>, nullptr};

}  // namespace

const OneKey& Backend::one_key(Cell cell) const noexcept {
  return cell == Cell::bit ? kOfBits : kOfCounters;
}

std::uint64_t contains_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                           HashU64 hash_u64, HoldsKey holds, std::uint8_t* out) noexcept {
  std::array<std::uint64_t, kFewKeys> room;
  const std::size_t valid = hash_keys(keys, 0, keys.size(), filters[0].seed, hash_u64, room.data());
  const std::span<const std::uint64_t> hashes(room.data(), valid);
  fetch_keys(filters, hashes);
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < valid; ++i) {
    out[i] = any_holds(filters, hashes[i], holds);
    hits += out[i];
  }
  spread_answers(keys, 0, keys.size(), out);
  return hits;
}

}  // namespace scbf
