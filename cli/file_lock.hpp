// SPDX-License-Identifier: Apache-2.0
// One command at a time changes a file: it reads the file, works on it, and replaces it as a whole.
// A second one that had read the same file would take away what the first has done.
#pragma once

#include <string>
#include <utility>

namespace scbf::cli {

/// The right to replace a file, until this object is destroyed. Other commands that want it wait;
/// reading needs no right. Where the file system has no locks, nobody waits.
class FileLock {
 public:
  FileLock() = default;
  /// Waits until no other command holds it; after a second, says so on standard error. Open the
  /// file afterwards: it is then the one that the last holder wrote. Does nothing if the file
  /// cannot be opened; reading it will say why.
  explicit FileLock(const std::string& path);
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();

 private:
  int fd_ = -1;
};

}  // namespace scbf::cli
