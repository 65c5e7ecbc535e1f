// SPDX-License-Identifier: Apache-2.0
// What python/tests/test_cuda.py does with the fake runtime besides calling the package: C
// functions, in the extension module that is linked with it.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "fake_runtime.hpp"
#include "scbf/cuda/memory.hpp"

namespace {

/// Two devices; SCBF_FAKE_SCHEDULE is late or early.
[[maybe_unused]] const bool kStarted = [] {
  fake_cuda::set_machine({.devices = std::vector<fake_cuda::DeviceSpec>(2)});
  const char* schedule = std::getenv("SCBF_FAKE_SCHEDULE");
  const bool early = schedule != nullptr && std::string_view(schedule) == "early";
  fake_cuda::set_schedule(early ? fake_cuda::Schedule::early : fake_cuda::Schedule::late);
  return true;
}();

}  // namespace

#define SCBF_FOR_PYTHON extern "C" __attribute__((visibility("default"), used))

/// Null if there is no memory.
SCBF_FOR_PYTHON void* fake_upload(const void* host, std::size_t bytes, int device) {
  void* memory = nullptr;
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return nullptr;
  if (cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)) != cudaSuccess) memory = nullptr;
  if (memory != nullptr && bytes > 0) {
    if (cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice) != cudaSuccess) memory = nullptr;
  }
  (void)cudaStreamSynchronize(nullptr);  // what is copied may arrive later
  (void)cudaSetDevice(before);
  return memory;
}
SCBF_FOR_PYTHON void fake_download(void* host, const void* memory, std::size_t bytes) {
  if (cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) std::abort();
}
SCBF_FOR_PYTHON void fake_free(void* memory) { (void)cudaFree(memory); }

/// One that does not wait for the default stream.
SCBF_FOR_PYTHON void* fake_new_stream() {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) std::abort();
  return stream;
}
SCBF_FOR_PYTHON void fake_synchronize(void* stream) {
  (void)cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}
SCBF_FOR_PYTHON void fake_destroy_stream(void* stream) {
  (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}
/// Enqueues a write to device memory, as another library's kernel would.
SCBF_FOR_PYTHON void fake_write(void* memory, const void* host, std::size_t bytes, void* stream) {
  const std::string data(static_cast<const char*>(host), bytes);
  (void)fake_cuda::launch(static_cast<cudaStream_t>(stream),
                          [=] { std::memcpy(memory, data.data(), data.size()); });
}

SCBF_FOR_PYTHON void fake_set_memory(std::size_t bytes) { fake_cuda::set_memory(0, bytes); }
SCBF_FOR_PYTHON std::size_t fake_memory_in_use() { return fake_cuda::memory_in_use(0); }
/// The next call of a function of this name fails; every later call of any, too, if it is final.
SCBF_FOR_PYTHON void fake_fail(const char* name, bool is_final) {
  fake_cuda::fail_call(
      [name = std::string(name)](std::string_view called) { return called == name; }, 1,
      is_final ? cudaErrorIllegalAddress : cudaErrorUnknown, is_final);
}
SCBF_FOR_PYTHON void fake_heal() { fake_cuda::heal(); }
/// Blocks, streams and events that exist, after all that is kept for later has been given back.
SCBF_FOR_PYTHON std::size_t fake_alive() {
  scbf::cuda::release_device_scratch();
  const fake_cuda::Alive alive = fake_cuda::alive();
  return alive.device_blocks + alive.pool_blocks + alive.streams + alive.events;
}
/// The mistakes noted since the last call, in a memory of `size` bytes.
SCBF_FOR_PYTHON void fake_take_problems(char* text, std::size_t size) {
  std::string all;
  for (const std::string& problem : fake_cuda::take_problems()) all += problem + '\n';
  std::strncpy(text, all.c_str(), size - 1);
  text[size - 1] = 0;
}
