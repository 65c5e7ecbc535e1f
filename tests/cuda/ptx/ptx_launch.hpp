// SPDX-License-Identifier: Apache-2.0
// Kernels on fake devices: the launch functions of the CUDA runtime, over the fake runtime's
// streams and memory (tests/cuda/fake) and the interpreter. A Fault is a sticky error of the
// device, as on a GPU, and a problem that the test reports; so are races and whatever else
// execute() notes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ptx_execute.hpp"

namespace ptx {

/// The PTX that nvcc wrote for the library's kernels.
const std::string& library_ptx();

/// Kernels that are executed instead of those of the same names; call it while the devices have
/// nothing to do. Kernels replaced before are restored.
void replace_kernels(Module module);

/// Used by the launches that follow. Each has a seed of its own, which follows from this one.
void set_settings(const Settings& settings);

struct Count {
  std::uint64_t launches = 0, instructions = 0;
};
/// What was executed since the last call, by the kernels' readable names.
std::map<std::string, Count> take_counts();

/// After a Fault: the devices work again.
void revive_devices();

}  // namespace ptx
