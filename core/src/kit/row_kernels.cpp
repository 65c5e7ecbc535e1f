// SPDX-License-Identifier: Apache-2.0
#include "kit/row_kernels.hpp"

#include <algorithm>
#include <bit>

#include "scbf/backend.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

namespace {

// The plain kernels, which are the model: one key and one counter at a time.

void locate(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
            std::uint64_t* rows) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    detail::for_each_probe(geometry, hashes[i], [&](detail::Probe probe) {
      *rows++ = detail::number_of(geometry, probe);
    });
  }
}

std::size_t locate_zeros(const Geometry& geometry, const std::uint64_t* words,
                         const std::uint64_t* hashes, std::size_t n, std::uint64_t* rows) noexcept {
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < n; ++i) {
    detail::for_each_probe(geometry, hashes[i], [&](detail::Probe probe) {
      rows[zeros] = detail::number_of(geometry, probe);
      zeros += !is_in_row(geometry, words, rows[zeros]);
    });
  }
  return zeros;
}

void intersect(const RowsView& view, const std::uint64_t* rows, std::uint32_t k, std::size_t n,
               const std::uint8_t* always, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < n; ++i, rows += k, out += view.stride) {
    std::copy_n(view.bytes + rows[0] * view.stride, view.stride, out);
    for (std::uint32_t j = 1; j < k; ++j) {
      const std::uint8_t* row = view.bytes + rows[j] * view.stride;
      for (std::uint64_t b = 0; b < view.stride; ++b) out[b] &= row[b];
    }
    for (std::uint64_t b = 0; b < view.stride; ++b) out[b] |= always[b];
  }
}

void gather(const Geometry& geometry, const std::array<const std::uint64_t*, kGatherMembers>& lines,
            std::uint64_t* bits) noexcept {
  const std::uint32_t rows = gathered_rows(geometry);
  std::fill_n(bits, rows, 0);
  for (std::uint32_t m = 0; m < kGatherMembers; ++m) {
    if (lines[m] == nullptr) continue;
    for (std::uint32_t c = 0; c < rows; ++c) {
      bits[c] |= std::uint64_t{is_in_row(geometry, lines[m], c)} << m;
    }
  }
}

void gather_bits(const std::array<const std::uint64_t*, kGatherMembers>& lines, std::uint64_t words,
                 std::uint64_t* bits) noexcept {
  std::fill_n(bits, 64 * words, 0);
  for (std::uint32_t m = 0; m < kGatherMembers; ++m) {
    if (lines[m] == nullptr) continue;
    for (std::uint64_t r = 0; r < 64 * words; ++r) {
      bits[r] |= (lines[m][r / 64] >> r % 64 & 1) << m;
    }
  }
}

}  // namespace

bool is_in_row(const Geometry& geometry, const std::uint64_t* words, std::uint64_t row) noexcept {
  const detail::Probe at = detail::probe_of(geometry, row);
  return geometry.layout() == Layout::ranked ? detail::bit_at(words[at.word], at.shift)
                                             : detail::counter_at(words[at.word], at.shift) != 0;
}

std::uint64_t row_stride(std::uint32_t members) noexcept {
  constexpr std::uint64_t kLineBytes = 64;
  // Rows longer than a cache line are a multiple of this. Then no row touches more lines than it
  // would if it began on a line.
  constexpr std::uint64_t kLongRowUnit = 32;
  const std::uint64_t bytes = (std::uint64_t{members} + 7) / 8;
  if (bytes <= kLineBytes) return std::bit_ceil(std::max<std::uint64_t>(bytes, 1));
  return (bytes + kLongRowUnit - 1) / kLongRowUnit * kLongRowUnit;
}

const RowKernels& Backend::rows() const noexcept {
  static constexpr RowKernels plain = {kPlainHashes,    locate, locate_zeros,
                                       scbf::intersect, gather, gather_bits};
  return plain;
}

}  // namespace scbf
