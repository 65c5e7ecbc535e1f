// SPDX-License-Identifier: Apache-2.0
// Small kernels in PTX, written by hand, and a run of one: for tests of the interpreter itself.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_execute.hpp"
#include "ptx_program.hpp"

namespace scbf_test {

/// A kernel around these instructions. In %rd1 is the address of global memory, in %r1 the number
/// of the thread, in %r2 that of the block, in %rd2 the address of the thread's own word.
inline std::string kernel_of(std::string_view instructions) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n"
         ".visible .entry k(.param .u64 k_param_0)\n.maxntid 256, 1, 1\n{\n"
         ".reg .pred %p<10>;\n.reg .b16 %rs<10>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n"
         ".shared .align 8 .b8 words[256];\n"
         "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"
         "mul.wide.u32 %rd2, %r1, 8;\nadd.s64 %rd2, %rd2, %rd1;\n" +
         std::string(instructions) + "\nret;\n}\n";
}

struct SmallRun {
  unsigned blocks = 1, threads = 1;
  bool cooperative = false;
  ptx::Settings settings = {};
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(256);  ///< of the device

  /// Returns the problems; throws ptx::Fault.
  std::vector<std::string> operator()(std::string_view instructions) {
    const ptx::Module module = ptx::parse(kernel_of(instructions));
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    ptx::Launch launch{.kernel = &module.kernels.at("k"),
                       .grid = {blocks},
                       .block = {threads},
                       .parameters = std::vector<std::byte>(8),
                       .cooperative = cooperative,
                       .memory = {{begin, begin + 8 * memory.size()}}};
    std::memcpy(launch.parameters.data(), &begin, sizeof begin);
    const ptx::Report report = ptx::execute(launch, settings);
    instructions_executed = report.instructions;
    return report.problems;
  }
  std::uint64_t instructions_executed = 0;
};

/// Of a run that must go well: a word of memory afterwards.
inline std::uint64_t result_of(std::string_view instructions, SmallRun run = {}) {
  EXPECT_EQ(run(instructions), std::vector<std::string>());
  return run.memory[0];
}

inline std::string fault_of(std::string_view instructions, SmallRun run = {}) {
  try {
    run(instructions);
    return "no fault";
  } catch (const ptx::Fault& fault) {
    return fault.what();
  }
}

/// The problems of several runs whose threads go in different orders, one behind the other.
inline std::string problems_of(std::string_view instructions, SmallRun run = {}) {
  std::string all;
  for (run.settings.seed = 1; run.settings.seed <= 8; ++run.settings.seed) {
    for (const std::string& problem : SmallRun(run)(instructions)) all += problem + '\n';
  }
  return all;
}

#define SCBF_EXPECT_SAYS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)

}  // namespace scbf_test
