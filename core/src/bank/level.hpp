// SPDX-License-Identifier: Apache-2.0
// A level of a bank: the stages of one shape, each in a slot, and their rows. Which member a slot
// belongs to is bank_state.hpp; the rows are rows.hpp, and what vectors do for them is behind
// kit/rows.hpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bank/rows.hpp"
#include "filter/stage.hpp"
#include "scbf/bank.hpp"

namespace scbf {

/// Whether a batch adds keys to stages or takes them away.
enum class Change : std::uint8_t { insert, remove };

struct ChangeCounts {
  std::uint64_t changed = 0, absent = 0, nulls = 0;

  ChangeCounts& operator+=(const ChangeCounts& other) noexcept {
    changed += other.changed;
    absent += other.absent;
    nulls += other.nulls;
    return *this;
  }
};

inline constexpr std::uint32_t kNoMember = 0xFFFF'FFFFu;

/// Whatever a function throws, rows and counters agree afterwards, unless memory for one more
/// column (half a kilobyte) is short just then.
struct Level {
  /// Without stages; rows for so many.
  Level(std::uint32_t index, const StageShape& shape, std::uint64_t seed, const Backend& backend,
        std::uint32_t capacity);

  std::uint32_t index;  ///< in the growth
  StageShape shape;
  std::uint64_t seed;
  const Backend* backend;
  const RowKernels* kernels;
  MemberRows rows;
  std::vector<std::optional<Stage>> stages = {};  ///< by slot
  std::size_t size = 0;                           ///< stages there are
  std::size_t lowest_free = 0;                    ///< no slot below it is free
  /// By slot: the member whose stage it is, or kNoMember, whose bits no answer takes over. Of later
  /// levels; in the first a slot is the member's number.
  std::vector<std::uint32_t> owners = {};
  std::vector<std::uint8_t> always =
      {};  ///< a row: slots that are in every answer; ≥ rows.stride()

  std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(stages.size()); }
  bool has(std::uint32_t slot) const noexcept {
    return slot < stages.size() && stages[slot].has_value();
  }
  Stage& at(std::uint32_t slot) noexcept { return *stages[slot]; }
  const Stage& at(std::uint32_t slot) const noexcept { return *stages[slot]; }

  // ---- stages come and go ---------------------------------------------------------------------

  /// Room for so many slots in the rows.
  void reserve(std::uint32_t capacity, const BatchOptions& options);
  /// An empty stage, in the lowest slot that is free.
  std::uint32_t add();
  /// Stages with counters, in one pass over the rows; their slots. All or none.
  std::vector<std::uint32_t> add(std::vector<Stage> newcomers, const BatchOptions& options);
  /// Puts a stage in the place of another one, which is returned.
  Stage replace(std::uint32_t slot, Stage stage, const BatchOptions& options);
  /// Makes a stage's column zero; the stage is then to be taken out, or rebuilt.
  void blank(std::uint32_t slot, const BatchOptions& options);
  /// Takes out a stage whose column is zero.
  Stage take(std::uint32_t slot) noexcept;
  void set_always(std::uint32_t slot, bool ask) noexcept;
  bool is_always(std::uint32_t slot) const noexcept { return always[slot / 8] >> slot % 8 & 1; }

  // ---- counters change ------------------------------------------------------------------------

  /// Keys of one stage; it can be changed. `verdicts` may be empty.
  ChangeCounts change_one(Change what, std::uint32_t slot, const KeyBatch& keys,
                          std::span<std::uint8_t> verdicts, const BatchOptions& options);
  /// Keys of several stages, given by slot; those of one in order.
  ChangeCounts change_many(Change what, std::span<const MemberKeys> batches,
                           const BatchOptions& options);
  /// Runs another change of a stage's counters; whether it succeeds or throws, the rows follow.
  template <class Work>
  void and_rebuild(std::uint32_t slot, const BatchOptions& options, Work work) {
    try {
      work();
      rebuild(slot, options);
    } catch (...) {
      rebuild(slot, {.threads = 1});
      throw;
    }
  }
  /// Makes a stage's column what its counters say.
  void rebuild(std::uint32_t slot, const BatchOptions& options);

  // ---- questions ------------------------------------------------------------------------------

  /// Packed answers to n hashes: a row of bits for each, a bit per slot.
  void answer(const std::uint64_t* hashes, std::size_t n, std::uint8_t* out) const noexcept;

 private:
  friend struct BankCheck;
  MemberColumn column(std::uint32_t slot) const noexcept;
  void rebuild_all(std::span<const std::uint32_t> slots, const BatchOptions& options);
  /// Room for this many slots; grows the rows by half at least.
  void make_room(std::size_t slots, const BatchOptions& options);
  /// The n smallest slots that are free.
  std::vector<std::uint32_t> free_slots(std::size_t n) const;
  /// A batch for one stage, in pieces: hashed once, for counters and rows. Without `mark` its
  /// column is left to be rebuilt.
  ChangeCounts change(Change what, std::uint32_t slot, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts, bool mark, const BatchOptions& options);
};

}  // namespace scbf
