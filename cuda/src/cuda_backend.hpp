// SPDX-License-Identifier: Apache-2.0
// The CUDA backends: scbf::Filter on a device, batches from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

/// "cuda" for the first device, "cuda:1" … for others; never empty: where there is no device, the
/// one named "cuda" says why. Asks the driver, which starts it.
const std::vector<const Backend*>& cuda_backends();

/// One of them, under any name, for windows of so many keys (cuda/src/staging.hpp). Throws
/// CudaError if the device cannot be asked.
std::unique_ptr<Backend> make_cuda_backend(int device, std::string name, std::size_t window);

}  // namespace scbf
