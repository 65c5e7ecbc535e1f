// SPDX-License-Identifier: Apache-2.0
// A shared mutex that lets nobody starve: who comes after a waiting writer waits behind it. What
// std::shared_mutex does is the system's choice, and glibc prefers readers without end.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace scbf::index {

class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace scbf::index
