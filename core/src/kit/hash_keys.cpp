// SPDX-License-Identifier: Apache-2.0
#include "kit/hash_keys.hpp"

#include "scbf/detail/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace scbf {

namespace {

/// Calls take(i) for each valid key of the stretch and stores the results without gaps.
template <class Take>
std::size_t gather(const KeyBatch& keys, std::size_t first, std::size_t count, std::uint64_t* out,
                   Take take) noexcept {
  if (!keys.has_validity()) {
    for (std::size_t i = 0; i < count; ++i) out[i] = take(first + i);
    return count;
  }
  std::size_t valid = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    if (keys.valid(i)) out[valid++] = take(i);
  }
  return valid;
}

/// Keys between the prefetch of a key's bytes and their use.
constexpr std::size_t kBytesAhead = 16;

/// The hashes of byte strings. Those of others' strings may lie anywhere in memory, and the bytes
/// of a column come faster, too, if they are fetched ahead.
std::size_t hash_bytes(const KeyBatch& keys, std::size_t first, std::size_t count,
                       std::uint64_t seed, std::uint64_t* out) noexcept {
  const bool all = !keys.has_validity();
  return keys.with_bytes([&](auto bytes_of) {
    std::size_t valid = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      if (i + kBytesAhead < keys.size()) {
        const std::string_view ahead = bytes_of(i + kBytesAhead);
        __builtin_prefetch(ahead.data());
        __builtin_prefetch(ahead.data() + ahead.size());  // often in the next line
      }
      if (!all && !keys.valid(i)) continue;
      const std::string_view key = bytes_of(i);
      out[valid++] = XXH3_64bits_withSeed(key.data(), key.size(), seed);
    }
    return valid;
  });
}

}  // namespace

std::uint64_t detail::hash_of_bytes(std::string_view bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

void plain_hash_u64(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                    std::uint64_t* hashes) noexcept {
  const std::uint64_t mask = detail::u64_seed_mask(seed);
  for (std::size_t i = 0; i < n; ++i) hashes[i] = detail::hash_u64<detail::PlainOps>(keys[i], mask);
}

std::size_t hash_keys(const KeyBatch& keys, std::size_t first, std::size_t count,
                      std::uint64_t seed, HashU64 hash_u64, std::uint64_t* hashes) noexcept {
  switch (keys.kind()) {
    case KeyBatch::Kind::u64:
      if (!keys.has_validity()) {
        hash_u64(keys.values() + first, count, seed, hashes);
        return count;
      } else {
        const std::size_t valid =
            gather(keys, first, count, hashes, [&](std::size_t i) { return keys.values()[i]; });
        hash_u64(hashes, valid, seed, hashes);
        return valid;
      }
    case KeyBatch::Kind::u32:
    case KeyBatch::Kind::i32: {
      const std::size_t valid =
          gather(keys, first, count, hashes, [&](std::size_t i) { return keys.value(i); });
      hash_u64(hashes, valid, seed, hashes);
      return valid;
    }
    case KeyBatch::Kind::hashes:
      return gather(keys, first, count, hashes, [&](std::size_t i) { return keys.values()[i]; });
    default:
      return hash_bytes(keys, first, count, seed, hashes);
  }
}

void spread_answers(const KeyBatch& keys, std::size_t first, std::size_t count,
                    std::uint8_t* answers) noexcept {
  if (!keys.has_validity()) return;
  std::size_t valid = 0;
  for (std::size_t i = 0; i < count; ++i) valid += keys.valid(first + i);
  for (std::size_t i = count; i-- > 0;) {
    answers[i] = keys.valid(first + i) ? answers[--valid] : std::uint8_t{0};
  }
}

}  // namespace scbf
