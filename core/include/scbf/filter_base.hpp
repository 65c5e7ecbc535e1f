// SPDX-License-Identifier: Apache-2.0
// FilterBase: what Filter (filter.hpp, counters) and BloomFilter (bloom_filter.hpp, bits) have in
// common. What batches report is in reports.hpp, what files are in files.hpp.
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

class BulkInserter;

/// A filter of one stage, or of as many as its growth adds. Keys go to the oldest stage that is not
/// full. All stages have the same seed, so a key is hashed once. Below, a cell is a counter in a
/// Filter, and a bit in a BloomFilter.
///
/// Copyable (deep), movable (errors.hpp: "Moving"); not a type of its own: only the two filters are
/// made. The cells live in the memory of the backend (Backend::memory); filters in different
/// memories can be compared and combined.
class FilterBase {
 public:
  const Growth& growth() const;
  std::uint64_t seed() const;
  const Backend& backend() const;
  /// True for a mapped filter; operations that change cells throw ReadOnly.
  bool read_only() const;

  /// How many stages there are; at least 1.
  std::size_t stages() const;
  /// Stage i, oldest first. Throws InvalidArgument past the last.
  StageView stage(std::size_t i) const;
  /// Geometry of the first stage; with Growth::one, of the filter. Its cell() says what this is.
  const Geometry& geometry() const;
  std::uint64_t bytes() const;  ///< cells of all stages
  /// Keys inserted, as recorded; in bits that were made from counters, into those, too.
  std::uint64_t keys_inserted() const;
  /// Keys removed, as recorded; in bits, from the counters that they were made from.
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

  /// Adds 1 to the k counters of each valid key in the oldest stage with room, saturating at 15;
  /// of bits, sets the k bits. Cost: cache_lines_per_key() lines per key, read and written; a batch
  /// is cut where a stage fills, with at most ⌈log2 counters⌉ + 1 cuts per stage. Throws
  /// FilterFull, which says how many keys were inserted; with Growth::one only if a device runs out
  /// of memory in the middle of the batch.
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
  /// How many keys may be present, but not which: the report of contains. Cost: as contains. Where
  /// a filter of one stage has one cache line per key, it is less on the partitioned path, since no
  /// answer is brought into the order of the keys. Elsewhere, and on other backends than `simd`, it
  /// takes a byte of temporary memory per key more, for at most 2^24 keys at a time, or as many as
  /// an array has cache lines if that is more.
  ContainsReport count_present(const KeyBatch& keys, const BatchOptions& options = {}) const;

  // ---- one key; in loops use batches, which are many times faster -----------------------------

  // On the host they cost little more than the wait for the key's cache lines (docs/performance.md,
  // "Few keys"). On a device each is a batch of one key. The first insertion into a loaded filter
  // that grows counts the cells of its stages, in one pass on the calling thread.

  // An integer of another type is the same key as in a batch: signed ones are sign-extended.
  void insert(std::uint64_t key);
  void insert(std::string_view key);
  /// Returns true if the key was absent; it is inserted then.
  bool insert_new(std::uint64_t key);
  bool insert_new(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
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

  // ---- the whole ------------------------------------------------------------------------------

  /// Resets the filter to one empty stage; the numbers of keys inserted and removed become 0.
  void clear();
  /// Of bits, histograms have the values 0 and 1, and nothing is saturated or ambiguous. Cost: one
  /// pass over the cells.
  Statistics statistics(const BatchOptions& options = {}) const;
  /// Cells that are not 0, in all stages; see StageView::nonzero.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  double fill(const BatchOptions& options = {}) const;
  /// stage(0).words() and stage(0).read_words(…). With Growth::one these are all cells.
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  /// Sets free-form text that is saved with the filter, for example JSON. Throws InvalidArgument if
  /// it is longer than kMaxMetadataBytes.
  void set_metadata(std::string metadata);
  const std::string& metadata() const;

  // ---- files: docs/file_format.md. Each filter has load, map and read -------------------------

  /// Writes atomically: temporary file in the same directory, fsync, rename, fsync of the
  /// directory. An existing file is replaced as a whole or not at all, and keeps its permissions. A
  /// link is followed. A file without write permission is refused. A process that is killed
  /// meanwhile leaves a temporary file, .scbf-*.tmp. Pipes and devices are written as they are.
  /// Throws IoError: the old file is still there, unless the error says that the new one
  /// is in place and only the directory could not be synced. Throws CorruptFile if the filter was
  /// mapped and its file then overwritten, so that its words cannot be those of a filter. Cost: one
  /// pass over the counters; two into a pipe, with options.compress, or by several threads in
  /// `ranked`.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// The same bytes as save, to any sink. Cost: two passes over the counters.
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;

 protected:
  explicit FilterBase(std::unique_ptr<FilterState> state) noexcept;
  FilterBase(const FilterBase&);
  FilterBase& operator=(const FilterBase&);
  FilterBase(FilterBase&&) noexcept;
  FilterBase& operator=(FilterBase&&) noexcept;
  ~FilterBase();

  detail::Owned<FilterState> state_;

 private:
  friend struct FilterAccess;  // not installed: files and banks take filters apart
};

/// One insertion in many batches, each of any size: the fast way to build a filter that outgrows
/// the cache from keys that come in small batches, such as those of a file, a stream or Arrow.
///
///   scbf::BulkInserter bulk = filter.bulk();
///   while (read(batch)) bulk.insert(batch);
///   bulk.finish();
///
/// The result is that of one insert of all keys at once, byte for byte. Keys are partitioned as
/// they come, and added to the counters when BatchOptions::scratch_bytes are full; on a device they
/// are added batch by batch.
///
/// From the first insert to finish(), any of the keys given so far may be in the counters, only
/// this inserter may use the filter, and the scratch memory is in use. Every key that insert has
/// accepted is in the filter after finish(), and after the destructor too, whatever was thrown. The
/// filter must outlive the inserter, as must BatchOptions::executor. The filter may be moved; then
/// the object that it was moved to must outlive the inserter. As long as the inserter exists, even
/// after finish(), nothing may be assigned to the filter. Movable (errors.hpp: "Moving").
class BulkInserter {
 public:
  /// As FilterBase::bulk. Throws ReadOnly, or std::bad_alloc before anything is changed.
  explicit BulkInserter(FilterBase& filter, const BatchOptions& options = {});
  BulkInserter(BulkInserter&&) noexcept;
  BulkInserter& operator=(BulkInserter&&) noexcept;
  ~BulkInserter();

  /// Accepts a batch, which need not outlive the call, and returns its numbers of keys and nulls.
  /// Throws as FilterBase::insert: FilterFull says how many keys of this batch were accepted; after
  /// any other exception none were, unless a device failed: it may have counted any of them. Cost:
  /// one to three nanoseconds per key, and now and then a pass over the filter;
  /// docs/performance.md.
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

}  // namespace scbf
