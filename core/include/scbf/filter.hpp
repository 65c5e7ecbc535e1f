// SPDX-License-Identifier: Apache-2.0
// Filter: a split counting Bloom filter, and its batch operations. What these report is in
// reports.hpp, what files are in files.hpp.
//
//   scbf::Filter filter(1'000'000, 0.01);                        // for a million keys, at 1 %
//   filter.insert(keys);                        // std::vector<std::uint64_t>, strings, Arrow, …
//   std::vector<std::uint8_t> hit(queries.size());
//   filter.contains(queries, hit);
//
//   scbf::Filter grows(scbf::Growth::tightening(1'000'000, 0.01));  // adds stages, keeps the rate
//
// Thread safety: const member functions may run concurrently; the others need the filter to
// themselves. Batch operations run in parallel inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "scbf/backend.hpp"
#include "scbf/detail/not_a_key.hpp"
#include "scbf/detail/owned.hpp"
#include "scbf/errors.hpp"
#include "scbf/files.hpp"
#include "scbf/filter_ref.hpp"
#include "scbf/geometry.hpp"
#include "scbf/growth.hpp"
#include "scbf/key_batch.hpp"
#include "scbf/reports.hpp"

namespace scbf {

struct FilterOptions {
  std::uint64_t seed = 0;             ///< of XXH3-64; filters combine only with equal seeds
  std::string_view backend = "auto";  ///< see find_backend
};

struct Stage;        // internal: what a filter is made of
struct FilterState;  // likewise

/// A read-only view of one stage of a filter: a small value, valid until the filter is changed or
/// moved.
class StageView {
 public:
  explicit StageView(const Stage& stage) noexcept : stage_(&stage) {}

  const StageShape& shape() const noexcept;
  const Geometry& geometry() const noexcept { return shape().geometry; }
  std::uint64_t keys_inserted() const noexcept;
  std::uint64_t keys_removed() const noexcept;
  /// The exact number of counters that are not 0. Cost: none after insert, remove and clear on
  /// backends that count as they go (all of the library's); otherwise one pass over the counters at
  /// the first call.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  /// The share of geometry().counters() that is not 0. Cost: as nonzero().
  double fill(const BatchOptions& options = {}) const;
  /// The false-positive rate of these very counters: the share of all hashes that they claim,
  /// assuming that the hashes of `split`'s slices, and those of groups, are independent.
  /// predicted_fpr at the same fill is the mean over all filters; where blocks are few, some full
  /// ones may make the rate a multiple of it. Cost: one pass over the counters, on the calling
  /// thread; on a device also a copy of them.
  double exact_fpr() const;
  /// The counters as 64-bit words, in place; Geometry describes the layout. Throws NotOnHost if
  /// they are in the memory of a device.
  std::span<const std::uint64_t> words() const;
  /// Copies out.size() words, from word `first` on, from host or device. Throws InvalidArgument
  /// unless first + out.size() <= geometry().words().
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;
  /// Compares shape, seed and counters, on host or device.
  friend bool operator==(const StageView& a, const StageView& b);

 private:
  const Stage* stage_;
};

class BloomFilter;  // bloom_filter.hpp
class BulkInserter;

/// A split counting Bloom filter of one stage, or of as many as its growth adds. Keys go to the
/// oldest stage that is not full, so space freed by removal is used again. All stages have the same
/// seed, so a key is hashed once.
///
/// Copyable (deep), movable (errors.hpp: "Moving"). Equality compares growth, seed, shapes and
/// counters, but neither the numbers of keys inserted and removed nor the metadata. The counters
/// live in the memory of the backend (Backend::memory); filters in different memories can be
/// compared and combined.
class Filter {
 public:
  /// Makes one empty stage. Throws BackendUnavailable, or std::bad_alloc (on a device: an Error) if
  /// there is too little memory.
  explicit Filter(const Growth& growth, const FilterOptions& options = {});
  /// Growth::one(geometry): a single stage that is never full.
  explicit Filter(const Geometry& geometry, const FilterOptions& options = {});
  /// A single stage for `capacity` keys at false-positive rate `fpr`, of the geometry that plan()
  /// chooses. Throws InvalidArgument as plan() does.
  Filter(std::uint64_t capacity, double fpr, const FilterOptions& options = {});
  Filter(const Filter&);
  Filter& operator=(const Filter&);
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  ~Filter();

  const Growth& growth() const;
  std::uint64_t seed() const;
  const Backend& backend() const;
  /// Switches to another backend. If that backend uses another memory, the counters are moved
  /// there, which costs one pass over them. A mapped filter stays mapped on the host; moved to a
  /// device it becomes an ordinary filter, which can be changed and no longer depends on the file.
  /// Returns this filter. Throws BackendUnavailable, or what the backend throws if there is too
  /// little memory; then nothing has changed.
  Filter& to(std::string_view backend);
  /// True for a mapped filter; operations that change counters throw ReadOnly.
  bool read_only() const;

  /// How many stages there are; at least 1.
  std::size_t stages() const;
  /// Stage i, oldest first. Throws InvalidArgument past the last.
  StageView stage(std::size_t i) const;
  /// Geometry of the first stage; with Growth::one, of the filter.
  const Geometry& geometry() const;
  std::uint64_t bytes() const;  ///< counters of all stages
  std::uint64_t keys_inserted() const;
  std::uint64_t keys_removed() const;
  /// 1 − Π(1 − P_i) over the existing stages, each taken as full. At most growth().fpr(), unless
  /// merge appended stages. 1 with Growth::one, which does not limit the number of keys.
  double fpr_bound() const;

  // ---- batches --------------------------------------------------------------------------------

  // A batch gives the same result as a loop over its keys, even if a stage fills in the middle of
  // it. A batch holds keys of one kind; null keys are skipped and counted.
  //
  // If memory is short, insert, insert_new and remove fall back to the direct path, or go key by
  // key. They throw std::bad_alloc (on a device: an Error) only before they change anything, but an
  // empty stage may have been added. Once some keys are done, the exception is FilterFull or
  // RemovalStopped; both say where to continue. An executor that throws costs speed, not keys (see
  // Executor). After any other failure of a device (a CudaError), the counters may hold any of the
  // batch's keys, and the numbers of keys do not count them: restore the filter from a copy, or
  // clear it. Lookups change nothing; if they throw, answers are not valid.

  /// Adds 1 to the k counters of each valid key in the oldest stage with room, saturating at 15.
  /// Cost: cache_lines_per_key() lines per key, read and written; a batch is cut where a stage
  /// fills, with at most ⌈log2 counters⌉ + 1 cuts per stage. Throws FilterFull, which says how many
  /// keys were inserted; with Growth::one only if a device runs out of memory in the middle of the
  /// batch.
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options = {});

  /// Inserts each key that the filter does not hold at its turn, and says which: out[i] = 1 if
  /// keys[i] was inserted, 0 if it was found or is null. So of equal keys only the first may be
  /// new, and each key counts once, however often it comes. At the filter's rate, a new key is
  /// taken for an old one and not inserted. Later, remove only keys that were new.
  ///
  /// `out` may be empty; otherwise InvalidArgument is thrown unless out.size() == keys.size().
  /// Throws FilterFull at the first new key for which there is no room; out[i] is valid for i <
  /// processed(). Throws NotOnHost if the counters are not on the host and the backend has no
  /// insert_new.
  ///
  /// Cost: up to twice that of insert where a key has one cache line, otherwise two to three times
  /// (docs/performance.md, "Keys that are not there yet"); more on a device (there, "On a GPU");
  /// with several stages, a lookup more. `split` of more than 32 slices takes the direct path.
  /// Temporary memory: 27 KiB of stack; on the partitioned path options.scratch_bytes; without
  /// `out`, a byte per key for at most 2^24 keys at a time, or as many as an array has cache lines
  /// if that is more; in filters that grow, 13 bytes per key for at most 2^22 at a time; on a
  /// device, up to 64 MiB for each window under way.
  InsertNewReport insert_new(const KeyBatch& keys, std::span<std::uint8_t> out = {},
                             const BatchOptions& options = {});

  /// One insertion in many batches of any size; see BulkInserter.
  BulkInserter bulk(const BatchOptions& options = {});

  /// out[i] = 1 if keys[i] may be present, 0 if it is certainly absent or null. Requires out.size()
  /// == keys.size(), else InvalidArgument.
  ///
  /// Cost: for a present key, the cache_lines_per_key() lines of its stage and one line in each
  /// newer stage; for an absent key, one line in each stage and a few more. Keys are hashed once.
  /// The newest stage is asked first, and a key found there is not looked up in older ones
  /// (docs/performance.md, "Several stages"). Temporary memory: 68 KiB of stack per thread; on the
  /// partitioned path options.scratch_bytes; on a device, 13 bytes per key for at most 2^24 keys at
  /// a time.
  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options = {}) const;
  /// The same as packed bits: bit i of byte i/8, least significant first (Arrow's boolean column).
  /// Requires bits.size() == (keys.size() + 7) / 8; bits past the last key are set to 0.
  ContainsReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options = {}) const;
  /// The same as ascending indices of the hits, written to the front of `indices`; the report's
  /// `hits` is their number. Requires indices.size() >= keys.size().
  ContainsReport find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                      const BatchOptions& options = {}) const;

  /// Removes keys one after another in batch order. A stage claims a key if the key's k counters in
  /// it are all non-zero at the key's turn. If one stage claims the key, each of these counters is
  /// lowered by 1 (a 15 stays). If no stage does, nothing is changed. If several do, nothing is
  /// changed either: one of them may claim it by a false positive, and removing the key there would
  /// damage other keys. verdicts[i] is a Removal; null keys are `absent`. `verdicts` may be empty;
  /// otherwise InvalidArgument is thrown unless verdicts.size() == keys.size(). Cost: that of
  /// contains and insert; a filter of several stages uses one thread for it. Throws RemovalStopped
  /// if a device runs out of memory in the middle of the batch.
  ///
  /// With options.most_absent = a, all or nothing: if more than a keys would be absent, nothing is
  /// changed and KeysAbsent is thrown; `verdicts` then says what would have become of each key, for
  /// example which are absent. Each key counts as it would at its turn: if a key is in the filter
  /// once and in the batch twice, the second is absent. Null and ambiguous keys do not count as
  /// absent. RemovalStopped, if thrown, has processed() == 0. An absent key may look present, at
  /// the filter's rate P: of n absent keys, P·n are removed, which damages others. Cost: if it
  /// removes, as without the limit; if not, an insertion more. Temporary memory: with one stage, a
  /// byte and a bit per key of the batch; with several, ten bytes.
  RemoveReport remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts = {},
                      const BatchOptions& options = {});

  /// out[i] = the smallest of the k counters of keys[i], summed over the stages, at most 15: an
  /// upper bound on how often the key is in the filter, where 15 means 15 or more. 0 for null keys.
  /// Requires out.size() == keys.size(), else InvalidArgument. Cost: in each stage, that of
  /// contains for a present key.
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options = {}) const;

  // ---- one key; in loops use batches, which are many times faster -----------------------------

  // On the host they cost little more than the wait for the key's cache lines (docs/performance.md,
  // "Few keys"). On a device each is a batch of one key.

  // An integer of another type is the same key as in a batch: signed ones are sign-extended.
  void insert(std::uint64_t key);
  void insert(std::string_view key);
  /// Returns true if the key was absent; it is inserted then.
  bool insert_new(std::uint64_t key);
  bool insert_new(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
  Removal remove(std::uint64_t key);
  Removal remove(std::string_view key);
  unsigned count(std::uint64_t key) const;
  unsigned count(std::string_view key) const;
  // Not keys: without these, contains(1.5) would ask for 1, and insert({"a", "b"}) would read what
  // lies between the two (detail/not_a_key.hpp).
  template <detail::NotAKey T>
  void insert(T) = delete;
  void insert(detail::Literals) = delete;
  template <detail::NotAKey T>
  bool insert_new(T) = delete;
  bool insert_new(detail::Literals) = delete;
  template <detail::NotAKey T>
  bool contains(T) const = delete;
  bool contains(detail::Literals) const = delete;
  template <detail::NotAKey T>
  Removal remove(T) = delete;
  Removal remove(detail::Literals) = delete;
  template <detail::NotAKey T>
  unsigned count(T) const = delete;
  unsigned count(detail::Literals) const = delete;

  /// A view of a filter of one stage on the host, for loops with one key per call: about twice
  /// as fast as the functions above (in `ranked` 1.1 to 1.8 times; docs/performance.md, "Small
  /// batches, and one key a call"). It stays valid through lookups, insertions, removals and
  /// a move of the filter, until the filter is merged, subtracted from, cleared, assigned to, moved
  /// to another backend or destroyed. Any number of threads may look up through views while one
  /// thread inserts and removes through one: a key that is in the filter throughout is found
  /// throughout. Throws InvalidArgument if the filter grows, and NotOnHost if it is on a device;
  /// the FilterRef also throws ReadOnly if the filter is mapped.
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
  /// Resets the filter to one empty stage; the numbers of keys inserted and removed become 0.
  void clear();
  friend bool operator==(const Filter& a, const Filter& b);

  /// Cost: one pass over the counters.
  Statistics statistics(const BatchOptions& options = {}) const;
  /// Sum over all stages; see StageView::nonzero.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  double fill(const BatchOptions& options = {}) const;
  /// stage(0).words() and stage(0).read_words(…). With Growth::one these are all counters.
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  /// Replaces all counters and the numbers of keys inserted and removed, for example by those of a
  /// filter that was moved by other means. Geometry and seed must be this filter's. Throws
  /// InvalidArgument, changing nothing, unless growth() is Growth::one, words.size() ==
  /// geometry().words(), and the padding after each slice is zero.
  void assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
              std::uint64_t keys_removed);

  /// Sets free-form text that is saved with the filter, for example JSON. Throws InvalidArgument if
  /// it is longer than kMaxMetadataBytes.
  void set_metadata(std::string metadata);
  const std::string& metadata() const;

  // ---- files: docs/file_format.md -------------------------------------------------------------

  /// Writes atomically: temporary file in the same directory, fsync, rename, fsync of the
  /// directory. An existing file is replaced as a whole or not at all. Throws IoError.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Reads and verifies everything. Throws IoError, CorruptFile, or Incompatible if the file holds
  /// bits (bloom_filter.hpp). FilterOptions::seed is ignored, here and in map and read: the seed is
  /// in the file.
  static Filter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// Maps the file for read-only queries. Verifies the headers and the padding (one page for each
  /// slice of `split`), but not the counters (use verify_file for these); pages are read on demand.
  /// With a backend that has its own memory this is the same as load. Throws as load.
  static Filter map(const std::filesystem::path& path, const FilterOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;
  /// Reads the bytes that write wrote and verifies everything. Throws CorruptFile or Incompatible.
  static Filter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  friend struct FilterAccess;  // not installed: files and banks take filters apart
  explicit Filter(std::unique_ptr<FilterState> state) noexcept;

  detail::Owned<FilterState> state_;
};

/// One insertion in many batches, each of any size: the fast way to build a filter that outgrows
/// the cache from keys that come in small batches, such as those of a file, a stream or Arrow.
///
///   scbf::BulkInserter bulk = filter.bulk();
///   while (read(batch)) bulk.insert(batch);
///   bulk.finish();
///
/// The result is that of Filter::insert with all keys at once, byte for byte. Keys are partitioned
/// as they come, and added to the counters when BatchOptions::scratch_bytes are full; on a device
/// they are added batch by batch.
///
/// From the first insert to finish(), any of the keys given so far may be in the counters, only
/// this inserter may use the filter, and the scratch memory is in use. Every key that insert has
/// accepted is in the filter after finish(), and after the destructor too, whatever was thrown. The
/// filter must outlive the inserter, as must BatchOptions::executor. The filter may be moved; then
/// the object that it was moved to must outlive the inserter. As long as the inserter exists, even
/// after finish(), nothing may be assigned to the filter. Movable (errors.hpp: "Moving").
class BulkInserter {
 public:
  /// As Filter::bulk. Throws ReadOnly, or std::bad_alloc before anything is changed.
  explicit BulkInserter(Filter& filter, const BatchOptions& options = {});
  explicit BulkInserter(BloomFilter& filter, const BatchOptions& options = {});
  BulkInserter(BulkInserter&&) noexcept;
  BulkInserter& operator=(BulkInserter&&) noexcept;
  ~BulkInserter();

  /// Accepts a batch, which need not outlive the call, and returns its numbers of keys and nulls.
  /// Throws as Filter::insert: FilterFull says how many keys of this batch were accepted; after any
  /// other exception none were, unless a device failed: it may have counted any of them. Cost: one
  /// to three nanoseconds per key, and now and then a pass over the filter; docs/performance.md.
  InsertReport insert(const KeyBatch& keys);
  /// Adds what has not been added yet. The filter can then be used and changed, and more may be
  /// inserted later. Returns so_far().
  InsertReport finish();
  /// What insert has accepted, all batches together.
  InsertReport so_far() const;

 private:
  struct State;
  detail::Owned<State> state_;
};

inline BulkInserter Filter::bulk(const BatchOptions& options) {
  return BulkInserter(*this, options);
}

}  // namespace scbf
