// SPDX-License-Identifier: Apache-2.0
#include "file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "files/file_io.hpp"
#include "input.hpp"
#include "output.hpp"

namespace scbf::cli {

FileLock::FileLock(const std::string& path) : FileLock() {
  for (bool told = false;;) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);  // NFS locks only what may be written
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return;
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (!std::exchange(told, true)) {
        note(
            fmt::format("{}: waiting for another command that changes it (for ever, if a pipe "
                        "joins the two)",
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
