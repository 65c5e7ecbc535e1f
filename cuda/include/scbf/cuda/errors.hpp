// SPDX-License-Identifier: Apache-2.0
// The exceptions for errors of a device. Messages name what was attempted and include CUDA's own
// message.
#pragma once

#include "scbf/errors.hpp"

namespace scbf::cuda {

/// A call of the CUDA runtime failed. The filter is still usable; if the call was part of a batch
/// that changes counters, the counters may hold any of its keys, which the numbers of keys inserted
/// and removed do not count.
class CudaError : public Error {
 public:
  using Error::Error;
};

/// The device has too little memory; the message says how much was needed and how much is free.
/// Nothing was changed: if memory runs out in the middle of a batch that changes a Filter,
/// FilterFull or RemovalStopped is thrown instead and says how many keys are done.
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
