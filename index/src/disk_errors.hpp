// SPDX-License-Identifier: Apache-2.0
// How a store gets over a disk that is full or fails. Left to itself, RocksDB (7.8, with its
// assertions, as in Debian) then ends the process or waits for ever in several ways. Only store.cpp
// includes this file.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace scbf::index {

/// RocksDB's information log, written nowhere. In a file it would lie on the store's disk, and if
/// that has no space for it, an assertion ends the process. What concerns the caller is in the
/// status of each operation.
std::shared_ptr<rocksdb::Logger> no_log();

/// Files whose tables begin with room for one without keys. A compaction that has nothing to keep,
/// but met a range that was erased, begins such a table; if it cannot write it, an assertion ends
/// the process.
std::shared_ptr<rocksdb::FileSystem> files_with_room();

/// The errors after which RocksDB refuses to write. Keeps it from going on by itself, which would
/// end the process: it does not begin a new log after one that an error cut off.
class Errors : public rocksdb::EventListener {
 public:
  std::atomic<std::uint64_t> count = 0;

  /// Makes RocksDB write again after an error. It writes the tables in memory to disk, and begins a
  /// new log. Fails if the disk still does; then it can be called again. Except after
  /// `ShutdownInProgress`: RocksDB has lost track of its work, can be read from, and writes only
  /// when it has been closed and opened.
  rocksdb::Status resume(rocksdb::DB& db);

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                            bool* auto_recovery) override;

 private:
  std::atomic<bool> stopped_ = false;  ///< by an error: nothing is written in the background
};

}  // namespace scbf::index
