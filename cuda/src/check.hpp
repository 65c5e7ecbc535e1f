// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime goes through here.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "scbf/cuda/errors.hpp"

namespace scbf::cuda {

/// Throws CudaError, naming what was tried and why CUDA refused it.
inline void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  throw CudaError(
      fmt::format("{}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result)));
}

}  // namespace scbf::cuda
