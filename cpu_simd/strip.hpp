// SPDX-License-Identifier: Apache-2.0
// A strip of keys looked up in several filters: is it in any of them? The core of all lookups but
// those of a single filter with one array. Filter by filter:
//
//   1. All keys left are located and tested in the filter's first array, a bit for each.
//   2. The few that pass (of absent keys one in 2^8 to 2^5 in a group, half in a slice) are copied
//      out and tested in the next array, and so on: the lines of further arrays are touched for
//      them alone.
//   3. What passes all arrays is found. If that is an eighth of the keys left or more, they leave.
//
// A handful of keys in step 2 would each wait for memory, with nothing else under way. So where
// counters lie in memory, their next lines are only fetched, and tested after step 1 of the next
// filter. In the same way a strip of few keys asks for the lines of the next filters before it
// waits for those of the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

/// A filter to be asked, and how its counters are fetched.
struct Asked {
  Asked(const ConstFilterArrays& which, std::size_t distance) noexcept
      : filter(which), first_distance(distance), next_distance(distance) {}

  ConstFilterArrays filter;
  std::size_t first_distance;  ///< Fetch::distance in the first array
  std::size_t next_distance;   ///< in further ones
  Lines ahead = {};            ///< to be fetched in the course of the next strip
};

/// Keys side by side, and whose answers are theirs.
struct KeySet {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::array<std::uint16_t, kStripKeys> index;
  std::size_t keys = 0;
};

class LookupStrip {
 public:
  /// Few keys would wait for the lines of each filter anew; if `ahead`, those of the next ones are
  /// asked for meanwhile.
  LookupStrip(const Kernels& kernels, std::span<Asked> filters, bool ahead) noexcept;

  /// out[i] = 1 if any filter holds key i, else 0; at most kStripKeys keys. `chunk_ahead` is
  /// fetched meanwhile.
  void ask(const std::uint64_t* hashes, std::size_t n, Lines chunk_ahead,
           std::uint8_t* out) noexcept;

 private:
  using Bits = std::array<std::uint64_t, kStripKeys / 64>;

  /// Answers as bits; returns how many are 1.
  std::size_t test(const ConstFilterArrays& filter, std::uint32_t array,
                   const std::uint64_t* hashes, std::size_t n, const Fetch& fetch,
                   Bits& bits) noexcept;
  /// Asks for the lines of filter `next`, and of those after it as far as kLinesAhead goes.
  void fetch_ahead(std::size_t next, const std::uint64_t* hashes, std::size_t n) noexcept;
  /// Tests the keys that passed the first array of this filter in its further ones. Returns how
  /// many it holds, as far as is known by now.
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
  Bits bits_;          ///< of first arrays
  KeySet rest_;        ///< keys not found yet, once some have left
  KeySet passed_;      ///< keys that passed the first array
  KeySet waiting_[2];  ///< the same, while their next lines are fetched
  const Asked* waiting_for_ = nullptr;
  std::size_t now_ = 0;      ///< of waiting_: the one in use
  std::size_t fetched_ = 0;  ///< filters whose lines were asked for ahead
};

}  // namespace scbf
