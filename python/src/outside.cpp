// SPDX-License-Identifier: Apache-2.0
#include "outside.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace scbf::python {
namespace {

std::atomic<bool> ending{false};
std::thread::id ender;          // the thread that ends the interpreter, once that has begun
std::atomic<int> returning{0};  // threads that wait for the lock, or are about to
std::atomic<unsigned> forks_seen{0};

/// Calls take(), which waits for the lock; or never returns.
template <class Take>
auto take_lock(Take take) {
  // Whoever is counted before the end begins is waited for; whoever comes later sees that it has.
  returning.fetch_add(1);
  if (ending.load() && std::this_thread::get_id() != ender) {
    returning.fetch_sub(1);
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  const auto taken = take();
  returning.fetch_sub(1);
  return taken;
}

void begin_to_end() {
  ender = std::this_thread::get_id();
  ending.store(true);
  while (returning.load() > 0) {
    // Not by Outside: this thread comes back.
    PyThreadState* const state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(state);
  }
}

}  // namespace

Outside::~Outside() {
  take_lock([this] {
    PyEval_RestoreThread(state_);
    return true;
  });
}

Inside::Inside() : state_(take_lock(PyGILState_Ensure)) {}

void SignalCheck::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const Inside python;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

unsigned forks() noexcept { return forks_seen.load(); }

void watch_the_end() {
  // The child of a fork has none of the threads that wait.
  ::pthread_atfork(nullptr, nullptr, [] {
    returning.store(0);
    forks_seen.fetch_add(1);
  });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(begin_to_end));
}

}  // namespace scbf::python
