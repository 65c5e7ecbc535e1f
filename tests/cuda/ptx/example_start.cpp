// SPDX-License-Identifier: Apache-2.0
// Linked to examples, so that they run on a fake device without a change. What the fake runtime or
// the interpreter noted makes the program fail.
#include <cstdio>
#include <cstdlib>

#include "fake_runtime.hpp"

namespace {

struct Device {
  Device() {
    fake_cuda::set_machine({});
    fake_cuda::set_schedule(fake_cuda::Schedule::random);
  }
  ~Device() {
    bool tidy = fake_cuda::alive() == fake_cuda::Alive{};
    if (!tidy) std::puts("device memory, streams or events were not given back");
    for (const std::string& problem : fake_cuda::take_problems()) {
      std::puts(problem.c_str());
      tidy = false;
    }
    std::fflush(stdout);
    if (!tidy) std::_Exit(1);
  }
} const device;

}  // namespace
