// SPDX-License-Identifier: Apache-2.0
// The files of a store as they are at one moment, for readers beside the process that writes them.
// They are opened at once, so they stay readable when the writer removes them, and what the writer
// appends to them later is not seen. Nothing is written. Only store.cpp includes this file.
#pragma once

#include <rocksdb/file_system.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace scbf::index {

class FrozenFiles : public rocksdb::FileSystemWrapper {
 public:
  class File;

  /// Opens the files of the store in `folder`. Throws IoError.
  explicit FrozenFiles(const std::filesystem::path& folder);
  ~FrozenFiles() override;

  /// Everything that was written before this moment is in the files.
  std::chrono::system_clock::time_point as_of() const noexcept { return as_of_; }
  /// Whether the store's files are still the same; then as_of is now. Throws IoError.
  bool are_current();

  /// Makes a copy of the store in a new folder, with those of its tables that are in `tables`: the
  /// writer may have left others, and some unfinished. Throws IoError.
  void copy_to(const std::filesystem::path& folder, const std::set<std::string>& tables) const;

  const char* Name() const override { return "scbf frozen files"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus FileExists(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetChildren(const std::string& folder, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetFileSize(const std::string& name, const rocksdb::IOOptions& options,
                                std::uint64_t* bytes, rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  using Files = std::map<std::string, std::shared_ptr<const File>>;

  /// Opens the store's files, or those that tell one of its states from the next.
  enum class Which : unsigned char { only_tables, no_tables };
  Files open_all(Which which) const;
  /// Whether files_ and `later` show the same state, or, without the last log, the same beginning.
  enum class LastLog : unsigned char { may_grow, same };
  bool same_state(const Files& later, LastLog last) const;
  std::shared_ptr<const File> find(const std::string& name) const;

  std::filesystem::path folder_;
  Files files_;
  std::chrono::system_clock::time_point as_of_;
};

}  // namespace scbf::index
