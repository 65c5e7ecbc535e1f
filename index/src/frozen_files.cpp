// SPDX-License-Identifier: Apache-2.0
#include "frozen_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "copies.hpp"
#include "crash_points.hpp"
#include "open_file.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"
#include "scbf/errors.hpp"

namespace scbf::index {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr const char* kCurrent = "CURRENT";  // names the manifest
// How often to look again at files that a writer changes meanwhile. A look takes some microseconds
// per file; the writer changes the manifest a few times a second.
constexpr int kTries = 1000;

IOStatus refused(const std::string& name) {
  return IOStatus::NotSupported(name, "the store is open for reading only");
}

}  // namespace

/// An open file and the size that it had.
class FrozenFiles::File {
 public:
  File(OpenFile file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  int fd() const noexcept { return file_.fd(); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  IOStatus read(std::uint64_t at, std::size_t count, rocksdb::Slice* result, char* to) const {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes_ - std::min(bytes_, at)));
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::pread(fd(), to + done, count - done, static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return IOStatus::IOError("cannot read", std::strerror(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    *result = rocksdb::Slice(to, done);
    return IOStatus::OK();
  }
  std::string contents() const {
    std::string bytes(bytes_, '\0');
    rocksdb::Slice read_bytes;
    if (!read(0, bytes.size(), &read_bytes, bytes.data()).ok()) return {};
    bytes.resize(read_bytes.size());
    return bytes;
  }

 private:
  OpenFile file_;
  std::uint64_t bytes_;
};

namespace {

class Sequential : public rocksdb::FSSequentialFile {
 public:
  explicit Sequential(std::shared_ptr<const FrozenFiles::File> file) : file_(std::move(file)) {}
  IOStatus Read(std::size_t count, const IOOptions&, rocksdb::Slice* result, char* to,
                IODebugContext*) override {
    const IOStatus status = file_->read(at_, count, result, to);
    if (status.ok()) at_ += result->size();
    return status;
  }
  IOStatus Skip(std::uint64_t count) override {
    at_ = std::min(file_->bytes(), at_ + count);
    return IOStatus::OK();
  }

 private:
  std::shared_ptr<const FrozenFiles::File> file_;
  std::uint64_t at_ = 0;
};

class RandomAccess : public rocksdb::FSRandomAccessFile {
 public:
  explicit RandomAccess(std::shared_ptr<const FrozenFiles::File> file) : file_(std::move(file)) {}
  IOStatus Read(std::uint64_t at, std::size_t count, const IOOptions&, rocksdb::Slice* result,
                char* to, IODebugContext*) const override {
    return file_->read(at, count, result, to);
  }

 private:
  std::shared_ptr<const FrozenFiles::File> file_;
};

}  // namespace

FrozenFiles::FrozenFiles(const std::filesystem::path& folder)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), folder_(folder) {
  // The store is its manifest, the tables that the manifest names, and the logs. The writer removes
  // a table or a log only after it has appended to the manifest. So if a second look finds the same
  // manifest and the same logs, nothing that belongs to them was removed in between. The last log
  // may grow: what is seen of it is a beginning. The manifest is opened before the tables: those
  // that it names then are complete.
  for (int i = 0; i < kTries; ++i) {
    as_of_ = std::chrono::system_clock::now();
    files_ = open_all(Which::no_tables);
    files_.merge(open_all(Which::only_tables));
    if (same_state(open_all(Which::no_tables), LastLog::may_grow)) return;
  }
  throw IoError(
      fmt::format("{}: cannot be read, because another process changes it all the time: try again",
                  detail::in_quotes(folder_.string())),
      EAGAIN, folder_.string());
}

FrozenFiles::~FrozenFiles() = default;

bool FrozenFiles::are_current() {
  const auto now = std::chrono::system_clock::now();
  const bool same = same_state(open_all(Which::no_tables), LastLog::same);
  if (same) as_of_ = now;
  return same;
}

void FrozenFiles::copy_to(const std::filesystem::path& folder,
                          const std::set<std::string>& tables) const {
  // Under another name until it is complete.
  const std::filesystem::path part = folder.string() + ".tmp";
  std::filesystem::create_directory(part);
  for (const auto& [name, file] : files_) {
    const bool table = name.ends_with(".sst");
    if (table ? !tables.contains(name) : name.ends_with(".dbtmp")) continue;
    // The number in a table's name is used once. So while the name exists, it is this table.
    std::error_code refused;
    if (table) std::filesystem::create_hard_link(folder_ / name, part / name, refused);
    if (!table || refused) copy_file(file->fd(), folder_ / name, file->bytes(), part / name);
  }
  std::filesystem::rename(part, folder);
}

FrozenFiles::Files FrozenFiles::open_all(Which which) const {
  const auto fail = [](const std::filesystem::path& path, int why) {
    throw detail::io_error(path, "cannot open", why);
  };
  std::error_code error;
  Files files;
  for (std::filesystem::directory_iterator entry(folder_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.ends_with(".sst") != (which == Which::only_tables)) continue;
    if (name.starts_with("LO")) continue;  // the lock, tables being LOADed, LOGs of version 0.1
    OpenFile file(entry->path(), O_RDONLY);
    if (file.fd() < 0 && errno == ENOENT) continue;  // removed meanwhile
    struct stat status = {};
    if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) fail(entry->path(), errno);
    files.emplace(name, std::make_shared<const File>(std::move(file),
                                                     static_cast<std::uint64_t>(status.st_size)));
    crash_point("read: a file is open");
  }
  if (error) fail(folder_, error.value());
  return files;
}

bool FrozenFiles::same_state(const Files& later, LastLog last) const {
  using Sizes = std::map<std::string, std::uint64_t>;
  const auto sizes = [&](const Files& files) {
    Sizes manifests, logs;
    for (const auto& [name, file] : files) {
      if (name.starts_with("MANIFEST-")) manifests.emplace(name, file->bytes());
      // By number: longer names have greater ones.
      if (name.ends_with(".log"))
        logs.emplace(std::string(20 - std::min<std::size_t>(name.size(), 20), '0') + name,
                     file->bytes());
    }
    if (last == LastLog::may_grow && !logs.empty()) logs.rbegin()->second = 0;
    return std::pair(manifests, logs);
  };
  const auto now = files_.find(kCurrent), then = later.find(kCurrent);
  if (now == files_.end() || then == later.end()) return now == files_.end() && then == later.end();
  return now->second->contents() == then->second->contents() && sizes(files_) == sizes(later);
}

std::shared_ptr<const FrozenFiles::File> FrozenFiles::find(const std::string& name) const {
  const auto file = files_.find(name.substr(name.rfind('/') + 1));
  return file == files_.end() ? nullptr : file->second;
}

// ---- what RocksDB asks for ----------------------------------------------------------------------

IOStatus FrozenFiles::NewSequentialFile(const std::string& name, const FileOptions&,
                                        std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                        IODebugContext*) {
  auto found = find(name);
  if (!found) return IOStatus::PathNotFound(name);
  *file = std::make_unique<Sequential>(std::move(found));
  return IOStatus::OK();
}
IOStatus FrozenFiles::NewRandomAccessFile(const std::string& name, const FileOptions&,
                                          std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                          IODebugContext*) {
  auto found = find(name);
  if (!found) return IOStatus::PathNotFound(name);
  *file = std::make_unique<RandomAccess>(std::move(found));
  return IOStatus::OK();
}
IOStatus FrozenFiles::FileExists(const std::string& name, const IOOptions&, IODebugContext*) {
  return find(name) ? IOStatus::OK() : IOStatus::NotFound(name);
}
IOStatus FrozenFiles::GetChildren(const std::string&, const IOOptions&,
                                  std::vector<std::string>* names, IODebugContext*) {
  names->clear();
  for (const auto& file : files_) names->push_back(file.first);
  return IOStatus::OK();
}
IOStatus FrozenFiles::GetFileSize(const std::string& name, const IOOptions&, std::uint64_t* bytes,
                                  IODebugContext*) {
  const auto found = find(name);
  if (!found) return IOStatus::PathNotFound(name);
  *bytes = found->bytes();
  return IOStatus::OK();
}
IOStatus FrozenFiles::NewWritableFile(const std::string& name, const FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) {
  return refused(name);
}
IOStatus FrozenFiles::DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) {
  return refused(name);
}
IOStatus FrozenFiles::RenameFile(const std::string& from, const std::string&, const IOOptions&,
                                 IODebugContext*) {
  return refused(from);
}

}  // namespace scbf::index
