// SPDX-License-Identifier: Apache-2.0
// The face between host code (plain C++) and device code (nvcc): kernels as functions that launch
// them. Each returns what the launch said; n > 0, pointers are to device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/filter_ref.hpp"

namespace scbf::cuda {

cudaError_t launch_insert(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                          cudaStream_t stream) noexcept;
cudaError_t launch_contains(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                            std::uint8_t* out, cudaStream_t stream) noexcept;
cudaError_t launch_count(FilterRef filter, const std::uint64_t* keys, std::size_t n,
                         std::uint8_t* out, cudaStream_t stream) noexcept;

}  // namespace scbf::cuda
