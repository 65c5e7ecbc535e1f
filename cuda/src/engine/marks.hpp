// SPDX-License-Identifier: Apache-2.0
// What a removal notes while it is under way: verdicts, and lines that ran short.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Verdicts; when it is done, none is kContested.
inline constexpr std::uint8_t kAbsent = 0, kRemoved = 1, kContested = 2;

/// A set of 64-byte lines of a filter: those in which a counter was asked for more than it has. One
/// bit per line, a 512th of the filter.
class Marks {
 public:
  /// Words of the set for a filter, all zero to begin with: the first says whether there is any.
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
