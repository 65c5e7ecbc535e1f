// SPDX-License-Identifier: Apache-2.0
// The rows of a bank: for each counter of the geometry one bit per member, which is 1 if the
// member's counter is not zero. So a column of the rows is the member's filter of bits. Knows only
// counters and bits; members and their stages are in level.hpp and bank_state.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "kit/host_memory.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/backend.hpp"

namespace scbf {

/// A column of the rows and the counters or bits that it reflects; null stands for all zero.
struct MemberColumn {
  std::uint32_t slot;
  const std::uint64_t* words;
};

/// Slots of the same stage in the rows of two banks.
struct SlotPair {
  std::uint32_t here, there;
};

class MemberRows {
 public:
  /// Rows that are fetched before the first of them is changed: many, as each is another line of
  /// memory.
  static constexpr std::size_t kMarksAhead = 256;

  /// Makes rows for at least this many members: as many as fit into the length of a row. Throws
  /// std::bad_alloc.
  MemberRows(const Geometry& geometry, std::uint32_t members);
  /// Takes over rows of exactly that many members, for example mapped ones, which cannot be
  /// changed.
  MemberRows(const Geometry& geometry, std::uint32_t members, HostMemory rows) noexcept;
  /// Throws std::bad_alloc.
  MemberRows copy() const;

  std::uint64_t stride() const noexcept { return stride_; }
  std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(stride_ * 8); }
  std::uint64_t bytes() const noexcept { return rows() * stride_; }
  RowsView view() const noexcept { return {data(), stride_}; }
  bool writable() const noexcept { return memory_.writable(); }
  /// The rows, and zeros up to a multiple of 16 bytes.
  std::span<std::uint64_t> words() noexcept { return {memory_.words(), word_count()}; }
  std::span<const std::uint64_t> words() const noexcept { return {memory_.words(), word_count()}; }

  /// Copies the rows into longer ones. Throws std::bad_alloc, changing nothing.
  void grow(std::uint32_t members, const BatchOptions& options);

  /// For each counter of the keys that is zero in `words`, sets bit `slot` of its row to `bit`.
  /// Call it with 1 before an insertion and with 0 after a removal. n may have any size.
  void mark_zeros(const RowKernels& kernels, const std::uint64_t* words, std::uint32_t slot,
                  const std::uint64_t* hashes, std::size_t n, bool bit) noexcept;

  /// Flips bit `slot` of these rows, at most kMarksAhead, which are fetched first.
  void flip(std::uint32_t slot, std::span<const std::uint64_t> rows) noexcept;

  /// Rebuilds whole columns from counters or bits; `columns` ascend by slot. Cost: one pass over
  /// the rows and those counters or bits; if memory is short, one for every 64 members.
  void rebuild(const RowKernels& kernels, Cell cell, std::span<const MemberColumn> columns,
               const BatchOptions& options) noexcept;
  /// Reads a column, which is a filter of bits; `words` has room for all of it.
  void read_column(std::uint32_t slot, std::span<std::uint64_t> words,
                   const BatchOptions& options) const;

  /// Are these columns the same in rows of the same geometry? Throws std::bad_alloc.
  bool same_columns(const MemberRows& other, std::span<const SlotPair> slots) const;

  /// Is it cheaper, for this many keys in all, to rebuild the columns of `members` members than to
  /// mark the keys? Marking takes `mark_ns` for a key; 0 if that is not known.
  bool worth_rebuilding(std::uint64_t keys, std::uint64_t members,
                        double mark_ns = 0) const noexcept;

 private:
  struct Group;
  void rebuild_groups(const RowKernels& kernels, Cell cell, std::span<const Group> groups,
                      const BatchOptions& options) noexcept;
  std::uint8_t* data() const noexcept { return reinterpret_cast<std::uint8_t*>(memory_.words()); }
  std::uint64_t rows() const noexcept { return geometry_.padded_counters(); }
  std::uint64_t word_count() const noexcept { return (bytes() + 15) / 16 * 2; }
  /// Rows that come from one cache line of a member's counters or bits.
  std::uint32_t line_rows(Cell cell) const noexcept {
    return cell == Cell::bit ? kBitsPerLine : gathered_rows(geometry_);
  }
  /// Cache lines of a member, without the table of a ranked one.
  std::uint64_t lines(Cell cell) const noexcept {
    return (rows() + line_rows(cell) - 1) / line_rows(cell);
  }

  Geometry geometry_;
  std::uint64_t stride_;
  HostMemory memory_;
};

}  // namespace scbf
