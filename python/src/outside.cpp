// SPDX-License-Identifier: Apache-2.0
#include "outside.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace scbf::python {
namespace {

std::atomic<bool> ending{false};

}  // namespace

Outside::~Outside() {
  while (ending.load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::hours(1));
  PyEval_RestoreThread(state_);
}

void watch_the_end() {
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { ending.store(true, std::memory_order_release); }));
}

}  // namespace scbf::python
