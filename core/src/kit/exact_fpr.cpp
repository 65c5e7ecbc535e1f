// SPDX-License-Identifier: Apache-2.0
#include "kit/exact_fpr.hpp"

#include <algorithm>
#include <bit>

#include "scbf/detail/packed.hpp"

namespace scbf {

namespace {

int ones(std::uint64_t word) noexcept { return std::popcount(word); }

/// How many of `count` bits are 1, from bit `first` on; count ≤ 128.
int ones_from(const std::uint64_t* words, std::uint64_t first, std::uint64_t count) noexcept {
  int sum = 0;
  for (std::uint64_t bit = first; bit < first + count;) {
    const std::uint64_t here = std::min(64 - bit % 64, first + count - bit);
    sum += ones(words[bit / 64] >> bit % 64 << (64 - here));
    bit += here;
  }
  return sum;
}

/// The positions in use of a slice of `split`.
double in_slice(const Geometry& geometry, const std::uint64_t* words,
                std::uint32_t slice) noexcept {
  const std::uint64_t* const first = words + slice * geometry.slice_stride_words();
  std::uint64_t sum = 0;
  for (std::uint64_t w = 0; w < geometry.slice_stride_words(); ++w) {
    const bool counters = geometry.cell() == Cell::counter;
    sum += static_cast<std::uint64_t>(ones(counters ? detail::nonzero_bits(first[w]) : first[w]));
  }
  return static_cast<double>(sum);
}

/// The positions in use of slice i of a block; blocks are counted over all groups.
int in_block(const Geometry& geometry, const std::uint64_t* words, std::uint64_t block,
             unsigned i) noexcept {
  if (geometry.cell() == Cell::bit) {
    const std::uint64_t positions = geometry.positions();
    return ones_from(words, block * geometry.cells_per_block() + i * positions, positions);
  }
  const std::uint64_t* const line = words + block * kWordsPerBlock;
  if (geometry.layout() == Layout::split_block) return ones(detail::nonzero_bits(line[i]));
  const std::uint64_t upper = (std::uint64_t{1} << (geometry.positions() - 64)) - 1;
  return ones(line[i]) + ones(line[kRankedSlices + i] & upper);
}

}  // namespace

double exact_fpr(const Geometry& geometry, const std::uint64_t* words) noexcept {
  double fpr = 1;
  if (geometry.layout() == Layout::split) {
    for (std::uint32_t slice = 0; slice < geometry.probes(); ++slice) {
      fpr *= in_slice(geometry, words, slice) / static_cast<double>(geometry.counters_per_slice());
    }
    return fpr;
  }
  // A key picks a block in each group, and there a position in each slice.
  const std::uint64_t blocks = geometry.blocks_per_group();
  const unsigned slices = geometry.slices_per_block();
  for (std::uint64_t group = 0; group < geometry.groups(); ++group) {
    double claimed = 0;
    for (std::uint64_t block = group * blocks; block < (group + 1) * blocks; ++block) {
      double share = 1;
      for (unsigned i = 0; i < slices; ++i) {
        share *= in_block(geometry, words, block, i) / static_cast<double>(geometry.positions());
      }
      claimed += share;
    }
    fpr *= claimed / static_cast<double>(blocks);
  }
  return fpr;
}

}  // namespace scbf
