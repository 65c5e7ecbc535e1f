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

#include "scbf/filter.hpp"
#include "scbf/filter_base.hpp"

namespace scbf {

class Delta;  // delta.hpp

/// An estimate of a number of distinct keys.
struct KeyEstimate {
  double keys;            ///< infinity if every bit is 1, because the fill then says nothing
  double standard_error;  ///< of `keys`, also in keys; see estimate_covariance
};

/// A split Bloom filter, blocked or not: what remains of a Filter if counters become bits. Keys can
/// be added but not removed. It grows, takes batches of all kinds, chooses its path, and uses
/// threads and backends as Filter does (FilterBase). Equality compares growth, seed, shapes and
/// bits.
class BloomFilter : public FilterBase {
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

  /// Views of a filter of one stage on the host, for loops with one key per call, as Filter::ref.
  /// They are not valid any longer after `intersect`, `advance` or `apply`, either, which may
  /// replace the bits. The view of a filter that is not const ends the epoch at once, even if
  /// nothing is inserted; that of a const one leaves it.
  BloomFilterRef ref();
  ConstFilterRef ref() const;

  /// As Filter::to. Throws BackendUnavailable, also for a backend that works on counters only.
  BloomFilter& to(std::string_view backend);

  // ---- whole filters --------------------------------------------------------------------------

  /// Joins the other filter's bits (OR): the filter of the keys of both. Filters that grow are
  /// merged as in Filter::merge. Throws Incompatible, changing nothing, as there.
  void merge(const BloomFilter& other, const BatchOptions& options = {});
  /// Keeps the bits that both have (AND): holds every key that both held, with more false positives
  /// than a filter of the common keys alone. Numbers of keys are those of this filter, as before.
  /// Throws Incompatible, changing nothing, unless both have a single stage that is never full,
  /// equal geometry and equal seeds.
  void intersect(const BloomFilter& other, const BatchOptions& options = {});
  friend bool operator==(const BloomFilter& a, const BloomFilter& b);

  // Cost of each below: one pass over the bits, unless the number of ones is known from insertions.

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
  /// none, the shapes differ, or the changes would be longer. Cost: one pass over both, one more if
  /// a stage has more changed bits than bits set, and one more if the number of bits set is not
  /// known; memory for the message. Throws ReadOnly, or std::bad_alloc, changing nothing.
  Delta advance(const Filter& now);
  Delta advance(const BloomFilter& now);
  /// Applies a delta; all of it or, if it throws, nothing. Throws ReadOnly, std::bad_alloc, or
  /// Incompatible, naming both epochs, unless the delta begins at the epoch of this filter, or is
  /// whole and of a later one. Cost: the bits that change.
  void apply(const Delta& delta);

  // ---- files: docs/file_format.md -------------------------------------------------------------

  // As Filter's, in the same format: a file says whether it holds counters or bits. Files of
  // counters are read, too, and only their bits are kept. A Filter cannot be made from bits.

  /// Memory: that of the bits, and two chunks (1.25 MiB).
  static BloomFilter load(const std::filesystem::path& path, const FilterOptions& options = {});
  /// For a file of counters, the same as load.
  static BloomFilter map(const std::filesystem::path& path, const FilterOptions& options = {});
  /// As Filter's; of a file of counters, the bits are a copy, and the bytes need no longer be
  /// there.
  static BloomFilter map(std::span<const std::byte> bytes, const FilterOptions& options = {});
  static BloomFilter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  friend struct FilterAccess;
  explicit BloomFilter(std::unique_ptr<FilterState> state) noexcept;
};

}  // namespace scbf
