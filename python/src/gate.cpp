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

void refuse_bulk(const Gate& gate, const void* insertion) {
  const void* holder = gate.bulk.load(std::memory_order_acquire);
  if (holder && holder != insertion) {
    throw Error("the filter belongs to a bulk insertion until that is finished: call its finish()");
  }
}

void refuse_own(const Gate& gate) {
  if (std::find(inside.begin(), inside.end(), &gate) != inside.end()) {
    throw Error(
        "the filter is in use by the call that this one was made from, such as by a progress "
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

Passage::Passage(Gate& gate, To purpose, const void* insertion) : gate_(gate), purpose_(purpose) {
  refuse_bulk(gate, insertion);
  enter(gate, purpose);
  try {
    refuse_bulk(gate, insertion);  // which may have begun while this thread waited
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
  refuse_bulk(gate, nullptr);
  enter(gate, Passage::To::read);
  if (!gate.bulk.load(std::memory_order_acquire)) return;
  gate.mutex.unlock_shared();
  refuse_bulk(gate, nullptr);
}

}  // namespace scbf::python
