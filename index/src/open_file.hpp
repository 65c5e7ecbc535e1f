// SPDX-License-Identifier: Apache-2.0
// The owner of a file descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace scbf::index {

/// An open file, closed at the end.
class OpenFile {
 public:
  /// Opens with these flags of open(2). If that fails, fd() is negative and errno says why.
  OpenFile(const std::filesystem::path& path, int flags) noexcept
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace scbf::index
