// SPDX-License-Identifier: Apache-2.0
// How a batch goes through its filters: decided here, once, by the sizes of filters and batch and
// by what the caller asks for. Answers and counters never depend on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/shards.hpp"
#include "scbf/backend.hpp"

namespace scbf {

enum class Operation : std::uint8_t { lookup, insert, remove };

enum class Way : std::uint8_t {
  few,          ///< so few keys that strips and their buffers do not pay
  direct,       ///< strip by strip, with prefetching
  by_position,  ///< one filter, array by array, partition by partition
  by_hash,      ///< several filters together, in the order of the hashes
  one_by_one,   ///< several filters, each by_position
};

struct Choice {
  Way way;
  unsigned threads;
  ScratchNeeds needs = {};  ///< of by_position and by_hash
  PartitionPlan plan = {};  ///< likewise
};

/// For lookups in one filter or more.
Choice choose_lookup(std::span<const ConstFilterArrays> filters, std::size_t keys,
                     const BatchOptions& options) noexcept;
/// For one filter: direct or by_position.
Choice choose(Operation operation, const Geometry& geometry, std::size_t keys,
              const BatchOptions& options) noexcept;

}  // namespace scbf
