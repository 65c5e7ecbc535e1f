// SPDX-License-Identifier: Apache-2.0
// Executors that do what a caller's executor may do: throw, or use filters themselves.
#pragma once

#include <functional>
#include <stdexcept>

#include "support/setups.hpp"

namespace scbf_test {

/// Succeeds `runs` times, then always throws.
class FailsLater final : public scbf::Executor {
 public:
  /// When it throws: before any task, after the first, or after all.
  enum class Does { nothing, one, all };

  FailsLater(int runs, Does before) : left_(runs), before_(before) {}
  unsigned concurrency() const noexcept override { return 2; }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    if (left_ == 0) {
      const std::size_t tasks = before_ == Does::nothing ? 0 : before_ == Does::one ? 1 : count;
      for (std::size_t i = 0; i < tasks; ++i) task(i);
      ++thrown;
      throw std::runtime_error("no threads today");
    }
    --left_;
    two_threads().run(count, task);
  }
  mutable int thrown = 0;

 private:
  mutable int left_;
  Does before_;
};

/// Calls `between` before each task. Claims to have this many threads, and has one.
class Nests final : public scbf::Executor {
 public:
  explicit Nests(std::function<void()> between, unsigned threads = 2)
      : between_(std::move(between)), threads_(threads) {}
  unsigned concurrency() const noexcept override { return threads_; }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    for (std::size_t i = 0; i < count; ++i) {
      between_();
      task(i);
    }
  }

 private:
  std::function<void()> between_;
  unsigned threads_;
};

}  // namespace scbf_test
