// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime goes through here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace scbf::cuda {

/// Throws CudaError, or DeviceLost after an error that ends the work with the device, naming what
/// was tried and why CUDA refused it.
void check(cudaError_t result, const char* what);

/// For calls whose failure nobody can be told of: it is not to be met by later calls either.
inline void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) (void)cudaGetLastError();
}

/// Throws OutOfDeviceMemory for `bytes` more, with what is free.
[[noreturn]] void throw_out_of_memory(std::size_t bytes, const std::string& what);

}  // namespace scbf::cuda
