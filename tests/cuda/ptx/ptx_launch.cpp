// SPDX-License-Identifier: Apache-2.0
#include "ptx_launch.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fake_runtime.hpp"
#include "fake_state.hpp"

namespace ptx {

namespace {

std::string file(const char* path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(std::string(path) + ": cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Without what depends on the compiler's options: CUB's names list the architectures compiled for,
/// and unnamed namespaces have a number.
std::string plain_name(const std::string& name) {
  static const std::regex kVaries(
      R"(\d+(CUB|THRUST)_\d+_SM_[\d_]*\d(_NS)?|\d+_GLOBAL__N__[0-9a-f]{8}_\d+_|_[0-9a-f]{8}(?=\d))");
  return std::regex_replace(name, kVaries, "$1");
}

/// The PTX of a program's own kernels: the file that SCBF_MORE_PTX names, if it is set.
std::string more_ptx() {
  const char* variable = std::getenv("SCBF_MORE_PTX");
  return variable == nullptr ? "" : file(variable);
}

/// SCBF_PTX_SEED, or 1.
std::uint64_t usual_seed() {
  const char* variable = std::getenv("SCBF_PTX_SEED");
  return variable == nullptr ? 1 : std::strtoull(variable, nullptr, 10);
}

/// A kernel as the host knows it: by the address of its stub.
struct Function {
  std::string name;
  int dynamic_shared_bytes = 48 << 10;
};

/// All kernels. The lock of the fake runtime guards it.
struct Code {
  std::map<const void*, Function> functions;
  std::vector<std::unique_ptr<Module>> modules;  ///< all that were ever used: their variables are
  std::map<std::string, const Kernel*, std::less<>> kernels, replaced;  ///< by plain name
  Settings settings{.seed = usual_seed()};
  std::map<std::string, Count> counts;  ///< by name
  std::uint64_t launches = 0;

  void load() {
    if (!modules.empty()) return;
    for (const std::string& text : {library_ptx(), file(SCBF_OWN_KERNELS_PTX), more_ptx()}) {
      if (text.empty()) continue;
      for (const auto& [name, kernel] : keep(parse(text)).kernels)
        kernels[plain_name(name)] = &kernel;
    }
  }
  const Module& keep(Module module) {
    return *modules.emplace_back(std::make_unique<Module>(std::move(module)));
  }
  const Kernel* kernel(const Function& function) {
    load();
    const std::string name = plain_name(function.name);
    if (const auto found = replaced.find(name); found != replaced.end()) return found->second;
    const auto found = kernels.find(name);
    if (found == kernels.end()) throw std::runtime_error("no PTX of kernel " + function.name);
    return found->second;
  }
};
Code& code() {
  static auto* all = new Code;  // functions are registered before main, in any order
  return *all;
}

Function* function_of(const void* stub) {
  const auto found = code().functions.find(stub);
  return found == code().functions.end() ? nullptr : &found->second;
}

/// On a device, in the order of its stream.
void execute_on(int device, Launch launch) {
  using fake_cuda::state;
  for (const auto& [data, block] : state().blocks) {
    if (!block->alive || block->device != device) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(block->data);
    launch.memory.push_back({begin, begin + block->bytes});
  }
  for (const auto& module : code().modules) {
    for (const Variable& variable : module->variables) {
      const auto begin = reinterpret_cast<std::uintptr_t>(variable.words.get());
      launch.memory.push_back({begin, begin + variable.bytes});
    }
  }
  Settings settings = code().settings;
  settings.seed += ++code().launches;
  try {
    const Report report = execute(launch, settings);
    for (const std::string& problem : report.problems) state().problem(problem);
    Count& count = code().counts[launch.kernel->name];
    ++count.launches;
    count.instructions += report.instructions;
  } catch (const Fault& fault) {
    state().problem(std::string("a fault: ") + fault.what());
    state().sticky = cudaErrorIllegalAddress;
  }
}

/// A launch, if a device would take it; else an error. Under the lock.
cudaError_t prepare(Launch& it, const void* stub, void** arguments) {
  const Function* function = function_of(stub);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  const Kernel& kernel = *code().kernel(*function);
  it.kernel = &kernel;
  constexpr unsigned kMostInX = 0x7FFF'FFFF, kMostInYAndZ = 65'535;
  const bool possible =
      it.grid.count() > 0 && it.block.count() > 0 && it.grid.x <= kMostInX &&
      it.grid.y <= kMostInYAndZ && it.grid.z <= kMostInYAndZ &&
      it.block.count() <= kernel.most_threads &&
      it.dynamic_shared_bytes <= static_cast<std::size_t>(function->dynamic_shared_bytes);
  if (!possible) {
    fake_cuda::state().problem("a launch that a device refuses, of " + readable_name(kernel.name));
    return cudaErrorInvalidConfiguration;
  }
  it.parameters.assign(kernel.parameter_bytes, std::byte{0xEE});
  for (std::size_t p = 0; p < kernel.parameters.size(); ++p) {
    const auto [offset, bytes] = kernel.parameters[p];
    std::memcpy(it.parameters.data() + offset, arguments[p], bytes);
  }
  return cudaSuccess;
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream, bool cooperative) {
  Launch it{.kernel = nullptr,
            .grid = {grid.x, grid.y, grid.z},
            .block = {block.x, block.y, block.z},
            .dynamic_shared_bytes = shared,
            .cooperative = cooperative};
  {
    const std::scoped_lock lock(fake_cuda::state().mutex);
    const cudaError_t error = prepare(it, stub, arguments);
    if (error != cudaSuccess) return fake_cuda::failed_with(error);
  }
  return fake_cuda::launch(stream, [it = std::move(it), device = fake_cuda::current_device()] {
    execute_on(device, it);
  });
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

const std::string& library_ptx() {
  static const std::string text = file(SCBF_KERNELS_PTX);
  return text;
}

void replace_kernels(Module module) {
  code().load();
  code().replaced.clear();
  for (const auto& [name, kernel] : code().keep(std::move(module)).kernels) {
    code().replaced[plain_name(name)] = &kernel;
  }
}

void set_settings(const Settings& settings) {
  code().settings = settings;
  code().launches = 0;
}

std::map<std::string, Count> take_counts() {
  std::map<std::string, Count> counts;
  for (const auto& [name, count] : std::exchange(code().counts, {})) {
    Count& sum = counts[readable_name(name)];
    sum.launches += count.launches;
    sum.instructions += count.instructions;
  }
  return counts;
}

void revive_devices() {
  const std::scoped_lock lock(fake_cuda::state().mutex);
  fake_cuda::state().sticky = cudaSuccess;
}

}  // namespace ptx

// ---- the runtime --------------------------------------------------------------------------------

using fake_cuda::Call;
using fake_cuda::failed_with;

extern "C" {

// What nvcc's host code calls, which no public header declares.
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  ptx::code().functions[stub].name = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  ptx::configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const ptx::Configuration last = ptx::configurations.back();
  ptx::configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return ptx::launch(kernel, grid, block, arguments, shared, stream, false);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared, cudaStream_t stream) {
  return ptx::launch(stub, grid, block, arguments, shared, stream, false);
}
cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, cudaStream_t stream) {
  return ptx::launch(stub, grid, block, arguments, shared, stream, true);
}
/// What CUB asks for here lets a kernel begin early, which it need not.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* stub, void** arguments) {
  for (unsigned i = 0; i < how->numAttrs; ++i) {
    if (how->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization) continue;
    fake_cuda::state().problem("a launch attribute that this runtime does not know");
    return failed_with(cudaErrorInvalidValue);
  }
  return ptx::launch(stub, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes,
                     how->stream, false);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  const Call call("cudaFuncGetAttributes");
  if (call.error() != cudaSuccess) return call.error();
  const ptx::Function* function = ptx::function_of(stub);
  if (function == nullptr) return failed_with(cudaErrorInvalidDeviceFunction);
  const ptx::Kernel& kernel = *ptx::code().kernel(*function);
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxThreadsPerBlock = static_cast<int>(kernel.most_threads);
  attributes->sharedSizeBytes = kernel.shared_bytes;
  attributes->maxDynamicSharedSizeBytes = function->dynamic_shared_bytes;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  const Call call("cudaFuncSetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  ptx::Function* function = ptx::function_of(stub);
  if (function == nullptr) return failed_with(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const auto used = static_cast<int>(ptx::code().kernel(*function)->shared_bytes);
    const auto device = static_cast<std::size_t>(fake_cuda::current_device());
    if (value + used > fake_cuda::state().devices[device].spec.shared_bytes) {
      return failed_with(cudaErrorInvalidValue);
    }
    function->dynamic_shared_bytes = value;
  }
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int threads, std::size_t,
                                                                   unsigned) {
  const Call call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags");
  if (call.error() != cudaSuccess) return call.error();
  *blocks = std::min(8, 2048 / threads);
  return cudaSuccess;
}

}  // extern "C"
