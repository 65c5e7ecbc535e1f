// SPDX-License-Identifier: Apache-2.0
// What can go wrong on a device. Messages name what was asked for and carry CUDA's own words.
#pragma once

#include "scbf/errors.hpp"

namespace scbf::cuda {

/// A call of the CUDA runtime failed. The filter is as usable as before; if the call was part of a
/// batch that changes counters, that batch may be done in part.
class CudaError : public Error {
 public:
  using Error::Error;
};

/// The device has too little memory; the message says how much was asked for and how much there
/// is. Nothing was changed, unless the message says that the first keys of a batch were done.
class OutOfDeviceMemory : public CudaError {
 public:
  using CudaError::CudaError;
};

/// CUDA reported an error that ends all work with the device for this process; the filters that
/// were there are lost.
class DeviceLost : public CudaError {
 public:
  using CudaError::CudaError;
};

}  // namespace scbf::cuda
