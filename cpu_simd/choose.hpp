// SPDX-License-Identifier: Apache-2.0
// Chooses how a batch goes through its filters: once per batch, by the sizes of filters and batch
// and the caller's options. Answers and counters do not depend on the choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/shards.hpp"
#include "scbf/backend.hpp"

namespace scbf {

enum class Operation : std::uint8_t {
  lookup,
  count_present,
  insert,
  insert_new,
  remove,
  remove_without_verdicts  // the last (work_kinds.hpp)
};
constexpr bool is_lookup(Operation operation) noexcept {
  return operation == Operation::lookup || operation == Operation::count_present;
}
constexpr bool is_removal(Operation operation) noexcept {
  return operation == Operation::remove || operation == Operation::remove_without_verdicts;
}
/// Is something said of each key?
constexpr bool has_answers(Operation operation) noexcept {
  return operation == Operation::lookup || operation == Operation::insert_new ||
         operation == Operation::remove;
}

enum class Way : std::uint8_t {
  direct,       ///< strip by strip, with prefetching
  by_position,  ///< one filter, array by array, partition by partition
  by_hash,      ///< several filters together, in the order of the hashes
  one_by_one,   ///< several filters, each by_position
};

struct Choice {
  Way way;
  unsigned threads;
  ScratchNeeds needs = {};  ///< for by_position and by_hash
  PartitionPlan plan = {};  ///< for by_position and by_hash
  std::size_t enough = 0;   ///< keys that a pass by_position needs, if it may be the faster way
  double lines = 0;         ///< that the pass reads in each array, in all its windows together
};

/// Cache lines of each array of a filter.
double lines_per_array(const Geometry& geometry) noexcept;
/// Bytes of temporary memory that an operation on a filter may use. That depends on what is kept
/// from earlier batches, so it changes between calls.
std::size_t scratch_for(Operation operation, const Geometry& geometry,
                        const BatchOptions& options) noexcept;

/// Chooses for a lookup in several filters.
Choice choose_lookup(std::span<const ConstFilterArrays> filters, std::size_t keys,
                     const BatchOptions& options) noexcept;
/// Chooses for one filter: direct or by_position. If `enough` is not 0, either may be faster, and
/// times (path_times.hpp) decide, or sizes while there are no times.
Choice choose(Operation operation, const Geometry& geometry, std::size_t keys,
              const BatchOptions& options) noexcept;
/// Chooses for a change whose batches together are as large as the scratch memory allows. It gets
/// as much of that as an insertion.
Choice choose_bulk(Operation operation, const Geometry& geometry,
                   const BatchOptions& options) noexcept;

}  // namespace scbf
