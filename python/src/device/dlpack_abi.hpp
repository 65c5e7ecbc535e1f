// SPDX-License-Identifier: Apache-2.0
// The structs of DLPack, as its specification lays them out
// (https://dmlc.github.io/dlpack/latest/c_api.html), as far as arrays of integers on a GPU need
// them.
#pragma once

#include <cstdint>

extern "C" {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: C order
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

}  // extern "C"

namespace scbf::python {

inline constexpr std::int32_t kDlCuda = 2, kDlCudaManaged = 13;
inline constexpr std::uint8_t kDlInt = 0, kDlUInt = 1, kDlBool = 6;

}  // namespace scbf::python
