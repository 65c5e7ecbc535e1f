// SPDX-License-Identifier: Apache-2.0
// Rows for filters of several stages beside one filter for the same keys and rate.
#pragma once

#include "bench_case.hpp"

namespace scbf::bench {

/// Registers stages/ask:{miss,hit}/n:…/stages:{one filter = 0, 1, 2, 4, 7, 10}; answers are
/// verified before they are timed, on one thread.
void add_stages(Size size);

}  // namespace scbf::bench
