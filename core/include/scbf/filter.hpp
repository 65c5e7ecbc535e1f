// SPDX-License-Identifier: Apache-2.0
// Filter: a split counting Bloom filter, its batch operations, statistics and files.
//
//   scbf::Filter filter(1'000'000, 0.01);                        // for a million keys, at 1 %
//   filter.insert(keys);                        // std::vector<std::uint64_t>, strings, Arrow, …
//   std::vector<std::uint8_t> hit(queries.size());
//   filter.contains(queries, hit);
//
//   scbf::Filter grows(scbf::Growth::tightening(1'000'000, 0.01));  // adds stages; the rate holds
//
// Thread safety: const member functions may run at once; the others need the filter to
// themselves. Batch operations parallelise inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"
#include "scbf/growth.hpp"
#include "scbf/key_batch.hpp"

namespace scbf {

struct FilterOptions {
  std::uint64_t seed = 0;             ///< of XXH3-64; filters combine only with equal seeds
  std::string_view backend = "auto";  ///< see find_backend
};

struct InsertReport {
  std::uint64_t inserted = 0;  ///< keys, repetitions counted
  std::uint64_t nulls = 0;
};

struct ContainsReport {
  std::uint64_t hits = 0;  ///< keys that may be present
  std::uint64_t nulls = 0;
};

struct RemoveReport {
  std::uint64_t removed = 0;
  std::uint64_t absent = 0;     ///< keys that were not there at their turn; left alone
  std::uint64_t ambiguous = 0;  ///< keys that several stages claimed; always 0 with one stage
  std::uint64_t nulls = 0;
};

struct SubtractReport {
  /// Counters left at 15 although something was to be taken away: the difference is exact
  /// everywhere else, and an upper bound there.
  std::uint64_t inexact_counters = 0;
};

struct CountReport {
  std::uint64_t hits = 0;  ///< keys whose count is not 0
  std::uint64_t nulls = 0;
};

/// No stage has room and no further one can be had: all stages of a `fixed` growth are full, or
/// memory is short. Keys before processed() of the batch are in the filter, the others are not.
class FilterFull : public Error {
 public:
  FilterFull(const std::string& message, std::uint64_t processed, const InsertReport& done)
      : Error(message), processed_(processed), done_(done) {}
  /// Keys of the batch that were dealt with, nulls included: go on from this one.
  std::uint64_t processed() const noexcept { return processed_; }
  /// Of those, what was inserted.
  const InsertReport& done() const noexcept { return done_; }

 private:
  std::uint64_t processed_;
  InsertReport done_;
};

/// Keys that were inserted and not removed, as booked; 0 where more were removed: behind saturated
/// counters a key can be removed more often than it was inserted.
constexpr std::uint64_t keys_left(std::uint64_t inserted, std::uint64_t removed) noexcept {
  return inserted > removed ? inserted - removed : 0;
}

struct StageStatistics {
  StageShape shape;
  std::vector<double> slice_fill;   ///< share of non-zero counters, per slice
  double fill = 0;                  ///< over all slices
  std::uint64_t nonzero = 0;        ///< counters
  std::uint64_t saturated = 0;      ///< counters at 15
  std::uint64_t keys_inserted = 0;  ///< as booked, repetitions counted
  std::uint64_t keys_removed = 0;
  double estimated_keys = 0;  ///< distinct keys that explain the fill
  double estimated_fpr = 0;   ///< predicted_fpr at estimated_keys
  Histogram histogram{};      ///< counters by value, all slices together
};

struct Statistics {
  std::vector<StageStatistics> stages;  ///< oldest first
  std::uint64_t bytes = 0;              ///< of counters
  std::uint64_t counters = 0;
  std::uint64_t nonzero = 0;    ///< counters
  std::uint64_t saturated = 0;  ///< counters at 15
  double fill = 0;              ///< nonzero / counters
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  double estimated_keys = 0;   ///< of all stages; keys in several are counted in each
  double estimated_fpr = 0;    ///< of all stages together, from their fill
  double fpr_bound = 0;        ///< see Filter::fpr_bound
  double ambiguous_share = 0;  ///< expected, of keys inserted once; see ambiguous_share
};

/// Most bytes of a filter's metadata.
inline constexpr std::size_t kMaxMetadataBytes = std::size_t{1} << 20;

/// Receives bytes in order; returns or throws. Used to stream a filter anywhere.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Fills the span from its beginning and returns how many bytes it gave; 0 means the end.
using ByteSource = std::function<std::size_t(std::span<std::byte>)>;

struct Stage;        // internal: what a filter is made of
struct FilterState;  // likewise

/// One stage of a filter, to look at: a small value, valid until its filter is changed or moved.
class StageView {
 public:
  explicit StageView(const Stage& stage) noexcept : stage_(&stage) {}

  const StageShape& shape() const noexcept;
  const Geometry& geometry() const noexcept { return shape().geometry; }
  std::uint64_t keys_inserted() const noexcept;
  std::uint64_t keys_removed() const noexcept;
  /// Counters that are not 0, exactly. Cost: none after insert, remove and clear on backends that
  /// count as they go (all that run on the host); after anything else one pass over the counters
  /// at the first call.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  /// Their share of geometry().counters(). Cost: as nonzero().
  double fill(const BatchOptions& options = {}) const;
  /// The counters as 64-bit words, in place; layout as in Geometry. Throws NotOnHost if they are in
  /// the memory of a device.
  std::span<const std::uint64_t> words() const;
  /// Copies out.size() words from word `first` on, wherever the counters are.
  /// Throws InvalidArgument unless first + out.size() <= geometry().words().
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;
  /// Compares shape, seed and counters, wherever they are.
  friend bool operator==(const StageView& a, const StageView& b);

 private:
  const Stage* stage_;
};

/// A split counting Bloom filter: one stage, or as many as its growth adds. Inserts go to the
/// oldest stage that is not full, so room that removal makes is used again. All stages have one
/// seed: a key is hashed once.
///
/// Copyable (deep), movable. Equality compares growth, seed, shapes and counters, not the books of
/// keys inserted and removed nor the metadata. The counters live in the memory of the backend
/// (Backend::memory); filters of different memories compare and combine.
class Filter {
 public:
  /// One empty stage. Throws BackendUnavailable, or std::bad_alloc (a device: an Error) when memory
  /// is short.
  explicit Filter(const Growth& growth, const FilterOptions& options = {});
  /// Growth::one(geometry): a single stage that is never full.
  explicit Filter(const Geometry& geometry, const FilterOptions& options = {});
  /// A single stage for `capacity` keys at rate `fpr`, `split_block` unless told otherwise.
  Filter(std::uint64_t capacity, double fpr, const FilterOptions& options = {});
  Filter(const Filter&);
  Filter& operator=(const Filter&);
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  ~Filter();

  const Growth& growth() const noexcept;
  std::uint64_t seed() const noexcept;
  const Backend& backend() const noexcept;
  /// Uses another backend from now on; if its memory is another, moves the counters there, which
  /// costs one pass over them. A mapped filter stays mapped on the host; moved to a device it is an
  /// ordinary one, which can be changed and is no longer tied to the file. Returns this filter.
  /// Throws BackendUnavailable, or what the backend throws when memory is short; then nothing has
  /// changed.
  Filter& to(std::string_view backend);
  /// True for a mapped filter; operations that change counters throw ReadOnly.
  bool read_only() const noexcept;

  /// How many stages there are; at least 1.
  std::size_t stages() const noexcept;
  /// Stage i, oldest first. Throws InvalidArgument past the last.
  StageView stage(std::size_t i) const;
  /// Of the first stage: with Growth::one, of the filter.
  const Geometry& geometry() const noexcept;
  std::uint64_t bytes() const noexcept;  ///< of the counters of all stages
  std::uint64_t keys_inserted() const noexcept;
  std::uint64_t keys_removed() const noexcept;
  /// 1 − Π(1 − P_i) over the stages there are, full: never above growth().fpr(), unless stages were
  /// appended by merge. 1 with Growth::one, which sets no limit to the keys.
  double fpr_bound() const;

  // ---- batches --------------------------------------------------------------------------------

  // A batch equals the loop over its keys, also where a stage fills in the middle of it. Const
  // operations may run at once. A batch holds keys of one kind; null keys are skipped and counted.

  /// Adds 1 to the k counters of each valid key in the stage that it goes to, saturating at 15.
  /// Cost: cache_lines_per_key() lines per key, read and written; a batch is cut where a stage
  /// fills, by at most ⌈log2 counters⌉ + 1 cuts per stage. Throws FilterFull, which says what is
  /// in; never with Growth::one.
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options = {});

  /// out[i] = 1 if keys[i] may be present, 0 if it is surely absent (or null).
  /// Requires out.size() == keys.size(), else InvalidArgument.
  ///
  /// Cost: of a present key the cache_lines_per_key() lines of its stage and one line in each newer
  /// one; of an absent key one line in each stage, little more in further arrays. Keys are hashed
  /// once, the newest stage is asked first, and keys found go no further. docs/performance.md,
  /// "Several stages", says how. Temporary memory: 68 KiB of stack per thread; for batches that go
  /// through the filter partition by partition options.scratch_bytes; on a device 13 bytes per key
  /// of at most 2^24 at a time.
  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options = {}) const;
  /// The same as packed bits: bit i of byte i/8, least significant first (Arrow's boolean column).
  /// Requires bits.size() == (keys.size() + 7) / 8; bits past the last key are set to 0.
  ContainsReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options = {}) const;
  /// The same as ascending indices of the hits, written to the front of `indices`; the number of
  /// them is the report's `hits`. Requires indices.size() >= keys.size().
  ContainsReport find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                      const BatchOptions& options = {}) const;

  /// Removes keys one after another in batch order. A key whose k counters in a stage are all
  /// non-zero at its turn loses 1 from each (a 15 stays); a key that no stage claims is left alone.
  /// If several stages claim it, one of them may do so by a false positive, and taking the key from
  /// that one would damage others: nothing is changed, the key stays. verdicts[i] is a Removal;
  /// null keys are `absent`. `verdicts` may be empty, else verdicts.size() == keys.size(), or
  /// InvalidArgument is thrown. Cost: as contains and insert; with several stages on one thread.
  RemoveReport remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts = {},
                      const BatchOptions& options = {});

  /// out[i] = the smallest of the k counters of keys[i], summed over the stages, at most 15: an
  /// upper bound on how often it is in the filter, 15 meaning 15 or more; 0 for null keys.
  /// Requires out.size() == keys.size(), else InvalidArgument. Cost: as contains of a present key,
  /// in each stage.
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options = {}) const;

  // ---- one key; for loops use batches, they are many times faster -----------------------------

  // On the host contains and count cost little more than the wait for the key's lines
  // (docs/performance.md, "Few keys"). All others, and every one on a device, are batches of one.

  void insert(std::uint64_t key);
  void insert(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
  Removal remove(std::uint64_t key);
  Removal remove(std::string_view key);
  unsigned count(std::uint64_t key) const;
  unsigned count(std::string_view key) const;

  // ---- whole filters --------------------------------------------------------------------------

  /// Adds the other filter's counters, saturating. With Growth::one both need equal geometry;
  /// filters that grow need not: each stage of the other goes to the first of equal shape in which
  /// both together are not too full, else becomes a stage of its own, which brings its share of the
  /// rate with it. Throws Incompatible, changing nothing, if the seeds differ, if only one of both
  /// grows, or if there would be more than growth().most_stages(). Temporary memory: counters in
  /// another memory are copied to this filter's first; filters that grow, a copy of this filter.
  void merge(const Filter& other, const BatchOptions& options = {});
  /// Takes the other filter's counters away: the inverse of merge where nothing is saturated. Of
  /// filters that grow, each stage of the other from the one stage that contains it. Throws
  /// Incompatible, changing nothing, when a counter would fall below zero (then the other filter is
  /// not contained in this one), or when several stages contain one and are not equal.
  SubtractReport subtract(const Filter& other, const BatchOptions& options = {});
  /// One empty stage again; the books are zero.
  void clear();
  friend bool operator==(const Filter& a, const Filter& b);

  /// Cost: one pass over the counters.
  Statistics statistics(const BatchOptions& options = {}) const;
  /// Of all stages; see StageView.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  double fill(const BatchOptions& options = {}) const;
  /// stage(0).words() and stage(0).read_words(…): with Growth::one, all counters.
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  /// Replaces all counters and the books by those of another filter of this geometry and seed, from
  /// wherever they come. Throws InvalidArgument, changing nothing, unless growth() is Growth::one,
  /// words.size() == geometry().words(), and what lies behind the counters of each slice is zero.
  void assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
              std::uint64_t keys_removed);

  /// Free-form text that travels in the file, for example JSON.
  /// Throws InvalidArgument when longer than kMaxMetadataBytes.
  void set_metadata(std::string metadata);
  const std::string& metadata() const noexcept;

  // ---- files: docs/file_format.md -------------------------------------------------------------

  /// Writes atomically: temporary file in the same directory, fsync, rename, fsync of the
  /// directory. An existing file is replaced as a whole or not at all. Throws IoError.
  void save(const std::filesystem::path& path) const;
  /// Reads and verifies everything. Throws IoError or CorruptFile. FilterOptions::seed is ignored
  /// here as in map and read: the file knows it.
  static Filter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// Maps the file for read-only queries: verifies the headers, not the counters (use verify_file),
  /// and reads pages as they are asked for. A backend with memory of its own must have it all
  /// there: with one this is load. Throws IoError or CorruptFile.
  static Filter map(const std::filesystem::path& path, const FilterOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink) const;
  /// Reads what write wrote; verifies everything. Throws CorruptFile.
  static Filter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  friend struct FilterAccess;  // not installed: files and banks take filters apart
  explicit Filter(std::unique_ptr<FilterState> state) noexcept;

  std::unique_ptr<FilterState> state_;  // null once moved from
};

/// What a filter file says of one stage, field by field as in docs/file_format.md.
struct StageFileInfo {
  StageShape shape;
  std::uint64_t offset;  ///< in the file; there the stage's own header begins
  std::uint32_t version;
  std::string_view hash;  ///< "XXH3-64"
  std::uint32_t hash_version;
  std::uint32_t counter_bits;
  std::uint64_t keys_inserted, keys_removed, saturated;
  std::uint64_t payload_offset, payload_bytes, chunk_bytes, chunks;
};

/// What the headers of a filter file say.
struct FileInfo {
  std::uint32_t version;  ///< of the filter format, or of the container format
  Growth growth;
  std::uint64_t seed;
  std::vector<StageFileInfo> stages;
  std::uint64_t file_bytes;
  std::string metadata;

  /// Filters that grow are in containers: a header of their own before those of the stages.
  bool is_container() const noexcept { return growth.policy() != Growth::Policy::one; }
};

/// Reads and verifies the headers only. Throws IoError or CorruptFile.
FileInfo read_file_info(const std::filesystem::path& path);
/// Reads the whole file and verifies every checksum, the padding and the saturated counts, in
/// bounded memory. Throws IoError or CorruptFile, naming the first thing that is wrong.
FileInfo verify_file(const std::filesystem::path& path);

}  // namespace scbf
