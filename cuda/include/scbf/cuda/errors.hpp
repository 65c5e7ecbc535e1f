// SPDX-License-Identifier: Apache-2.0
// What can go wrong on a device. Messages name what was asked for and carry CUDA's own words.
#pragma once

#include "scbf/errors.hpp"

namespace scbf::cuda {

/// A call of the CUDA runtime failed.
class CudaError : public Error {
 public:
  using Error::Error;
};

/// The device has too little memory; the message says how much was asked for and how much there
/// is. Nothing was changed.
class OutOfDeviceMemory : public CudaError {
 public:
  using CudaError::CudaError;
};

}  // namespace scbf::cuda
