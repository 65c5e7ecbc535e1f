// SPDX-License-Identifier: Apache-2.0
#include "disk_errors.hpp"

#include <fcntl.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

#include "open_file.hpp"
#include "unwatched.hpp"

namespace scbf::index {

namespace {

using namespace std::chrono_literals;

class NoLog : public rocksdb::Logger {
 public:
  NoLog() : Logger(rocksdb::FATAL_LEVEL) {}
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

class FilesWithRoom : public rocksdb::FileSystemWrapper {
 public:
  FilesWithRoom() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "scbf files with room"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    const auto status = FileSystemWrapper::NewWritableFile(name, options, file, debug);
    if (!status.ok() || !name.ends_with(".sst")) return status;
    const int error = reserve(name.c_str());
    if (error == 0) return status;
    file->reset();
    DeleteFile(name, options.io_options, debug).PermitUncheckedError();
    const std::string what = "While reserving space: " + name;
    const std::string why = std::generic_category().message(error);
    return error == EIO ? rocksdb::IOStatus::IOError(what, why)
                        : rocksdb::IOStatus::NoSpace(what, why);
  }

 private:
  /// Returns ENOSPC, EDQUOT or EIO; 0 if there is room, or none can be reserved.
  static int reserve(const char* name) {
    constexpr off_t kEmptyTable = 4096;  // bytes; it takes some 1,200
    const OpenFile file(name, O_WRONLY);
    if (file.fd() < 0) return 0;
    int error = 0;
    do {
      error = ::fallocate(file.fd(), FALLOC_FL_KEEP_SIZE, 0, kEmptyTable) == 0 ? 0 : errno;
    } while (error == EINTR);
    return error == ENOSPC || error == EDQUOT || error == EIO ? error : 0;
  }
};

/// The sum of a property over all column families.
std::uint64_t sum(rocksdb::DB& db, const char* property) {
  std::uint64_t value = 0;
  return db.GetAggregatedIntProperty(property, &value) ? value : 0;
}

/// Whether a flush or a compaction runs.
bool is_running(rocksdb::DB& db) {
  return sum(db, "rocksdb.num-running-flushes") + sum(db, "rocksdb.num-running-compactions") != 0;
}

/// Whether a flush or a compaction, of any store in this process, waits for a thread.
bool is_queued(rocksdb::DB& db) {
  const auto waiting = [&](auto pool) { return db.GetEnv()->GetThreadPoolQueueLen(pool) != 0; };
  return waiting(rocksdb::Env::HIGH) || waiting(rocksdb::Env::LOW);
}

/// Watches RocksDB until `end`. If a flush is due, but nothing has run or waited for a thread for
/// longest_idle, the flush never will: then stops RocksDB, which ends every wait for it, and sets
/// `stopped`.
void stop_if_idle(rocksdb::DB& db, std::stop_token end, std::atomic<bool>& stopped) {
  const Unwatched unwatched;
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  for (auto idle = 0ms; idle < longest_idle.load();) {
    ended.wait_for(lock, end, 100ms, [] { return false; });
    if (end.stop_requested()) return;
    const bool due = sum(db, "rocksdb.mem-table-flush-pending") != 0;
    idle = due && !is_running(db) && !is_queued(db) ? idle + 100ms : 0ms;
  }
  stopped = true;
  rocksdb::CancelAllBackgroundWork(&db, false);
}

}  // namespace

std::shared_ptr<rocksdb::FileSystem> files_with_room() { return std::make_shared<FilesWithRoom>(); }

std::shared_ptr<rocksdb::Logger> no_log() { return std::make_shared<NoLog>(); }

void BackgroundErrors::add() noexcept {
  stopped_ = ever_stopped_ = true;
  ++count_;
}

void BackgroundErrors::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  using rocksdb::Status;
  // RocksDB takes most errors of the log for fatal, because bytes that it kept in memory may be
  // lost. Here none are: each write hands its bytes to the system, and its rows are in the tables
  // in memory, with which writing resumes.
  if (error->IsIOError() && error->severity() == Status::kFatalError) {
    *error = Status(*error, Status::kHardError);
  }
  // After a lesser error, such as a compaction that found no space, RocksDB goes on and tries
  // again.
  if (error->severity() >= Status::kHardError) halted_ = stopped_ = ever_stopped_ = true;
  ++count_;
}

void BackgroundErrors::OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                                            bool* auto_recovery) {
  error.PermitUncheckedError();
  *auto_recovery = false;
}

rocksdb::Status BackgroundErrors::resume(rocksdb::DB& db) {
  // If a job that began on the full disk fails while RocksDB resumes, resuming fails, and a flush
  // is lost. So wait for such jobs first.
  bool was_halted = false;
  while (halted_.exchange(false)) {
    was_halted = true;
    while (is_running(db)) std::this_thread::sleep_for(10ms);
  }
  stopped_ = false;
  const rocksdb::Status status = [&]() -> rocksdb::Status {
    // Once a write to the manifest has failed, no file may be removed, and resuming asserts that
    // removals are off. After a failed ingestion RocksDB leaves them on.
    const KeptFiles kept(db);
    if (!kept.status().ok()) return kept.status();
    std::atomic<bool> lost = false;
    rocksdb::Status resumed;
    try {
      // A flush that was planned before an error, but came to run after it, does not run, and is
      // not planned again: resuming would wait for it for ever.
      const std::jthread watch([&](std::stop_token end) { stop_if_idle(db, end, lost); });
      resumed = db.Resume();
    } catch (const std::system_error& error) {
      return rocksdb::Status::TryAgain(error.what());
    }
    return lost ? rocksdb::Status::ShutdownInProgress() : resumed;
  }();
  if (!status.ok()) {
    stopped_ = true;
    if (was_halted) halted_ = true;
  }
  return status;
}

}  // namespace scbf::index
