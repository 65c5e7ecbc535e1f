// SPDX-License-Identifier: Apache-2.0
// A disk that is full, or that fails, for the whole process: the system calls that take space are
// replaced by functions which fail under a folder of the test's choice. Nothing is synced, as that
// takes most of the time. Include it in one source file of a test. Calls of shared libraries are
// replaced too.
#pragma once

#undef _FORTIFY_SOURCE

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace scbf_test {

class Disk {
 public:
  /// Whether a full disk has room for the name of a new, empty file, as most have.
  enum class NewFiles : unsigned char { refused, taken };
  /// The disk below `folder` is full after `writes` more calls that take space; these then fail
  /// with `error`.
  static void fill_after(const std::string& folder, std::int64_t writes, int error = ENOSPC,
                         NewFiles new_files = NewFiles::refused) {
    active() = false;
    {
      const std::lock_guard lock(mutex());
      below() = folder;
    }
    left() = writes;
    why() = error;
    takes_new_files() = new_files == NewFiles::taken;
    active() = true;
  }
  static void free() { active() = false; }
  /// Each thread that meets the end of the disk calls `act` with the path, then its own call fails.
  static void at_end(std::function<void(std::string_view path)> act) {
    const std::lock_guard lock(mutex());
    action() = std::move(act);
  }
  /// Each sync of a file calls `act` with its path first.
  static void at_sync(std::function<void(const std::string& path)> act) {
    const std::lock_guard lock(mutex());
    sync_action() = std::move(act);
  }
  /// Whether a call has failed since fill_after.
  static bool was_full() { return left() < 0; }

  static bool refuses(const char* path) {
    if (!active() || !is_below(path)) return false;
    if (left().fetch_sub(1) > 0) return false;
    left() = -1;
    const auto act = [] {
      const std::lock_guard lock(mutex());
      return action();
    }();
    if (act) act(path);
    errno = why();
    return true;
  }
  static bool refuses_new(const char* path) { return !takes_new_files() && refuses(path); }
  /// Tables reserve space, and a file needs none for the blocks that it has.
  static bool needs_space(int fd, off_t end) {
    const bool is_about_space = why() == ENOSPC || why() == EDQUOT;
    if (!active() || !is_about_space || !path_of(fd).ends_with(".sst")) return true;
    struct stat file;
    return ::fstat(fd, &file) != 0 || std::max(end, file.st_size) > file.st_blocks * 512;
  }
  static bool refuses(int fd) { return active() && refuses(path_of(fd).c_str()); }
  /// How much a write takes: nothing if it is refused; half of it at the last call before that, as
  /// where the end of the disk lies inside.
  static std::size_t takes(int fd, std::size_t bytes, off_t at) {
    if (!needs_space(fd, at + static_cast<off_t>(bytes))) return bytes;
    if (refuses(fd)) return 0;
    return active() && left() == 0 && bytes > 1 ? bytes / 2 : bytes;
  }
  /// Whether the disk refuses to sync a file.
  static bool refuses_sync(int fd) {
    const auto act = [] {
      const std::lock_guard lock(mutex());
      return sync_action();
    }();
    if (act) act(path_of(fd));
    return needs_space(fd, 0) && refuses(fd);
  }

 private:
  /// Empty if it has none.
  static std::string path_of(int fd) {
    char link[64], path[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = ::readlink(link, path, sizeof path);
    return std::string(path, bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  }
  static std::mutex& mutex() {
    static std::mutex it;
    return it;
  }
  static std::function<void(std::string_view)>& action() {  // under mutex
    static std::function<void(std::string_view)> it;
    return it;
  }
  static std::function<void(const std::string&)>& sync_action() {  // under mutex
    static std::function<void(const std::string&)> it;
    return it;
  }
  static std::atomic<bool>& active() {
    static std::atomic<bool> it = false;
    return it;
  }
  static std::atomic<std::int64_t>& left() {
    static std::atomic<std::int64_t> it = 0;
    return it;
  }
  static std::atomic<int>& why() {
    static std::atomic<int> it = ENOSPC;
    return it;
  }
  static std::atomic<bool>& takes_new_files() {
    static std::atomic<bool> it = false;
    return it;
  }
  static std::string& below() {  // under mutex
    static std::string it;
    return it;
  }
  static bool is_below(std::string_view path) {
    const std::lock_guard lock(mutex());
    return path.starts_with(below());
  }
};

inline int open_on_disk(const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 && ::access(path, F_OK) != 0 && Disk::refuses_new(path)) return -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // namespace scbf_test

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return scbf_test::open_on_disk(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return scbf_test::open_on_disk(path, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t count) {
  const std::size_t takes = scbf_test::Disk::takes(fd, count, ::lseek(fd, 0, SEEK_CUR));
  if (takes == 0 && count > 0) return -1;
  return ::syscall(SYS_write, fd, bytes, takes);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  const std::size_t takes = scbf_test::Disk::takes(fd, count, at);
  if (takes == 0 && count > 0) return -1;
  return ::syscall(SYS_pwrite64, fd, bytes, takes, at);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  return pwrite64(fd, bytes, count, at);
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  if (scbf_test::Disk::refuses(fd)) return -1;
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, at, bytes));
}
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate64(fd, mode, at, bytes); }
int fsync(int fd) noexcept(false) { return scbf_test::Disk::refuses_sync(fd) ? -1 : 0; }
int fdatasync(int fd) { return scbf_test::Disk::refuses_sync(fd) ? -1 : 0; }
/// RocksDB sleeps for a second after a flush that failed.
int usleep(useconds_t microseconds) {
  const timespec time = {0, static_cast<long>(std::min<useconds_t>(microseconds, 1000)) * 1000};
  return static_cast<int>(::syscall(SYS_nanosleep, &time, nullptr));
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (scbf_test::Disk::refuses(path)) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int rename(const char* from, const char* to) noexcept {
  if (scbf_test::Disk::refuses(to)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}
