// SPDX-License-Identifier: Apache-2.0
// The CUDA backends: scbf::Filter on a device, batches from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "scbf/backend.hpp"

namespace scbf {

/// A backend for one device, under any name, for windows of so many keys (cuda/src/staging.hpp).
/// Throws CudaError if the device cannot be asked.
std::unique_ptr<Backend> make_cuda_backend(int device, std::string name, std::size_t window);

}  // namespace scbf
