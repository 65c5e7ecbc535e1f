// SPDX-License-Identifier: Apache-2.0
// Columns of keys from Python's buffer protocol: NumPy arrays, array.array, memoryviews.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "keys/columns.hpp"

namespace scbf::python {

/// A buffer of an object, released with it.
class Buffer {
 public:
  /// Throws what the object raises if it has no such buffer.
  Buffer(nanobind::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nanobind::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Py_buffer* operator->() const noexcept { return &view_; }
  char* data() const noexcept { return static_cast<char*>(view_.buf); }

 private:
  Py_buffer view_;
};

/// The keys of a buffer: integers of any width, byte strings or text of one width, structureless
/// bytes ('V16'). Text and byte strings end before their padding of zeros, as NumPy reads them.
/// Null if it holds Python objects. Throws InvalidKey if it cannot be keys.
std::unique_ptr<Column> buffer_column(std::unique_ptr<Buffer> buffer);

}  // namespace scbf::python
