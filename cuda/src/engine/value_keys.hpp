// SPDX-License-Identifier: Apache-2.0
// Keys as kernels see them: a column of 64-bit values in device memory, possibly with nulls. Byte
// strings are first hashed into such a column (HashBytes).
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

/// Integers or ready-made hashes.
struct ValueKeys {
  const std::uint64_t* values;
  std::size_t n;
  bool hashed;  ///< values are hashes
  Validity validity;

  SCBF_INLINE bool valid(std::size_t i) const noexcept { return validity.valid(i); }
  SCBF_INLINE std::uint64_t hash(const FilterRef& filter, std::size_t i) const noexcept {
    const std::uint64_t value = load_streaming(values + i);
    return hashed ? value : filter.hash(value);
  }
  /// Keys first … first + count − 1.
  ValueKeys part(std::size_t first, std::size_t count) const noexcept {
    return {values + first, count, hashed, validity.from(first)};
  }
};

/// PerLane: is there a key first + lane, and is it valid?
template <class Warp>
SCBF_INLINE auto valid_keys(const Warp& warp, const ValueKeys& keys, std::size_t first) {
  return warp.each([&](unsigned l) { return first + l < keys.n && keys.valid(first + l); });
}
/// PerLane: the hash of key first + lane, for the lanes that are `wanted`; others do not read it.
template <class Warp>
SCBF_INLINE auto hashes_of(const Warp& warp, const FilterRef& filter, const ValueKeys& keys,
                           std::size_t first, const typename Warp::template PerLane<bool>& wanted) {
  return warp.each(
      [&](unsigned l) { return wanted[l] ? keys.hash(filter, first + l) : std::uint64_t{0}; });
}

/// hashes[i] = the hash of value i, for several filters of the seed of `filter`.
struct HashValues {
  ValueKeys keys;
  FilterRef filter;
  std::uint64_t* hashes;

  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    if (keys.valid(i)) hashes[i] = keys.hash(filter, i);
  }
};

/// hashes[i] = the hash of byte string i; null strings are not read.
struct HashBytes {
  DeviceKeys keys;
  std::uint64_t seed;
  std::uint64_t* hashes;

  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    if (!keys.validity().valid(i)) return;
    const DeviceKeys::Bytes bytes = keys.bytes(i);
    hashes[i] = hash_bytes(bytes.data, bytes.length, seed);
  }
};

}  // namespace scbf::cuda
