// SPDX-License-Identifier: Apache-2.0
// BloomFilter: the bits of a split counting Bloom filter, for readers, who only query it. One bit
// stands for each counter and says whether it is 0, so the answers are those of the counters, key
// by key, in a quarter of the memory; in layout ranked, in about a half to seven eighths. (Fan,
// Cao, Almeida, Broder 2000: a proxy keeps the counters, and gives the bits to the others.)
//
//   scbf::BloomFilter reader(filter);                 // the bits of a scbf::Filter
//   scbf::BloomFilter built(1'000'000, 0.01);         // or a plain Bloom filter, built from keys
//   built.insert(keys);
//   built.contains(queries, hit);
//
// Thread safety: as for Filter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "scbf/detail/not_a_key.hpp"
#include "scbf/filter.hpp"

namespace scbf {

class Delta;  // delta.hpp

/// An estimate of a number of distinct keys.
struct KeyEstimate {
  double keys;            ///< infinity if every bit is 1, because the fill then says nothing
  double standard_error;  ///< of `keys`, also in keys; see estimate_covariance
};

/// A split Bloom filter, blocked or not: what remains of a Filter if counters become bits. Keys can
/// be added but not removed. It grows, takes batches of all kinds, chooses its path, and uses
/// threads and backends as Filter does; where a contract is not repeated here, it is Filter's.
///
/// Copyable (deep), movable (errors.hpp: "Moving"). Equality compares growth, seed, shapes and
/// bits.
class BloomFilter {
 public:
  /// Makes one empty stage. Throws BackendUnavailable, also for a backend that works on counters
  /// only, or std::bad_alloc.
  explicit BloomFilter(const Growth& growth, const FilterOptions& options = {});
  /// A single stage that is never full. It is the same whether the geometry has counters or bits.
  explicit BloomFilter(const Geometry& geometry, const FilterOptions& options = {});
  /// A single stage for `capacity` keys at false-positive rate `fpr`, of the geometry that plan()
  /// chooses for counters, with a quarter of its memory. Throws InvalidArgument as plan() does.
  BloomFilter(std::uint64_t capacity, double fpr, const FilterOptions& options = {});
  /// The bits of a filter, stage by stage, with its growth, seed, numbers of keys and metadata, on
  /// its backend, or on "auto" if that works on counters only. Cost: one pass over the counters.
  /// Throws std::bad_alloc.
  explicit BloomFilter(const Filter& counters, const BatchOptions& options = {});
  BloomFilter(const BloomFilter&);
  BloomFilter& operator=(const BloomFilter&);
  BloomFilter(BloomFilter&&) noexcept;
  BloomFilter& operator=(BloomFilter&&) noexcept;
  ~BloomFilter();

  const Growth& growth() const;
  std::uint64_t seed() const;
  const Backend& backend() const;
  BloomFilter& to(std::string_view backend);

  std::size_t stages() const;
  StageView stage(std::size_t i) const;
  /// Geometry of the first stage; its cell() is Cell::bit.
  const Geometry& geometry() const;
  std::uint64_t bytes() const;  ///< bits of all stages
  /// Keys inserted, here or into the counters that the bits were made from, as recorded.
  std::uint64_t keys_inserted() const;
  /// Keys removed from the counters that the bits were made from.
  std::uint64_t keys_removed() const;
  double fpr_bound() const;

  // ---- keys -----------------------------------------------------------------------------------

  /// Sets the k bits of each valid key in the oldest stage with room. Throws FilterFull.
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options = {});
  /// As Filter::insert_new.
  InsertNewReport insert_new(const KeyBatch& keys, std::span<std::uint8_t> out = {},
                             const BatchOptions& options = {});
  /// One insertion in many batches of any size; see BulkInserter.
  BulkInserter bulk(const BatchOptions& options = {});

  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options = {}) const;
  ContainsReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options = {}) const;
  ContainsReport find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                      const BatchOptions& options = {}) const;

  // One key; for loops use batches, they are many times faster.
  void insert(std::uint64_t key);
  void insert(std::string_view key);
  bool insert_new(std::uint64_t key);
  bool insert_new(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
  template <detail::NotAKey T>
  void insert(T) = delete;
  void insert(detail::Literals) = delete;
  template <detail::NotAKey T>
  bool insert_new(T) = delete;
  bool insert_new(detail::Literals) = delete;
  template <detail::NotAKey T>
  bool contains(T) const = delete;
  bool contains(detail::Literals) const = delete;

  // ---- whole filters --------------------------------------------------------------------------

  /// Joins the other filter's bits (OR): the filter of the keys of both. Filters that grow are
  /// merged as in Filter::merge. Throws Incompatible, changing nothing, as there.
  void merge(const BloomFilter& other, const BatchOptions& options = {});
  /// Keeps the bits that both have (AND): holds every key that both held, with more false positives
  /// than a filter of the common keys alone. Numbers of keys are those of this filter, as before.
  /// Throws Incompatible, changing nothing, unless both have a single stage that is never full,
  /// equal geometry and equal seeds.
  void intersect(const BloomFilter& other, const BatchOptions& options = {});
  /// Resets the filter to one empty stage.
  void clear();
  friend bool operator==(const BloomFilter& a, const BloomFilter& b);

  // Cost of each below: one pass over the bits, unless the number of ones is known from insertions.

  /// Bits that are 1.
  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  double fill(const BatchOptions& options = {}) const;
  /// As Filter's. Histograms have the values 0 and 1; nothing is saturated or ambiguous.
  Statistics statistics(const BatchOptions& options = {}) const;
  /// How many distinct keys would give this fill, over all stages.
  KeyEstimate estimated_keys(const BatchOptions& options = {}) const;
  /// How many distinct keys are in at least one of the two filters. Estimated from the fill of each
  /// and of both together, without a copy of either. Throws Incompatible unless both have a single
  /// stage that is never full, equal geometry and equal seeds.
  KeyEstimate estimated_union(const BloomFilter& other, const BatchOptions& options = {}) const;
  KeyEstimate estimated_intersection(const BloomFilter& other,
                                     const BatchOptions& options = {}) const;

  // ---- changes that travel: delta.hpp ---------------------------------------------------------

  /// Where the bits stand in their history; none if they were changed by anything but advance and
  /// apply.
  Epoch epoch() const;
  /// Takes over the bits, numbers of keys, metadata, growth and seed of `now` as the next epoch.
  /// Returns what leads there from the epoch before: the changes, or a whole filter if there was
  /// none, the shapes differ, or the changes would be longer. Cost: one pass over both; a second
  /// one if in some stage more bits changed than are 1, and one to count the ones where their
  /// number is not known; memory for the message. Throws ReadOnly, or std::bad_alloc, changing
  /// nothing.
  Delta advance(const Filter& now);
  Delta advance(const BloomFilter& now);
  /// Applies a delta; all of it or, if it throws, nothing. Throws ReadOnly, std::bad_alloc, or
  /// Incompatible, naming both epochs, unless the delta begins at the epoch of this filter, or is
  /// whole and of a later one. Cost: the bits that change.
  void apply(const Delta& delta);

  /// stage(0).words() and stage(0).read_words(…).
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  void set_metadata(std::string metadata);
  const std::string& metadata() const;

  // ---- files: docs/file_format.md -------------------------------------------------------------

  // As Filter's, in the same format: a file says whether it holds counters or bits. Files of
  // counters are read, too, and only their bits are kept. A Filter cannot be made from bits.

  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Memory: that of the bits, and two chunks (1.25 MiB).
  static BloomFilter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// For a file of counters, the same as load.
  static BloomFilter map(const std::filesystem::path& path, const FilterOptions& options = {});
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;
  static BloomFilter read(const ByteSource& source, const FilterOptions& options = {});
  /// True for a mapped filter; insert, merge, intersect and clear throw ReadOnly.
  bool read_only() const;

 private:
  friend struct FilterAccess;
  explicit BloomFilter(std::unique_ptr<FilterState> state) noexcept;

  detail::Owned<FilterState> state_;
};

inline BulkInserter BloomFilter::bulk(const BatchOptions& options) {
  return BulkInserter(*this, options);
}

}  // namespace scbf
