// SPDX-License-Identifier: Apache-2.0
// A fair shared mutex: a reader that arrives after a waiting writer waits behind it. The policy of
// std::shared_mutex depends on the system, and glibc's lets readers starve writers.
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
