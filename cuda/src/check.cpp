// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <fmt/format.h>

#include "allocation.hpp"
#include "scbf/cuda/errors.hpp"
#include "scbf/cuda/memory.hpp"

namespace scbf::cuda {

namespace {

/// Errors after which every call fails until the process ends.
bool is_final(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  const std::string message =
      fmt::format("{}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result));
  if (is_final(result)) {
    throw DeviceLost(message +
                     "; nothing can be done on this device until the process ends, and "
                     "the filters that were there are lost");
  }
  (void)cudaGetLastError();  // it is reported here, so later calls must not see it
  throw CudaError(message);
}

void throw_out_of_memory(std::size_t bytes, const std::string& what) {
  (void)cudaGetLastError();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory of the device");
  throw OutOfDeviceMemory(fmt::format("{} needs {} bytes of device memory: {} of {} are free", what,
                                      bytes, free, total));
}

std::uint64_t* allocate_words(std::size_t words, const std::string& what) {
  void* memory = nullptr;
  const std::size_t bytes = words * sizeof(std::uint64_t);
  cudaError_t result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    // Give up the memory that is kept for the next batch and try again.
    ignore(result);
    release_device_scratch();
    result = cudaMalloc(&memory, bytes);
  }
  if (result == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, what);
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) {
    ignore(result);
    throw BackendUnavailable(
        fmt::format("allocating device memory for {}: {}", what, cudaGetErrorString(result)));
  }
  check(result, "allocating device memory");
  return static_cast<std::uint64_t*>(memory);
}

}  // namespace scbf::cuda
