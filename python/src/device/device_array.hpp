// SPDX-License-Identifier: Apache-2.0
// Answers in the memory of a GPU.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>

#include "device/dlpack_abi.hpp"
#include "device/stream.hpp"
#include "scbf/cuda/memory.hpp"

namespace scbf::python {

/// A one-dimensional array on a device, which other libraries take by DLPack and by
/// __cuda_array_interface__ without a copy. Its memory comes from the library's pool, in the order
/// of its stream.
class DeviceArray {
 public:
  struct Type {
    const char* name;     // NumPy's
    const char* typestr;  // of __cuda_array_interface__
    std::uint8_t dlpack_code;
    std::uint8_t bytes;
  };
  static constexpr Type kBool{"bool", "|b1", kDlBool, 1}, kByte{"uint8", "|u1", kDlUInt, 1},
      kIndex{"int64", "<i8", kDlInt, 8};

  /// Not initialised. The device must be current. Throws OutOfDeviceMemory.
  DeviceArray(int device, Stream stream, std::size_t size, const Type& type);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  template <class T>
  T* data() const noexcept {
    return static_cast<T*>(memory_);
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * type_.bytes; }
  const Type& type() const noexcept { return type_; }
  int device() const noexcept { return device_; }
  /// Leaves only the first `size` elements.
  void shorten(std::size_t size) noexcept { size_ = size; }
  /// All work on it is done: whoever takes it need not wait for its stream.
  void set_ready() noexcept { ready_ = true; }

  /// To be called after work that writes to the array has been enqueued on `stream`: the array's
  /// own stream waits for that work, or else this function does. `done`: the work is done already.
  void written_on(cudaStream_t stream, bool done) noexcept;

  nanobind::dict interface();
  /// A DLPack capsule, for work on the stream of that number (number_of); −1: nothing waits.
  nanobind::object dlpack(nanobind::handle self, std::int64_t stream);
  /// A copy, as a NumPy array. Waits for the stream.
  nanobind::object get() const;

 private:
  const int device_;
  const Stream stream_;
  const Type& type_;
  std::size_t size_;
  const std::size_t allocated_;
  cuda::MemoryResource& pool_;
  void* memory_ = nullptr;
  bool ready_ = false;
  std::atomic<bool> used_elsewhere_{false};  // by another stream, whose work may go on
};

void add_device_array(nanobind::module_& module);

}  // namespace scbf::python
