// SPDX-License-Identifier: Apache-2.0
#include "disk_errors.hpp"

#include <fcntl.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

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
    return error == ENOSPC ? rocksdb::IOStatus::NoSpace(what, why)
                           : rocksdb::IOStatus::IOError(what, why);
  }

 private:
  /// Returns an error of the disk, or 0 if there is room, or the file system knows no reservation.
  static int reserve(const char* name) {
    constexpr off_t kTableWithoutKeys = 4096;  // bytes; it takes some 1,200
    const int fd = ::open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int error = 0;
    do {
      error = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, kTableWithoutKeys) == 0 ? 0 : errno;
    } while (error == EINTR);
    ::close(fd);
    return error == EOPNOTSUPP || error == ENOSYS ? 0 : error;
  }
};

/// Whether a flush or a compaction runs.
bool is_running(rocksdb::DB& db) {
  for (const char* name : {"rocksdb.num-running-flushes", "rocksdb.num-running-compactions"}) {
    std::uint64_t running = 0;
    if (db.GetIntProperty(name, &running) && running != 0) return true;
  }
  return false;
}

/// Whether one waits for a thread.
bool is_queued(rocksdb::DB& db) {
  const auto waiting = [&](auto pool) { return db.GetEnv()->GetThreadPoolQueueLen(pool) != 0; };
  return waiting(rocksdb::Env::HIGH) || waiting(rocksdb::Env::LOW);
}

/// Watches RocksDB until `end`. If nothing has run for three seconds, nothing will: stops RocksDB,
/// which ends every wait for it.
void stop_if_idle(rocksdb::DB& db, std::stop_token end) {
  const Unwatched unwatched;
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  for (int idle = 0; idle < 30; idle = is_running(db) || is_queued(db) ? 0 : idle + 1) {
    ended.wait_for(lock, end, 100ms, [] { return false; });
    if (end.stop_requested()) return;
  }
  rocksdb::CancelAllBackgroundWork(&db, false);
}

}  // namespace

std::shared_ptr<rocksdb::FileSystem> files_with_room() { return std::make_shared<FilesWithRoom>(); }

std::shared_ptr<rocksdb::Logger> no_log() { return std::make_shared<NoLog>(); }

void Errors::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  using rocksdb::Status;
  // RocksDB takes most errors of the log for fatal, as bytes may be lost that were kept in memory.
  // Here none are: each write hands them to the system, and its rows are in the tables in memory,
  // which writing resumes with.
  if (error->IsIOError() && error->severity() == Status::kFatalError) {
    *error = Status(*error, Status::kHardError);
  }
  if (error->severity() >= Status::kHardError) stopped_ = true;
  ++count;
}

void Errors::OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                                  bool* auto_recovery) {
  error.PermitUncheckedError();
  *auto_recovery = false;
}

rocksdb::Status Errors::resume(rocksdb::DB& db) {
  // Resuming fails, and loses a flush, if something fails meanwhile that began on the full disk.
  while (stopped_ && is_running(db)) std::this_thread::sleep_for(10ms);
  // RocksDB keeps all files once its manifest was cut off, and ends the process when it resumes and
  // does not; but it forgets to begin after a failed ingestion.
  const rocksdb::Status kept = db.DisableFileDeletions();
  if (!kept.ok()) return kept;
  stopped_ = false;
  const rocksdb::Status status = [&] {
    // A flush that was planned before an error and came to run after it does not run, and is not
    // planned again: resuming waits for it for ever.
    const std::jthread watch([&](std::stop_token end) { stop_if_idle(db, end); });
    return db.Resume();
  }();
  db.EnableFileDeletions(false).PermitUncheckedError();
  if (!status.ok()) stopped_ = true;
  return status;
}

}  // namespace scbf::index
