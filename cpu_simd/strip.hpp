// SPDX-License-Identifier: Apache-2.0
// Looks a strip of keys up in several filters: is a key in any of them? The core of all lookups
// except those in a single filter of one array. For each filter:
//
//   1. All remaining keys are located and tested in the filter's first array, a bit for each.
//   2. The few that pass (of absent keys one in 2^8 to 2^5 in a group, half in a slice) are copied
//      out and tested in the next array, and so on. Only these keys touch the lines of further
//      arrays.
//   3. Keys that pass all arrays are found. If they are at least an eighth of the remaining keys,
//      they are dropped.
//
// In step 2 a handful of keys would each wait for memory with nothing else to do. So where counters
// lie in memory, step 2 only prefetches the next lines, and the keys are tested after step 1 of the
// next filter. Similarly, a strip of few keys prefetches the lines of the next filters before it
// waits for those of the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

/// A filter to look keys up in, and how its counters are fetched.
struct Asked {
  Asked(const ConstFilterArrays& which, std::size_t distance) noexcept
      : filter(which), first_distance(distance), next_distance(distance) {}

  ConstFilterArrays filter;
  std::size_t first_distance;  ///< Fetch::distance in the first array
  std::size_t next_distance;   ///< in further ones
  Lines ahead = {};            ///< to be fetched during the next strip
};

/// Hashes of some keys of a strip, and the indices of their answers.
struct KeySet {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::array<std::uint16_t, kStripKeys> index;
  std::size_t keys = 0;
};

class LookupStrip {
 public:
  /// If `ahead`, a strip of few keys prefetches the lines of the next filters; otherwise it would
  /// wait for memory in each filter.
  LookupStrip(const Kernels& kernels, std::span<Asked> filters, bool ahead) noexcept;

  /// out[i] = 1 if any filter holds key i, else 0; at most kStripKeys keys. Fetches `segment_ahead`
  /// meanwhile.
  void ask(const std::uint64_t* hashes, std::size_t n, Lines segment_ahead,
           std::uint8_t* out) noexcept;

 private:
  using Bits = std::array<std::uint64_t, kStripKeys / 64>;

  /// Tests keys in one array; answers are bits. Returns how many are 1.
  std::size_t test(const ConstFilterArrays& filter, std::uint32_t array,
                   const std::uint64_t* hashes, std::size_t n, const Fetch& fetch,
                   Bits& bits) noexcept;
  /// Prefetches lines of filter `next` and of those after it, as far as kLinesAhead allows.
  void fetch_ahead(std::size_t next, const std::uint64_t* hashes, std::size_t n) noexcept;
  /// Tests the keys that passed the first array of this filter in its further arrays, or lets them
  /// wait. Returns how many keys are known to be in the filter by now.
  std::size_t ask_further(const Asked& asked, const Bits& passed, std::size_t count,
                          const std::uint64_t* hashes, const std::uint16_t* index, std::size_t n,
                          std::uint8_t* out) noexcept;
  std::size_t finish(const Asked& asked, std::uint32_t array, KeySet& set,
                     std::uint8_t* out) noexcept;
  void finish_waiting(std::uint8_t* out) noexcept;

  const Kernels& kernels_;
  std::span<Asked> filters_;
  bool ahead_;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions_;
  alignas(64) std::array<std::uint8_t, kStripKeys> answers_;
  Bits bits_;          ///< answers of the current filter's first array
  KeySet rest_;        ///< keys not found yet, once some were dropped
  KeySet passed_;      ///< keys that passed the first array
  KeySet waiting_[2];  ///< the same, while their next lines are being fetched
  const Asked* waiting_for_ = nullptr;
  std::size_t now_ = 0;      ///< index of the set in waiting_ that is filled next
  std::size_t fetched_ = 0;  ///< filters whose lines were prefetched
};

}  // namespace scbf
