// SPDX-License-Identifier: Apache-2.0
// Work outside Python's global lock.
#pragma once

#include <nanobind/nanobind.h>

namespace scbf::python {

/// Gives Python's global lock up as long as it lives. A thread that comes back when the interpreter
/// is ending sleeps for good: it would otherwise be ended in the middle of C++ code, which ends the
/// process with it.
class Outside {
 public:
  Outside() noexcept : state_(PyEval_SaveThread()) {}
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  PyThreadState* state_;
};

/// Lets Outside know when the interpreter is ending. Call it once, when the module is made.
void watch_the_end();

}  // namespace scbf::python
