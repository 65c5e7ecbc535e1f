// SPDX-License-Identifier: Apache-2.0
// Hashes the valid keys of a stretch of a batch, for backends that run on the host; and the way
// back, which spreads the answers of valid keys out to all keys of the stretch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/key_batch.hpp"

namespace scbf {

/// Hashes n 64-bit keys; `hashes` may be `keys`. Backends bring their own.
using HashU64 = void (*)(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                         std::uint64_t* hashes) noexcept;

/// Hashes n keys of 16 bytes, back to back, at any alignment.
using Hash16Bytes = void (*)(const char* keys, std::size_t n, std::uint64_t seed,
                             std::uint64_t* hashes) noexcept;

struct HashKernels {
  HashU64 u64;
  Hash16Bytes of_16_bytes;
};

// Those without vectors.
void plain_hash_u64(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                    std::uint64_t* hashes) noexcept;
void plain_hash_16_bytes(const char* keys, std::size_t n, std::uint64_t seed,
                         std::uint64_t* hashes) noexcept;
inline constexpr HashKernels kPlainHashes = {plain_hash_u64, plain_hash_16_bytes};

/// Writes the hashes of the valid keys among keys first … first + count − 1, in order, to
/// `hashes` (room for `count`), and returns how many there are.
std::size_t hash_keys(const KeyBatch& keys, std::size_t first, std::size_t count,
                      std::uint64_t seed, const HashKernels& kernels,
                      std::uint64_t* hashes) noexcept;

/// On entry `answers` begins with one byte for each valid key of the stretch; on return it has one
/// for each key, 0 for null keys.
void spread_answers(const KeyBatch& keys, std::size_t first, std::size_t count,
                    std::uint8_t* answers) noexcept;

}  // namespace scbf
