// SPDX-License-Identifier: Apache-2.0
// One cell of bench's matrix: the operations on a filter of one size, layout and backend, verified
// first and then timed. verb_bench.cpp chooses the cells and prints them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/filter.hpp"

namespace scbf::cli {

enum class Operation : std::uint8_t { insert, hit, miss, mix, count, remove };
inline constexpr Operation kOperations[] = {Operation::insert, Operation::hit,   Operation::miss,
                                            Operation::mix,    Operation::count, Operation::remove};
std::string_view to_string(Operation operation) noexcept;
/// Throws UsageError for any other name.
Operation operation_from_string(std::string_view name);

/// n keys to insert, n absent keys, and a random mix of both, half of each.
struct BenchKeys {
  explicit BenchKeys(std::uint64_t n, std::uint64_t seed);
  std::vector<std::uint64_t> present, absent, mixed;
};

struct Timing {
  Operation operation;
  double ns_per_key = 0;  ///< median
  double fastest_ns = 0, slowest_ns = 0;
  std::uint32_t repetitions = 0;
};

struct CellResult {
  Geometry geometry;
  double predicted_fpr = 0, measured_fpr = 0;
  std::string backend, target;
  std::vector<Timing> timings;
};

struct CellRequest {
  Geometry geometry;
  std::string backend;
  std::vector<Operation> operations;
  BatchOptions batch;
  double seconds;  ///< approximate time for each operation
};

/// Verifies the answers, then times the operations. `model` is null or the filter that another
/// backend made from the same keys. Throws Incompatible if an inserted key is not found, if the
/// measured rate differs from the predicted one (two-sided, six standard errors), if removing all
/// keys does not leave an empty filter, or if the counters differ from `model`.
/// `full`, if not null, receives the filter with all keys inserted.
CellResult measure_cell(const CellRequest& request, const BenchKeys& keys, const Filter* model,
                        std::unique_ptr<Filter>* full);

}  // namespace scbf::cli
