// SPDX-License-Identifier: Apache-2.0
// What 'scbf bank' reads: files of keys, or filters, that become members of a bank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "counted_keys.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "key_reader.hpp"
#include "options.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/growth.hpp"
#include "too_full.hpp"

namespace scbf::cli {

struct BankVerbOptions {
  KeyOptions keys;  ///< its inputs are the members
  RunOptions run;
  std::optional<std::uint64_t> capacity = {};
  std::optional<double> fpr = {};
  std::optional<Layout> layout = {};
  std::uint64_t seed = 0;
  std::string to, out;             ///< the bank to change, if there is one; and where it goes
  std::vector<std::string> drops;  ///< names of members to take out
  double most_fpr = kMostFpr;      ///< of a member; above it, nothing is written
  bool scalable = false, filters = false, compress = false;

  bool shaped() const noexcept { return capacity || fpr || layout || scalable || seed != 0; }
  /// Does any option say how keys are written?
  bool written() const noexcept {
    return keys.kind || keys.format.column || keys.format.end != '\n' || keys.format.chomp_cr ||
           !keys.format.decode;
  }
};

/// What all members of a bank have in common, and the notes for its file.
struct MemberShape {
  Growth growth;
  std::uint64_t seed;
  FilterNotes notes;
  bool any_kind = false;  ///< the bank has members, and does not say what their keys are
};

/// The filters that are members of a bank of this kind.
template <class OneBank>
using MemberOf = std::conditional_t<std::is_same_v<OneBank, Bank>, Filter, BloomFilter>;

/// Members that a bank is to take.
template <class OneFilter>
struct Members {
  std::vector<OneFilter> filters = {};
  KeyTotals read = {};
  std::uint64_t largest = 0;  ///< most keys of a member
  std::size_t at = 0;         ///< which member that is
};

/// Keys of each input that were counted, if they were.
using Counted = std::vector<std::optional<CountedKeys>>;

/// The shape of the members of a new bank. Counts keys where it must.
MemberShape new_shape(const BankVerbOptions& options, const KeyFormat& format, Counted& counted);

/// A filter of the keys of each input.
Members<Filter> members_of_keys(const BankVerbOptions& options, const MemberShape& shape,
                                const KeyFormat& format, Counted counted);

/// The filters that the inputs are, loaded and verified.
std::vector<AnyFilter> open_filters(const BankVerbOptions& options);

/// The inputs as members of a bank whose filters are of this type. Throws Incompatible if one is of
/// the other. Their shape must be that of the bank; without one, `shape` is set to that of the
/// first.
template <class OneFilter>
Members<OneFilter> members_of_filters(const BankVerbOptions& options, std::vector<AnyFilter> opened,
                                      std::optional<MemberShape>& shape);

}  // namespace scbf::cli
