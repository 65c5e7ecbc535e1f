// SPDX-License-Identifier: Apache-2.0
// Filters in files as the command keeps them: opening, saving, and the notes about keys that
// travel in the file's metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "key_reader.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/filter.hpp"

namespace scbf::cli {

/// What build writes into the metadata, as JSON. All of it is optional: other programs write
/// filters too.
struct FilterNotes {
  std::optional<KeyKind> kind = {};
  std::optional<std::uint64_t> capacity = {};
  std::optional<double> fpr = {};
};
FilterNotes read_notes(const std::string& metadata);
std::string write_notes(const FilterNotes& notes);

/// The kind of keys to read: --keys, else as the filter was built, else lines. Throws UsageError
/// when --keys contradicts the filter and --force is not given.
KeyKind agreed_kind(const KeyOptions& keys, const FilterNotes& notes, const std::string& file);

/// For questions: mapped where the file allows it and `load` is false, else loaded and verified.
Filter open_for_queries(const std::string& file, const RunOptions& run, bool load);
/// For changes: loaded and verified.
Filter open_for_changes(const std::string& file, const RunOptions& run);

/// Throws what save_filter would throw anyway, where that can be seen before the work is done:
/// UsageError for a terminal, IoError when the directory is missing.
void check_output(const std::string& path, bool json);
/// Atomically; "-" is standard output.
void save_filter(const Filter& filter, const std::string& path);

// Shares of a JSON report.

/// keys, empty_lines, key_kind, seconds, keys_per_second, backend, target, threads.
void describe_work(Json& json, const KeyReader& reader, const Filter& filter, const RunOptions& run,
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

/// Notes on standard error when a filter holds more than it was built for.
void warn_if_over_capacity(std::uint64_t keys, const FilterNotes& notes, double estimated_fpr);

}  // namespace scbf::cli
