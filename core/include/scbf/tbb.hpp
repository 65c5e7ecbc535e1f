// SPDX-License-Identifier: Apache-2.0
// Runs batches in a caller's oneTBB arena. Opt-in: the only public header that includes oneTBB. Who
// includes it links oneTBB, too (CMake: TBB::tbb).
#pragma once

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include "scbf/backend.hpp"

namespace scbf {

/// Borrows an arena, which must outlive it.
///   oneapi::tbb::task_arena arena(4);
///   scbf::TbbExecutor executor(arena);
///   filter.insert(keys, {.executor = &executor});
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(oneapi::tbb::task_arena& arena) : arena_(arena) {}

  unsigned concurrency() const noexcept override {
    const int threads = arena_.max_concurrency();
    return threads > 0 ? static_cast<unsigned>(threads) : 1;
  }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    // Isolated: a thread that waits here must not pick up unrelated work of the arena, which might
    // use the same filter, or wait for a lock that this thread holds.
    arena_.execute([&] {
      oneapi::tbb::this_task_arena::isolate([&] {
        oneapi::tbb::parallel_for(std::size_t{0}, count, task, oneapi::tbb::simple_partitioner{});
      });
    });
  }

 private:
  oneapi::tbb::task_arena& arena_;
};

}  // namespace scbf
