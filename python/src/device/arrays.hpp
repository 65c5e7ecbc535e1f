// SPDX-License-Identifier: Apache-2.0
// Arrays of other libraries in the memory of a GPU, taken as they are: by DLPack, or by
// __cuda_array_interface__ where there is no DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/stream.hpp"
#include "scbf/cuda/device_keys.hpp"

namespace scbf::python {

/// An array on a device, as a view, and what keeps its memory.
struct ArrayOnDevice {
  void* data = nullptr;
  char kind = 0;  ///< of its elements: i, u, b, as NumPy calls them; 0 for any other
  std::size_t item_bytes = 0;
  std::vector<std::size_t> shape;
  bool contiguous = true;  ///< in C order
  nanobind::object owner;

  std::size_t size() const;
  /// "an array of u8 with shape (10, 2)", for messages.
  std::string describe() const;
};

/// The array in an object. What its library has enqueued on it comes before what is enqueued on
/// `stream` from now on. Throws InvalidKey if there is none in it, or one on the host or on another
/// device than `device`, which must be current.
ArrayOnDevice array_on_device(nanobind::object object, int device, const Stream& stream);

/// Keys in an array: n integers of 64 bits, or n rows of equally many bytes. Throws InvalidKey for
/// any other.
cuda::DeviceKeys keys_in(const ArrayOnDevice& array);

/// Throws InvalidArgument unless the array, of `object`, can take `size` elements of one byte:
/// bool, if `may_be_bool`, or uint8.
void check_out(const ArrayOnDevice& array, const nanobind::object& object, std::size_t size,
               bool may_be_bool);

}  // namespace scbf::python
