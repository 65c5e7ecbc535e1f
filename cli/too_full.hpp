// SPDX-License-Identifier: Apache-2.0
// Filters with more keys than they were built for: warned of, refused, or full.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "command_line.hpp"
#include "errors.hpp"
#include "filter_notes.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::cli {

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

/// Saturated counters, in stages that have enough of them to keep a key.
std::uint64_t saturated_counters(const Statistics& statistics);
/// Prints a note on standard error if there are any.
void warn_of_saturated(std::uint64_t counters);

/// Prints a note on standard error if a filter holds clearly more distinct keys than it was built
/// for.
void warn_if_too_full(std::uint64_t keys, const FilterNotes& notes, const Statistics& statistics,
                      const char* way_out = "build a larger one");

}  // namespace scbf::cli
