// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime without a GPU, for tests: fake_runtime.cpp and fake_memory.cpp define the
// functions of the real header that the library calls, so that its host code runs as it is and
// every mistake in it has consequences.
//
// Device memory is memory that the host cannot touch, but while the device works; it is poisoned
// when it is allocated and when it is freed, with fences around it. Work on streams is done as late
// as CUDA allows, at once, or in a random order that its dependencies permit. What the real runtime
// would only punish some day is noted as a problem.
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
  int l2_bytes = 1 << 16;  ///< small, so that filters of tests are larger
  int shared_bytes = 227 * 1024;
  bool has_pools = true;
  bool has_kernels = true;  ///< is the library compiled for it?
};
struct Machine {
  std::vector<DeviceSpec> devices{1};
  cudaError_t without_devices = cudaErrorNoDevice;
};
/// Before the library looks: it looks once.
void set_machine(const Machine& machine);
/// Another amount of memory in a device that is there; what is in use stays.
void set_memory(int device, std::size_t bytes);
std::size_t memory_in_use(int device);

enum class Schedule {
  late,    ///< nothing is done before someone waits for it
  early,   ///< everything is done at once
  random,  ///< sometimes this, sometimes that, streams in any order
};
void set_schedule(Schedule schedule, std::uint64_t seed = 1);

/// The nth call (1 is the next) of functions for which `which` is true returns `error`, as do the
/// next such calls, `times` in all; frees do what they are asked for all the same. A sticky error
/// is returned by every later call of any function.
void fail_call(std::function<bool(std::string_view function)> which, std::uint64_t nth,
               cudaError_t error, bool sticky = false, std::uint64_t times = 1);
/// Was there such a call since?
bool has_failed();
void heal();

/// Since the program began.
std::uint64_t calls_of(std::string_view function);

/// What has been made and not destroyed.
struct Alive {
  std::size_t device_blocks = 0, pool_blocks = 0, pinned_blocks = 0, streams = 0, events = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

/// What was done that must not be, since the last time.
std::vector<std::string> take_problems();

/// Launches `work` on a stream: it may touch the memory of the stream's device when it runs.
cudaError_t launch(cudaStream_t stream, std::function<void()> work);
/// Are there kernels for the current device?
cudaError_t look_for_kernels();

}  // namespace fake_cuda
