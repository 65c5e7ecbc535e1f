// SPDX-License-Identifier: Apache-2.0
// The system calls of a program whose disk is scbf_test::Disk.
#undef _FORTIFY_SOURCE

#include "support/disk.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdarg>

using scbf_test::Disk;

namespace {

int open_on_disk(const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 && ::access(path, F_OK) != 0 && Disk::refuses_new(path)) return -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return open_on_disk(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return open_on_disk(path, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t count) {
  const std::size_t takes = Disk::takes(fd, count, ::lseek(fd, 0, SEEK_CUR));
  if (takes == 0 && count > 0) return -1;
  return ::syscall(SYS_write, fd, bytes, takes);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  const std::size_t takes = Disk::takes(fd, count, at);
  if (takes == 0 && count > 0) return -1;
  return ::syscall(SYS_pwrite64, fd, bytes, takes, at);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  return pwrite64(fd, bytes, count, at);
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  if (Disk::refuses(fd)) return -1;
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, at, bytes));
}
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate64(fd, mode, at, bytes); }
int fsync(int fd) noexcept(false) { return Disk::refuses_sync(fd) ? -1 : 0; }
int fdatasync(int fd) { return Disk::refuses_sync(fd) ? -1 : 0; }
/// RocksDB sleeps for a second after a flush that failed.
int usleep(useconds_t microseconds) {
  const timespec time = {0, static_cast<long>(std::min<useconds_t>(microseconds, 1000)) * 1000};
  return static_cast<int>(::syscall(SYS_nanosleep, &time, nullptr));
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (Disk::refuses(path)) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int rename(const char* from, const char* to) noexcept {
  if (Disk::refuses(to)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}
