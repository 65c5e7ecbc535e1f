// SPDX-License-Identifier: Apache-2.0
// Opening and saving the files of filters and banks.
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

/// The epoch of bits; of counters, none.
inline Epoch epoch_of(const Filter&) noexcept { return {}; }
inline Epoch epoch_of(const BloomFilter& filter) { return filter.epoch(); }
/// Prints a note on standard error if the filter had an epoch and has it no longer.
template <class OneFilter>
void note_end_of(const Epoch& before, const OneFilter& now, const std::string& file) {
  if (!before || epoch_of(now)) return;
  note(display_name(file) + ": its epochs end here: readers of its deltas must begin anew");
}

}  // namespace scbf::cli
