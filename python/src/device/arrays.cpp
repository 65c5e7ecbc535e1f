// SPDX-License-Identifier: Apache-2.0
#include "device/arrays.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "check.hpp"
#include "device/dlpack_abi.hpp"
#include "errors.hpp"
#include "keys/single_key.hpp"
#include "scbf/errors.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// Are the strides those of C order? For dimensions of one element they may be anything.
template <class Strides>
bool in_order(const std::vector<std::size_t>& shape, Strides strides, std::size_t step) {
  if (std::ranges::find(shape, 0u) != shape.end()) return true;  // there are no elements
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides(i) != static_cast<std::int64_t>(step)) return false;
    step *= shape[i];
  }
  return true;
}

[[noreturn]] void broken_array(std::string_view what) {
  throw InvalidArgument(fmt::format("the array does not follow its protocol: {}", what));
}

std::size_t extent(std::int64_t value) {
  if (value < 0) broken_array(fmt::format("its shape has {}", value));
  return static_cast<std::size_t>(value);
}

[[noreturn]] void refuse_device(int on, int wanted) {
  throw InvalidKey(
      fmt::format("the array is on device {}, and the filter on device {}", on, wanted));
}

[[noreturn]] void refuse_host() {
  throw InvalidKey(
      "the array is in the memory of the host: scbf.Filter takes it, or move it to the device");
}

/// Throws unless the array lies where it must, and its size is possible.
void check_place(const ArrayOnDevice& array, int device) {
  std::size_t bytes = array.item_bytes;
  for (const std::size_t extent : array.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      broken_array(fmt::format("a shape of more than 2^64 bytes: {}", array.describe()));
    }
  }
  if (bytes == 0) return;
  cudaPointerAttributes place{};
  cuda::check(cudaPointerGetAttributes(&place, array.data), "asking where an array lies");
  if (place.type != cudaMemoryTypeDevice && place.type != cudaMemoryTypeManaged) refuse_host();
  if (place.type == cudaMemoryTypeDevice && place.device != device)
    refuse_device(place.device, device);
}

// ---- DLPack -------------------------------------------------------------------------------------

/// Owns the tensor of a capsule, which is marked as used.
nb::object taken_over(const nb::object& capsule, DLManagedTensor*& tensor) {
  tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!tensor || PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) throw nb::python_error();
  return nb::capsule(tensor, [](void* held) noexcept {
    auto* managed = static_cast<DLManagedTensor*>(held);
    if (managed->deleter) managed->deleter(managed);
  });
}

ArrayOnDevice from_dlpack(const nb::object& object, int device, const Stream& stream) {
  const auto [type, id] =
      nb::cast<std::pair<std::int32_t, std::int32_t>>(object.attr("__dlpack_device__")());
  if (type != kDlCuda && type != kDlCudaManaged) refuse_host();
  if (id != device) refuse_device(id, device);
  const nb::object capsule =
      object.attr("__dlpack__")(nb::arg("stream") = number_of(stream.handle));
  DLManagedTensor* managed = nullptr;
  ArrayOnDevice array;
  array.owner = taken_over(capsule, managed);
  const DLTensor& tensor = managed->dl_tensor;
  array.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  array.item_bytes = tensor.dtype.bits / 8;
  if (tensor.dtype.lanes == 1 && tensor.dtype.bits % 8 == 0) {
    switch (tensor.dtype.code) {
      case kDlInt:
        array.kind = 'i';
        break;
      case kDlUInt:
        array.kind = 'u';
        break;
      case kDlBool:
        array.kind = 'b';
        break;
      default:
        break;
    }
  }
  for (std::int32_t i = 0; i < tensor.ndim; ++i) array.shape.push_back(extent(tensor.shape[i]));
  array.contiguous =
      !tensor.strides || in_order(
                             array.shape, [&](std::size_t i) { return tensor.strides[i]; }, 1);
  if (tensor.device.device_type != type || tensor.device.device_id != id) {
    broken_array("its tensor is on another device than it says");
  }
  check_place(array, device);
  return array;
}

// ---- __cuda_array_interface__ -------------------------------------------------------------------

constexpr const char* kInterface = "__cuda_array_interface__";

nb::dict interface_of(const nb::object& object) {
  return nb::cast<nb::dict>(object.attr(kInterface));
}

/// An entry of the interface; invalid if it is missing or None.
nb::object entry(const nb::dict& interface, const char* name) {
  if (!interface.contains(name)) return {};
  nb::object value = interface[name];
  return value.is_none() ? nb::object() : value;
}

nb::object needed(const nb::dict& interface, const char* name) {
  nb::object value = entry(interface, name);
  if (!value.is_valid()) broken_array(fmt::format("it has no '{}'", name));
  return value;
}

/// The array's address, and whether it is read-only.
std::pair<std::uintptr_t, bool> data_of(const nb::dict& interface) {
  return nb::cast<std::pair<std::uintptr_t, bool>>(needed(interface, "data"));
}

ArrayOnDevice from_interface(const nb::object& object, int device, const Stream& stream) {
  const nb::dict interface = interface_of(object);
  ArrayOnDevice array;
  array.owner = object;
  for (nb::handle value : needed(interface, "shape"))
    array.shape.push_back(extent(nb::cast<std::int64_t>(value)));
  const std::string type = nb::cast<std::string>(needed(interface, "typestr"));
  if (type.size() < 3) broken_array(fmt::format("its type is '{}'", type));
  array.item_bytes = static_cast<std::size_t>(std::strtoull(type.c_str() + 2, nullptr, 10));
  if (type[0] != '>' || array.item_bytes == 1) array.kind = type[1];
  const auto [address, read_only] = data_of(interface);
  array.data = reinterpret_cast<void*>(address);
  if (const nb::object strides = entry(interface, "strides"); strides.is_valid()) {
    if (nb::len(strides) != array.shape.size())
      broken_array("shape and strides have different lengths");
    array.contiguous = in_order(
        array.shape, [&](std::size_t i) { return nb::cast<std::int64_t>(nb::object(strides[i])); },
        array.item_bytes);
  }
  if (entry(interface, "mask").is_valid()) {
    throw InvalidKey("an array with a mask: select its valid values first");
  }
  check_place(array, device);
  if (const nb::object number = entry(interface, "stream"); number.is_valid() && array.size() > 0) {
    order(stream_numbered(nb::cast<std::int64_t>(number)), stream.handle);
  }
  return array;
}

}  // namespace

std::size_t ArrayOnDevice::size() const {
  std::size_t product = 1;
  for (const std::size_t extent : shape) product *= extent;
  return product;
}

std::string ArrayOnDevice::describe() const {
  const std::string type = kind ? fmt::format("{}{}", kind, item_bytes) : "another type";
  return fmt::format("an array of {} with shape ({}{})", type, fmt::join(shape, ", "),
                     shape.size() == 1 ? "," : "");
}

ArrayOnDevice array_on_device(nb::object object, int device, const Stream& stream) {
  try {
    // PyTorch's interface says nothing of its stream; its DLPack does.
    if (nb::hasattr(object, "__dlpack_device__")) return from_dlpack(object, device, stream);
    if (nb::hasattr(object, kInterface)) return from_interface(object, device, stream);
  } catch (const nb::cast_error&) {
    broken_array(
        fmt::format("a part of what {} says of itself has another type", shown(object.ptr())));
  }
  throw InvalidKey(
      fmt::format("{} is no array in the memory of a device: it has neither __dlpack__ nor "
                  "__cuda_array_interface__; scbf.Filter takes keys of the host",
                  shown(object.ptr())));
}

cuda::DeviceKeys keys_in(const ArrayOnDevice& array) {
  if (!array.contiguous)
    throw InvalidKey(fmt::format("{} is not contiguous: copy it first", array.describe()));
  const bool whole = array.kind == 'i' || array.kind == 'u';
  if (array.shape.size() == 1 && whole && array.item_bytes == 8) {
    return {static_cast<const std::uint64_t*>(array.data), array.shape[0]};
  }
  if (array.shape.size() == 2 && array.kind == 'u' && array.item_bytes == 1 && array.shape[1] > 0) {
    return cuda::DeviceKeys::from_fixed(static_cast<const std::byte*>(array.data), array.shape[1],
                                        array.shape[0]);
  }
  throw InvalidKey(fmt::format(
      "{} cannot be keys on a device: these are n int64 or uint64, or n rows of uint8 as bytes of "
      "one width; cast other integers, for example by astype('int64')",
      array.describe()));
}

void check_out(const ArrayOnDevice& array, const nb::object& object, std::size_t size,
               bool may_be_bool) {
  const bool fits = (array.kind == 'u' || (may_be_bool && array.kind == 'b')) &&
                    array.item_bytes == 1 && array.contiguous && array.shape.size() == 1;
  const char* type = may_be_bool ? "bool or uint8" : "uint8";
  if (!fits) {
    throw InvalidArgument(
        fmt::format("out: is {}, must be a contiguous array of {}", array.describe(), type));
  }
  if (array.shape[0] != size) {
    throw InvalidArgument(
        fmt::format("out: has {}, must have {}", counted(array.shape[0], "item"), size));
  }
  // DLPack cannot say that a tensor is read-only.
  if (nb::hasattr(object, kInterface) && data_of(interface_of(object)).second) {
    throw InvalidArgument("out: can be read only");
  }
}

}  // namespace scbf::python
