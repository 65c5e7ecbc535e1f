// SPDX-License-Identifier: Apache-2.0
#include "device/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "check.hpp"
#include "keys/single_key.hpp"
#include "outside.hpp"
#include "scbf/errors.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// The handle of the stream in another library's object; null if there is none.
nb::object handle_in(const nb::object& object) {
  if (nb::hasattr(object, "__cuda_stream__")) {  // (version of the protocol, handle)
    const nb::object pair = object.attr("__cuda_stream__")();
    return pair[1];
  }
  for (const char* name : {"cuda_stream", "ptr"}) {
    if (nb::hasattr(object, name)) return object.attr(name);
  }
  return PyLong_Check(object.ptr()) ? object : nb::object();
}

cudaEvent_t new_event(cudaStream_t after) {
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  const cudaError_t recorded = cudaEventRecord(event, after);
  if (recorded != cudaSuccess) cuda::ignore(cudaEventDestroy(event));
  cuda::check(recorded, "recording an event");
  return event;
}

}  // namespace

std::int64_t number_of(cudaStream_t stream) {
  return stream == nullptr ? 1 : static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream));
}

cudaStream_t stream_numbered(std::int64_t number) {
  if (number == 0 || number == 1) return nullptr;
  return reinterpret_cast<cudaStream_t>(static_cast<std::intptr_t>(number));
}

Stream stream_of(nb::object object) {
  if (object.is_none()) return {};
  const nb::object handle = handle_in(object);
  std::int64_t number = 0;
  if (!handle.is_valid() || PyBool_Check(handle.ptr()) || !nb::try_cast(handle, number) ||
      number < 0) {
    throw InvalidArgument(
        fmt::format("stream {}: must be None, the handle of a stream as an int, or a stream of "
                    "CuPy, PyTorch or cuda.core",
                    shown(object.ptr())));
  }
  return {stream_numbered(number), std::move(object)};
}

void order(cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  const cudaEvent_t event = new_event(earlier);
  const cudaError_t waits = cudaStreamWaitEvent(later, event, 0);
  cuda::ignore(cudaEventDestroy(event));
  cuda::check(waits, "letting a stream wait for another");
}

/// Takes out the entries whose work is done. An event that cannot be queried may still be pending.
std::vector<InFlight::Entry> InFlight::taken_done() {
  const std::scoped_lock lock(mutex_);
  const auto done = std::stable_partition(entries_.begin(), entries_.end(), [](const Entry& entry) {
    const cudaError_t result = cudaEventQuery(entry.done);
    cuda::ignore(result);
    return result != cudaSuccess;
  });
  std::vector<Entry> taken(std::make_move_iterator(done), std::make_move_iterator(entries_.end()));
  entries_.erase(done, entries_.end());
  return taken;
}

void InFlight::let_go() noexcept {
  // Released here, outside the mutex: that may run Python code.
  for (const Entry& entry : taken_done()) cuda::ignore(cudaEventDestroy(entry.done));
}

void InFlight::keep(cudaStream_t stream, std::vector<nb::object> objects) noexcept {
  try {
    const cudaEvent_t event = new_event(stream);
    const std::scoped_lock lock(mutex_);
    entries_.push_back({event, std::move(objects)});
  } catch (const std::exception&) {
    Outside others_may_run;
    cuda::ignore(cudaStreamSynchronize(stream));
  }
  let_go();
}

InFlight::~InFlight() {
  for (const Entry& entry : entries_) {
    Outside others_may_run;
    cuda::ignore(cudaEventSynchronize(entry.done));
    cuda::ignore(cudaEventDestroy(entry.done));
  }
}

}  // namespace scbf::python
