// SPDX-License-Identifier: Apache-2.0
// Kernels for the rows of a bank: they locate a key's rows, intersect them, and turn the counters
// or bits of members into bits of rows. Backends on the host may bring their own.
//
// The number of a counter's row is the counter's number in the filter (detail::number_of). In
// ranked filters, each position has a row: is it in use?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kit/hash_keys.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// The rows of a bank: row r is the `stride` bytes from r · stride on, 64-byte aligned as a whole.
/// stride is 1, 2, 4 … 64, or a multiple of 32.
struct RowsView {
  const std::uint8_t* bytes;
  std::uint64_t stride;
};

/// Does a member with these counters have a 1 in a row?
bool is_in_row(const Geometry& geometry, const std::uint64_t* words, std::uint64_t row) noexcept;

/// Bytes of a row for this many members, chosen so that no row touches more cache lines than its
/// length needs.
std::uint64_t row_stride(std::uint32_t members) noexcept;

/// Members whose bits form one 64-bit word of a row.
inline constexpr std::uint32_t kGatherMembers = 64;
/// Counters gathered at once: those of a cache line, which have consecutive rows.
constexpr std::uint32_t gathered_rows(const Geometry& geometry) noexcept {
  return geometry.in_blocks() ? static_cast<std::uint32_t>(geometry.cells_per_block())
                              : kCountersPerBlock;
}
/// Bits of a cache line of a filter of bits, which have consecutive rows, too.
inline constexpr std::uint32_t kBitsPerLine = 64 * kWordsPerBlock;
inline constexpr std::uint32_t kMostGatheredRows = kBitsPerLine;
static_assert(kRankedSlices * kMaxRankedPositions <= kMostGatheredRows);

struct RowKernels {
  /// Hashes of keys of 8 and of 16 bytes.
  HashKernels hashes;
  /// rows[i · k + j] = the row of counter j of hashes[i].
  void (*locate)(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
                 std::uint64_t* rows) noexcept;
  /// Writes the rows of those counters of the keys that are zero in `words`, in any order, and
  /// returns how many there are. `rows` has room for n · k; what lies behind the last row is
  /// overwritten.
  std::size_t (*locate_zeros)(const Geometry& geometry, const std::uint64_t* words,
                              const std::uint64_t* hashes, std::size_t n,
                              std::uint64_t* rows) noexcept;
  /// The stride bytes from out + i · stride on = AND of the k rows at rows + i · k, OR `always`.
  void (*intersect)(const RowsView& view, const std::uint64_t* rows, std::uint32_t k, std::size_t n,
                    const std::uint8_t* always, std::uint8_t* out) noexcept;
  /// lines[m] is a cache line of counters of member m, or null for zeros. Bit m of bits[c] becomes
  /// 1 if counter c of that line is not 0, c < gathered_rows(geometry).
  void (*gather)(const Geometry& geometry,
                 const std::array<const std::uint64_t*, kGatherMembers>& lines,
                 std::uint64_t* bits) noexcept;
  /// The same for filters of bits: lines[m] is `words` words of member m, at most kWordsPerBlock,
  /// or null for zeros. Bit m of bits[r] becomes bit r of that line, r < 64 · words.
  void (*gather_bits)(const std::array<const std::uint64_t*, kGatherMembers>& lines,
                      std::uint64_t words, std::uint64_t* bits) noexcept;
};

}  // namespace scbf
