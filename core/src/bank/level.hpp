// SPDX-License-Identifier: Apache-2.0
// A level of a bank: the stages of one shape, each in a slot, and their rows. In a bank of bits the
// rows are all that is kept of a stage's bits: it has no words. A level records which member owns a
// slot. The rows themselves are in member_rows.hpp, and their kernels behind kit/row_kernels.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bank/member_rows.hpp"
#include "filter/stage.hpp"
#include "scbf/bank.hpp"

namespace scbf {

/// Whether a batch adds keys to stages or takes them away.
enum class Change : std::uint8_t { insert, remove };

struct ChangeCounts {
  std::uint64_t changed = 0, absent = 0, nulls = 0, kept = 0;

  ChangeCounts& operator+=(const ChangeCounts& other) noexcept {
    changed += other.changed;
    absent += other.absent;
    nulls += other.nulls;
    kept += other.kept;
    return *this;
  }
};

inline constexpr std::uint32_t kNoMember = 0xFFFF'FFFFu;

/// Whatever a function throws, rows and counters agree afterwards. Changes of counters and columns
/// throw nothing, unless said otherwise: if memory is short they go in smaller pieces.
struct Level {
  /// Makes a level without stages, with rows for `capacity` of them.
  Level(std::uint32_t index, const StageShape& shape, std::uint64_t seed, const Backend& backend,
        std::uint32_t capacity, Cell cell);
  /// The same, with these rows.
  Level(std::uint32_t index, const StageShape& shape, std::uint64_t seed, const Backend& backend,
        MemberRows rows, Cell cell);
  /// A copy of this level, or the level of bits of this level of counters, in memory. Throws
  /// std::bad_alloc.
  Level copy_as(Cell of_copy, const Backend& on) const;
  /// Turns into that level of bits.
  void drop_counters(const Backend& on) noexcept;

  std::uint32_t index;  ///< in the growth
  StageShape shape;     ///< of counters, also in a bank of bits
  Cell cell;            ///< of the stages
  std::uint64_t seed;
  const Backend* backend;
  const RowKernels* kernels;
  MemberRows rows;
  std::vector<std::optional<Stage>> stages = {};  ///< by slot
  std::size_t size = 0;                           ///< number of stages
  std::size_t lowest_free = 0;                    ///< no slot below it is free
  std::vector<std::uint8_t> always =
      {};  ///< a row, of rows.stride() bytes at least: the slots that are in every answer
  // For mapped rows only, which may be damaged.
  /// A row of 1s for slots with a stage: no other slot is in an answer, whatever the rows are.
  std::vector<std::uint8_t> present = {};
  /// Those in the file, so that damaged rows are not saved again.
  std::vector<std::uint64_t> chunk_checksums = {};
  double mark_ns = 0;  ///< set by tests only: what marking takes per key, instead of measuring it

  std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(stages.size()); }
  bool has(std::uint32_t slot) const noexcept {
    return slot < stages.size() && stages[slot].has_value();
  }
  Stage& at(std::uint32_t slot) noexcept { return *stages[slot]; }
  const Stage& at(std::uint32_t slot) const noexcept { return *stages[slot]; }
  /// The member that owns a stage; or kNoMember, and then its bit is left out of answers. Not for
  /// the first level, where the slot is the member's number.
  std::uint32_t owner(std::uint32_t slot) const noexcept { return owners_[slot]; }
  void own(std::uint32_t slot, std::uint32_t member) noexcept { owners_[slot] = member; }

  // ---- stages come and go ---------------------------------------------------------------------
  // A stage that comes in has no owner yet.

  /// Makes room for this many slots in the rows.
  void reserve(std::uint32_t capacity, const BatchOptions& options);
  /// Adds an empty stage. Returns its slot, the lowest that is free.
  std::uint32_t add(const BatchOptions& options);
  /// The n smallest slots that are free.
  std::vector<std::uint32_t> free_slots(std::size_t n) const;
  /// Stages with counters or bits that are about to come in, in one pass over the rows. The
  /// constructor does everything that can fail; what it changes is no more than the room for slots.
  class Arrivals {
   public:
    /// The slots are free and ascend. Throws std::bad_alloc; InvalidArgument if they are too many.
    Arrivals(Level& level, std::span<const std::uint32_t> slots, std::vector<Stage*> stages,
             const BatchOptions& options);
    /// Moves the stages in. To be called once.
    void come_in(const BatchOptions& options) noexcept;

   private:
    Level& level_;
    std::vector<Stage*> stages_;
    std::vector<MemberColumn> columns_;
  };
  /// Puts a stage into a slot whose column has its bits already. Bits only. Throws std::bad_alloc.
  void adopt(std::uint32_t slot, Stage stage);
  /// Replaces a stage by another and returns the old one.
  Stage replace(std::uint32_t slot, Stage stage, const BatchOptions& options) noexcept;
  /// Sets a stage's column to zero. The stage must then be taken out, or its column rebuilt.
  void blank(std::uint32_t slot, const BatchOptions& options) noexcept;
  /// Takes out a stage whose column is zero.
  Stage take(std::uint32_t slot) noexcept;
  void set_always(std::uint32_t slot, bool ask) noexcept;
  bool is_always(std::uint32_t slot) const noexcept { return always[slot / 8] >> slot % 8 & 1; }

  // ---- counters change; not in a bank of bits -------------------------------------------------

  /// Inserts or removes keys of one stage, which must be writable. `verdicts` may be empty.
  ChangeCounts change_one(Change what, std::uint32_t slot, const KeyBatch& keys,
                          std::span<std::uint8_t> verdicts, const BatchOptions& options);
  /// Inserts or removes keys of several stages, given by slot; batches of one stage go in order.
  ChangeCounts change_many(Change what, std::span<const MemberKeys> batches,
                           const BatchOptions& options);
  /// Runs another change of a stage's counters, then rebuilds its column, even if the change
  /// throws.
  template <class Work>
  void and_rebuild(std::uint32_t slot, const BatchOptions& options, Work work) {
    try {
      work();
    } catch (...) {
      rebuild(slot, {.threads = 1});
      throw;
    }
    rebuild(slot, options);
  }
  /// A slot's column of the rows, and the counters that it reflects.
  MemberColumn column(std::uint32_t slot) const noexcept;
  /// Rebuilds a stage's column from its counters.
  void rebuild(std::uint32_t slot, const BatchOptions& options) noexcept;

  // ---- questions ------------------------------------------------------------------------------

  /// Writes packed answers to n hashes: a row of bits for each, with one bit per slot.
  void answer(const std::uint64_t* hashes, std::size_t n, std::uint8_t* out) const noexcept;

 private:
  Level(const Level& other, Cell of_copy, const Backend& on, MemberRows with_rows);
  /// Makes room for the owners of this many slots. Throws std::bad_alloc, changing nothing.
  void room_for_owners(std::size_t slots) {
    owners_.resize(std::max(owners_.size(), slots), kNoMember);
  }
  /// For bits, frees the words, now that the rows have them.
  void keep_rows_only(Stage& stage) const noexcept {
    if (cell == Cell::bit) stage.store.reset();
  }
  /// What change_many does, with all the memory that it needs. Throws std::bad_alloc.
  struct ChangePlan;
  ChangePlan plan_changes(std::span<const MemberKeys> batches) const;
  ChangeCounts carry_out(ChangePlan& plan, Change what, std::span<const MemberKeys> batches,
                         const BatchOptions& options);
  /// Makes room for this many slots; if the rows must grow, they grow by half at least.
  void make_room(std::size_t slots, const BatchOptions& options);
  /// What marking has taken so far. Several threads may book.
  class MarkTimes;
  /// Inserts or removes a batch, without the rows: the caller rebuilds the column.
  ChangeCounts change_counters(Change what, std::uint32_t slot, const KeyBatch& keys,
                               std::span<std::uint8_t> verdicts, const BatchOptions& options);
  /// Inserts or removes a batch in pieces, hashing keys once for counters and rows, and books what
  /// marking took.
  ChangeCounts change_and_mark(Change what, std::uint32_t slot, const KeyBatch& keys,
                               std::span<std::uint8_t> verdicts, MarkTimes& times,
                               const BatchOptions& options);

  std::vector<std::uint32_t> owners_ = {};  ///< by slot; at least as many as stages
};

}  // namespace scbf
