// SPDX-License-Identifier: Apache-2.0
// A filter or a comparator as a case of the driver: verified with all its keys, then timed
// operation by operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keys.hpp"
#include "scbf/backend.hpp"
#include "subject.hpp"

namespace scbf::bench {

enum class Operation : std::uint8_t {
  insert,
  miss,
  hit,
  mix,
  count,
  remove,
  build,  ///< makes the filter and inserts all its keys, as a program does that builds several
  first_build,  ///< the same, without scratch memory left from before
};
/// In the order of tables.
inline constexpr Operation kOperations[] = {
    Operation::first_build, Operation::build, Operation::insert, Operation::hit,
    Operation::miss,        Operation::mix,   Operation::count,  Operation::remove};
std::string_view to_string(Operation operation) noexcept;
constexpr bool is_build(Operation operation) noexcept {
  return operation == Operation::build || operation == Operation::first_build;
}
constexpr bool inserts(Operation operation) noexcept {
  return operation == Operation::insert || is_build(operation);
}
constexpr bool changes(Operation operation) noexcept {
  return inserts(operation) || operation == Operation::remove;
}

/// How our filter is given the keys of a timed call. All end with the same counters and answers.
enum class Calls : std::uint8_t {
  one,    ///< one batch
  small,  ///< batches of kSmallBatch keys
  bulk,   ///< the same, but changes through a BulkInserter or BulkRemover
  key,    ///< one key a call, through the functions of the filter
  view,   ///< one key a call, through a view
  ahead,  ///< the same, and keys are prefetched
};
inline constexpr Calls kCalls[] = {Calls::one, Calls::small, Calls::bulk,
                                   Calls::key, Calls::view,  Calls::ahead};
inline constexpr std::size_t kSmallBatch = 4096;
constexpr bool is_key_by_key(Calls calls) noexcept {
  return calls == Calls::key || calls == Calls::view || calls == Calls::ahead;
}
std::string_view to_string(Calls calls) noexcept;

struct FilterCase {
  std::string structure = "split_block";  ///< a layout; with `other`, any name
  std::size_t n = 0;
  double fpr = 0.01;  ///< 0: exact
  KeyShape keys = {};
  std::string backend = "simd";
  BatchOptions options = {.threads = 1};
  Calls calls = Calls::one;
  Cell cell = Cell::counter;  ///< of our filter
  /// Makes the comparator; empty: the subject is our filter.
  std::function<std::unique_ptr<Subject>()> other = {};
  std::vector<Operation> operations = {};

  // How it is measured. Not part of the name.
  std::size_t batch = 0;    ///< keys per timed call, ≤ n; 0: n
  std::size_t batches = 1;  ///< minimum of timed calls per repetition
  double seconds = 0;       ///< minimum of timed seconds per repetition
  int repetitions = 5;
  bool against_floor = true;  ///< if the subject is larger than the caches, measure the floor too

  bool ours() const { return !other; }
  /// Everything but the operation: "filter:split_block/n:100000/fpr:0.01/keys:u64/…".
  std::string name() const;
};

/// Whether so many bytes are too large for any cache, so that the floor of memory applies.
bool beyond_caches(double bytes);

/// Adds a case with a row per operation. Figures are ns_per_key, fpr_measured, fpr_predicted and
/// bits_per_key; if the subject is larger than the caches, also floor_ns and ratio_to_floor. The
/// floor (one random line read or updated) is measured just before, with as many threads.
void add_filter_case(FilterCase c);

}  // namespace scbf::bench
