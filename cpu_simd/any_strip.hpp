// SPDX-License-Identifier: Apache-2.0
// A strip of keys asked of several filters: found in any? What direct and partitioned lookups
// through filters of several stages (contains_any) share.
//
// (A *filter* here is one of those that are asked; a *stage*, as everywhere in this folder, is a
// group or slice of one.) Filter by filter:
//
//   1. all keys left are located and tested in its first stage, a bit for each;
//   2. the few that pass, of absent keys one in 2^8 to 2^5 in a group and half in a slice, are
//      copied out and tested in the next stage, and so on: the lines of further stages are touched
//      for them alone;
//   3. who passes all is found. If that is an eighth of the keys left or more, they leave.
//
// Filters that follow each other, have one geometry (the stages of a `fixed` growth) and are small
// enough not to be fetched ahead take step 1 together: keys are located once for all of them, and
// those that are found leave after the last. Where the first of all filters held many keys of the
// strip before, it is asked alone.
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
  Asked(const ReadWork& filter, std::size_t distance) noexcept
      : work(filter), first_distance(distance), next_distance(distance) {}

  ReadWork work;
  std::size_t first_distance;  ///< Fetch::distance in the first stage
  std::size_t next_distance;   ///< in further ones
  Lines ahead = {};            ///< to be fetched in the course of the next strip
  std::size_t alike = 1;       ///< so many from this one on take their first stage together
};

/// Keys side by side, and whose answers are theirs.
struct KeySet {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::array<std::uint16_t, kStripKeys> index;
  std::size_t keys = 0;
};

class AnyStrip {
 public:
  /// Few keys would wait for the lines of each filter anew; if `ahead`, those of the next ones are
  /// asked for meanwhile.
  AnyStrip(const Kernels& kernels, std::span<Asked> filters, bool ahead) noexcept;

  /// out[i] = 1 if any filter holds key i, else 0; at most kStripKeys keys. `chunk_ahead` is
  /// fetched meanwhile.
  void ask(const std::uint64_t* hashes, std::size_t n, Lines chunk_ahead,
           std::uint8_t* out) noexcept;

 private:
  using Bits = std::array<std::uint64_t, kStripKeys / 64>;

  /// Answers as bits; returns how many are 1.
  std::size_t test(const ReadWork& filter, std::uint32_t stage, const std::uint64_t* hashes,
                   std::size_t n, const Fetch& fetch, Bits& bits) noexcept;
  /// The first stage of filters that are alike, into answers_, bits_ and passed_by_. `fetched`:
  /// their lines were asked for.
  void test_first(std::span<const Asked> alike, const std::uint64_t* hashes, std::size_t n,
                  Lines chunk_ahead, bool fetched) noexcept;
  /// Asks for the lines of filter `next`, and of those after it as far as kLinesAhead goes.
  void fetch_ahead(std::size_t next, const std::uint64_t* hashes, std::size_t n) noexcept;
  /// Who passed the first stage of this one is asked further ones. Returns how many it holds, as
  /// far as is known by now.
  std::size_t ask_further(const Asked& asked, const Bits& passed, std::size_t count,
                          const std::uint64_t* hashes, const std::uint16_t* index, std::size_t n,
                          std::uint8_t* out) noexcept;
  std::size_t finish(const Asked& asked, std::uint32_t stage, KeySet& set,
                     std::uint8_t* out) noexcept;
  void finish_waiting(std::uint8_t* out) noexcept;

  const Kernels& kernels_;
  std::span<Asked> filters_;
  bool ahead_;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions_;
  alignas(64) std::array<std::uint8_t, kStripKeys * Alike::kMost> answers_;
  std::array<Bits, Alike::kMost> bits_;              ///< of first stages
  std::array<std::size_t, Alike::kMost> passed_by_;  ///< how many are 1
  KeySet rest_;                                      ///< keys not found yet, once some have left
  KeySet passed_;                                    ///< keys that passed the first stage
  KeySet waiting_[2];  ///< the same, while their next lines are fetched
  const Asked* waiting_for_ = nullptr;
  std::size_t now_ = 0;       ///< of waiting_: the one in use
  std::size_t fetched_ = 0;   ///< filters whose lines were asked for ahead
  bool first_alone_ = false;  ///< the first filter held so many that they should leave after it
};

}  // namespace scbf
