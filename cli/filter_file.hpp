// SPDX-License-Identifier: Apache-2.0
// Filter files of the command: opening, saving, and the notes about the keys in the file's
// metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "key_reader.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"

namespace scbf::cli {

/// The notes that build writes into the metadata, as JSON. Every member is optional, because other
/// programs write filters too.
struct FilterNotes {
  std::optional<KeyKind> kind = {};
  std::optional<std::uint64_t> capacity = {};
  std::optional<double> fpr = {};
};
FilterNotes read_notes(const std::string& metadata);
std::string write_notes(const FilterNotes& notes);

/// How to read keys: of the kind of --keys, else the one that the filter was built from, else
/// lines. Throws UsageError if --keys contradicts the filter, unless --force is given.
KeyFormat agreed_format(const KeyOptions& keys, const FilterNotes& notes, const std::string& file);

/// Bytes of blocks whose keys go to a BulkInserter: small ones, unless the filter is on a device,
/// which takes each as a batch.
std::size_t bulk_block(const Filter& filter);
/// Bytes of blocks whose keys are looked up or removed together: 8-byte keys for five quarters of
/// the filter's cache lines, so that a pass over the filter pays, but from 1 to 256 MiB.
std::size_t large_block(std::uint64_t filter_bytes);

/// The path of a filter that may be "-".
std::string filter_path(const std::string& file);
/// Opens a filter of counters. Maps it if the file allows that and `load` is false; otherwise loads
/// and verifies it.
Filter open_counters(const std::string& file, const RunOptions& run, bool load);
/// The same for queries. A filter that is loaded becomes one of bits, if the backend has them: the
/// answers are the same.
using AnyFilter = std::variant<Filter, BloomFilter>;
AnyFilter open_for_queries(const std::string& file, const RunOptions& run, bool load);
/// Opens a filter for changes: loads and verifies it.
Filter open_for_changes(const std::string& file, const RunOptions& run);

/// Where a verb that changes a filter writes it: to `out`, or, if that is empty, in place of
/// `file`, which must then be a file.
Destination changed_filter(const std::string& file, const std::string& out,
                           Destination::Rules rules);
struct Saved {
  Statistics statistics;
  double seconds;  ///< of saving
};
/// Saves a filter: the bytes of Filter::save. Its statistics are counted meanwhile, if there are
/// threads to spare.
Saved save_filter(const Filter& filter, const Destination& to, const RunOptions& run);

// Parts of JSON reports. Each comment lists the keys that the function adds.

/// keys, empty_lines, key_kind, seconds, keys_per_second, backend, target, threads.
void describe_work(Json& json, const KeyTotals& read, const Backend& backend, const RunOptions& run,
                   double seconds);
/// layout, groups, probes, counters …
void describe_geometry(Json& json, const Geometry& geometry);
/// policy, fpr_target, most_stages …
void describe_growth(Json& json, const Growth& growth);
/// bytes; stages of a filter that grows.
void describe_size(Json& json, const Filter& filter);
/// fill, saturated, estimated_keys (null when the filter is full), estimated_fpr.
void describe_fill(Json& json, const Statistics& statistics);
void describe_fill(Json& json, const StageStatistics& statistics);

/// Prints a note on standard error if a filter holds more keys than it was built for.
void warn_if_over_capacity(std::uint64_t keys, const FilterNotes& notes, double estimated_fpr);

}  // namespace scbf::cli
