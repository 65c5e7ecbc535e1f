// SPDX-License-Identifier: Apache-2.0
#include "gate.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "scbf/errors.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// The gates that this thread is behind.
thread_local std::vector<const Gate*> inside;

void check_open(const Gate& gate) {
  if (gate.closed.load(std::memory_order_acquire)) {
    throw InvalidArgument("it has been closed: open or make another one");
  }
}

void refuse_own(const Gate& gate) {
  if (std::find(inside.begin(), inside.end(), &gate) != inside.end()) {
    throw Error(
        "the object is in use by the call that this one was made from, such as by a progress "
        "callback that changes the filter it reports on");
  }
}

void enter(Gate& gate, Passage::To purpose) {
  if (purpose == Passage::To::read) {
    if (gate.mutex.try_lock_shared()) return;
    refuse_own(gate);
    nb::gil_scoped_release others_may_run;
    gate.mutex.lock_shared();
  } else {
    // A thread that is inside as a reader must not try the lock, either.
    refuse_own(gate);
    if (gate.mutex.try_lock()) return;
    nb::gil_scoped_release others_may_run;
    gate.mutex.lock();
  }
}

void leave(Gate& gate, Passage::To purpose) {
  if (purpose == Passage::To::read) {
    gate.mutex.unlock_shared();
  } else {
    gate.mutex.unlock();
  }
}

}  // namespace

Passage::Passage(Gate& gate, To purpose) : gate_(gate), purpose_(purpose) {
  enter(gate, purpose);
  try {
    check_open(gate);
    inside.push_back(&gate);
  } catch (...) {
    leave(gate, purpose);
    throw;
  }
}

Passage::~Passage() {
  inside.erase(std::find(inside.rbegin(), inside.rend(), &gate_).base() - 1);
  leave(gate_, purpose_);
}

PassageToBoth::PassageToBoth(Gate& first, Passage::To purpose, Gate& second) {
  if (&first == &second) {
    earlier_.emplace(first, purpose);
  } else if (std::less<>{}(&first, &second)) {
    earlier_.emplace(first, purpose);
    later_.emplace(second, Passage::To::read);
  } else {
    earlier_.emplace(second, Passage::To::read);
    later_.emplace(first, purpose);
  }
}

BriefPassage::BriefPassage(Gate& gate) : gate_(gate) {
  enter(gate, Passage::To::read);
  if (!gate.closed.load(std::memory_order_acquire)) return;
  gate.mutex.unlock_shared();
  check_open(gate);
}

}  // namespace scbf::python
