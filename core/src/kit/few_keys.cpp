// SPDX-License-Identifier: Apache-2.0
#include "kit/few_keys.hpp"

#include <array>

namespace scbf {

const OneKey& Backend::one_key() const noexcept {
  static constexpr OneKey plain = {
      [](const Geometry& geometry, const std::uint64_t* words, std::uint64_t hash) noexcept {
        return holds_key(geometry, words, hash);
      },
      [](const Geometry& geometry, const std::uint64_t* words, std::uint64_t hash) noexcept {
        return count_of(geometry, words, hash);
      },
      [](const Geometry& geometry, std::uint64_t* words, std::uint64_t hash) noexcept {
        return add_key(geometry, words, hash);
      },
      [](const Geometry& geometry, std::uint64_t* words, std::uint64_t hash) noexcept {
        return take_key(geometry, words, hash);
      }};
  return plain;
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
