// SPDX-License-Identifier: Apache-2.0
// Filter files of the command: opening, saving, and the notes about the keys in the file's
// metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "filter_source.hpp"
#include "key_reader.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
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
/// The JSON in metadata, or a discarded value if there is none. Metadata may come from strangers:
/// values nested too deeply for recursion count as none.
Json metadata_as_json(const std::string& metadata);
std::string write_notes(const FilterNotes& notes);
/// Metadata with another kind of keys noted in it, or none. If it is not JSON, it stays as it is.
std::string with_kind(const std::string& metadata, std::optional<KeyKind> kind);
/// Prints a note on standard error that these ("members", "the filter") hold keys of both kinds, so
/// that a verb ("find", "query") must be told which ones to ask for.
void note_both_kinds(std::string_view what, std::string_view verb);

/// How to read keys: as the kind that --keys gives, else the one that the filter was built from,
/// else lines. Throws UsageError if --keys contradicts the filter, unless --force is given.
KeyFormat agreed_format(const KeyOptions& keys, const FilterNotes& notes, const std::string& file);

/// Bytes of blocks whose keys go to a BulkInserter: small ones, unless the filter is on a device,
/// which takes each as a batch.
std::size_t bulk_block(const Backend& backend);
/// How many keys for each cache line of a filter are worked on together, so that a pass over it
/// pays. A removal gains nothing by more, and fresh memory for them is slow. Tried on one machine
/// only, an Emerald Rapids.
inline constexpr double kAskedPerLine = 4, kRemovedPerLine = 1.25;
/// So many keys for this filter, at least 1 MiB of them, but not more than half of --scratch has
/// room for at 8 bytes each (default: 1 GiB), or an eighth of the memory that is free. The library
/// gets the other half (RunOptions::batch_beside_keys).
std::size_t window_keys(const FilterBase& filter, double keys_per_line, const RunOptions& run);
/// Bytes of blocks whose keys are asked together and may be printed, so that they stay in memory as
/// they were read. Integers: a window. Lines, which take more memory than a large batch would save:
/// bytes of 1.25 integers for each cache line, but from 1 to 256 MiB.
std::size_t printed_block(const FilterBase& filter, KeyKind kind, double keys_per_line,
                          const RunOptions& run);

/// What a file holds: "counters", "bits", "delta"; "bank", "bits_bank".
std::string_view kind_of(const FileInfo& info);
std::string_view kind_of(const BankFileInfo& info);

/// How a verb that only asks opens a filter or a bank. What is loaded is verified as a whole; of
/// what is mapped, the headers. By size: files of more than kMostLoaded bytes are mapped. Files
/// that cannot be mapped, being compressed or no regular files, are always loaded.
enum class Opening : unsigned char { by_size, load, map };
inline constexpr std::uint64_t kMostLoaded = 64 << 20;  // some 20 ms

/// Opens a filter of counters.
Filter open_counters(const std::string& file, const RunOptions& run, Opening opening);
/// The same for queries. A filter that is loaded becomes one of bits, if the backend has them: the
/// answers are the same.
using AnyFilter = std::variant<Filter, BloomFilter>;
AnyFilter open_for_queries(const std::string& file, const RunOptions& run, Opening opening);

/// A filter of either kind to be changed, loaded and verified.
struct Changeable {
  AnyFilter filter;
  bool compressed;  ///< in its file, and so in its next
};
Changeable open_for_changes(const Rereadable& source, const RunOptions& run);
inline Changeable open_for_changes(const std::string& file, const RunOptions& run) {
  return open_for_changes(Rereadable(file), run);
}
/// The same for counters. Throws Incompatible if the file has bits; the message is the file's name,
/// then `cannot`.
Filter counters_of(Changeable opened, const std::string& file, const char* cannot);

/// Opens a bank; only one of bits can be mapped. A bank of counters becomes one of bits, whose
/// answers are the same. Throws IoError if there is too little memory.
BloomBank open_bank_for_queries(const std::string& file, const RunOptions& run, Opening opening);
/// A bank of either kind to be changed, loaded and verified.
struct OpenedBank {
  std::variant<Bank, BloomBank> bank;
  bool compressed;  ///< in its file, and so in its next
};
OpenedBank open_bank_for_changes(const Rereadable& source, const RunOptions& run);

/// Throws Incompatible unless keys of both files are of one kind, or `force` is given. Files that
/// do not say so fit any.
void check_kinds(const FilterNotes& notes, const std::string& file, const FilterNotes& others,
                 const std::string& other, bool force);

/// Where a verb that changes a filter writes it: to `out`, or, if that is empty, in place of
/// `file`, which must then be a file. To be called before the filter is opened: if `file` is
/// replaced, waits until no other command changes it (FileLock). Without `out`, `rules` must have a
/// way out.
Destination changed_filter(const std::string& file, const std::string& out,
                           Destination::Rules rules);
struct Saved {
  Statistics statistics;  ///< without slice_fill and histograms
  double seconds;         ///< of saving
};
/// Saves a filter: the bytes of Filter::save. Its statistics cost no pass of their own.
Saved save_filter(const FilterBase& filter, const Destination& to, const RunOptions& run,
                  SaveOptions how);
/// Writes a filter or a bank to an output.
template <class AnyKind>
void write_filter(Output& out, const AnyKind& filter, const SaveOptions& how) {
  filter.write(
      [&](std::span<const std::byte> bytes) {
        out.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      },
      how);
}
/// Adds --compress.
void add_compress_to(CommandLine& line, bool& compress);

// Parts of JSON reports. Each comment lists the keys that the function adds.

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
/// The epoch of bits; of counters, none.
inline Epoch epoch_of(const Filter&) noexcept { return {}; }
inline Epoch epoch_of(const BloomFilter& filter) { return filter.epoch(); }
/// Prints a note on standard error if the filter had an epoch and has it no longer.
template <class OneFilter>
void note_end_of(const Epoch& before, const OneFilter& now, const std::string& file) {
  if (!before || epoch_of(now)) return;
  note(display_name(file) + ": its epochs end here: readers of its deltas must begin anew");
}
/// epoch, history of bits that have them.
void describe_epoch(Json& json, const Epoch& epoch);
/// fill, saturated, estimated_keys (null when the filter is full), estimated_fpr.
void describe_fill(Json& json, const Statistics& statistics);
void describe_fill(Json& json, const StageStatistics& statistics);

/// The rate above which no filter is written, unless --max-fpr says otherwise: it says yes to half
/// of all keys.
inline constexpr double kMostFpr = 0.5;
/// Adds --max-fpr.
void add_max_fpr_to(CommandLine& line, double& most);
/// What errors say of a filter that is not written.
struct Refusal {
  std::string name;  ///< of the filter, in quotes
  const char* outcome = "nothing was written";
  const char* way_out = "build a larger filter, or one that grows (--scalable)";
  std::optional<double> planned = {};  ///< the rate for which the filter was built
};
/// Throws Incompatible if the rate of a filter is above `most`: of one stage the rate that its fill
/// says, of several the growth's bound. To be called before the filter is written. Cost: none, as
/// the fill is known.
void check_rate(const FilterBase& filter, double most, const Refusal& refusal);
/// What an error says of a filter that is full.
std::string full_text(const Refusal& refusal, std::string_view reason, std::uint64_t fitted);
/// Calls insert(). If the filter becomes full, throws IoError, which says how many keys fitted.
template <class Insert>
auto insert_or_refuse(const FilterBase& filter, const Refusal& refusal, Insert insert) {
  const std::uint64_t before = filter.keys_inserted();
  try {
    return insert();
  } catch (const FilterFull& full) {
    throw IoError(full_text(refusal, full.reason(), filter.keys_inserted() - before));
  }
}

/// Prints a note on standard error if a filter holds clearly more distinct keys than it was built
/// for.
void warn_if_too_full(std::uint64_t keys, const FilterNotes& notes, const Statistics& statistics,
                      const char* way_out = "build a larger one");

}  // namespace scbf::cli
