// SPDX-License-Identifier: Apache-2.0
// Bank: many filters behind one question: which of them may hold this key?
//
//   scbf::Bank servers(scbf::Growth::tightening(10'000, 0.01), {.capacity = 1000});
//   const std::uint32_t server = servers.add_member();
//   servers.insert(server, keys);
//   scbf::MemberLists where;
//   servers.find(queries, where);               // where.of(i): the members that may hold query i
//
// A member is, byte for byte and verdict for verdict, what a Filter of this growth and seed would
// be alone. Beside the counters a bank keeps a row of bits for each counter of a stage, one bit per
// member: is that member's counter not zero? A key is hashed and located once for each stage that
// some member has, and the AND of its k rows is the answer, whatever the number of members.
// docs/bank.md says how it works, what it costs and when it pays.
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

#include "scbf/filter.hpp"

namespace scbf {

/// Most members of a bank.
inline constexpr std::uint32_t kMaxBankMembers = 1u << 20;

struct BankOptions {
  std::uint64_t seed = 0;  ///< of XXH3-64, for all members
  /// See find_backend; must be one that keeps counters on the host.
  std::string_view backend = "auto";
  std::uint32_t capacity = 8;  ///< members to make room for; a bank grows beyond, see reserve
};

/// Keys for one member, in a batch that spans several.
struct MemberKeys {
  std::uint32_t member;
  KeyBatch keys;
};

/// What of a bank's memory goes where, in bytes. Rows are a quarter of the counters when every
/// number within the capacity has a member.
struct BankMemory {
  std::uint64_t counters = 0;  ///< of all members
  std::uint64_t rows = 0;
};

struct BankReport {
  std::uint64_t nulls = 0;  ///< keys that are null: no member may hold them
};

/// For each key the members that may hold it, ascending.
struct MemberLists {
  std::vector<std::uint64_t> offsets;  ///< keys + 1; those of key i begin at offsets[i]
  std::vector<std::uint32_t> members;

  std::size_t size() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::span<const std::uint32_t> of(std::size_t key) const noexcept {
    return std::span(members).subspan(offsets[key], offsets[key + 1] - offsets[key]);
  }
};

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

struct BankState;  // internal: what a bank is made of

/// Members are addressed by the number that add_member gave them. It stays theirs until they are
/// removed; then the next member may get it. Wherever a number is asked for, InvalidArgument is
/// thrown if no member has it, and nothing is changed.
///
/// Whatever a function throws, rows, counters and the map of stages agree afterwards (unless memory
/// for one more column, half a kilobyte, is short just then), and what adds or replaces members has
/// changed nothing. Movable, not copyable.
class Bank {
 public:
  /// A bank without members. Throws BackendUnavailable; InvalidArgument when the backend keeps
  /// counters on a device or the capacity passes kMaxBankMembers; std::bad_alloc.
  explicit Bank(const Growth& growth, const BankOptions& options = {});
  Bank(Bank&&) noexcept;
  Bank& operator=(Bank&&) noexcept;
  ~Bank();

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

  /// Makes room for so many members, in the rows of the first stage. Rows are 1, 2, 4 … 64 bytes,
  /// then a multiple of 32. Cost: a copy of all rows where they become longer, with both in memory
  /// meanwhile.
  void reserve(std::uint32_t members);

  /// An empty member: one stage. Returns the smallest number that is free. Beyond the capacity the
  /// bank grows by half (see reserve).
  std::uint32_t add_member();
  /// A filter as a member, for example a loaded one: from now on the bank's, on the bank's backend.
  /// A mapped filter can be asked, not changed. Throws Incompatible, naming the difference, unless
  /// growth and seed are the bank's and every stage is one of this growth (merge may have brought
  /// others). Cost: one pass over counters and rows of its stages.
  std::uint32_t add_member(Filter filter, const BatchOptions& options = {});
  /// The same for several, in one pass over the rows of each stage. All or none are added. Returns
  /// their numbers.
  std::vector<std::uint32_t> add_members(std::vector<Filter> filters,
                                         const BatchOptions& options = {});
  /// Takes a member out and returns it, metadata included. Its later stages make room for others'.
  /// Cost: one pass over the rows of each of its stages.
  Filter remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Puts a filter in a member's place and returns the member. It is no longer marked "ask".
  /// Throws Incompatible. Cost as of remove_member and add_member.
  Filter replace_member(std::uint32_t member, Filter filter, const BatchOptions& options = {});
  /// A copy, for its statistics or to save it: a bank as a whole has no file; save its members, and
  /// add what was loaded. Cost: one pass over its counters.
  Filter copy_member(std::uint32_t member) const;
  bool has_member(std::uint32_t member) const noexcept;

  /// Stages of a member: at least 1.
  std::size_t stages(std::uint32_t member) const;
  /// Stage i, oldest first. Valid until the bank is changed. Throws InvalidArgument past the last.
  StageView stage(std::uint32_t member, std::size_t i) const;
  /// As Filter::fpr_bound.
  double fpr_bound(std::uint32_t member) const;
  /// Text that travels with a member that came with it: Filter::metadata.
  const std::string& metadata(std::uint32_t member) const;

  /// Marks a member that must be asked whatever its counters say, because it is unknown, stale or
  /// being rebuilt: it is in every answer (but to null keys) until the mark is taken away.
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- changes --------------------------------------------------------------------------------

  /// As Filter::insert; rows are touched where a counter leaves 0, or rebuilt where that is
  /// cheaper. Throws FilterFull, which says what is in. When anything else is thrown while counters
  /// are changed (std::bad_alloc, or by an executor), some of the keys may be in.
  InsertReport insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options = {});
  /// As Filter::remove: verdicts[i] is a Removal; `verdicts` may be empty.
  RemoveReport remove(std::uint32_t member, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts = {}, const BatchOptions& options = {});
  /// Batches for several members at once, those of one member in order. Members advance together,
  /// in rounds of as many keys as surely go to one stage each: so rows are cheap (a cache
  /// line of them serves 512 members), and threads share members. Rounds: at most ⌈log2 counters⌉ +
  /// 2 for each stage that fills. Throws MembersFull. Temporary memory: for each thread 9 bytes per
  /// key of at most 2^22 at a time, and 150 bytes per batch.
  InsertReport insert(std::span<const MemberKeys> batches, const BatchOptions& options = {});
  /// Likewise; also of members with several stages, whose keys go in runs between those that
  /// several stages claim. Temporary memory: 40 bytes per key of at most 2^20 at a time.
  RemoveReport remove(std::span<const MemberKeys> batches, const BatchOptions& options = {});

  /// Adds a filter to a member, as Filter::merge: stage by stage where a sum fits, else by
  /// further stages. All or nothing; the mark "ask" stays. Another member: merge(a,
  /// copy_member(b)). Throws Incompatible as that and as add_member do, ReadOnly for a mapped
  /// member. Cost: one pass over the rows of the member's stages, old and new; with a growth of
  /// several stages two copies of its counters.
  void merge(std::uint32_t member, const Filter& other, const BatchOptions& options = {});
  /// Takes a filter out of a member, as Filter::subtract, likewise.
  SubtractReport subtract(std::uint32_t member, const Filter& other,
                          const BatchOptions& options = {});
  /// One empty stage again. Cost: one pass over the rows of each of its stages.
  void clear(std::uint32_t member, const BatchOptions& options = {});

  // ---- questions ------------------------------------------------------------------------------

  /// Bytes of one key's packed answer: capacity() / 8.
  std::size_t answer_bytes() const noexcept;
  /// Bit m (least significant first) of the answer_bytes() from i · answer_bytes() on tells whether
  /// member m may hold keys[i], in any of its stages; bits that are no member's are 0, null keys
  /// have none. Requires bits.size() == keys.size() · answer_bytes(), else InvalidArgument. Cost:
  /// for each stage that some member has, k rows, as long as the members that have it need.
  /// Temporary memory: 170 KiB of each thread's stack.
  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options = {}) const;
  /// The same as lists, ascending and each member once; they replace what is in `lists`.
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options = {}) const;
  /// The members that may hold one key, ascending. For loops use batches.
  std::vector<std::uint32_t> find(std::uint64_t key) const;
  std::vector<std::uint32_t> find(std::string_view key) const;

 private:
  friend struct BankCheck;  // for tests
  std::unique_ptr<BankState> state_;
};

}  // namespace scbf
