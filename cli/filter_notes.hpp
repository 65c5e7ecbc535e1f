// SPDX-License-Identifier: Apache-2.0
// What a file's metadata notes about the keys of a filter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "key_reader.hpp"
#include "options.hpp"
#include "output.hpp"

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

/// Throws Incompatible unless keys of both files are of one kind, or `force` is given. Files that
/// do not say so fit any.
void check_kinds(const FilterNotes& notes, const std::string& file, const FilterNotes& others,
                 const std::string& other, bool force);

}  // namespace scbf::cli
