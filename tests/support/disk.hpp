// SPDX-License-Identifier: Apache-2.0
// A disk that is full, or that fails, for the whole process: the system calls that take space are
// replaced (disk.cpp) by functions which fail under a folder of the test's choice. Nothing is
// synced, as that takes most of the time. Calls of shared libraries are replaced, too.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
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

}  // namespace scbf_test
