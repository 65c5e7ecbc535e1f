// SPDX-License-Identifier: Apache-2.0
// Work outside Python's global lock.
//
// When the interpreter ends, it ends every thread that takes the lock, in the middle of its C++
// code, which ends the process with "terminate called". So once it begins to end, threads that come
// back sleep for good instead; those that already wait for the lock get it before it goes on. The
// thread that ends it may do as it likes: other packages' functions for the end may use filters.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

namespace scbf::python {

/// Gives up Python's global lock as long as it lives.
class Outside {
 public:
  Outside() noexcept : state_(PyEval_SaveThread()) {}
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  PyThreadState* state_;
};

/// Calls the function without Python's global lock.
template <class Call>
auto without_lock(Call call) {
  const Outside others_may_run;
  return call();
}

/// Takes it back for a while, in work that is outside.
class Inside {
 public:
  Inside();
  ~Inside() { PyGILState_Release(state_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Notices Ctrl-C in work that is outside and calls it often.
class SignalCheck {
 public:
  /// Throws what the signal raises. Takes the lock at first, and then ten times a second.
  void operator()();

 private:
  std::chrono::steady_clock::time_point last_ = {};
};

/// How many forks this process came out of since the module was made.
unsigned forks() noexcept;

/// Watches for the end of the interpreter and for forks. Call it once, when the module is made.
void watch_the_end();

}  // namespace scbf::python
