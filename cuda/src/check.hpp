// SPDX-License-Identifier: Apache-2.0
// Checks the results of calls of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace scbf::cuda {

/// Throws CudaError, or DeviceLost after an error that ends all work with the device, naming what
/// was attempted and why CUDA refused it.
void check(cudaError_t result, const char* what);

/// For calls whose failure cannot be reported. Clears the error, so that later calls do not see it.
inline void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) (void)cudaGetLastError();
}

/// Throws OutOfDeviceMemory: `what` needs `bytes` more; says how much is free.
[[noreturn]] void throw_out_of_memory(std::size_t bytes, const std::string& what);

}  // namespace scbf::cuda
