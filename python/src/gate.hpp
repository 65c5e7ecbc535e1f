// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: many threads may read an object at once, or one may change it. Batches run
// without Python's global lock (or there is none), so that Python's threads would meet in them.
#pragma once

#include <atomic>
#include <optional>
#include <mutex>
#include <shared_mutex>

namespace scbf::python {

/// The lock of one object, and whether it has been closed.
class Gate {
 public:
  std::shared_mutex mutex;
  /// Set by a passage to change; nobody passes afterwards.
  std::atomic<bool> closed{false};
};

/// A thread that passed the gate; a reader or the one that changes. Waits for its turn without
/// Python's global lock. Made and destroyed with it. Throws InvalidArgument if the object is closed,
/// and Error where waiting would never end, because the thread is inside already (a progress callback
/// that changes the filter it reports on).
class Passage {
 public:
  enum class To { read, change };
  Passage(Gate& gate, To purpose);
  ~Passage();
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

 private:
  Gate& gate_;
  const To purpose_;
};

/// Two objects at once: the first is changed or read, the second is read. In an order that all
/// threads share, so that none waits for another forever.
class PassageToBoth {
 public:
  PassageToBoth(Gate& first, Passage::To purpose, Gate& second);

 private:
  std::optional<Passage> earlier_, later_;
};

/// One lookup that calls nothing of Python: as a Passage to read, without its books.
class BriefPassage {
 public:
  explicit BriefPassage(Gate& gate);
  ~BriefPassage() { gate_.mutex.unlock_shared(); }
  BriefPassage(const BriefPassage&) = delete;
  BriefPassage& operator=(const BriefPassage&) = delete;

 private:
  Gate& gate_;
};

}  // namespace scbf::python
