// SPDX-License-Identifier: Apache-2.0
#include "files/file_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "scbf/detail/io_error.hpp"
#include "scbf/errors.hpp"

namespace scbf {

int FileSystemCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int FileSystemCalls::close(int fd) { return ::close(fd); }
ssize_t FileSystemCalls::read(int fd, void* buffer, std::size_t bytes) {
  return ::read(fd, buffer, bytes);
}
ssize_t FileSystemCalls::write(int fd, const void* buffer, std::size_t bytes) {
  return ::write(fd, buffer, bytes);
}
ssize_t FileSystemCalls::pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return ::pwrite(fd, buffer, bytes, offset);
}
off_t FileSystemCalls::lseek(int fd, off_t offset, int whence) {
  return ::lseek(fd, offset, whence);
}
int FileSystemCalls::fsync(int fd) { return ::fsync(fd); }
int FileSystemCalls::begin_writeback(int fd, off_t offset, off_t bytes) {
  return ::sync_file_range(fd, offset, bytes, SYNC_FILE_RANGE_WRITE);
}
int FileSystemCalls::fstat(int fd, struct stat* out) { return ::fstat(fd, out); }
int FileSystemCalls::stat(const char* path, struct stat* out) { return ::stat(path, out); }
int FileSystemCalls::access(const char* path, int mode) { return ::access(path, mode); }
int FileSystemCalls::fchown(int fd, uid_t user, gid_t group) { return ::fchown(fd, user, group); }
int FileSystemCalls::fchmod(int fd, mode_t mode) { return ::fchmod(fd, mode); }
int FileSystemCalls::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileSystemCalls::unlink(const char* path) { return ::unlink(path); }

FileSystemCalls& FileSystemCalls::system() noexcept {
  static FileSystemCalls calls;
  return calls;
}

namespace {

namespace fs = std::filesystem;

/// Bytes of a file that the system is told to write at once.
constexpr off_t kWritebackBytes = off_t{8} << 20;

[[noreturn]] void throw_io(const fs::path& path, const char* what, int error) {
  throw detail::io_error(path, what, error);
}

template <class Call>
auto retry_interrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

/// A file descriptor, closed by the destructor; close() reports errors.
class Descriptor {
 public:
  Descriptor(FileSystemCalls& calls, int fd) noexcept : calls_(calls), fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) calls_.close(fd_);
  }
  int get() const noexcept { return fd_; }
  void release() noexcept { fd_ = -1; }
  /// Returns 0 or errno. Linux has closed the descriptor even if it reports EINTR.
  int close() noexcept {
    const int result = calls_.close(std::exchange(fd_, -1));
    return result < 0 && errno != EINTR ? errno : 0;
  }

 private:
  FileSystemCalls& calls_;
  int fd_;
};

/// A temporary file, removed by the destructor unless it has been renamed to its final name.
class TemporaryName {
 public:
  TemporaryName(FileSystemCalls& calls, fs::path path) : calls_(calls), path_(std::move(path)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (!kept_) calls_.unlink(path_.c_str());
  }
  const fs::path& path() const noexcept { return path_; }
  void keep() noexcept { kept_ = true; }

 private:
  FileSystemCalls& calls_;
  fs::path path_;
  bool kept_ = false;
};

/// Writes all bytes; write(rest) is a system call that writes some of the rest.
template <class Write>
void write_all(std::span<const std::byte> bytes, const fs::path& path, Write write) {
  while (!bytes.empty()) {
    const ssize_t n = retry_interrupted([&] { return write(bytes); });
    if (n < 0) throw_io(path, "cannot write", errno);
    if (n == 0) throw_io(path, "cannot write", EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

/// Writes a file in order.
ByteSink appending(FileSystemCalls& calls, int fd, const fs::path& path) {
  return [&calls, fd, &path](std::span<const std::byte> bytes) {
    write_all(bytes, path, [&](std::span<const std::byte> rest) {
      return calls.write(fd, rest.data(), rest.size());
    });
  };
}

/// Writes a regular file. The disk writes each stretch while the next is produced. Otherwise
/// everything would wait for fsync, which also reports what fails.
OutputFile regular_file(FileSystemCalls& calls, int fd, const fs::path& path) {
  OutputFile file;
  file.append = [&calls, fd, append = appending(calls, fd, path), written = off_t{0},
                 under_way = off_t{0}](std::span<const std::byte> bytes) mutable {
    append(bytes);
    written += static_cast<off_t>(bytes.size());
    if (written - under_way < kWritebackBytes) return;
    calls.begin_writeback(fd, under_way, written - under_way);
    under_way = written;
  };
  file.write_at = [&calls, fd, &path](std::uint64_t offset, std::span<const std::byte> bytes) {
    auto at = static_cast<off_t>(offset);
    const off_t stretch = at / kWritebackBytes * kWritebackBytes;
    write_all(bytes, path, [&](std::span<const std::byte> rest) {
      const ssize_t n = calls.pwrite(fd, rest.data(), rest.size(), at);
      if (n > 0) at += n;
      return n;
    });
    // (What other threads still write there goes to the disk by fsync.)
    const off_t end = at / kWritebackBytes * kWritebackBytes;
    if (end > stretch) calls.begin_writeback(fd, stretch, end - stretch);
  };
  return file;
}

fs::path directory_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// O_EXCL makes the name unique; this number only makes a second try rare.
std::uint64_t arbitrary_number() {
  static std::atomic<std::uint64_t> calls{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::uint64_t x =
      static_cast<std::uint64_t>(now) ^ (static_cast<std::uint64_t>(::getpid()) << 40);
  x += ++calls * 0x9E37'79B9'7F4A'7C15;
  x = (x ^ (x >> 32)) * 0xD6E8'FEB8'6659'FD93;
  return x ^ (x >> 32);
}

struct OpenFile {
  int fd;
  fs::path name;
};

OpenFile open_temporary(FileSystemCalls& calls, const fs::path& directory, mode_t mode,
                        const fs::path& path) {
  constexpr int kTries = 100;
  for (int attempt = 1;; ++attempt) {
    fs::path name = directory / fmt::format(".scbf-{:016x}.tmp", arbitrary_number());
    const int fd = retry_interrupted([&] {
      return calls.open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    });
    if (fd >= 0) return {fd, std::move(name)};
    if (errno != EEXIST || attempt == kTries) {
      throw_io(path, "cannot create a temporary file beside it", errno);
    }
  }
}

void write_straight(const fs::path& path, const std::function<void(const OutputFile&)>& produce,
                    FileSystemCalls& calls) {
  const int fd =
      retry_interrupted([&] { return calls.open(path.c_str(), O_WRONLY | O_CLOEXEC, 0); });
  if (fd < 0) throw_io(path, "cannot open for writing", errno);
  Descriptor out(calls, fd);
  produce({.append = appending(calls, fd, path)});
  if (const int error = out.close()) throw_io(path, "cannot write", error);
}

void sync_directory(const fs::path& directory, const fs::path& path, FileSystemCalls& calls) {
  constexpr const char* kWhat =
      "written, but may not survive a power failure: cannot sync directory";
  const int fd = retry_interrupted(
      [&] { return calls.open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) throw_io(path, kWhat, errno);
  const Descriptor out(calls, fd);
  // Some file systems cannot sync a directory and return EINVAL; nothing can be done about that.
  if (retry_interrupted([&] { return calls.fsync(fd); }) < 0 && errno != EINVAL) {
    throw_io(path, kWhat, errno);
  }
}

}  // namespace

void check_replaceable(const fs::path& path, const struct stat& old, FileSystemCalls& calls) {
  if ((old.st_mode & 0222) == 0) throw_io(path, "cannot write", EACCES);
  if (retry_interrupted([&] { return calls.access(path.c_str(), W_OK); }) < 0) {
    throw_io(path, "cannot write", errno);
  }
}

namespace {

/// What write_file finds where it is to write.
struct Found {
  bool exists, regular;  ///< nothing else is replaced
  struct stat status;    ///< if it exists
  fs::path target;       ///< of a regular file, or of none: behind links
};

/// Looks once; nothing if the file was replaced meanwhile.
std::optional<Found> look_once(const fs::path& path, FileSystemCalls& calls) {
  Found found{};
  // Held open, because the inode number of a file that is gone may be the next one's. O_PATH needs
  // no permission for the file, and does not wait for a pipe or open a device.
  const Descriptor held(
      calls, retry_interrupted([&] { return calls.open(path.c_str(), O_PATH | O_CLOEXEC, 0); }));
  found.exists = held.get() >= 0;
  if (!found.exists && errno != ENOENT) throw_io(path, "cannot write", errno);
  if (found.exists &&
      retry_interrupted([&] { return calls.fstat(held.get(), &found.status); }) < 0) {
    throw_io(path, "cannot write", errno);
  }
  if (found.exists && S_ISDIR(found.status.st_mode)) throw_io(path, "cannot write", EISDIR);
  found.regular = !found.exists || S_ISREG(found.status.st_mode);
  if (!found.regular) return found;
  if (found.exists) check_replaceable(path, found.status, calls);
  found.target = behind_links(path);  // renaming onto a link would replace the link
  if (!found.exists) return found;
  // Links in /proc/self/fd may name a file that has been removed since.
  struct stat behind {};
  const int result = retry_interrupted([&] { return calls.stat(found.target.c_str(), &behind); });
  if (result < 0 && errno != ENOENT) throw_io(path, "cannot write", errno);
  if (result == 0 && same_file(behind, found.status)) return found;
  // Or somebody else has replaced the file meanwhile, as we are about to.
  struct stat now {};
  const bool still = retry_interrupted([&] { return calls.stat(path.c_str(), &now); }) == 0;
  if (still && same_file(now, found.status)) {
    throw_io(path, "cannot replace: the file has no name any more", ENOENT);
  }
  return {};
}

/// Gives a new file owner, group and permissions of the old one, as far as the system permits.
void keep_owner_and_permissions(FileSystemCalls& calls, int fd, const struct stat& old,
                                const fs::path& path) {
  constexpr auto kNotThis = static_cast<uid_t>(-1);
  const auto permitted = [&](uid_t user, gid_t group) {
    if (retry_interrupted([&] { return calls.fchown(fd, user, group); }) == 0) return true;
    if (errno != EPERM) throw_io(path, "cannot keep the owner", errno);
    return false;
  };
  // Only root may give files away. Others keep the file as their own, in its group if it is one of
  // theirs.
  const bool owner_kept = permitted(old.st_uid, old.st_gid);
  const bool group_kept = owner_kept || permitted(kNotThis, old.st_gid);
  mode_t mode = old.st_mode & 07777;
  if (!owner_kept) mode &= 01777;  // what runs as its owner must not run as another
  if (!group_kept) {               // nor may another group do what this one may
    const mode_t others = mode & 07;
    mode = (mode & ~mode_t{070}) | (others << 3);
  }
  if (retry_interrupted([&] { return calls.fchmod(fd, mode); }) < 0) {
    throw_io(path, "cannot keep the permissions", errno);
  }
}

}  // namespace

fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  fs::path target = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(target, error))) return target;
    if (links == kMostLinks) throw_io(path, "cannot write", ELOOP);
    const fs::path next = fs::read_symlink(target, error);
    if (error) throw_io(path, "cannot read symbolic link", error.value());
    target = target.parent_path() / next;  // an absolute `next` replaces all
  }
}

void write_file(const fs::path& path, const std::function<void(const ByteSink&)>& produce,
                FileSystemCalls& calls) {
  write_file(
      path, [&](const OutputFile& file) { produce(file.append); }, calls);
}

void write_file(const fs::path& path, const std::function<void(const OutputFile&)>& produce,
                FileSystemCalls& calls) {
  if (path.empty()) throw_io(path, "cannot write", ENOENT);
  std::optional<Found> found;
  while (!found) found = look_once(path, calls);
  if (!found->regular) return write_straight(path, produce, calls);
  const bool exists = found->exists;
  const struct stat& old = found->status;
  const fs::path& target = found->target;
  const fs::path directory = directory_of(target);
  OpenFile fresh = open_temporary(calls, directory, exists ? 0600 : 0666, path);
  const int fd = fresh.fd;
  // Destroyed in reverse order: the file is closed, then removed.
  TemporaryName temporary(calls, std::move(fresh.name));
  Descriptor out(calls, fd);
  if (exists) keep_owner_and_permissions(calls, fd, old, path);
  produce(regular_file(calls, fd, path));
  if (retry_interrupted([&] { return calls.fsync(fd); }) < 0) {
    throw_io(path, "cannot write", errno);
  }
  if (const int error = out.close()) throw_io(path, "cannot write", error);
  if (retry_interrupted([&] { return calls.rename(temporary.path().c_str(), target.c_str()); }) <
      0) {
    throw_io(path, "cannot rename the new file into place", errno);
  }
  temporary.keep();
  sync_directory(directory, path, calls);
}

InputFile::InputFile(const fs::path& path, FileSystemCalls& calls)
    : path_(path),
      calls_(calls),
      fd_(retry_interrupted([&] { return calls.open(path.c_str(), O_RDONLY | O_CLOEXEC, 0); })) {
  if (fd_ < 0) throw_io(path, "cannot open", errno);
  Descriptor guard(calls, fd_);  // until the constructor can no longer fail
  struct stat status {};
  if (retry_interrupted([&] { return calls.fstat(fd_, &status); }) < 0)
    throw_io(path, "cannot read", errno);
  if (S_ISDIR(status.st_mode)) throw_io(path, "cannot read", EISDIR);
  if (S_ISREG(status.st_mode)) bytes_ = static_cast<std::uint64_t>(status.st_size);
  guard.release();
}

InputFile::~InputFile() { calls_.close(fd_); }

std::size_t InputFile::read(std::span<std::byte> out) {
  std::size_t got = 0;
  while (got < out.size()) {
    const ssize_t n =
        retry_interrupted([&] { return calls_.read(fd_, out.data() + got, out.size() - got); });
    if (n < 0) throw_io(path_, "cannot read", errno);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

void InputFile::skip(std::uint64_t bytes) {
  if (calls_.lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR) < 0) {
    throw_io(path_, "cannot read", errno);
  }
}

HostMemory InputFile::map(std::uint64_t offset, std::uint64_t bytes) const {
  return HostMemory(fd_, path_, offset, bytes);
}

}  // namespace scbf
