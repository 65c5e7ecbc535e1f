// SPDX-License-Identifier: Apache-2.0
// What operations on filters report: how many keys, the errors that say so of a part of a batch,
// and statistics.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/errors.hpp"
#include "scbf/growth.hpp"

namespace scbf {

struct InsertReport {
  std::uint64_t inserted = 0;  ///< keys, repetitions counted
  std::uint64_t nulls = 0;

  InsertReport& operator+=(const InsertReport& more) noexcept {
    inserted += more.inserted;
    nulls += more.nulls;
    return *this;
  }
};

struct InsertNewReport {
  std::uint64_t inserted = 0;  ///< keys that were absent at their turn
  std::uint64_t present = 0;   ///< keys that were found at their turn; nothing was changed
  std::uint64_t nulls = 0;

  InsertNewReport& operator+=(const InsertNewReport& more) noexcept {
    inserted += more.inserted;
    present += more.present;
    nulls += more.nulls;
    return *this;
  }
};

struct ContainsReport {
  std::uint64_t hits = 0;  ///< keys that may be present
  std::uint64_t nulls = 0;
};

struct RemoveReport {
  std::uint64_t removed = 0;
  std::uint64_t absent = 0;     ///< keys that no stage claimed at their turn; nothing was changed
  std::uint64_t ambiguous = 0;  ///< keys that several stages claimed; always 0 with one stage
  std::uint64_t nulls = 0;
  std::uint64_t kept = 0;  ///< keys in stuck blocks of `ranked`, which are still there

  RemoveReport& operator+=(const RemoveReport& more) noexcept {
    removed += more.removed;
    absent += more.absent;
    ambiguous += more.ambiguous;
    nulls += more.nulls;
    kept += more.kept;
    return *this;
  }
};

struct SubtractReport {
  /// Counters left as they were although something was to be subtracted: those at 15; in `ranked`,
  /// counts at 255 and all counts of blocks that are stuck in either filter. There the result is an
  /// upper bound; everywhere else it is exact.
  std::uint64_t inexact_counters = 0;
};

struct CountReport {
  std::uint64_t hits = 0;  ///< keys whose count is not 0
  std::uint64_t nulls = 0;
};

/// No stage has room and no further stage can be added: all stages of a `fixed` growth are full, or
/// there is too little memory. All keys before index processed() are in the filter, but for null
/// ones; keys_inserted() says how many of them this call inserted. Keys from there on have changed
/// no counter.
class FilterFull : public Error {
 public:
  FilterFull(const Error& message, std::uint64_t processed, const InsertReport& done) noexcept
      : Error(message), processed_(processed), done_(done) {}
  /// How many keys of the batch were processed, nulls included; continue with the key at this
  /// index.
  std::uint64_t processed() const noexcept { return processed_; }
  /// How many of those were inserted, and how many were null.
  const InsertReport& done() const noexcept { return done_; }
  /// The part of what() that says why: what follows says how far the batch got.
  std::string_view reason() const noexcept;

 private:
  std::uint64_t processed_;
  InsertReport done_;
};

/// A device ran out of memory in the middle of a removal. The keys of the batch before index
/// processed() have had their turn and are counted by keys_removed(); the others have changed
/// nothing, and their verdicts are not valid.
class RemovalStopped : public Error {
 public:
  RemovalStopped(const Error& message, std::uint64_t processed, const RemoveReport& done) noexcept
      : Error(message), processed_(processed), done_(done) {}
  /// How many keys of the batch were processed, nulls included; continue with the key at this
  /// index.
  std::uint64_t processed() const noexcept { return processed_; }
  /// What became of those.
  const RemoveReport& done() const noexcept { return done_; }

 private:
  std::uint64_t processed_;
  RemoveReport done_;
};

/// More keys of a removal were absent than BatchOptions::most_absent allows. Nothing was changed.
class KeysAbsent : public Error {
 public:
  KeysAbsent(const Error& message, const RemoveReport& report) noexcept
      : Error(message), report_(report) {}
  /// What the removal would have done.
  const RemoveReport& report() const noexcept { return report_; }

 private:
  RemoveReport report_;
};

/// Keys inserted minus keys removed, as recorded by the filter; 0 if more were removed than
/// inserted. (With saturated counters a key can be removed more often than it was inserted.)
constexpr std::uint64_t keys_left(std::uint64_t inserted, std::uint64_t removed) noexcept {
  return inserted > removed ? inserted - removed : 0;
}

// Shares and rates are in [0, 1], whatever the counters are; all numbers but estimated_keys are
// finite.

struct StageStatistics {
  StageShape shape;
  std::vector<double> slice_fill;  ///< share of non-zero counters, per slice
  double fill = 0;                 ///< over all slices
  std::uint64_t nonzero = 0;       ///< counters
  std::uint64_t saturated = 0;  ///< counters that no removal lowers: at 15 (ranked: see Geometry)
  std::uint64_t keys_inserted = 0;  ///< as recorded, repetitions counted
  std::uint64_t keys_removed = 0;
  /// Distinct keys that would give this fill; infinity if every counter is non-zero, because the
  /// fill then says nothing.
  double estimated_keys = 0;
  double estimated_fpr = 0;  ///< predicted_fpr at estimated_keys
  Histogram histogram{};     ///< counters by value, all slices together
};

struct Statistics {
  std::vector<StageStatistics> stages;  ///< oldest first
  std::uint64_t bytes = 0;              ///< of counters
  std::uint64_t counters = 0;
  std::uint64_t nonzero = 0;    ///< counters
  std::uint64_t saturated = 0;  ///< counters that no removal lowers: at 15 (ranked: see Geometry)
  double fill = 0;              ///< nonzero / counters
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  double estimated_keys = 0;   ///< over all stages; a key in several stages counts in each
  double estimated_fpr = 0;    ///< of all stages together, from their fill
  double fpr_bound = 0;        ///< see Filter::fpr_bound
  double ambiguous_share = 0;  ///< expected, of keys inserted once; see ambiguous_share
};

}  // namespace scbf
