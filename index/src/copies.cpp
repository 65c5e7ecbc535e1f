// SPDX-License-Identifier: Apache-2.0
#include "copies.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "open_file.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"
#include "scbf/errors.hpp"

namespace scbf::index {

using detail::io_error;

namespace {

constexpr std::size_t kPiece = 1u << 20;

/// `forgiven`: an error that does not count.
void sync(const std::filesystem::path& path, int flags = O_RDONLY, int forgiven = 0) {
  const OpenFile file(path, flags);
  if (file.fd() < 0 || (::fsync(file.fd()) != 0 && errno != forgiven)) {
    throw io_error(path, "cannot write to disk", errno);
  }
}

/// A file that must not exist yet.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path)
      : path_(path), file_(path, O_WRONLY | O_CREAT | O_EXCL) {
    if (file_.fd() < 0) throw io_error(path_, "cannot create", errno);
  }
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t some = ::write(file_.fd(), bytes.data(), bytes.size());
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) throw io_error(path_, "cannot write", errno);
      bytes.remove_prefix(static_cast<std::size_t>(some));
    }
  }

 private:
  std::filesystem::path path_;
  OpenFile file_;
};

}  // namespace

void write_new_file(const std::filesystem::path& to, std::string_view bytes) {
  NewFile(to).append(bytes);
}

void copy_file(int from, const std::filesystem::path& path, std::uint64_t bytes,
               const std::filesystem::path& to) {
  NewFile copy(to);
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kPiece)));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, kPiece));
    const ssize_t got = ::pread(from, piece.data(), most, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error(path, "cannot read", errno);
    if (got == 0) {
      throw IoError(fmt::format("{}: cannot copy: the file ends after {} of {} bytes",
                                detail::in_quotes(path.string()), done, bytes));
    }
    copy.append({piece.data(), static_cast<std::size_t>(got)});
    done += static_cast<std::uint64_t>(got);
  }
}

void copy_file(const std::filesystem::path& from, std::uint64_t bytes,
               const std::filesystem::path& to) {
  const OpenFile file(from, O_RDONLY);
  if (file.fd() < 0) throw io_error(from, "cannot read", errno);
  copy_file(file.fd(), from, bytes, to);
}

bool link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code refused;
  std::filesystem::create_hard_link(from, to, refused);
  if (!refused) return true;
  const OpenFile file(from, O_RDONLY);
  if (file.fd() < 0 && errno == ENOENT) return false;
  struct stat status = {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) {
    throw io_error(from, "cannot read", errno);
  }
  copy_file(file.fd(), from, static_cast<std::uint64_t>(status.st_size), to);
  return true;
}

void sync_entries(const std::filesystem::path& folder) {
  sync(folder, O_RDONLY | O_DIRECTORY, EINVAL);
}

void sync_folder(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory()) {
      sync_entries(entry->path());
    } else {
      sync(entry->path());
    }
  }
  if (error) throw io_error(folder, "cannot read", error.value());
  sync_entries(folder);
  sync_entries(folder / "..");
}

}  // namespace scbf::index
