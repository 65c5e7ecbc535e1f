// SPDX-License-Identifier: Apache-2.0
// Filter: a split counting Bloom filter, its batch operations, statistics and files.
//
//   scbf::Filter filter(scbf::geometry_for(scbf::Layout::split_block, 1'000'000, 0.01));
//   filter.insert(keys);                        // std::vector<std::uint64_t>, strings, Arrow, …
//   std::vector<std::uint8_t> hit(queries.size());
//   filter.contains(queries, hit);
//
// Thread safety: const member functions may run at once; the others need the filter to
// themselves. Batch operations parallelise inside (BatchOptions::threads).
#pragma once

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
  std::uint64_t absent = 0;  ///< keys that were not there at their turn; left alone
  std::uint64_t nulls = 0;
};

struct SubtractReport {
  /// Counters left at 15 although something was to be taken away: the difference is exact
  /// everywhere else, and an upper bound there.
  std::uint64_t inexact_counters = 0;
};

struct CountReport {
  std::uint64_t nulls = 0;
};

/// Keys that were inserted and not removed, as booked; 0 where more were removed: behind saturated
/// counters a key can be removed more often than it was inserted.
constexpr std::uint64_t keys_left(std::uint64_t inserted, std::uint64_t removed) noexcept {
  return inserted > removed ? inserted - removed : 0;
}

struct Statistics {
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

/// Receives bytes in order; returns or throws. Used to stream a filter anywhere.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Fills the span from its beginning and returns how many bytes it gave; 0 means the end.
using ByteSource = std::function<std::size_t(std::span<std::byte>)>;

/// A split counting Bloom filter. Copyable (deep), movable; equality compares geometry, seed and
/// counters, not the books of keys inserted and removed nor the metadata. The counters live in the
/// memory of the backend (Backend::memory); filters of different memories compare and combine.
class Filter {
 public:
  /// An empty filter. Throws BackendUnavailable, or std::bad_alloc (a device: an Error) when memory
  /// is short.
  explicit Filter(const Geometry& geometry, const FilterOptions& options = {});
  /// An empty filter for `capacity` keys at rate `fpr`, `split_block` unless told otherwise.
  Filter(std::uint64_t capacity, double fpr, const FilterOptions& options = {});
  Filter(const Filter&);
  Filter& operator=(const Filter&);
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  ~Filter();

  const Geometry& geometry() const noexcept;
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

  // ---- batches --------------------------------------------------------------------------------

  /// Adds 1 to the k counters of each valid key, saturating at 15.
  /// Cost: cache_lines_per_key() lines per key, read and written.
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options = {});

  /// out[i] = 1 if keys[i] may be present, 0 if it is surely absent (or null).
  /// Requires out.size() == keys.size(), else InvalidArgument.
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

  /// Removes keys one after another in batch order: a key whose k counters are all non-zero at
  /// its turn loses 1 from each (a 15 stays), any other is left alone. verdicts[i] = 1 if removed.
  /// `verdicts` may be empty, else verdicts.size() == keys.size().
  RemoveReport remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts = {},
                      const BatchOptions& options = {});

  /// out[i] = the smallest of the k counters of keys[i]: an upper bound on how often it is in the
  /// filter, 15 meaning 15 or more. Requires out.size() == keys.size().
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options = {}) const;

  // ---- one key; for loops use batches, they are many times faster -----------------------------

  // On the host contains and count cost little more than the wait for the key's line
  // (docs/performance.md, "Few keys"). All others, and every one on a device, are batches of one.

  void insert(std::uint64_t key);
  void insert(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
  bool remove(std::uint64_t key);
  bool remove(std::string_view key);
  unsigned count(std::uint64_t key) const;
  unsigned count(std::string_view key) const;

  // ---- whole filters --------------------------------------------------------------------------

  /// Throws Incompatible, naming the difference, unless geometry and seed are equal.
  void check_compatible(const Filter& other) const;
  /// Adds the other filter's counters, saturating. Throws Incompatible. Counters in another memory
  /// are copied to this filter's first, here as in subtract: temporary memory of a filter's size.
  void merge(const Filter& other, const BatchOptions& options = {});
  /// Takes the other filter's counters away: the inverse of merge where nothing is saturated.
  /// Throws Incompatible, changing nothing, when a counter would fall below zero (then the other
  /// filter is not contained in this one).
  SubtractReport subtract(const Filter& other, const BatchOptions& options = {});
  /// Sets all counters and the books to zero.
  void clear();
  friend bool operator==(const Filter& a, const Filter& b);

  /// Cost: one pass over the counters.
  Statistics statistics(const BatchOptions& options = {}) const;
  std::uint64_t keys_inserted() const noexcept;
  std::uint64_t keys_removed() const noexcept;
  /// Counters that are not 0, exactly. Cost: none after insert, remove and clear on backends that
  /// count as they go (all that run on the host); after anything else one pass over the counters at
  /// the first call.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  /// Their share of geometry().counters(). Cost: as nonzero().
  double fill(const BatchOptions& options = {}) const;
  /// The counters as 64-bit words, in place; layout as in Geometry. Throws NotOnHost if they are in
  /// the memory of a device.
  std::span<const std::uint64_t> words() const;
  /// Copies out.size() words from word `first` on, wherever the counters are.
  /// Requires first + out.size() <= geometry().words(), else InvalidArgument.
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  /// Replaces all counters and the books by those of another filter of this geometry and seed, from
  /// wherever they come. Throws InvalidArgument, changing nothing, unless words.size() ==
  /// geometry().words() and what lies behind the counters of each slice is zero.
  void assign(std::span<const std::uint64_t> words, std::uint64_t keys_inserted,
              std::uint64_t keys_removed);

  /// Free-form text that travels in the file, for example JSON; at most 1 MiB.
  /// Throws InvalidArgument when longer.
  void set_metadata(std::string metadata);
  const std::string& metadata() const noexcept;

  // ---- files: docs/file_format.md -------------------------------------------------------------

  /// Writes atomically: temporary file in the same directory, fsync, rename, fsync of the
  /// directory. An existing file is replaced as a whole or not at all. Throws IoError.
  void save(const std::filesystem::path& path) const;
  /// Reads and verifies everything. Throws IoError or CorruptFile.
  static Filter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// Maps the file for read-only queries: verifies the header, not the payload (use verify_file),
  /// and reads pages as they are asked for. A backend with memory of its own must have it all
  /// there: with one this is load. Throws IoError or CorruptFile.
  static Filter map(const std::filesystem::path& path, const FilterOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink) const;
  /// Reads what write wrote; verifies everything. Throws CorruptFile. FilterOptions::seed is
  /// ignored here as in load and map: the file knows it.
  static Filter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  friend struct FilterAccess;  // not installed: what ScalableFilter needs of its stages
  friend struct FilterFiles;   // likewise
  struct State;
  explicit Filter(std::unique_ptr<State> state) noexcept;
  State& mutable_state();  // throws ReadOnly

  std::unique_ptr<State> state_;
};

/// What a file's header says, field by field as in docs/file_format.md.
struct FileInfo {
  std::uint32_t version;
  std::string_view hash;  ///< "XXH3-64"
  std::uint32_t hash_version;
  std::uint32_t counter_bits;
  Geometry geometry;
  std::uint64_t seed;
  std::uint64_t keys_inserted, keys_removed, saturated;
  std::uint64_t file_bytes, payload_offset, payload_bytes, chunk_bytes, chunks;
  std::string metadata;
};

/// Reads and verifies the header only. Throws IoError or CorruptFile.
FileInfo read_file_info(const std::filesystem::path& path);
/// Reads the whole file and verifies every checksum, the padding and the saturated count, in
/// bounded memory. Throws IoError or CorruptFile, naming the first thing that is wrong.
FileInfo verify_file(const std::filesystem::path& path);

}  // namespace scbf
