// SPDX-License-Identifier: Apache-2.0
#include "devices.hpp"

#include <fmt/format.h>

namespace scbf::cuda {

namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "asking for an attribute of the device");
  return value;
}

cudaDeviceProp properties(int device) {
  cudaDeviceProp result{};
  check(cudaGetDeviceProperties(&result, device), "asking for the properties of the device");
  return result;
}

}  // namespace

int count_devices(std::string& reason) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) {
    (void)cudaGetLastError();
    reason = cudaGetErrorString(result);
    return 0;
  }
  if (devices == 0) reason = "no device";
  return devices;
}

std::string device_name(int device) {
  const cudaDeviceProp p = properties(device);
  return fmt::format("{}, compute capability {}.{}", p.name, p.major, p.minor);
}

std::string device_memory(int device) {
  constexpr double kGiB = 1 << 30;
  // The clock rate is in kHz with two transfers per cycle; the bus width is in bits.
  const double bandwidth = 2e3 * attribute(cudaDevAttrMemoryClockRate, device) *
                           attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  return fmt::format("{:.1f} GiB of memory at {:.0f} GB/s",
                     static_cast<double>(properties(device).totalGlobalMem) / kGiB,
                     bandwidth / 1e9);
}

}  // namespace scbf::cuda
