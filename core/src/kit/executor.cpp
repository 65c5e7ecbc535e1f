// SPDX-License-Identifier: Apache-2.0
#include "kit/executor.hpp"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>

namespace scbf {

namespace {

class DefaultExecutor final : public Executor {
 public:
  unsigned concurrency() const noexcept override {
    const int threads = oneapi::tbb::this_task_arena::max_concurrency();
    return threads > 0 ? static_cast<unsigned>(threads) : 1;
  }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    // Isolated: a thread that waits here must not pick up unrelated work of the caller, which might
    // use the same filter.
    oneapi::tbb::this_task_arena::isolate([&] {
      oneapi::tbb::parallel_for(std::size_t{0}, count, task, oneapi::tbb::simple_partitioner{});
    });
  }
};

const Executor& executor_of(const BatchOptions& options) noexcept {
  return options.executor != nullptr ? *options.executor : default_executor();
}

}  // namespace

const Executor& default_executor() noexcept {
  static const DefaultExecutor executor;
  return executor;
}

unsigned thread_count(const BatchOptions& options) noexcept {
  if (options.threads == 1) return 1;
  const unsigned available = std::max(1u, executor_of(options).concurrency());
  return options.threads == 0 ? available : std::min(options.threads, available);
}

void run_small_task(const BatchOptions& options, unsigned threads, std::size_t count,
                    const std::function<void(std::size_t)>& task) {
  if (threads <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) task(i);
    return;
  }
  // `threads` runners take tasks from one counter. So no more threads run than were asked for,
  // however large the arena is, and no thread idles while tasks are left.
  std::atomic<std::size_t> next{0};
  std::atomic<bool> task_threw{false};
  const auto runner = [&](std::size_t) {
    try {
      for (std::size_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      task_threw = true;
      throw;
    }
  };
  try {
    executor_of(options).run(std::min<std::size_t>(threads, count), std::ref(runner));
  } catch (...) {
    if (task_threw) throw;
  }
  runner(0);  // what an executor that threw has left
}

}  // namespace scbf
