// SPDX-License-Identifier: Apache-2.0
// Devices, streams, events and faults of the fake runtime. Memory is in fake_memory.cpp.
#include "fake_runtime.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fake_state.hpp"

namespace fake_cuda {

State& state() {
  static auto* all = new State;  // never destroyed, because destructors of static objects use it
  return *all;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

namespace {

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

std::vector<Stream*> all_streams() {
  std::vector<Stream*> all(state().streams.begin(), state().streams.end());
  for (Device& device : state().devices) all.push_back(device.null_stream.get());
  return all;
}

bool is_ready(const Stream& stream) {
  if (stream.queue.empty()) return false;
  const auto& after = stream.queue.front().after;
  return std::all_of(after.begin(), after.end(), [](const TicketPtr& t) { return t->done; });
}

void do_next(Stream& stream) {
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (state().sticky == cudaSuccess && work.run) {
    open_memory(stream.device);
    work.run();
  }
  work.ticket->done = true;
}

/// Does up to `most` pieces of work, in a random allowed order.
void do_some(std::uint64_t most) {
  for (; most > 0; --most) {
    std::vector<Stream*> ready;
    for (Stream* stream : all_streams()) {
      if (is_ready(*stream)) ready.push_back(stream);
    }
    if (ready.empty()) break;
    do_next(*ready[state().random() % ready.size()]);
  }
}

void do_meanwhile() {
  if (state().schedule == Schedule::early) do_some(UINT64_MAX);
  if (state().schedule == Schedule::random && state().coin(4)) do_some(state().random() % 8);
  open_memory(-1);
}

void do_until(const TicketPtr& ticket) {
  while (!ticket->done) {
    Stream& stream = *ticket->stream;
    const std::vector<TicketPtr> after = stream.queue.front().after;
    for (const TicketPtr& before : after) do_until(before);
    do_next(stream);
  }
}

template <class Handle, class Object>
Object* known(const std::set<Object*>& all, Handle handle, const char* what) {
  auto* object = reinterpret_cast<Object*>(handle);
  if (all.contains(object)) return object;
  state().problem(std::string("not a ") + what + ", or destroyed");
  return nullptr;
}

}  // namespace

cudaError_t failed_with(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

Call::Call(const char* name, bool even_without_devices) : lock_(state().mutex) {
  State& s = state();
  ++s.calls[name];
  if (s.devices.empty() && !even_without_devices) error_ = s.without_devices;
  if (s.sticky == cudaSuccess) do_meanwhile();
  if (s.fault && s.fault->which(name) && --s.fault->left == 0) {
    error_ = s.fault->error;
    s.failed = true;
    if (s.fault->sticky) s.sticky = error_;
    s.fault->left = 1;
    if (--s.fault->times == 0) s.fault.reset();
  }
  if (s.sticky != cudaSuccess) error_ = s.sticky;
  failed_with(error_);
}

Stream* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return state().devices[static_cast<std::size_t>(current_device())].null_stream.get();
  }
  return known(state().streams, handle, "stream");
}

TicketPtr enqueue(Stream& stream, std::function<void()> run, HostRange host,
                  std::vector<TicketPtr> after) {
  State& s = state();
  Stream* null_stream = s.devices[static_cast<std::size_t>(stream.device)].null_stream.get();
  // The null stream and the blocking streams wait for each other.
  if (&stream == null_stream) {
    for (Stream* other : s.streams) {
      if (other->blocking && other->device == stream.device) after.push_back(other->last);
    }
  } else if (stream.blocking) {
    after.push_back(null_stream->last);
  }
  std::erase(after, nullptr);
  stream.last = std::make_shared<Ticket>(Ticket{&stream});
  stream.queue.push_back({std::move(run), std::move(after), stream.last, host});
  if (s.schedule == Schedule::early) do_some(UINT64_MAX);
  open_memory(-1);
  return stream.last;
}

void complete(const TicketPtr& ticket) {
  if (ticket == nullptr) return;
  State& s = state();
  if (s.schedule == Schedule::random && s.coin(2)) do_some(s.random() % 32);
  do_until(ticket);
  open_memory(-1);
}

void complete_device(int device) {
  for (Stream* stream : all_streams()) {
    if (stream->device == device) complete(stream->last);
  }
}

bool is_in_use(HostRange host) {
  for (const Stream* stream : all_streams()) {
    for (const Work& work : stream->queue) {
      if (work.host.data < host.data + host.bytes && host.data < work.host.data + work.host.bytes) {
        return true;
      }
    }
  }
  return false;
}

void set_machine(const Machine& machine) {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  s.devices.clear();
  s.without_devices = machine.without_devices;
  for (const DeviceSpec& spec : machine.devices) {
    const int number = static_cast<int>(s.devices.size());
    s.devices.push_back({spec, std::make_unique<Stream>(Stream{number, true, {}, nullptr})});
  }
}

void set_memory(int device, std::size_t bytes) {
  const std::scoped_lock lock(state().mutex);
  state().devices[static_cast<std::size_t>(device)].spec.memory_bytes = bytes;
}
std::size_t memory_in_use(int device) {
  const std::scoped_lock lock(state().mutex);
  return state().devices[static_cast<std::size_t>(device)].used;
}

void set_schedule(Schedule schedule, std::uint64_t seed) {
  const std::scoped_lock lock(state().mutex);
  state().schedule = schedule;
  state().random.seed(seed);
}

void set_capturing(cudaStream_t stream, bool capturing) {
  const std::scoped_lock lock(state().mutex);
  stream_of(stream)->capturing = capturing;
}

void fail_call(std::function<bool(std::string_view)> which, std::uint64_t nth, cudaError_t error,
               bool sticky, std::uint64_t times) {
  const std::scoped_lock lock(state().mutex);
  state().fault = Fault{std::move(which), nth, times, error, sticky};
  state().failed = false;
}
bool has_failed() {
  const std::scoped_lock lock(state().mutex);
  return state().failed;
}
void heal() {
  const std::scoped_lock lock(state().mutex);
  state().fault.reset();
  state().failed = false;
}

std::uint64_t calls_of(std::string_view function) {
  const std::scoped_lock lock(state().mutex);
  const auto found = state().calls.find(function);
  return found == state().calls.end() ? 0 : found->second;
}

std::vector<std::string> take_problems() {
  const std::scoped_lock lock(state().mutex);
  return std::exchange(state().problems, {});
}

cudaError_t launch(cudaStream_t stream, std::function<void()> work) {
  const Call call("cudaLaunchKernel");
  if (call.error() != cudaSuccess) return call.error();
  Stream* on = stream_of(stream);
  if (on == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  if (on->device != current_device()) {
    state().problem("a kernel is launched on a stream of a device that is not current");
    return failed_with(cudaErrorInvalidResourceHandle);
  }
  enqueue(*on, std::move(work));
  return cudaSuccess;
}

cudaError_t look_for_kernels() {
  const Call call("cudaFuncGetAttributes");
  if (call.error() != cudaSuccess) return call.error();
  const Device& device = state().devices[static_cast<std::size_t>(current_device())];
  return device.spec.has_kernels ? cudaSuccess : failed_with(cudaErrorNoKernelImageForDevice);
}

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const ErrorText& text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& e) { return e.error == error; });
  return found == std::end(kErrors) ? *std::prev(std::end(kErrors)) : *found;
}

}  // namespace

}  // namespace fake_cuda

// ---- the runtime --------------------------------------------------------------------------------

using namespace fake_cuda;

extern "C" {

const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }

cudaError_t cudaGetLastError() {
  const std::scoped_lock lock(state().mutex);
  const cudaError_t error = std::exchange(last_error(), cudaSuccess);
  return state().sticky != cudaSuccess ? state().sticky : error;
}
cudaError_t cudaPeekAtLastError() {
  const std::scoped_lock lock(state().mutex);
  return state().sticky != cudaSuccess ? state().sticky : last_error();
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call("cudaGetDeviceCount");
  *count = static_cast<int>(state().devices.size());
  return call.error();
}
cudaError_t cudaGetDevice(int* device) {
  const Call call("cudaGetDevice");
  if (call.error() == cudaSuccess) *device = current_device();
  return call.error();
}
cudaError_t cudaSetDevice(int device) {
  const Call call("cudaSetDevice");
  if (call.error() != cudaSuccess) return call.error();
  if (device < 0 || static_cast<std::size_t>(device) >= state().devices.size()) {
    return failed_with(cudaErrorInvalidDevice);
  }
  current_device() = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call("cudaDeviceSynchronize");
  if (call.error() == cudaSuccess) complete_device(current_device());
  return call.error();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  const Call call("cudaDeviceGetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  const DeviceSpec& spec = state().devices[static_cast<std::size_t>(number)].spec;
  switch (attribute) {
    case cudaDevAttrL2CacheSize:
      *value = spec.l2_bytes;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = spec.shared_bytes;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = spec.has_pools;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 1'000'000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 64;
      return cudaSuccess;
    // What CUB and launches of kernels ask for: a small Hopper.
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7FFF'FFFF;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    default:
      state().problem("an attribute that this runtime does not know");
      return failed_with(cudaErrorInvalidValue);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  const Call call("cudaGetDeviceProperties");
  if (call.error() != cudaSuccess) return call.error();
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU %d", number);
  properties->major = 9;
  properties->totalGlobalMem = state().devices[static_cast<std::size_t>(number)].spec.memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call("cudaStreamCreateWithFlags");
  if (call.error() != cudaSuccess) return call.error();
  auto* made = new Stream{current_device(), (flags & cudaStreamNonBlocking) == 0, {}, nullptr};
  state().streams.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call("cudaStreamDestroy");
  Stream* on = known(state().streams, stream, "stream");
  if (on == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  if (state().sticky != cudaSuccess) return call.error();
  complete(on->last);  // the real runtime lets the work finish without the handle
  state().streams.erase(on);
  delete on;
  return call.error();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call("cudaStreamSynchronize");
  if (call.error() != cudaSuccess) return call.error();
  Stream* on = stream_of(stream);
  if (on == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  complete(stream == nullptr ? enqueue(*on, nullptr) : on->last);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Call call("cudaStreamIsCapturing");
  if (call.error() != cudaSuccess) return call.error();
  const Stream* on = stream_of(stream);
  if (on == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  *status = on->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call("cudaStreamWaitEvent");
  if (call.error() != cudaSuccess) return call.error();
  Stream* on = stream_of(stream);
  const Event* awaited = known(state().events, event, "event");
  if (on == nullptr || awaited == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  if (awaited->recorded == nullptr) {
    state().problem("a stream waits for an event that was never recorded: it does not wait");
  }
  enqueue(*on, nullptr, {}, {awaited->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Call call("cudaEventCreateWithFlags");
  if (call.error() != cudaSuccess) return call.error();
  auto* made = new Event{current_device(), nullptr};
  state().events.insert(made);
  *event = reinterpret_cast<cudaEvent_t>(made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call("cudaEventDestroy");
  Event* gone = known(state().events, event, "event");
  if (gone == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  state().events.erase(gone);
  delete gone;
  return call.error();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call("cudaEventRecord");
  if (call.error() != cudaSuccess) return call.error();
  Stream* on = stream_of(stream);
  Event* recorded = known(state().events, event, "event");
  if (on == nullptr || recorded == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  if (on->device != recorded->device) {
    state().problem("an event is recorded on a stream of another device");
    return failed_with(cudaErrorInvalidResourceHandle);
  }
  recorded->recorded = enqueue(*on, nullptr);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call("cudaEventQuery");
  if (call.error() != cudaSuccess) return call.error();
  const Event* asked = known(state().events, event, "event");
  if (asked == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  return asked->recorded == nullptr || asked->recorded->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call("cudaEventSynchronize");
  if (call.error() != cudaSuccess) return call.error();
  const Event* awaited = known(state().events, event, "event");
  if (awaited == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  complete(awaited->recorded);
  return cudaSuccess;
}

}  // extern "C"
