// SPDX-License-Identifier: Apache-2.0
// One cell of bench's matrix: operations on a filter of one size, layout and backend, verified
// first and then timed. Which cells there are, and printing, is verb_bench.cpp's.
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

/// n keys that go into the filter, n others, and a random half-and-half mix of both.
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
  double seconds;  ///< to spend on each operation, about
};

/// Verifies, then times. Throws Incompatible when an answer is wrong: a key that was inserted is
/// not found, the measured rate is not the predicted one (two-sided, six standard errors),
/// removing everything does not leave an empty filter, or counters differ from `model` (which may
/// be null; else the filter that another backend made of the same keys).
/// `full`, if not null, receives the filter with all keys in.
CellResult measure_cell(const CellRequest& request, const BenchKeys& keys, const Filter* model,
                        std::unique_ptr<Filter>* full);

}  // namespace scbf::cli
