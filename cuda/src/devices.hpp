// SPDX-License-Identifier: Apache-2.0
// The devices of this machine.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "check.hpp"

namespace scbf::cuda {

/// Makes a device current in this thread for the lifetime of the object.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "asking for the current device");
    if (before_ == device) return;
    check(cudaSetDevice(device), "choosing a device");
    changed_ = true;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_) ignore(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// How many devices there are; if there are none, `reason` says why.
int count_devices(std::string& reason);

/// "NVIDIA H200, compute capability 9.0"
std::string device_name(int device);
/// "139.8 GiB of memory at 4814 GB/s": its size, and the bandwidth computed from clock and bus
/// width.
std::string device_memory(int device);

}  // namespace scbf::cuda
