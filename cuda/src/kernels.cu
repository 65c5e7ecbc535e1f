// SPDX-License-Identifier: Apache-2.0
#include "runs.hpp"

#include "engine/operations.hpp"
#include "gpu.cuh"

namespace scbf::cuda {

using Device = Gpu;

void check_kernels() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, each_kernel<Book>), "looking for its kernels");
}

}  // namespace scbf::cuda

#include "runs-inl.hpp"
