// SPDX-License-Identifier: Apache-2.0
// How a store gets over a disk that is full or fails. Left to itself, RocksDB (7.8, with its
// assertions, as in Debian) then ends the process or waits for ever in several ways. Only store.cpp
// and index_resume_test include this file.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>
#include <rocksdb/version.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace scbf::index {

/// RocksDB's information log, written nowhere. In a file it would lie on the store's disk, and if
/// that has no space for it, an assertion ends the process. What concerns the caller is in the
/// status of each operation.
std::shared_ptr<rocksdb::Logger> no_log();

/// A file system that reserves space for an empty table in each new table file. A compaction of an
/// erased range that has no key to keep begins an empty table; if it cannot write that, an
/// assertion ends the process. Where space cannot be reserved, this risk remains.
std::shared_ptr<rocksdb::FileSystem> files_with_room();

/// RocksDB removes no file while this exists.
class KeptFiles {
 public:
  explicit KeptFiles(rocksdb::DB& db) : db_(db), status_(db.DisableFileDeletions()) {}
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;
  ~KeptFiles() {
    if (!status_.ok()) return;
#if ROCKSDB_MAJOR >= 9  // where there is no argument: never by force
    db_.EnableFileDeletions().PermitUncheckedError();
#else
    db_.EnableFileDeletions(false).PermitUncheckedError();
#endif
  }
  const rocksdb::Status& status() const noexcept { return status_; }

 private:
  rocksdb::DB& db_;
  rocksdb::Status status_;
};

/// Whether RocksDB refuses to write, after an error. Keeps it from going on by itself, which would
/// end the process: it does not begin a new log after one that an error cut off.
class BackgroundErrors : public rocksdb::EventListener {
 public:
  /// All errors, of callers and in the background.
  std::uint64_t count() const noexcept { return count_; }
  /// Whether writing has to be resumed first.
  bool stopped() const noexcept { return stopped_; }
  /// Whether it ever had to be.
  bool ever_stopped() const noexcept { return ever_stopped_; }

  /// Counts an error that a caller was told of.
  void add() noexcept;
  /// Makes RocksDB write again: it writes the tables in memory to disk, and begins a new log. If
  /// the disk still fails, this fails, and can be called again. After `ShutdownInProgress` it
  /// cannot: the store can be read, but must be closed and opened before it takes writes. Nothing
  /// else may write meanwhile.
  rocksdb::Status resume(rocksdb::DB& db);

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                            bool* auto_recovery) override;

 private:
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<bool> stopped_ = false, ever_stopped_ = false;
  std::atomic<bool> halted_ = false;  ///< RocksDB begins no flush and no compaction either
};

/// How long resuming waits for a flush that nothing works on. Tests shorten it.
inline std::atomic<std::chrono::milliseconds> longest_idle{std::chrono::seconds(30)};

}  // namespace scbf::index
