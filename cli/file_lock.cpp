// SPDX-License-Identifier: Apache-2.0
#include "file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "files/file_io.hpp"
#include "input.hpp"
#include "output.hpp"

namespace scbf::cli {

namespace {

/// Locks a file, unless another process keeps it locked for a second.
bool locked_soon(int fd) {
  constexpr int kTries = 50;
  constexpr auto kBetween = std::chrono::milliseconds(20);
  for (int i = 0; i < kTries; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    std::this_thread::sleep_for(kBetween);
  }
  return false;
}

}  // namespace

FileLock::FileLock(const std::string& path) : FileLock() {
  for (bool told = false;;) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);  // NFS locks only what may be written
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return;
    if (!locked_soon(fd_)) {
      if (!std::exchange(told, true)) {
        note(
            fmt::format("{}: waiting for another command that changes it; if a pipe joins the two, "
                        "both may wait for ever",
                        display_name(path)));
      }
      while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // The last holder may have replaced the file: then lock the new one.
    struct stat mine {
    }, there{};
    if (::fstat(fd_, &mine) != 0 || ::stat(path.c_str(), &there) != 0 || same_file(mine, there)) {
      return;
    }
    ::close(fd_);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace scbf::cli
