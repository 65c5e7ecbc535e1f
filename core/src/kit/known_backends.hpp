// SPDX-License-Identifier: Apache-2.0
// The backends, by folder. Each folder defines its function below, and dispatch/ calls them all. So
// core needs no header of a backend, and backends are registered at link time.
#pragma once

#include <string_view>
#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

/// scalar/: the model that every other backend is compared with, byte for byte. It works on one key
/// and one counter at a time, in batch order, on the calling thread.
const Backend& scalar_backend() noexcept;

/// The backend that "auto" takes: it is always available and keeps counters on the host. A device
/// is taken only by name, since moving keys and counters there can cost more than it saves.
inline constexpr std::string_view kAutomatic = "simd";

/// cpu_simd/: "simd" (the best target that this machine runs) first, then one backend per compiled
/// target, best first: "simd:AVX2". Targets that this machine does not run are listed as
/// unavailable.
const std::vector<const Backend*>& simd_backends();

/// cuda/: "cuda" for the first device, "cuda:1" … for others; never empty: where there is no
/// device, the one named "cuda" says why. Calling this starts the driver.
const std::vector<const Backend*>& cuda_backends();

}  // namespace scbf
