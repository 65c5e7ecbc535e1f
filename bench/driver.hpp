// SPDX-License-Identifier: Apache-2.0
// Verifies a case's answers, then times its operations: the bodies of the benchmarks.
//
// Every row reports ns_per_key, keys_per_second, fpr_measured (and fpr_predicted), bits_per_key,
// n and threads; where the subject is larger than the caches also floor_ns and ratio_to_floor,
// the floor (one random line read, or updated) being measured just before, with as many threads.
#pragma once

#include <benchmark/benchmark.h>

#include "bench_case.hpp"
#include "floors.hpp"

namespace scbf::bench {

/// One repetition of one operation. Skips with an error when answers are wrong; any_failure()
/// tells afterwards.
void run_operation(benchmark::State& state, const Case& c, Operation operation);

/// One repetition of a floor: ns_per_line, gb_per_second (bytes moved) and the fastest way.
void run_floor(benchmark::State& state, Floor floor, Where where, unsigned threads);

/// True when any benchmark of this process was skipped with an error.
bool any_failure() noexcept;

}  // namespace scbf::bench
