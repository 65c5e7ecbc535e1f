// SPDX-License-Identifier: Apache-2.0
// The fake runtime: a CUDA runtime without a GPU, for tests. fake_runtime.cpp and fake_memory.cpp
// define the functions of the real header that the library calls, so that its host code runs
// unchanged and its mistakes are noticed.
//
// The host can access device memory only while the device works. The memory is poisoned when it is
// allocated and when it is freed, and has fences around it. Work on streams is done as late as CUDA
// allows, at once, or in a random order that its dependencies permit. Mistakes that the real
// runtime would often let pass are noted as problems.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {

struct DeviceSpec {
  std::size_t memory_bytes = std::size_t{1} << 30;
  int l2_bytes = 1 << 16;  ///< small, so that the tests' filters are larger
  int shared_bytes = 227 * 1024;
  bool has_pools = true;
  bool has_kernels = true;  ///< whether the library is compiled for it
};
struct Machine {
  std::vector<DeviceSpec> devices{1};
  cudaError_t without_devices = cudaErrorNoDevice;
};
/// Call it before the library looks for devices, which it does once.
void set_machine(const Machine& machine);
/// Changes the size of a device's memory. Allocated memory stays.
void set_memory(int device, std::size_t bytes);
std::size_t memory_in_use(int device);

enum class Schedule {
  late,    ///< nothing is done before something waits for it
  early,   ///< everything is done at once
  random,  ///< early or late, streams in any order
};
void set_schedule(Schedule schedule, std::uint64_t seed = 1);
/// As if the stream were being captured into a graph: it only says so.
void set_capturing(cudaStream_t stream, bool capturing);

/// Of the calls of functions for which `which` is true, the nth (1 is the next) and those after it,
/// `times` in all, return `error`. Functions that free memory free it nevertheless. A sticky error
/// is returned by every later call of any function.
void fail_call(std::function<bool(std::string_view function)> which, std::uint64_t nth,
               cudaError_t error, bool sticky = false, std::uint64_t times = 1);
/// Whether a call has failed since then.
bool has_failed();
void heal();

/// The number of calls since the program began.
std::uint64_t calls_of(std::string_view function);

/// The numbers of objects that exist.
struct Alive {
  std::size_t device_blocks = 0, pool_blocks = 0, pinned_blocks = 0, streams = 0, events = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

/// The mistakes noted since the last call.
std::vector<std::string> take_problems();

/// Launches `work` on a stream. While it runs, it can access the memory of the stream's device.
cudaError_t launch(cudaStream_t stream, std::function<void()> work);
/// Succeeds if there are kernels for the current device.
cudaError_t look_for_kernels();

}  // namespace fake_cuda
