// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scbf/backend.hpp"

namespace scbf {

/// Runs tasks in oneTBB's arena of the calling thread (the default one if it is in none).
const Executor& default_executor() noexcept;

/// How many threads an operation uses: what the options ask for, at most what there are.
unsigned thread_count(const BatchOptions& options) noexcept;

/// Calls task(0) … task(count − 1) on at most `threads` threads; on the calling one if that is 1.
void run_tasks(const BatchOptions& options, unsigned threads, std::size_t count,
               const std::function<void(std::size_t)>& task);

}  // namespace scbf
