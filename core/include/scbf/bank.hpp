// SPDX-License-Identifier: Apache-2.0
// Bank: many filters that together answer one question: which of them may hold this key?
//
//   scbf::Bank servers(scbf::Growth::tightening(10'000, 0.01), {.capacity = 1000});
//   const std::uint32_t server = servers.add_member();
//   servers.insert(server, keys);
//   scbf::MemberLists where;
//   servers.find(queries, where);               // where.of(i): the members that may hold query i
//
// A member behaves exactly like a Filter of this growth and seed: same bytes, same verdicts.
// Besides the counters, a bank keeps a row of bits for each counter of a stage. The row has one bit
// per member, which is 1 if that member's counter is not zero. A key is hashed once, and located
// once for each shape of stage in the bank; the AND of its k rows is the answer, whatever the
// number of members. docs/bank.md describes how it works, what it costs and when it pays.
//
// Thread safety: const member functions may run concurrently; the others need the bank to
// themselves. Batches run in parallel inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/bank_base.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// Keys for one member, in a call that changes several.
struct MemberKeys {
  std::uint32_t member;
  KeyBatch keys;
};

/// How a bank's memory is divided, in bytes. Rows take a quarter of the counters' memory when every
/// number below the capacity has a member (in `ranked`, about a half to seven eighths).
struct BankMemory {
  std::uint64_t counters = 0;  ///< of all members
  std::uint64_t rows = 0;
};

/// Some members had no room for all their keys, or no memory for more room. Their keys were
/// inserted as far as they fit, those of all other members completely; processed(i) says how far
/// batch i got. processed() and what() describe the first batch that was not completely inserted,
/// done() all batches together. Keys that were not inserted have changed no counter.
class MembersFull : public FilterFull {
 public:
  MembersFull(const Error& message, std::size_t batch, std::vector<std::uint64_t> processed,
              const InsertReport& done)
      : FilterFull(message, processed[batch], done),
        batch_(batch),
        processed_(std::move(processed)) {}
  using FilterFull::processed;
  /// The first batch that was not completely inserted; 0 if there was only one batch.
  std::size_t batch() const noexcept { return batch_; }
  /// How many keys of batch i were processed, nulls included; continue with the key at this index.
  /// Throws InvalidArgument if there is no batch i.
  std::uint64_t processed(std::size_t i) const;

 private:
  std::size_t batch_;
  std::vector<std::uint64_t> processed_;
};

/// A bank of filters with counters, which can change.
///
/// Whatever a function throws, rows, counters and the map of stages agree afterwards. Functions
/// that add or replace members have then changed nothing, and the filters that they were given keep
/// their keys; one on a device may have been moved to the host. Batches throw std::bad_alloc only
/// before they change anything, except that empty stages may have been added; once some keys are
/// in, the exception is MembersFull. If memory is short, they go member by member and key by key
/// instead. An executor that throws costs speed, not keys (see Executor).
class Bank : public BankBase {
 public:
  /// Makes a bank without members. Throws BackendUnavailable; InvalidArgument if the backend keeps
  /// counters on a device or the capacity exceeds kMaxBankMembers; std::bad_alloc.
  explicit Bank(const Growth& growth, const BankOptions& options = {});
  /// Growth::one(geometry): each member is a single stage that is never full.
  explicit Bank(const Geometry& geometry, const BankOptions& options = {})
      : Bank(Growth::one(geometry), options) {}

  /// Memory of all stages.
  BankMemory memory() const;

  // ---- members --------------------------------------------------------------------------------

  /// Adds an empty member, of one stage. Returns its number, the smallest free one. If the bank is
  /// full, its capacity grows by half (see reserve).
  std::uint32_t add_member(const BatchOptions& options = {});
  /// Adds a filter, for example a loaded one, as a member. It then belongs to the bank and uses the
  /// bank's backend. A mapped filter can be queried but not changed, and what it maps must outlive
  /// the member. Throws Incompatible, naming the difference, unless growth and seed are the bank's
  /// and every stage belongs to this growth (merge may have added others). Cost: one pass over
  /// counters and rows of its stages.
  std::uint32_t add_member(Filter&& filter, const BatchOptions& options = {});
  std::uint32_t add_member(const Filter& filter, const BatchOptions& options = {});  // a copy
  /// The same for several filters, in one pass over the rows of each stage. Adds all or none.
  /// Returns their numbers.
  std::vector<std::uint32_t> add_members(std::vector<Filter>&& filters,
                                         const BatchOptions& options = {});
  std::vector<std::uint32_t> add_members(const std::vector<Filter>& filters,  // copies
                                         const BatchOptions& options = {});
  /// Takes a member out and returns it, metadata included. The slots of its later stages become
  /// free. Cost: one pass over the rows of each of its stages.
  Filter remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Replaces a member by a filter and returns the old member. The mark set by ask_always is
  /// cleared. Throws Incompatible. Cost: that of remove_member and add_member together.
  Filter replace_member(std::uint32_t member, Filter&& filter, const BatchOptions& options = {});
  Filter replace_member(std::uint32_t member, const Filter& filter,
                        const BatchOptions& options = {});
  /// Copies a member, for its statistics or to save it alone. Cost: one pass over its counters.
  Filter copy_member(std::uint32_t member) const;
  /// Stage i, oldest first. Valid until the bank is changed. Throws InvalidArgument past the last.
  StageView stage(std::uint32_t member, std::size_t i) const;

  // ---- changes --------------------------------------------------------------------------------

  /// As Filter::insert. Updates the row of each counter that leaves 0, or rebuilds the member's
  /// columns where that is cheaper. Throws MembersFull, which says which keys were inserted.
  InsertReport insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options = {});
  /// As Filter::remove, options.most_absent included: verdicts[i] is a Removal; `verdicts` may be
  /// empty.
  RemoveReport remove(std::uint32_t member, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts = {}, const BatchOptions& options = {});
  /// Inserts batches into several members at once; batches of one member go in order. Members
  /// advance together in rounds. In a round, each member inserts as many keys as are sure to go to
  /// one of its stages. One cache line of rows serves 512 members, and threads share the members.
  /// Rounds: at most ⌈log2 counters⌉ + 2 for each stage that fills. Throws MembersFull. Temporary
  /// memory: for each thread, 9 bytes per key for at most 2^22 keys at a time, and 150 bytes per
  /// batch.
  InsertReport insert(std::span<const MemberKeys> batches, const BatchOptions& options = {});
  /// The same for removal. In members with several stages, keys are removed in runs, and a key that
  /// several stages claim ends a run. Throws InvalidArgument if options.most_absent is set, which
  /// works for one member only. Temporary memory: 40 bytes per key for at most 2^20 keys at a time.
  RemoveReport remove(std::span<const MemberKeys> batches, const BatchOptions& options = {});

  /// Merges a filter into a member, as Filter::merge: stage by stage where the sum fits, otherwise
  /// as further stages. All or nothing; the mark set by ask_always stays. To merge two members:
  /// merge(a, copy_member(b)). Throws Incompatible as Filter::merge and add_member do, ReadOnly for
  /// a mapped member. Cost: one pass over the rows of the member's stages, old and new; with a
  /// growth of several stages also two copies of its counters.
  void merge(std::uint32_t member, const Filter& other, const BatchOptions& options = {});
  /// Subtracts a filter from a member, as Filter::subtract; otherwise as merge.
  SubtractReport subtract(std::uint32_t member, const Filter& other,
                          const BatchOptions& options = {});
  /// Resets a member to one empty stage. Cost: one pass over the rows of each of its stages.
  void clear(std::uint32_t member, const BatchOptions& options = {});

  // ---- the whole: docs/file_format.md ---------------------------------------------------------

  /// Compares growth, seed, and each member's number, mark and stages, so that equal banks name the
  /// same members for every key. As with filters, metadata and numbers of keys may differ; so may
  /// backend and capacity. Cost: one pass over the counters of both, up to the first difference.
  friend bool operator==(const Bank& a, const Bank& b);

  /// Writes all members, with their numbers, marks and metadata, into one file, atomically as
  /// Filter::save. The rows are not in it. Throws IoError, or CorruptFile if the words of a mapped
  /// member cannot be those of a filter. Cost: two passes over all counters. Temporary memory: some
  /// 500 bytes for each stage, the metadata, and 1/131072 of the counters.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Reads and verifies everything, and builds the rows. A larger options.capacity makes room for
  /// more members; options.seed is ignored, here and in read. Throws IoError, CorruptFile, or
  /// WrongKind (files.hpp) if the file holds a filter or a BloomBank; otherwise as the constructor.
  /// Cost: that of reading, and of add_members.
  static Bank load(const std::filesystem::path& path, const BankOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;
  /// Reads the bytes that write wrote and verifies everything. Throws as load.
  static Bank read(const ByteSource& source, const BankOptions& options = {});

 private:
  friend struct BankAccess;  // not installed
  explicit Bank(std::unique_ptr<BankState> state) noexcept;
};

}  // namespace scbf
