// SPDX-License-Identifier: Apache-2.0
#include "gate.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "outside.hpp"
#include "scbf/errors.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// The gates that this thread has passed.
thread_local std::vector<const Gate*> inside;

void check_open(const Gate& gate) {
  if (gate.closed.load(std::memory_order_acquire)) {
    throw InvalidArgument("it has been closed: open or make another one");
  }
}

bool is_inside(const Gate& gate) {
  return std::find(inside.begin(), inside.end(), &gate) != inside.end();
}

/// Waits by `try_for(time)`, a moment at a time, without Python's global lock; in between, Ctrl-C
/// is noticed.
template <class TryFor>
void wait(TryFor try_for) {
  for (;;) {
    {
      Outside others_may_run;
      if (try_for(std::chrono::milliseconds(100))) return;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// In the child of a fork, whoever was at the gate in another thread stays there for good.
void notice_fork(Gate& gate) {
  if (gate.forks.load(std::memory_order_acquire) == forks()) return;
  static std::mutex one_thread;  // where there is no global lock
  const std::lock_guard lock(one_thread);
  if (gate.forks.load(std::memory_order_relaxed) == forks()) return;
  const auto own = static_cast<int>(std::count(inside.begin(), inside.end(), &gate));
  gate.lost += gate.users.exchange(own) - own;
  gate.forks.store(forks(), std::memory_order_release);  // last: enter() counts after it
}

/// Under the lock to change.
void finish_unfinished(Gate& gate) noexcept {
  {
    Outside others_may_run;
    gate.unfinished->finish();
  }
  gate.unfinished = nullptr;  // last: a BriefPassage looks at it, with the global lock alone
}

bool has_unfinished(const Gate& gate, const Unfinished* own) noexcept {
  return gate.unfinished != nullptr && gate.unfinished.get() != own;
}

void lock_to_change(Gate& gate) {
  if (!gate.mutex.try_lock()) wait([&](auto time) { return gate.mutex.try_lock_for(time); });
}

void lock_to_read(Gate& gate) {
  if (!gate.mutex.try_lock_shared())
    wait([&](auto time) { return gate.mutex.try_lock_shared_for(time); });
}

void take_turn(Gate& gate, Passage::To purpose, const Unfinished* own) {
  if (is_inside(gate)) {
    // A reader may read again, even past a thread that waits for it to leave.
    if (purpose == Passage::To::read && gate.mutex.try_lock_shared()) return;
    throw Error(
        "the object is in use by the call that this one was made from, such as a progress "
        "callback: it cannot be changed now, nor asked while it is being changed");
  }
  if (gate.lost > 0) {
    // Lost readers are in no reader's way.
    if (purpose == Passage::To::read && gate.mutex.try_lock_shared()) {
      if (!has_unfinished(gate, own)) return;
      gate.mutex.unlock_shared();
    }
    throw Error(
        "another thread was using the object when this process was forked: here it cannot be "
        "changed, nor asked if it was being changed. Load or make another one, or start processes "
        "by multiprocessing's 'spawn' or 'forkserver'");
  }
  // A thread that is reading already must not queue behind a change that waits for it to finish.
  const bool in_turn = purpose == Passage::To::change || inside.empty();
  std::unique_lock next(gate.next, std::defer_lock);
  if (in_turn && !next.try_lock()) wait([&](auto time) { return next.try_lock_for(time); });
  if (purpose == Passage::To::change) {
    lock_to_change(gate);
    if (has_unfinished(gate, own)) finish_unfinished(gate);
    return;
  }
  for (;;) {
    lock_to_read(gate);
    if (!has_unfinished(gate, own)) return;
    gate.mutex.unlock_shared();
    lock_to_change(gate);  // waits for readers that have come meanwhile
    if (has_unfinished(gate, own)) finish_unfinished(gate);
    gate.mutex.unlock();
  }
}

void enter(Gate& gate, Passage::To purpose, const Unfinished* own) {
  notice_fork(gate);
  ++gate.users;
  try {
    take_turn(gate, purpose, own);
  } catch (...) {
    --gate.users;
    throw;
  }
}

void leave(Gate& gate, Passage::To purpose) {
  if (purpose == Passage::To::read) {
    gate.mutex.unlock_shared();
  } else {
    gate.mutex.unlock();
  }
  --gate.users;
}

#ifdef Py_GIL_DISABLED
constexpr bool kGlobalLock = false;
#else
constexpr bool kGlobalLock = true;
#endif

void count(Gate& gate, Passage::To purpose, int by) {
  if (kGlobalLock) (purpose == Passage::To::read ? gate.reading : gate.changing) += by;
}

}  // namespace

Passage::Passage(Gate& gate, To purpose, const Unfinished* own, Closed closed)
    : gate_(gate), purpose_(purpose) {
  enter(gate, purpose, own);
  try {
    if (closed == Closed::refuse) check_open(gate);
    inside.push_back(&gate);
  } catch (...) {
    leave(gate, purpose);
    throw;
  }
  count(gate, purpose, 1);
}

Passage::~Passage() {
  count(gate_, purpose_, -1);
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

BriefPassage::BriefPassage(Gate& gate, Passage::To purpose, const Unfinished* own)
    : gate_(gate), purpose_(purpose) {
  const auto in_the_way = [&] {
    return gate.changing > 0 || (purpose == Passage::To::change && gate.reading > 0) ||
           has_unfinished(gate, own);
  };
  if (!kGlobalLock || in_the_way()) {
    enter(gate, purpose, own);
    locked_ = true;
  }
  if (!gate.closed.load(std::memory_order_relaxed)) return;
  if (locked_) leave(gate, purpose);
  check_open(gate);
}

BriefPassage::~BriefPassage() {
  if (locked_) leave(gate_, purpose_);
}

void finish_if_free(Gate& gate, const Unfinished* work) noexcept {
  if (is_inside(gate)) return;
  notice_fork(gate);
  ++gate.users;
  if (const std::unique_lock next(gate.next, std::try_to_lock); next) {
    const std::unique_lock lock(gate.mutex, std::try_to_lock);
    if (lock && gate.unfinished.get() == work && work != nullptr) finish_unfinished(gate);
  }
  --gate.users;
}

}  // namespace scbf::python
