// SPDX-License-Identifier: Apache-2.0
// How many threads an operation gets, and running its tasks on them. The class Executor itself is
// public: scbf/backend.hpp.
#pragma once

#include <cstddef>
#include <functional>

#include "scbf/backend.hpp"

namespace scbf {

/// For small parts of another operation, which must not start threads.
inline constexpr BatchOptions kOnThisThread{.threads = 1, .path = Path::direct};

/// Runs tasks in the calling thread's oneTBB arena (the default arena if it is in none).
const Executor& default_executor() noexcept;

/// How many threads an operation uses: as many as the options ask for, but not more than there are.
unsigned thread_count(const BatchOptions& options) noexcept;

/// As run_tasks. `task` must be small enough for a std::function without memory of its own.
void run_small_task(const BatchOptions& options, unsigned threads, std::size_t count,
                    const std::function<void(std::size_t)>& task);

/// Calls task(0) … task(count − 1) on at most `threads` threads; on the calling thread if that is
/// 1. All are done when it returns: where the executor throws, the calling thread does what is
/// left. Throws what a task throws and nothing else, and allocates nothing itself.
template <class Task>
void run_tasks(const BatchOptions& options, unsigned threads, std::size_t count, const Task& task) {
  run_small_task(options, threads, count, std::ref(task));
}

}  // namespace scbf
