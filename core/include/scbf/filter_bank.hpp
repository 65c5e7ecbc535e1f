// SPDX-License-Identifier: Apache-2.0
// FilterBank: many filters of one geometry behind one question: which of them may hold this key?
//
//   scbf::FilterBank regions(geometry, {.capacity = 1000});
//   const std::uint32_t region = regions.add_member();
//   regions.insert(region, keys);
//   scbf::MemberLists where;
//   regions.find(queries, where);               // where.of(i): the members that may hold query i
//
// Beside the counters of its members a bank keeps a row of bits for each counter of the geometry,
// one bit per member: is that member's counter not zero? A key is hashed and located once, and the
// AND of its k rows is the answer, whatever the number of members. docs/bank.md says how it works,
// what it costs and when it pays.
//
// Thread safety: const member functions may run at once; the others need the bank to themselves.
// Batches parallelise inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
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
/// place of the capacity has a member.
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

/// Members are addressed by the number that add_member gave them. It stays theirs until they are
/// removed; then the next member may get it. Wherever a number is asked for, InvalidArgument is
/// thrown if no member has it, and nothing is changed.
///
/// Whatever a function throws, rows and counters agree afterwards, unless memory for one more
/// column (half a kilobyte) is short just then. Movable, not copyable.
class FilterBank {
 public:
  /// A bank without members. Throws BackendUnavailable; InvalidArgument when the backend keeps
  /// counters on a device or the capacity passes kMaxBankMembers; std::bad_alloc.
  explicit FilterBank(const Geometry& geometry, const BankOptions& options = {});
  FilterBank(FilterBank&&) noexcept;
  FilterBank& operator=(FilterBank&&) noexcept;
  ~FilterBank();

  const Geometry& geometry() const noexcept;
  std::uint64_t seed() const noexcept;
  const Backend& backend() const noexcept;
  /// Members there are.
  std::size_t size() const noexcept;
  /// One more than the largest number of a member so far; not all below it need be members.
  std::uint32_t slots() const noexcept;
  /// Members there is room for: bits of a row.
  std::uint32_t capacity() const noexcept;
  BankMemory memory() const noexcept;

  // ---- members --------------------------------------------------------------------------------

  /// Makes room for so many members. Rows are 1, 2, 4 … 64 bytes, then a multiple of 32. Cost: a
  /// copy of all rows where they become longer, with both in memory meanwhile.
  void reserve(std::uint32_t members);

  /// An empty member; returns the smallest number that is free. Beyond the capacity the bank grows
  /// by half (see reserve).
  std::uint32_t add_member();
  /// A filter as a member, for example a loaded one: from now on the bank's, on the bank's backend.
  /// A mapped filter can be asked, not changed. Throws Incompatible, naming the difference, unless
  /// geometry and seed are the bank's. Cost: one pass over counters and rows.
  std::uint32_t add_member(Filter filter, const BatchOptions& options = {});
  /// The same for several, in one pass over the rows. All or none are added. Returns their numbers.
  std::vector<std::uint32_t> add_members(std::vector<Filter> filters,
                                         const BatchOptions& options = {});
  /// Takes a member out and returns it. Cost: one pass over the rows.
  Filter remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Puts a filter in a member's place and returns the member. It is no longer marked "ask".
  /// Throws Incompatible. Cost as of add_member.
  Filter replace_member(std::uint32_t member, Filter filter, const BatchOptions& options = {});
  bool has_member(std::uint32_t member) const noexcept;
  /// The counters of one member, for its statistics, its counts, or to save it: a bank as a whole
  /// has no file; save its members, and add what was loaded.
  const Filter& member(std::uint32_t member) const;

  /// Marks a member that must be asked whatever its counters say, because it is unknown, stale or
  /// being rebuilt: it is in every answer (but to null keys) until the mark is taken away.
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- changes --------------------------------------------------------------------------------

  /// As Filter::insert. Rows are touched where a counter leaves 0, or rebuilt where that is
  /// cheaper.
  InsertReport insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options = {});
  /// As Filter::remove, likewise.
  RemoveReport remove(std::uint32_t member, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts = {}, const BatchOptions& options = {});
  /// Batches for several members at once, those of one member in order; threads share them. Many
  /// members per call make rows cheap: a cache line of them serves 512 members.
  InsertReport insert(std::span<const MemberKeys> batches, const BatchOptions& options = {});
  RemoveReport remove(std::span<const MemberKeys> batches, const BatchOptions& options = {});

  /// Adds a filter's counters to a member's; the filter may be a member of this bank. As
  /// Filter::merge, and one pass over the rows.
  void merge(std::uint32_t member, const Filter& other, const BatchOptions& options = {});
  /// As Filter::subtract, likewise.
  SubtractReport subtract(std::uint32_t member, const Filter& other,
                          const BatchOptions& options = {});
  /// Empties a member. Cost: one pass over the rows.
  void clear(std::uint32_t member, const BatchOptions& options = {});

  // ---- questions ------------------------------------------------------------------------------

  /// Bytes of one key's packed answer: those of a row, capacity() / 8.
  std::size_t answer_bytes() const noexcept;
  /// Bit m (least significant first) of the answer_bytes() from i · answer_bytes() on tells whether
  /// member m may hold keys[i]; bits that are no member's are 0, null keys have none.
  /// Requires bits.size() == keys.size() · answer_bytes(), else InvalidArgument.
  /// Cost: k rows of answer_bytes() per key, read.
  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options = {}) const;
  /// The same as lists, which replace what is in `lists` (its memory is used again).
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options = {}) const;
  /// The members that may hold one key, ascending. For loops use batches.
  std::vector<std::uint32_t> find(std::uint64_t key) const;
  std::vector<std::uint32_t> find(std::string_view key) const;

 private:
  struct State;
  friend struct BankCheck;
  friend class ScalableBank;
  std::unique_ptr<State> state_;
};

}  // namespace scbf
