// SPDX-License-Identifier: Apache-2.0
#include "kit/hash_keys.hpp"

#include <algorithm>
#include <array>
#include <cstring>

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

std::uint64_t xxh3_of(std::string_view key, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

/// The hashes of byte strings. Bytes are fetched ahead, because separate strings may lie anywhere
/// in memory. It speeds columns up, too.
std::size_t hash_strings(const KeyBatch& keys, std::size_t first, std::size_t count,
                         std::uint64_t seed, std::uint64_t* out) noexcept {
  return keys.with_bytes([&](auto bytes_of) {
    std::size_t valid = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      if (i + kBytesAhead < keys.size()) {
        const std::string_view ahead = bytes_of(i + kBytesAhead);
        __builtin_prefetch(ahead.data());
        __builtin_prefetch(ahead.data() + ahead.size());  // often in the next line
      }
      if (keys.valid(i)) out[valid++] = xxh3_of(bytes_of(i), seed);
    }
    return valid;
  });
}

/// Keys of 8 or 16 bytes are hashed in vectors. Valid ones are brought together first.
std::size_t hash_fixed(const KeyBatch& keys, std::size_t first, std::size_t count,
                       std::uint64_t seed, const HashKernels& kernels,
                       std::uint64_t* out) noexcept {
  if (count == 0) return 0;
  const std::size_t width = keys.bytes(first).size();
  const char* const begin = keys.bytes(first).data();
  if (width == 16 && !keys.has_validity()) {
    kernels.of_16_bytes(begin, count, seed, out);
    return count;
  }
  if (width != 8 && width != 16) return hash_strings(keys, first, count, seed, out);
  constexpr std::size_t kStrip = 256;  // keys, which stay in cache
  alignas(std::uint64_t) std::array<char, 16 * kStrip> strip;
  std::size_t valid = 0;
  for (std::size_t i = 0; i < count; i += kStrip) {
    std::size_t taken = 0;
    for (std::size_t j = i; j < std::min(count, i + kStrip); ++j) {
      if (keys.valid(first + j)) std::memcpy(&strip[width * taken++], begin + width * j, width);
    }
    if (width == 16) {
      kernels.of_16_bytes(strip.data(), taken, seed, out + valid);
    } else {
      std::memcpy(out + valid, strip.data(), width * taken);
      kernels.u64(out + valid, taken, seed, out + valid);
    }
    valid += taken;
  }
  return valid;
}

}  // namespace

std::uint64_t detail::hash_of_bytes(std::string_view bytes, std::uint64_t seed) noexcept {
  return xxh3_of(bytes, seed);
}

void plain_hash_u64(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                    std::uint64_t* hashes) noexcept {
  const std::uint64_t mask = detail::u64_seed_mask(seed);
  for (std::size_t i = 0; i < n; ++i) hashes[i] = detail::hash_u64<detail::PlainOps>(keys[i], mask);
}

void plain_hash_16_bytes(const char* keys, std::size_t n, std::uint64_t seed,
                         std::uint64_t* hashes) noexcept {
  for (std::size_t i = 0; i < n; ++i) hashes[i] = xxh3_of({keys + 16 * i, 16}, seed);
}

std::size_t hash_keys(const KeyBatch& keys, std::size_t first, std::size_t count,
                      std::uint64_t seed, const HashKernels& kernels,
                      std::uint64_t* hashes) noexcept {
  switch (keys.kind()) {
    case KeyBatch::Kind::u64:
      if (!keys.has_validity()) {
        kernels.u64(keys.values() + first, count, seed, hashes);
        return count;
      } else {
        const std::size_t valid =
            gather(keys, first, count, hashes, [&](std::size_t i) { return keys.values()[i]; });
        kernels.u64(hashes, valid, seed, hashes);
        return valid;
      }
    case KeyBatch::Kind::u32:
    case KeyBatch::Kind::i32: {
      const std::size_t valid =
          gather(keys, first, count, hashes, [&](std::size_t i) { return keys.value(i); });
      kernels.u64(hashes, valid, seed, hashes);
      return valid;
    }
    case KeyBatch::Kind::fixed:
      return hash_fixed(keys, first, count, seed, kernels, hashes);
    case KeyBatch::Kind::hashes:
      return gather(keys, first, count, hashes, [&](std::size_t i) { return keys.values()[i]; });
    default:
      return hash_strings(keys, first, count, seed, hashes);
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
