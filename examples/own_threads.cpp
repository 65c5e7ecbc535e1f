// SPDX-License-Identifier: Apache-2.0
// A program runs the filter in its own oneTBB arena. The counters are the same, bit for bit, for
// every number of threads.
#include <oneapi/tbb/task_arena.h>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "scbf/filter.hpp"
#include "scbf/tbb.hpp"

int main() {
  std::vector<std::uint64_t> keys(1'000'000);
  std::iota(keys.begin(), keys.end(), 0u);

  oneapi::tbb::task_arena arena(2);
  const scbf::TbbExecutor executor(arena);
  scbf::Filter in_arena(keys.size(), 0.01), alone(keys.size(), 0.01);
  in_arena.insert(keys, {.executor = &executor});
  alone.insert(keys, {.threads = 1});

  std::printf("%u threads and one thread: %s\n", executor.concurrency(),
              in_arena == alone ? "the same counters" : "different counters");
  return in_arena == alone ? 0 : 1;
}
