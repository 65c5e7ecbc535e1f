// SPDX-License-Identifier: Apache-2.0
// The face of this folder: the Highway backends.
#pragma once

#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

/// "simd" (the best target that this machine runs) first, then one backend per compiled target,
/// best first: "simd:AVX2". Targets that this machine does not run are listed as unavailable.
const std::vector<const Backend*>& simd_backends();

}  // namespace scbf
