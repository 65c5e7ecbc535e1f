// SPDX-License-Identifier: Apache-2.0
// Files as bytes: written atomically, read in order. Knows nothing of filters. Every system call
// that opens, reads, writes or renames goes through FileSystemCalls, so that tests can make each of
// them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "kit/host_memory.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// The system calls used here. As usual they return −1 and set errno on failure.
class FileSystemCalls {
 public:
  virtual ~FileSystemCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int fd);
  virtual ssize_t read(int fd, void* buffer, std::size_t bytes);
  virtual ssize_t write(int fd, const void* buffer, std::size_t bytes);
  virtual ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset);
  virtual off_t lseek(int fd, off_t offset, int whence);
  virtual int fsync(int fd);
  /// sync_file_range: begins to write these bytes to the disk, and does not wait.
  virtual int begin_writeback(int fd, off_t offset, off_t bytes);
  virtual int fstat(int fd, struct stat* out);
  virtual int stat(const char* path, struct stat* out);
  virtual int access(const char* path, int mode);
  virtual int fchown(int fd, uid_t user, gid_t group);
  virtual int fchmod(int fd, mode_t mode);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);

  static FileSystemCalls& system() noexcept;
};

/// A file that is being written: in order by `append`, or piece by piece by `write_at`, but not by
/// both. Both throw IoError.
struct OutputFile {
  ByteSink append;
  /// Writes bytes at this offset; may be called by several threads at once. What is not written
  /// before the last of them reads as zeros. Empty for pipes and devices, which take bytes in
  /// order.
  std::function<void(std::uint64_t, std::span<const std::byte>)> write_at = {};
};

/// Replaces the contents of `path` atomically by what `produce` writes: writes a
/// temporary file in the same directory, then fsync, rename, fsync of the directory. If anything
/// fails before the rename, exceptions of `produce` included, the old file is untouched and the
/// temporary file is removed. A killed process may leave a temporary file `.scbf-<16 hex
/// digits>.tmp` behind.
///
/// A symbolic link stays; the file it points to is replaced (or created). An existing file's
/// permissions are kept, and its owner and group where the system permits; a new file gets 0666
/// less the umask. Other hard links to an existing file keep the old contents. A path that is not a
/// regular file (a terminal, a pipe, /dev/null) cannot be replaced; it is written directly, not
/// atomically. Throws IoError; if check_replaceable throws it, nothing has been written.
void write_file(const std::filesystem::path& path,
                const std::function<void(const OutputFile&)>& produce,
                FileSystemCalls& calls = FileSystemCalls::system());
/// The same, by a sink.
void write_file(const std::filesystem::path& path,
                const std::function<void(const ByteSink&)>& produce,
                FileSystemCalls& calls = FileSystemCalls::system());

/// The file that writing to `path` replaces: the name at the end of its symbolic links, whether a
/// file exists there or not. Throws IoError if there are too many links, as in a ring of them.
std::filesystem::path behind_links(const std::filesystem::path& path);

/// Throws IoError if the regular file `path`, whose status is `old`, is not to be replaced.
/// Renaming needs no permission on the file itself, but a file that this process may not write, or
/// that nobody may write (which does not stop root), is meant to stay.
void check_replaceable(const std::filesystem::path& path, const struct stat& old,
                       FileSystemCalls& calls = FileSystemCalls::system());

/// Whether both are one file, by device and inode, so that links do not matter.
inline bool same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// A file that is read from beginning to end.
class InputFile {
 public:
  /// Throws IoError if the path cannot be opened or is a directory.
  explicit InputFile(const std::filesystem::path& path,
                     FileSystemCalls& calls = FileSystemCalls::system());
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Length in bytes; nothing if it is not a regular file.
  std::optional<std::uint64_t> bytes() const noexcept { return bytes_; }
  /// Fills `out` from its beginning, as far as the file goes, and returns how many bytes were read.
  /// Throws IoError.
  std::size_t read(std::span<std::byte> out);
  /// Skips `bytes`; only in files whose length is known. Throws IoError.
  void skip(std::uint64_t bytes);
  /// Maps a part of the file, whatever its path names by now; see HostMemory. Throws IoError.
  HostMemory map(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  FileSystemCalls& calls_;
  int fd_;
  std::optional<std::uint64_t> bytes_;
};

}  // namespace scbf
