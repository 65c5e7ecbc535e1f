// SPDX-License-Identifier: Apache-2.0
#include "device/device_array.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <utility>

#include "calls/answers.hpp"
#include "devices.hpp"
#include "outside.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// What a DLPack capsule holds: the tensor, and the array that its memory belongs to.
struct Exported {
  DLManagedTensor managed;
  std::int64_t shape[1];
  nb::object array;
};

void release(DLManagedTensor* managed) {
  if (!Py_IsInitialized()) return;
  const Inside python;
  delete static_cast<Exported*>(managed->manager_ctx);
}

void release_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // someone took it over
  release(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

nb::object dlpack(nb::handle self, nb::object stream, const nb::object& device,
                  std::optional<bool> copy) {
  auto& array = nb::cast<DeviceArray&>(self);
  const std::pair here{kDlCuda, array.device()};
  if (!device.is_none() && nb::cast<std::pair<int, int>>(device) != here) {
    PyErr_SetString(PyExc_BufferError, "the array is on a GPU, and stays there: get() copies it");
    throw nb::python_error();
  }
  if (copy == true) {
    PyErr_SetString(PyExc_BufferError, "no copy is made here: copy what from_dlpack() returns");
    throw nb::python_error();
  }
  return array.dlpack(self, stream.is_none() ? 1 : nb::cast<std::int64_t>(stream));
}

}  // namespace

DeviceArray::DeviceArray(int device, Stream stream, std::size_t size, const Type& type)
    : device_(device),
      stream_(std::move(stream)),
      type_(type),
      size_(size),
      allocated_(size * type.bytes),
      pool_(cuda::pool_memory()) {
  if (allocated_ > 0) memory_ = pool_.allocate(allocated_, stream_.handle);
}

DeviceArray::~DeviceArray() {
  if (memory_ == nullptr) return;
  try {
    const cuda::OnDevice current(device_);
    if (used_elsewhere_) {
      Outside others_may_run;
      cuda::ignore(cudaDeviceSynchronize());
    }
    pool_.deallocate(memory_, allocated_, stream_.handle);
  } catch (const std::exception&) {
    // A device that cannot be made current has lost its memory anyway.
  }
}

void DeviceArray::written_on(cudaStream_t stream, bool done) noexcept {
  ready_ = done;
  if (done) return;
  try {
    const cuda::OnDevice current(device_);
    order(stream, stream_.handle);
  } catch (const std::exception&) {  // the work is under way all the same
    Outside others_may_run;
    cuda::ignore(cudaStreamSynchronize(stream));
  }
}

nb::dict DeviceArray::interface() {
  used_elsewhere_ = true;  // whoever takes it does not say where
  nb::dict fields;
  fields["version"] = 3;
  fields["shape"] = nb::make_tuple(size_);
  fields["typestr"] = type_.typestr;
  fields["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory_), false);
  fields["strides"] = nb::none();
  fields["stream"] = ready_ ? nb::none() : nb::object(nb::int_(number_of(stream_.handle)));
  return fields;
}

nb::object DeviceArray::dlpack(nb::handle self, std::int64_t stream) {
  if (stream >= 0) {
    const cuda::OnDevice current(device_);
    const cudaStream_t other = stream_numbered(stream);
    if (!ready_) order(stream_.handle, other);
    if (other != stream_.handle) used_elsewhere_ = true;
  } else {
    used_elsewhere_ = true;
  }
  auto exported = std::make_unique<Exported>();
  exported->array = nb::borrow(self);
  exported->shape[0] = static_cast<std::int64_t>(size_);
  exported->managed = {{memory_,
                        {kDlCuda, device_},
                        1,
                        {type_.dlpack_code, static_cast<std::uint8_t>(8 * type_.bytes), 1},
                        exported->shape,
                        nullptr,
                        0},
                       exported.get(),
                       release};
  const nb::object capsule =
      nb::steal(PyCapsule_New(&exported->managed, "dltensor", release_capsule));
  if (!capsule.is_valid()) throw nb::python_error();
  (void)exported.release();
  return capsule;
}

nb::object DeviceArray::get() const {
  std::vector<std::uint8_t> host(bytes());
  {
    Outside others_may_run;
    const cuda::OnDevice current(device_);
    if (!host.empty()) {
      cuda::check(cudaMemcpyAsync(host.data(), memory_, host.size(), cudaMemcpyDeviceToHost,
                                  stream_.handle),
                  "copying answers to the host");
    }
    cuda::check(cudaStreamSynchronize(stream_.handle), "waiting for answers");
  }
  return numpy_array<std::uint8_t>(std::move(host)).attr("view")(type_.name);
}

void add_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray", nb::sig("@final\nclass DeviceArray()"),
                          nb::is_final(),
                          R"(Answers of a DeviceFilter, in the memory of its device.

One-dimensional. cupy.asarray, torch.from_dlpack, numba.cuda.as_cuda_array and the like take it without a copy;
get() copies it to the host.)")
      .def_prop_ro("__cuda_array_interface__", &DeviceArray::interface,
                   "version 3; its stream is None if the call has waited for its work")
      .def(
          "__dlpack__",
          [](nb::handle self, nb::object stream, const nb::object&, const nb::object& dl_device,
             std::optional<bool> copy) { return dlpack(self, std::move(stream), dl_device, copy); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] "
                  "| None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = "
                  "None) -> Any"),
          "A DLPack capsule of an unversioned tensor.")
      .def("__dlpack_device__",
           [](const DeviceArray& self) { return std::pair(kDlCuda, self.device()); })
      .def("get", &DeviceArray::get, nb::sig("def get(self) -> numpy.ndarray[Any, Any]"),
           "A copy as a NumPy array. Waits for the work on it.")
      .def("__len__", &DeviceArray::size)
      .def(
          "__bool__",
          [](const DeviceArray&) -> bool {
            throw nb::type_error("an array is neither true nor false: get() copies it to the host");
          })
      .def("__array__",
           [](const DeviceArray&, nb::args, nb::kwargs) -> nb::object {
             throw nb::type_error("the array is on a GPU: get() copies it to the host");
           })
      .def_prop_ro(
          "shape", [](const DeviceArray& self) { return nb::make_tuple(self.size()); },
          nb::sig("def shape(self) -> tuple[int]"))
      .def_prop_ro("dtype",
                   [](const DeviceArray& self) {
                     return nb::module_::import_("numpy").attr("dtype")(self.type().name);
                   })
      .def_prop_ro("nbytes", &DeviceArray::bytes)
      .def_prop_ro("device", &DeviceArray::device, "the number of its device")
      .def("__repr__", [](const DeviceArray& self) {
        return fmt::format("<scbf.cuda.DeviceArray: {} {}, device {}>", self.size(),
                           self.type().name, self.device());
      });
}

}  // namespace scbf::python
