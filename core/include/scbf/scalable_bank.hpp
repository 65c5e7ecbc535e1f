// SPDX-License-Identifier: Apache-2.0
// ScalableBank: a FilterBank whose members grow by stages, as a ScalableFilter does.
//
//   scbf::ScalableBank regions(scbf::Growth::tightening(10'000, 0.01), {.capacity = 1000});
//   const std::uint32_t region = regions.add_member();
//   regions.insert(region, keys);               // as many as there are: the rate holds
//   scbf::MemberLists where;
//   regions.find(queries, where);               // where.of(i): the members that may hold query i
//
// A member is, byte for byte and verdict for verdict, what a ScalableFilter of this growth and seed
// would be alone. All members' first stages are one FilterBank, all their second stages another: a
// query hashes a key once and asks as many banks as the largest member has stages. docs/bank.md
// says how it works and what it costs.
//
// Thread safety: const member functions may run at once; the others need the bank to themselves.
// Batches parallelise inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/filter_bank.hpp"
#include "scbf/scalable_filter.hpp"

namespace scbf {

/// Some members of a batch found no room for all of theirs. The others have all of theirs, and
/// these as many as fit: processed(i) says how many. processed() and what() are about the first
/// batch that is not all in, done() about all batches together.
class MembersFull : public FilterFull {
 public:
  MembersFull(const std::string& message, std::size_t batch, std::vector<std::uint64_t> processed,
              const InsertReport& done)
      : FilterFull(message, processed[batch], done),
        batch_(batch),
        processed_(std::move(processed)) {}
  using FilterFull::processed;
  /// The first batch that is not all in; 0 where there was only one.
  std::size_t batch() const noexcept { return batch_; }
  /// Keys of batch i that were dealt with, nulls included: go on from this one.
  /// Throws InvalidArgument past the last.
  std::uint64_t processed(std::size_t i) const;

 private:
  std::size_t batch_;
  std::vector<std::uint64_t> processed_;
};

/// Members are addressed as in FilterBank: by the number that add_member gave them, theirs until
/// they are removed. Wherever a number is asked for, InvalidArgument is thrown if no member has it,
/// and nothing is changed.
///
/// Whatever a function throws, rows, counters and the map of stages agree afterwards (unless memory
/// for one more column, half a kilobyte, is short just then), and what adds or replaces members has
/// changed nothing. Movable, not copyable.
class ScalableBank {
 public:
  /// A bank without members. `options` as in FilterBank, and throws what its constructor throws.
  explicit ScalableBank(const Growth& growth, const BankOptions& options = {});
  ScalableBank(ScalableBank&&) noexcept;
  ScalableBank& operator=(ScalableBank&&) noexcept;
  ~ScalableBank();

  const Growth& growth() const noexcept;
  std::uint64_t seed() const noexcept;
  const Backend& backend() const noexcept;
  /// Members there are.
  std::size_t size() const noexcept;
  /// One more than the largest number of a member so far; not all below it need be members.
  std::uint32_t slots() const noexcept;
  /// Members there is room for: bits of an answer. Rows of later stages are as long as the members
  /// need that have such a stage.
  std::uint32_t capacity() const noexcept;
  /// Of all stages.
  BankMemory memory() const noexcept;

  // ---- members --------------------------------------------------------------------------------

  /// Makes room for so many members, in the rows of the first stage; see FilterBank::reserve.
  void reserve(std::uint32_t members);

  /// An empty member: one stage. Returns the smallest number that is free.
  std::uint32_t add_member();
  /// A filter as a member, for example a loaded one: from now on the bank's, on the bank's backend.
  /// A mapped filter can be asked, not changed. Throws Incompatible, naming the difference, unless
  /// growth and seed are the bank's and every stage is one of this growth (merge may have brought
  /// others). Cost: one pass over counters and rows of its stages.
  std::uint32_t add_member(ScalableFilter filter, const BatchOptions& options = {});
  /// The same for several, in one pass over the rows of each stage. All or none are added. Returns
  /// their numbers.
  std::vector<std::uint32_t> add_members(std::vector<ScalableFilter> filters,
                                         const BatchOptions& options = {});
  /// Takes a member out and returns it, metadata included. Its later stages make room for others'.
  /// Cost: one pass over the rows of each of its stages.
  ScalableFilter remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Puts a filter in a member's place and returns the member. It is no longer marked "ask".
  /// Throws Incompatible. Cost as of remove_member and add_member.
  ScalableFilter replace_member(std::uint32_t member, ScalableFilter filter,
                                const BatchOptions& options = {});
  /// A copy, for its statistics or to save it: a bank as a whole has no file; save its members, and
  /// add what was loaded. Cost: one pass over its counters.
  ScalableFilter copy_member(std::uint32_t member) const;
  bool has_member(std::uint32_t member) const noexcept;

  /// Stages of a member: at least 1.
  std::size_t stages(std::uint32_t member) const;
  /// The counters of stage i, oldest first. Valid until the bank is changed. Throws InvalidArgument
  /// past the last.
  const Filter& stage(std::uint32_t member, std::size_t i) const;
  /// As ScalableFilter::fpr_bound.
  double fpr_bound(std::uint32_t member) const;
  /// Text that travels with a member that came with it: ScalableFilter::metadata.
  const std::string& metadata(std::uint32_t member) const;

  /// Marks a member that must be asked whatever its counters say; see FilterBank::ask_always.
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- changes --------------------------------------------------------------------------------

  /// As ScalableFilter::insert, and rows are kept. Throws FilterFull, which says what is in. When
  /// anything else is thrown while counters are changed (std::bad_alloc, or by an executor), some
  /// of the keys may be in.
  InsertReport insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options = {});
  /// As ScalableFilter::remove: verdicts[i] is a Removal; `verdicts` may be empty.
  ScalableRemoveReport remove(std::uint32_t member, const KeyBatch& keys,
                              std::span<std::uint8_t> verdicts = {},
                              const BatchOptions& options = {});
  /// Batches for several members at once, those of one member in order. Members advance together,
  /// in rounds of as many keys as surely go to one stage each: so rows are cheap (see FilterBank),
  /// and threads share members. Rounds: at most ⌈log2 counters⌉ + 2 for each stage that fills.
  /// Throws MembersFull. Temporary memory: as FilterBank's, and 150 bytes per batch.
  InsertReport insert(std::span<const MemberKeys> batches, const BatchOptions& options = {});
  /// Likewise; also of members with several stages, whose keys go in runs between those that
  /// several stages claim. Temporary memory: 40 bytes per key of at most 2^20 at a time.
  ScalableRemoveReport remove(std::span<const MemberKeys> batches,
                              const BatchOptions& options = {});

  /// Adds a filter to a member, as ScalableFilter::merge: stage by stage where a sum fits, else by
  /// further stages. All or nothing; the mark "ask" stays. Another member: merge(a,
  /// copy_member(b)). Throws Incompatible as that and as add_member do, ReadOnly for a mapped
  /// member. Cost: two copies of the member's counters, and one pass over the rows of its stages,
  /// old and new.
  void merge(std::uint32_t member, const ScalableFilter& other, const BatchOptions& options = {});
  /// Takes a filter out of a member, as ScalableFilter::subtract, likewise.
  SubtractReport subtract(std::uint32_t member, const ScalableFilter& other,
                          const BatchOptions& options = {});
  /// One empty stage again. Cost: one pass over the rows of each of its stages.
  void clear(std::uint32_t member, const BatchOptions& options = {});

  // ---- questions ------------------------------------------------------------------------------

  /// Bytes of one key's packed answer: capacity() / 8.
  std::size_t answer_bytes() const noexcept;
  /// As FilterBank::contains_bits: bit m of key i's answer_bytes() tells whether member m may hold
  /// it, in any of its stages. Cost: for each stage that some member has, k rows, as long as the
  /// members that have it need. Temporary memory: 170 KiB of each thread's stack.
  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options = {}) const;
  /// The same as lists, ascending and each member once; they replace what is in `lists`.
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options = {}) const;
  /// The members that may hold one key, ascending. For loops use batches.
  std::vector<std::uint32_t> find(std::uint64_t key) const;
  std::vector<std::uint32_t> find(std::string_view key) const;

 private:
  struct State;
  friend struct BankCheck;
  std::unique_ptr<State> state_;
};

}  // namespace scbf
