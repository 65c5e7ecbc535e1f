// SPDX-License-Identifier: Apache-2.0
// The CUDA backends: scbf::Filter with counters on a device and batches from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "scbf/backend.hpp"

namespace scbf {

/// Makes a backend for one device, under any name, that sends `window` keys at a time
/// (cuda/src/staging.hpp). Throws CudaError if the device cannot be queried.
std::unique_ptr<Backend> make_cuda_backend(int device, std::string name, std::size_t window);

}  // namespace scbf
