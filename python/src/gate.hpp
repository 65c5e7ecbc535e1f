// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: many threads may read an object at once, or one may change it. Batches run
// without Python's global lock (or there is none), so Python's threads could meet in an object.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace scbf::python {

/// Work on an object that goes on after the call that began it, such as keys that a filter has
/// accepted but not added yet. Whoever passes the gate next has it finished first.
class Unfinished {
 public:
  virtual ~Unfinished() = default;
  /// Under the gate's lock to change; needs no lock of Python.
  virtual void finish() noexcept = 0;
};

/// The lock of one object, and whether it has been closed.
class Gate {
 public:
  std::shared_timed_mutex mutex;
  /// Held by whoever is next, so that readers do not overtake a thread that waits to change the
  /// object.
  std::timed_mutex next;
  /// Passages of either kind, counted under Python's global lock.
  int reading = 0, changing = 0;
  /// Threads that hold a lock of this gate or wait for one.
  std::atomic<int> users{0};
  /// forks() when `users` was last right. After another fork, the other threads counted are gone.
  std::atomic<unsigned> forks{0};
  /// Users that a fork left behind, with what they had locked.
  int lost = 0;
  /// Set by a passage to change; nobody passes afterwards.
  std::atomic<bool> closed{false};
  /// Set by a passage to change, and reset by the next one, which finishes it, both with Python's
  /// global lock. While it is set, nobody reads the object.
  std::shared_ptr<Unfinished> unfinished;
};

/// A thread that has passed the gate, to read or to change. Waits for its turn without Python's
/// global lock. Made and destroyed with it. Throws what Ctrl-C raises meanwhile, InvalidArgument if
/// the object is closed, and Error where waiting would never end, because the thread is inside
/// already (a progress callback that changes the filter it reports on), or because another thread
/// was when this process was forked.
class Passage {
 public:
  enum class To { read, change };
  enum class Closed { refuse, let_in };
  /// `own`: unfinished work that this passage goes on with, or does not look at. `closed`: what
  /// becomes of a thread that comes to a closed object.
  Passage(Gate& gate, To purpose, const Unfinished* own = nullptr, Closed closed = Closed::refuse);
  ~Passage();
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

 private:
  Gate& gate_;
  const To purpose_;
};

/// Two objects at once: the first is changed or read, the second is read. It takes them in an order
/// that all threads share, so that none waits for another forever.
class PassageToBoth {
 public:
  PassageToBoth(Gate& first, Passage::To purpose, Gate& second);

 private:
  std::optional<Passage> earlier_, later_;
};

/// A call for one key, which is over before Python's global lock is given up. With that lock no
/// Passage begins or ends meanwhile, so it is enough that none is in the way; otherwise, and where
/// there is no such lock, it takes its turn.
class BriefPassage {
 public:
  BriefPassage(Gate& gate, Passage::To purpose, const Unfinished* own = nullptr);
  ~BriefPassage();
  BriefPassage(const BriefPassage&) = delete;
  BriefPassage& operator=(const BriefPassage&) = delete;

 private:
  Gate& gate_;
  const Passage::To purpose_;
  bool locked_ = false;
};

/// Has this work finished, if it is the gate's, unless others are at the gate: they do that. With
/// Python's global lock, which it gives up meanwhile.
void finish_if_free(Gate& gate, const Unfinished* work) noexcept;

}  // namespace scbf::python
