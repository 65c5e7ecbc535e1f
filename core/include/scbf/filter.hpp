// SPDX-License-Identifier: Apache-2.0
// Filter: a split counting Bloom filter, and its batch operations. Most of them are FilterBase's.
//
//   scbf::Filter filter(1'000'000, 0.01);                        // for a million keys, at 1 %
//   filter.insert(keys);                        // std::vector<std::uint64_t>, strings, Arrow, …
//   std::vector<std::uint8_t> hit(queries.size());
//   filter.contains(queries, hit);
//
//   scbf::Filter grows(scbf::Growth::tightening(1'000'000, 0.01));  // adds stages, keeps the rate
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "scbf/filter_base.hpp"
#include "scbf/filter_ref.hpp"

namespace scbf {

class BulkRemover;

/// A split counting Bloom filter. Space freed by removal is used again: keys go to the oldest stage
/// that is not full.
///
/// Equality compares growth, seed, shapes and counters, but neither the numbers of keys inserted
/// and removed nor the metadata.
class Filter : public FilterBase {
 public:
  /// Makes one empty stage. Throws BackendUnavailable, or std::bad_alloc (on a device: an Error) if
  /// there is too little memory.
  explicit Filter(const Growth& growth, const FilterOptions& options = {});
  /// Growth::one(geometry): a single stage that is never full.
  explicit Filter(const Geometry& geometry, const FilterOptions& options = {});
  /// A single stage for `capacity` keys at false-positive rate `fpr`, of the geometry that plan()
  /// chooses. Throws InvalidArgument as plan() does.
  Filter(std::uint64_t capacity, double fpr, const FilterOptions& options = {});

  /// Switches to another backend. If that backend uses another memory, the counters are moved
  /// there, which costs one pass over them. A mapped filter stays mapped on the host; moved to a
  /// device it becomes an ordinary filter, which can be changed and no longer depends on the file.
  /// Returns this filter. Throws BackendUnavailable, or what the backend throws if there is too
  /// little memory; then nothing has changed.
  Filter& to(std::string_view backend);

  // ---- batches --------------------------------------------------------------------------------

  /// Removes keys one after another in batch order. A stage claims a key if the key's k counters in
  /// it are all non-zero at the key's turn. If one stage claims the key, each of these counters is
  /// lowered by 1 (a 15 stays), unless they are in a stuck block of `ranked`, which keeps the key.
  /// If no stage does, nothing is changed. If several do, nothing is changed either: one of them
  /// may claim it by a false positive, and removing the key there would damage other keys.
  /// verdicts[i] is a Removal; null keys are `absent`. `verdicts` may be empty; otherwise
  /// InvalidArgument is thrown unless verdicts.size() == keys.size(). Cost: that of contains and of
  /// insert, and of one more contains where blocks are stuck. It is less if `verdicts` is empty,
  /// the path is partitioned, and the filter is one stage of `split_block` with one cache line per
  /// key. A filter of several stages uses one thread for it. Throws RemovalStopped if a device runs
  /// out of memory in the middle of the batch.
  ///
  /// With options.most_absent = a, all or nothing: if more than a keys would be absent, nothing is
  /// changed and KeysAbsent is thrown; `verdicts` then says what would have become of each key, for
  /// example which are absent. Each key counts as it would at its turn: if a key is in the filter
  /// once and in the batch twice, the second is absent. Null, ambiguous and kept keys do not count
  /// as absent. RemovalStopped, if thrown, has processed() == 0. An absent key may look present, at
  /// the filter's rate P: of n absent keys, P·n are removed, which damages others. Cost: if it
  /// removes, as without the limit; if not, an insertion more. Temporary memory: with one stage, a
  /// byte and a bit per key of the batch; with several, ten bytes.
  RemoveReport remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts = {},
                      const BatchOptions& options = {});

  /// One removal in many batches; see BulkRemover.
  BulkRemover bulk_remove(const BatchOptions& options = {});

  /// out[i] = the smallest of the k counters of keys[i], summed over the stages, at most 15: an
  /// upper bound on how often the key is in the filter. 15 means 15 or more or, in layout `ranked`,
  /// unknown, for the keys of stuck blocks too (geometry.hpp). 0 for null keys.
  /// Requires out.size() == keys.size(), else InvalidArgument. Cost: in each stage, that of
  /// contains for a present key.
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options = {}) const;

  // ---- one key --------------------------------------------------------------------------------

  Removal remove(std::uint64_t key);
  Removal remove(std::string_view key);
  unsigned count(std::uint64_t key) const;
  unsigned count(std::string_view key) const;
  template <detail::NotAKey T>
  Removal remove(T) = delete;
  Removal remove(detail::Literals) = delete;
  template <detail::NotAKey T>
  unsigned count(T) const = delete;
  unsigned count(detail::Literals) const = delete;

  /// A view of a filter of one stage on the host, for loops with one key per call. On a Zen 5 it
  /// takes an eighth to a fifth less time than the functions above, in `ranked` up to an eighth
  /// (docs/performance.md, "Small batches, and one key a call"); and it can prefetch. It stays
  /// valid through lookups, insertions, removals and a move of the filter, until the filter is
  /// merged, subtracted from, cleared, assigned to, moved to another backend or destroyed. Any
  /// number of threads may look up through views while one thread inserts and removes through one:
  /// a key that is in the filter throughout is found throughout. Throws InvalidArgument if the
  /// filter grows, and NotOnHost if it is on a device; the FilterRef also throws ReadOnly if the
  /// filter is mapped.
  FilterRef ref();
  ConstFilterRef ref() const;

  // ---- whole filters --------------------------------------------------------------------------

  /// Adds the other filter's counters, saturating. With Growth::one both filters need equal
  /// geometry. Filters that grow do not: each stage of the other is added to the first stage of
  /// equal shape where the sum is not too full; if there is none, it becomes a further stage of
  /// this filter and adds its share to the rate. Throws Incompatible, changing nothing, if the
  /// seeds differ, if only one of the two grows, or if there would be more than
  /// growth().most_stages(). Temporary memory: a copy of the other's counters if they are in
  /// another memory; for filters that grow, a copy of this filter.
  void merge(const Filter& other, const BatchOptions& options = {});
  /// Subtracts the other filter's counters: the inverse of merge where nothing is saturated. For
  /// filters that grow, each stage of the other is subtracted from the one stage that contains it.
  /// Throws Incompatible, changing nothing, if a counter would fall below zero (the other filter is
  /// then not contained in this one), or if several stages that are not equal contain the same
  /// stage.
  SubtractReport subtract(const Filter& other, const BatchOptions& options = {});
  friend bool operator==(const Filter& a, const Filter& b);

  /// Replaces all counters and the numbers of keys inserted and removed, for example by those of a
  /// filter that was moved by other means. Geometry and seed must be this filter's. Throws
  /// InvalidArgument, changing nothing, unless growth() is Growth::one, words.size() ==
  /// geometry().words(), the padding after each slice is zero, and, in `ranked`, the words are ones
  /// that a filter can have. Throws ReadOnly if it is mapped.
  void assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
              std::uint64_t keys_removed);

  // ---- files: docs/file_format.md -------------------------------------------------------------

  /// Reads and verifies everything. Throws IoError, CorruptFile, or WrongKind (files.hpp) unless
  /// the file holds a filter of counters. FilterOptions::seed is ignored, here and in map and read:
  /// the seed is in the file.
  static Filter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// Maps the file for read-only queries. Verifies the headers and the padding (one page for each
  /// slice of `split`), but not the counters (use verify_file for these); pages are read on demand.
  /// A later save under this name does not change the filter, but the file must not be truncated or
  /// written over. With a backend that has its own memory this is the same as load. Throws as load;
  /// also IoError, without an error number, if the file is compressed.
  static Filter map(const std::filesystem::path& path, const FilterOptions& options = {});
  /// The same for the bytes of a file that are in memory already, for example in shared memory, a
  /// page of a cache or a part of a larger file: the counters stay there. The bytes must outlive
  /// the filter, though not its copies, and not change meanwhile. Throws InvalidArgument unless
  /// their address is a multiple of 64.
  static Filter map(std::span<const std::byte> bytes, const FilterOptions& options = {});
  /// Reads the bytes that write wrote and verifies everything. Throws CorruptFile or WrongKind.
  static Filter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  friend struct FilterAccess;
  explicit Filter(std::unique_ptr<FilterState> state) noexcept;
};

/// One removal in many batches, each of any size: the fast way to take keys that come in small
/// batches out of a filter that outgrows the cache.
///
///   scbf::BulkRemover bulk = filter.bulk_remove();
///   while (read(batch)) bulk.remove(batch);
///   const scbf::RemoveReport report = bulk.finish();
///
/// The result is that of one remove of all keys at once, byte for byte. Keys are partitioned as
/// they come, and removed when BatchOptions::scratch_bytes are full; where a key has several cache
/// lines, and in `ranked`, their hashes are gathered and removed a window at a time. On a device,
/// and from a filter of several stages, keys are removed batch by batch.
///
/// From the first remove to finish(), any of the keys given so far may have had their turn, only
/// this remover may use the filter, and its memory is in use. Every key that remove has accepted
/// has had its turn after finish(), and after the destructor too, whatever was thrown. What must
/// outlive it, and what may be done to the filter, is as for BulkInserter. Movable (errors.hpp:
/// "Moving").
class BulkRemover {
 public:
  /// As Filter::bulk_remove. Throws ReadOnly; InvalidArgument if options.most_absent is set: a
  /// limit needs all keys at once; or std::bad_alloc before anything is changed.
  explicit BulkRemover(Filter& filter, const BatchOptions& options = {});
  BulkRemover(BulkRemover&&) noexcept;
  BulkRemover& operator=(BulkRemover&&) noexcept;
  ~BulkRemover();

  /// Accepts a batch, which need not outlive the call. What became of its keys is known at
  /// finish(). Throws std::bad_alloc before it accepts any of them. Where it removes batch by
  /// batch, it throws as Filter::remove: RemovalStopped says how many keys of this batch have had
  /// their turn; if a device failed otherwise, any may have, and finish() does not count them.
  ///
  /// Cost: one to three nanoseconds per key, and now and then a pass over the filter. Temporary
  /// memory: options.scratch_bytes; by default as much as BulkInserter takes. Where hashes are
  /// gathered first it is a sixth of the filter's size, from 1 MiB to 1 GiB, and in addition what
  /// Filter::remove takes.
  void remove(const KeyBatch& keys);
  /// Removes what has not had its turn yet. The filter can then be used and changed, and more may
  /// be removed later. Returns what became of all keys so far.
  RemoveReport finish();

 private:
  struct State;
  detail::Owned<State> state_;
};

}  // namespace scbf
