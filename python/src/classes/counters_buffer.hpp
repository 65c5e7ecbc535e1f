// SPDX-License-Identifier: Apache-2.0
// The counters of a filter as a buffer of Python: memoryview(filter), numpy.asarray(filter).
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "calls/batches.hpp"
#include "held.hpp"
#include "scbf/errors.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// The words of a filter of one stage, read-only, one after another.
template <class F>
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const auto& held = ready<Held<F>>(self);
    if (flags & PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "the counters of a filter can be read here, not written");
      return -1;
    }
    const Passage inside(held.gate, Passage::To::read);
    if (held.value.stages() != 1) {
      throw NotOnHost(fmt::format("the filter has {} stages: only those of one stage have a buffer",
                                  held.value.stages()));
    }
    const std::span<const std::uint64_t> words = held.value.words();
    static const Py_ssize_t kStep[] = {8};
    auto* shape = new Py_ssize_t[1]{static_cast<Py_ssize_t>(words.size())};
    view->buf = const_cast<std::uint64_t*>(words.data());
    view->len = shape[0] * 8;
    view->itemsize = 8;
    view->readonly = 1;
    view->ndim = 1;
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>("Q") : nullptr;
    view->shape = shape;
    view->strides = const_cast<Py_ssize_t*>(kStep);
    view->suboffsets = nullptr;
    view->internal = nullptr;
    view->obj = self;
    Py_INCREF(self);
    held.exports.fetch_add(1);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

template <class F>
void release_buffer(PyObject* self, Py_buffer* view) noexcept {
  delete[] view->shape;
  nb::inst_ptr<Held<F>>(nb::handle(self))->exports.fetch_sub(1);
}

template <class F>
const PyType_Slot* filter_slots() {
  static PyType_Slot slots[] = {{Py_sq_contains, reinterpret_cast<void*>(&contains_slot<F>)},
                                {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer<F>)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer<F>)},
                                {0, nullptr}};
  return slots;
}

}  // namespace scbf::python
