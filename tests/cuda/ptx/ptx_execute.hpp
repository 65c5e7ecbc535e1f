// SPDX-License-Identifier: Apache-2.0
// Executes a launch of a kernel on the host: all its blocks, warps and threads, in an order that
// changes with the seed. Lanes of a warp go together until they part; then each part goes on by
// itself, as on GPUs since Volta.
//
// A Fault ends a launch: an access out of bounds or not aligned, a mask that does not fit, a
// deadlock. Problems are noted and the launch goes on: races, barriers that only some threads
// reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx_memory.hpp"
#include "ptx_program.hpp"

namespace ptx {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
  std::size_t count() const { return std::size_t{x} * y * z; }
};

struct Launch {
  const Kernel* kernel;
  Dim grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
  bool cooperative = false;   ///< all blocks are resident, so that they may wait for each other
  std::vector<Range> memory;  ///< the global memory that it may touch
};

struct Settings {
  std::uint64_t seed = 1;
  bool races = true;  ///< whether to look for them
  /// Whether loads that may come from the cache of a block do return, at random, what other blocks
  /// have overwritten.
  bool stale_loads = true;
  bool scatter = true;  ///< whether lanes part at accesses of memory, at random
  /// Instructions of warps without a change of memory, after which nothing is expected any more.
  std::uint64_t patience = 1'000'000;
  /// Instructions of threads, after which a kernel is not expected to end any more.
  std::uint64_t most_instructions = 100'000'000'000;
};

struct Report {
  std::vector<std::string> problems;
  std::uint64_t instructions = 0;  ///< of threads
};

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The name of a kernel as C++ has it.
std::string readable_name(const std::string& mangled);

Report execute(const Launch& launch, const Settings& settings);

}  // namespace ptx
