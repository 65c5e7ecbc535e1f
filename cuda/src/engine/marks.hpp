// SPDX-License-Identifier: Apache-2.0
// Notes of an operation under way: the verdicts of a removal, and marked lines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Verdicts; the first three are those of scbf::Removal. The others are left on no key when the
/// removal is done.
inline constexpr std::uint8_t kAbsent = 0, kRemoved = 1, kAmbiguous = 2;
inline constexpr std::uint8_t kContested = 3;  ///< yet to be decided, in batch order
inline constexpr std::uint8_t kWaiting = 4;    ///< for a round: see ClaimedKeys

/// A set of 64-byte lines of a filter: in a removal those in which more was asked of a counter than
/// it holds, in an insertion into ranked the blocks that spill. One bit per line, so a 512th of the
/// filter.
class Marks {
 public:
  /// How many words the set for a filter needs. They must be zero at first; word 0 says whether any
  /// line is marked.
  static std::size_t words_for(const Geometry& geometry) noexcept {
    return 1 + (geometry.words() / kWordsPerBlock + 63) / 64;
  }
  explicit Marks(std::uint64_t* words) noexcept : words_(words) {}

  SCBF_INLINE void mark(std::uint64_t line) const noexcept {
    Atomic().set_bits(words_ + 1 + line / 64, std::uint64_t{1} << line % 64);
    Atomic().set_bits(words_, 1);
  }
  SCBF_INLINE bool any() const noexcept { return words_[0] != 0; }
  SCBF_INLINE bool marked(std::uint64_t line) const noexcept {
    return (words_[1 + line / 64] >> line % 64 & 1) != 0;
  }

 private:
  std::uint64_t* words_;
};

}  // namespace scbf::cuda
