// SPDX-License-Identifier: Apache-2.0
// DeviceFilter: a filter in the memory of a GPU, for keys that are there already.
#include "scbf/cuda/device_filter.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "calls/run.hpp"
#include "classes/shape.hpp"
#include "device/arrays.hpp"
#include "device/device_array.hpp"
#include "device/stream.hpp"
#include "devices.hpp"
#include "held.hpp"
#include "module.hpp"
#include "outside.hpp"

namespace scbf::python {
namespace {

struct Self {
  const int device;
  std::optional<cuda::DeviceFilter> filter;
  mutable InFlight in_flight;

  /// The device must be current.
  Self(int on, cuda::DeviceFilter&& made) : device(on), filter(std::move(made)) {}
  ~Self() {
    Outside others_may_run;
    filter.reset();  // waits for the device
  }
};

/// The device that a new filter goes to. Throws BackendUnavailable.
int device_of(std::optional<int> wanted) {
  (void)find_backend("cuda");  // says what is missing, if something is
  int device = 0, devices = 0;
  cuda::check(cudaGetDeviceCount(&devices), "counting devices");
  if (wanted && (*wanted < 0 || *wanted >= devices)) {
    throw InvalidArgument(fmt::format("device {}: must be from 0 to {}", *wanted, devices - 1));
  }
  cuda::check(cudaGetDevice(&device), "asking for the current device");
  return wanted.value_or(device);
}

/// One call: makes the filter's device current, and keeps what the work uses until it is done.
/// If the caller gives no stream, the work is done when finish() returns.
class Call {
 public:
  Call(const Self& self, nb::object stream)
      : self_(self), current_(self.device), waits_(stream.is_none()), stream_(stream_of(stream)) {
    keep(stream_.owner);
  }
  ~Call() {
    if (!finished_)
      self_.in_flight.keep(stream_.handle, std::move(kept_));  // some may be under way
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Stream& stream() const noexcept { return stream_; }

  cuda::DeviceKeys keys(nb::object object) {
    ArrayOnDevice array = array_on_device(std::move(object), self_.device, stream_);
    keep(array.owner);
    return keys_in(array);
  }
  void keep(nb::object object) {
    if (object.is_valid()) kept_.push_back(std::move(object));
  }

  /// Calls work(options) without Python's global lock; then the call is over.
  template <class Work>
  void finish(Work work) {
    {
      Outside others_may_run;
      work(options());
      if (waits_) cuda::DeviceFilter::synchronize(stream_.handle);
    }
    finished_ = true;
    waits_ ? self_.in_flight.let_go() : self_.in_flight.keep(stream_.handle, std::move(kept_));
  }
  bool waits() const noexcept { return waits_; }

 private:
  cuda::DeviceOptions options() const { return {.stream = stream_.handle}; }

  const Self& self_;
  const cuda::OnDevice current_;
  const bool waits_;
  const Stream stream_;
  std::vector<nb::object> kept_;
  bool finished_ = false;
};

/// Where the answers of a call go: the caller's `out`, or a new array.
class AnswersOnDevice {
 public:
  AnswersOnDevice(nb::object out, std::size_t size, const DeviceArray::Type& type, int device,
                  Call& call) {
    if (out.is_none()) {
      auto fresh = std::make_unique<DeviceArray>(device, call.stream(), size, type);
      fresh_ = fresh.get();
      data_ = fresh_->data<std::uint8_t>();
      object_ = nb::cast(std::move(fresh));
      return;
    }
    const ArrayOnDevice array = array_on_device(out, device, call.stream());
    check_out(array, out, size, &type == &DeviceArray::kBool);
    data_ = static_cast<std::uint8_t*>(array.data);
    call.keep(array.owner);
    if (nb::isinstance<DeviceArray>(out)) ours_ = &nb::cast<DeviceArray&>(out);
    object_ = std::move(out);
  }

  std::uint8_t* data() const noexcept { return data_; }
  /// What the call returns.
  nb::object object(const Call& call) && {
    if (fresh_ && call.waits()) fresh_->set_ready();
    if (ours_) ours_->written_on(call.stream().handle, call.waits());
    return std::move(object_);
  }

 private:
  std::uint8_t* data_;
  DeviceArray* fresh_ = nullptr;
  DeviceArray* ours_ = nullptr;  // an `out` of this module
  nb::object object_;
};

void construct_filter(Self* self, const nb::object& capacity, std::optional<double> fpr,
                      const nb::object& memory_bytes, std::optional<std::string_view> layout,
                      std::optional<Geometry> geometry, bool bits, const nb::object& seed,
                      std::optional<int> device) {
  const Cell cell = bits ? Cell::bit : Cell::counter;
  const Growth growth = size_of({distinct_keys_or_none(capacity), fpr,
                                 whole_number_or_none(memory_bytes, "memory_bytes"), layout,
                                 geometry, std::nullopt, cell})
                            .growth;
  const Geometry shape = growth.first_geometry().with(cell);
  const std::uint64_t hash_seed = whole_number(seed, "seed", 0);
  const int on = device_of(device);
  const cuda::OnDevice current(on);
  Outside others_may_run;
  cuda::DeviceFilter filter(shape, hash_seed);
  cuda::DeviceFilter::synchronize();  // it is empty, whatever stream comes next
  std::construct_at(self, on, std::move(filter));
}

template <class F>
std::unique_ptr<Self> copy_of(const Held<F>& filter, std::optional<int> device) {
  const Passage inside(filter.gate, Passage::To::read);
  const int on = device_of(device);
  const cuda::OnDevice current(on);
  Outside others_may_run;
  return std::make_unique<Self>(on, cuda::DeviceFilter(filter.value));
}

/// A call without keys: work(options).
template <class Work>
void call(const Self& self, nb::object stream, Work work) {
  Call(self, std::move(stream)).finish(work);
}

void insert(Self& self, nb::object keys, bool alone, std::string_view path, nb::object stream) {
  const Path way = path_from_string(path);
  Call call(self, std::move(stream));
  const cuda::DeviceKeys column = call.keys(std::move(keys));
  call.finish([&](cuda::DeviceOptions options) {
    options.alone = alone;
    options.path = way;
    self.filter->insert_async(column, options);
  });
}

/// A call with keys; its answers take one byte for every `per_byte` keys.
template <auto ask, const DeviceArray::Type& type, std::size_t per_byte = 1>
nb::object answer(Self& self, nb::object keys, nb::object out, nb::object stream) {
  Call call(self, std::move(stream));
  const cuda::DeviceKeys column = call.keys(std::move(keys));
  AnswersOnDevice answers(std::move(out), (column.size() + per_byte - 1) / per_byte, type,
                          self.device, call);
  call.finish([&](const cuda::DeviceOptions& options) {
    ((*self.filter).*ask)(column, answers.data(), options);
  });
  return std::move(answers).object(call);
}

nb::object find(const Self& self, nb::object keys, nb::object stream) {
  Call call(self, std::move(stream));
  const cuda::DeviceKeys column = call.keys(std::move(keys));
  auto indices =
      std::make_unique<DeviceArray>(self.device, call.stream(), column.size(), DeviceArray::kIndex);
  call.finish([&](const cuda::DeviceOptions& options) {
    indices->shorten(self.filter->find(column, indices->data<std::uint64_t>(), options));
  });
  indices->set_ready();
  return nb::cast(std::move(indices));
}

// Another filter that a call uses may be destroyed before the work is done: its destructor waits
// for the device.

void merge(Self& self, const Self& other, nb::object stream) {
  call(self, std::move(stream), [&](const cuda::DeviceOptions& options) {
    self.filter->merge_async(*other.filter, options);
  });
}

std::uint64_t subtract(Self& self, const Self& other, nb::object stream) {
  std::uint64_t inexact = 0;
  call(self, std::move(stream), [&](const cuda::DeviceOptions& options) {
    inexact = self.filter->subtract(*other.filter, options).inexact_counters;
  });
  return inexact;
}

std::unique_ptr<Self> project(const Self& self, nb::object stream) {
  const Geometry& geometry = self.filter->geometry();
  if (geometry.cell() == Cell::bit) throw InvalidArgument("project: the filter has bits already");
  std::unique_ptr<Self> bits;
  call(self, std::move(stream), [&](const cuda::DeviceOptions& options) {
    bits = std::make_unique<Self>(
        self.device,
        cuda::DeviceFilter(geometry.with(Cell::bit), self.filter->seed(), options.stream));
    self.filter->project_async(*bits->filter, options);
  });
  return bits;
}

void clear(Self& self, nb::object stream) {
  call(self, std::move(stream),
       [&](const cuda::DeviceOptions& options) { self.filter->clear_async(options.stream); });
}

std::unique_ptr<Held<Filter>> to_filter(const Self& self, std::string_view backend,
                                        nb::object stream) {
  std::unique_ptr<Held<Filter>> filter;
  call(self, std::move(stream), [&](const cuda::DeviceOptions& options) {
    filter = hold(self.filter->to_filter({.backend = backend}, options.stream));
  });
  return filter;
}

template <std::uint64_t (cuda::DeviceFilter::*Number)(cudaStream_t) const>
std::uint64_t booked(const Self& self, nb::object stream) {
  std::uint64_t number = 0;
  call(self, std::move(stream), [&](const cuda::DeviceOptions& options) {
    number = ((*self.filter).*Number)(options.stream);
  });
  return number;
}

}  // namespace

void add_device(nb::module_& module) {
  add_device_array(module);
  nb::class_<Self>(module, "DeviceFilter", nb::sig("@final\nclass DeviceFilter()"), nb::is_final(),
                   R"(A filter in the memory of a GPU, for keys that are there already.

Its counters and answers are those of scbf.Filter, byte for byte; with ``bits``, those of scbf.BloomFilter. Made
from two of ``capacity``, ``fpr`` and ``memory_bytes``, or from a ``geometry``; of() copies a filter of the host.

Keys are arrays with DLPack or __cuda_array_interface__ on the same device: n int64 or uint64, or n rows of
uint8, each row a key. Nothing is copied. Answers are a DeviceArray, or ``out``.

Each call takes a ``stream``. With None, the default stream, the call returns when its work is done. With one of the
caller's (a handle, or an object of CuPy, PyTorch or cuda.core), it returns as soon as the work is enqueued. Keys
and ``out`` are kept until it is done; a stream given by its handle must outlive the answers. Only streams order the
calls on a filter: insertions by insert() may run at the same time; anything else on several streams needs
events.)")
      .def("__init__", &construct_filter, nb::arg("capacity") = nb::none(),
           nb::arg("fpr") = nb::none(), nb::kw_only(), nb::arg("memory_bytes") = nb::none(),
           nb::arg("layout") = nb::none(), nb::arg("geometry") = nb::none(),
           nb::arg("bits") = false, nb::arg("seed") = 0, nb::arg("device") = nb::none(),
           "``device``: its number; None for the current one. Raises OutOfDeviceMemory.")
      .def_static("of", &copy_of<Filter>, nb::arg("filter"), nb::kw_only(),
                  nb::arg("device") = nb::none())
      .def_static("of", &copy_of<BloomFilter>, nb::arg("filter"), nb::kw_only(),
                  nb::arg("device") = nb::none(), "A copy of a Filter or BloomFilter of one stage.")
      .def(
          "insert", &insert, nb::arg("keys"), nb::kw_only(), nb::arg("alone") = false,
          nb::arg("path") = "automatic", nb::arg("stream") = nb::none(),
          "Inserts n keys. ``alone``: nothing else changes the filter meanwhile, which makes large "
          "insertions faster; if that is not true, keys are lost.")
      .def("insert_new", &answer<&cuda::DeviceFilter::insert_new_async, DeviceArray::kBool>,
           nb::arg("keys"), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none(),
           "Inserts the keys that are not there yet, one after another, and says which: n bool.")
      .def("contains", &answer<&cuda::DeviceFilter::contains_async, DeviceArray::kBool>,
           nb::arg("keys"), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none(), "Which keys may be present? n bool.")
      .def("contains_bits",
           &answer<&cuda::DeviceFilter::contains_bits_async, DeviceArray::kByte, 8>,
           nb::arg("keys"), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none(),
           "Like contains(), but packed: key i is bit i % 8 of byte i // 8. (n + 7) // 8 uint8.")
      .def("find", &find, nb::arg("keys"), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Like contains(), but as ascending indices of int64. Always waits.")
      .def("count", &answer<&cuda::DeviceFilter::count_async, DeviceArray::kByte>, nb::arg("keys"),
           nb::arg("out") = nb::none(), nb::kw_only(), nb::arg("stream") = nb::none(),
           "How often is each key in the filter, at most? n uint8; 15 means 15 or more. Raises "
           "InvalidArgument for bits, and for counters in layout ranked.")
      .def("remove", &answer<&cuda::DeviceFilter::remove_async, DeviceArray::kBool>,
           nb::arg("keys"), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none(),
           "Removes n keys, one after another. Returns n bool: False for those that were absent. "
           "Raises InvalidArgument for bits, and for counters in layout ranked.")
      .def("merge", &merge, nb::arg("other"), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Adds the other filter. Raises Incompatible, and InvalidArgument for counters in layout "
           "ranked.")
      .def("subtract", &subtract, nb::arg("other"), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Subtracts the other filter, as Filter.subtract(). Always waits. Raises as merge().")
      .def("project", &project, nb::kw_only(), nb::arg("stream") = nb::none(),
           "A DeviceFilter of the bits of these counters.")
      .def("clear", &clear, nb::kw_only(), nb::arg("stream") = nb::none(), "Removes all keys.")
      .def("to_filter", &to_filter, nb::kw_only(), nb::arg("backend") = "auto",
           nb::arg("stream") = nb::none(),
           "A Filter with these counters, for files and for use on the host. Always waits. Raises "
           "InvalidArgument for bits.")
      .def("keys_inserted", &booked<&cuda::DeviceFilter::keys_inserted>, nb::kw_only(),
           nb::arg("stream") = nb::none(), "After the work on the stream. Waits for it.")
      .def("keys_removed", &booked<&cuda::DeviceFilter::keys_removed>, nb::kw_only(),
           nb::arg("stream") = nb::none(), "After the work on the stream. Waits for it.")
      .def_prop_ro("geometry", [](const Self& self) { return self.filter->geometry(); })
      .def_prop_ro("seed", [](const Self& self) { return self.filter->seed(); })
      .def_prop_ro(
          "device", [](const Self& self) { return self.device; }, "the number of its device")
      .def_prop_ro(
          "nbytes", [](const Self& self) { return self.filter->geometry().bytes(); },
          "bytes of counters or bits")
      .def("__repr__", [](const Self& self) {
        return fmt::format("<scbf.cuda.DeviceFilter: {}, device {}, {} bytes>",
                           self.filter->geometry().describe(), self.device,
                           self.filter->geometry().bytes());
      });
}

}  // namespace scbf::python
