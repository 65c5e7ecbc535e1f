// SPDX-License-Identifier: Apache-2.0
// Parts of JSON reports. Each comment lists the keys that the function adds.
#pragma once

#include <string_view>

#include "key_reader.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/backend.hpp"
#include "scbf/bank_base.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::cli {

/// keys, empty_lines, key_kind, seconds, keys_per_second, backend, target, threads.
void describe_work(Json& json, const KeyTotals& read, const Backend& backend, const RunOptions& run,
                   double seconds);
/// layout, groups, probes, counters …
void describe_geometry(Json& json, const Geometry& geometry);
/// policy, fpr_target, most_stages …
void describe_growth(Json& json, const Growth& growth);
/// policy; the rest of describe_growth, unless that is "one"; those of describe_geometry, of the
/// first stage of a member.
void describe_growth_of_bank(Json& json, const Growth& growth);
/// bytes; stages of a filter that grows.
void describe_size(Json& json, const FilterBase& filter);
/// epoch, history of bits that have them.
void describe_epoch(Json& json, const Epoch& epoch);
/// fill, saturated, estimated_keys (null when the filter is full), estimated_fpr.
void describe_fill(Json& json, const Statistics& statistics);
void describe_fill(Json& json, const StageStatistics& statistics);

/// What a file holds: "counters", "bits", "delta"; "bank", "bits_bank".
std::string_view kind_of(const FileInfo& info);
std::string_view kind_of(const BankFileInfo& info);

}  // namespace scbf::cli
