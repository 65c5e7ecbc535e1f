// SPDX-License-Identifier: Apache-2.0
// Rows for filters of several stages, beside one filter for the same keys and rate, and beside the
// stages as separate filters that are asked one by one.
#pragma once

#include "bench_case.hpp"

namespace scbf::bench {

/// Registers stages/{miss,hit,mix}/n:…/{one | stages:d | apart:d}, d of 1, 2, 4 and 10; answers are
/// verified before they are timed, on one thread.
void add_stages(Size size);

}  // namespace scbf::bench
