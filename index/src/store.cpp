// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <system_error>

#include "copies.hpp"
#include "crash_points.hpp"
#include "disk_errors.hpp"
#include "frozen_files.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"
#include "scbf/errors.hpp"
#include "unwatched.hpp"

namespace scbf::index {

namespace {

constexpr std::array<const char*, kFamilies> kNames = {"default", "rows", "postings", "values",
                                                       "log"};
// RocksDB numbers column families in the order of their creation.
constexpr auto number(Family family) { return static_cast<std::uint32_t>(family); }

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// A log of this length, in bytes, is left to the next open, which takes some 50 ms for it.
constexpr std::uint64_t kShortLog = 1u << 20;
// A longer one is cut while the index is open.
constexpr std::uint64_t kLongLog = 256u << 20;

/// The best compression that this build of RocksDB supports.
rocksdb::CompressionType compression() {
  const auto there = rocksdb::GetSupportedCompressions();
  for (const auto type : {rocksdb::kLZ4Compression, rocksdb::kSnappyCompression}) {
    if (std::find(there.begin(), there.end(), type) != there.end()) return type;
  }
  return rocksdb::kNoCompression;
}

// The names of tables that are not a part of the store yet begin with this.
constexpr std::string_view kLoading = "LOADING-";

/// Removes the information logs that earlier versions left, and tables that were never finished.
void remove_left_files(const std::filesystem::path& store) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator file(store, ignored);
       !ignored && file != std::filesystem::directory_iterator(); file.increment(ignored)) {
    const std::string name = file->path().filename();
    if (name == "LOG" || name.starts_with("LOG.old.") || name.starts_with(kLoading)) {
      std::filesystem::remove(*file, ignored);
    }
  }
}

/// Whether a store was not opened because it is open already, in this process or another.
bool is_locked(const rocksdb::Status& status) {
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  return text.find("lock hold by current process") != std::string::npos ||
         (text.find("While lock file") != std::string::npos &&
          text.find(std::generic_category().message(EAGAIN)) != std::string::npos);
}

/// The error number of an IOError, of which RocksDB keeps the text only. The system's own message
/// comes last.
int error_number_of(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  int last = EIO;
  std::size_t last_at = 0;
  for (const int number :
       {EIO, ENOSPC, EDQUOT, EACCES, EPERM, EROFS, ENOENT, EMFILE, ENFILE, EFBIG, ENOMEM}) {
    const std::size_t at = text.rfind(std::generic_category().message(number));
    if (at == text.npos || at < last_at) continue;
    last = number;
    last_at = at;
  }
  return last;
}

// Owns a RocksDB snapshot and releases it in the destructor.
struct HeldSnapshot {
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;
  HeldSnapshot(rocksdb::DB* from) : db(from), snapshot(from->GetSnapshot()) {}
  HeldSnapshot(const HeldSnapshot&) = delete;
  HeldSnapshot& operator=(const HeldSnapshot&) = delete;
  ~HeldSnapshot() {
    const Unwatched unwatched;
    db->ReleaseSnapshot(snapshot);
  }
};

}  // namespace

struct Store::State {
  std::filesystem::path path;
  std::shared_ptr<FrozenFiles> frozen;  ///< of a store that is open for reading only
  std::unique_ptr<rocksdb::Env> env;
  std::shared_ptr<BackgroundErrors> errors = std::make_shared<BackgroundErrors>();
  std::shared_mutex writing;  ///< held shared by writes; exclusively while tables may be empty
  std::atomic<std::uint64_t> log_bytes = 0;      ///< written since the last flush
  std::atomic<bool> cutting = false;             ///< a write cuts the log
  mutable std::atomic<std::uint64_t> loads = 0;  ///< batches for tables, to name their files
  std::unique_ptr<rocksdb::DB> db;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families = {};

  ~State() {
    for (auto* family : families) {
      if (family != nullptr) db->DestroyColumnFamilyHandle(family);
    }
  }
  auto* of(Family family) const { return families[number(family)]; }

  void check(const rocksdb::Status& status, std::string_view what) const {
    if (status.ok()) return;
    const std::string text =
        fmt::format("{}: cannot {}: {}", detail::in_quotes(path.string()), what, status.ToString());
    if (is_locked(status)) {
      const std::string index = path.parent_path().string();
      throw IoError(
          fmt::format(
              "{}: {} has it open for writing, and only one can: close it there, or open it here "
              "read-only (as do scbf index get, query, export, backup, stats, regions, check)",
              detail::in_quotes(index),
              status.ToString().find("current process") == std::string::npos ? "another process"
                                                                             : "this process"),
          EBUSY, index);
    }
    if (status.IsCorruption()) throw CorruptFile(text);
    if (status.IsShutdownInProgress()) {
      throw IoError(
          fmt::format("{}: cannot {}: RocksDB could not resume after an earlier error: close the "
                      "index and open it again; what was written is there",
                      detail::in_quotes(path.string()), what),
          ENOTRECOVERABLE, path.string());
    }
    if (status.IsIOError()) throw IoError(text, error_number_of(status), path.string());
    throw IoError(text);
  }

  /// Puts something into the tables in memory, and nothing into the log. RocksDB resumes by writing
  /// these tables to disk and beginning a new log; if they were empty, it would go on in the log
  /// that an error cut off, and end the process. Needed whenever they may be empty.
  void fill_tables() {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    const rocksdb::Status status = db->Delete(options, of(Family::meta), "synced");
    if (!status.ok()) errors->add();
    check(status, "write");
  }
  /// After an error, such as a full disk, RocksDB refuses to write until it is resumed.
  void resume() {
    const std::lock_guard lock(writing);
    if (!errors->stopped()) return;
    check(errors->resume(*db), "write");
    fill_tables();
  }
  void flush(bool wait) {
    const std::lock_guard lock(writing);
    rocksdb::FlushOptions options;
    options.wait = wait;
    const std::vector<rocksdb::ColumnFamilyHandle*> all(families.begin(), families.end());
    const rocksdb::Status status = db->Flush(options, all);
    if (!status.ok()) errors->add();
    check(status, "write out");
    log_bytes = 0;
    fill_tables();
  }

  static rocksdb::ReadOptions reading(const Snapshot& at) {
    rocksdb::ReadOptions options;
    if (at) options.snapshot = static_cast<const HeldSnapshot*>(at.get())->snapshot;
    return options;
  }
};

namespace {

/// Threads that open the tables of each family. RocksDB starts them however few tables there are,
/// and its 16 took longer than opening the store of a small index. Many tables may wait for the
/// disk, each for some reads.
int opening_threads(const std::filesystem::path& path) {
  constexpr int kTablesPerThread = 4, kMostThreads = 16;
  std::error_code ignored;
  int tables = 0;
  for (auto file = std::filesystem::directory_iterator(path, ignored);
       !ignored && file != std::filesystem::directory_iterator(); file.increment(ignored)) {
    tables += file->path().extension() == ".sst";
  }
  return std::clamp(tables / kTablesPerThread, 1, kMostThreads);
}

}  // namespace

Store::Store(const std::filesystem::path& path, Open how, std::uint64_t cache_bytes)
    : state_(std::make_unique<State>()) {
  const Unwatched unwatched;
  state_->path = path;
  rocksdb::DBOptions options;
  options.create_if_missing = how == Open::create;
  options.error_if_exists = how == Open::create;
  options.create_missing_column_families = how != Open::read_only;
  options.info_log = no_log();
  options.listeners.push_back(state_->errors);
  options.max_background_jobs = 2;
  options.max_total_wal_size = UINT64_MAX;  // see kLongLog
  options.avoid_flush_during_shutdown = true;
  options.allow_fallocate = false;  // which took 35 MB for the log whenever a store was opened
  options.max_file_opening_threads = opening_threads(path);
  if (how == Open::read_only) {
    state_->frozen = std::make_shared<FrozenFiles>(path);
    state_->env = rocksdb::NewCompositeEnv(state_->frozen);
  } else {
    state_->env = rocksdb::NewCompositeEnv(files_with_room());
  }
  options.env = state_->env.get();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::ColumnFamilyOptions family;
  family.compression = compression();
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  family.write_buffer_size = 32u << 20;
  // The filter saves the search for absent keys, such as those of new rows and values. It is
  // cleared whenever a store is opened, so it is small: some 10 bits for each of many entries.
  family.memtable_whole_key_filtering = true;
  family.memtable_prefix_bloom_size_ratio = 0.015;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const char* name : kNames) descriptors.emplace_back(name, family);
  // Rows are looked up one by one, and each takes a block that is read, unpacked and searched.
  table.block_size = 1024;
  table.block_restart_interval = 4;
  descriptors[number(Family::rows)].options.table_factory.reset(
      rocksdb::NewBlockBasedTableFactory(table));
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      how == Open::read_only
          ? rocksdb::DB::OpenForReadOnly(options, path.string(), descriptors, &handles, &db)
          : rocksdb::DB::Open(options, path.string(), descriptors, &handles, &db);
  state_->db.reset(db);
  std::copy(handles.begin(), handles.end(), state_->families.begin());
  state_->check(status, how == Open::create ? "create the store" : "open the store");
  if (how == Open::read_only) return;
  state_->fill_tables();
  remove_left_files(path);
}

Store::~Store() = default;

bool Store::is_frozen() const noexcept { return state_->frozen != nullptr; }
bool Store::is_current() const { return !state_->frozen || state_->frozen->are_current(); }
Freshness Store::freshness() const {
  return {state_->frozen ? state_->frozen->as_of() : std::chrono::system_clock::now(),
          state_->db->GetLatestSequenceNumber()};
}

// ---- batches ------------------------------------------------------------------------------------

struct StoreBatch::State {
  const Store::State* store;
  rocksdb::WriteBatch batch;
  // In its place, for a batch for tables: a file for each family that something was put into.
  std::string file_prefix = {};
  std::array<std::unique_ptr<rocksdb::SstFileWriter>, kFamilies> files = {};

  explicit State(const Store::State* of) : store(of) {}
  State(const State&) = delete;
  ~State() {
    std::error_code ignored;
    for (std::size_t i = 0; i < kFamilies; ++i) {
      if (!files[i]) continue;
      files[i].reset();
      std::filesystem::remove(path(i), ignored);
    }
  }

  bool for_tables() const noexcept { return !file_prefix.empty(); }
  std::string path(std::size_t family) const { return file_prefix + kNames[family]; }
  rocksdb::SstFileWriter& file(Family family) {
    auto& file = files[number(family)];
    if (!file) {
      auto* handle = store->of(family);
      // The pages stay in the system's cache, for the first queries.
      file = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(),
                                                      store->db->GetOptions(handle), handle, false);
      store->check(file->Open(path(number(family))), "write");
    }
    return *file;
  }
  /// Makes the files a part of the store. The caller has synced what was written before.
  rocksdb::Status ingest() const {
    std::vector<rocksdb::IngestExternalFileArg> all;
    for (std::size_t i = 0; i < kFamilies; ++i) {
      if (!files[i]) continue;
      rocksdb::IngestExternalFileArg& one = all.emplace_back();
      one.column_family = store->families[i];
      one.external_files = {path(i)};
      one.options.move_files = true;
      one.options.write_global_seqno = false;
    }
    if (all.empty()) return rocksdb::Status::OK();
    // While a snapshot exists, all files get a number after it. Otherwise those that overlap
    // nothing would count as written long ago, and a snapshot that is taken while the manifest is
    // synced would then show them, for example postings, without the others.
    const HeldSnapshot before(store->db.get());
    return store->db->IngestExternalFiles(all);
  }
};

StoreBatch::StoreBatch(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
StoreBatch::StoreBatch(StoreBatch&&) noexcept = default;
StoreBatch& StoreBatch::operator=(StoreBatch&&) noexcept = default;
StoreBatch::~StoreBatch() = default;

StoreBatch Store::batch() const {
  return StoreBatch(std::make_unique<StoreBatch::State>(state_.get()));
}
bool Store::takes_tables() const noexcept { return !state_->errors->ever_stopped(); }
StoreBatch Store::table_batch() const {
  StoreBatch batch = this->batch();
  batch.state_->file_prefix = state_->path / fmt::format("{}{}-", kLoading, state_->loads++);
  return batch;
}

void StoreBatch::put(Family family, std::string_view key, std::string_view value) {
  State& to = *state_;
  to.store->check(to.for_tables() ? to.file(family).Put(slice(key), slice(value))
                                  : to.batch.Put(to.store->of(family), slice(key), slice(value)),
                  "write");
}
void StoreBatch::erase(Family family, std::string_view key) {
  State& to = *state_;
  to.store->check(to.for_tables() ? to.file(family).Delete(slice(key))
                                  : to.batch.Delete(to.store->of(family), slice(key)),
                  "write");
}
void StoreBatch::erase_range(Family family, std::string_view from, std::string_view to) {
  const auto& store = *state_->store;
  store.check(state_->batch.DeleteRange(store.of(family), slice(from), slice(to)),
              "gather a write");
}
std::size_t StoreBatch::bytes() const noexcept { return state_->batch.GetDataSize(); }

void Store::write(StoreBatch&& batch, bool sync) {
  const Unwatched unwatched;
  State& state = *state_;
  if (batch.state_->for_tables()) {
    for (const auto& file : batch.state_->files) {
      if (file) state.check(file->Finish(), "write");
    }
    crash_point("load: the tables are on disk");
    // These rows, which are on disk now, may rely on earlier ones.
    this->sync();
    const std::lock_guard lock(state.writing);
    if (state.errors->ever_stopped()) {
      throw IoError(fmt::format("{}: cannot write tables: another write failed: try again",
                                detail::in_quotes(state.path.string())),
                    EAGAIN, state.path.string());
    }
    const rocksdb::Status status = batch.state_->ingest();
    if (!status.ok()) state.errors->add();
    state.check(status, "write");
    try {
      state.fill_tables();    // RocksDB may have written them to disk
    } catch (const Error&) {  // the batch is written; the next write mends the store
    }
    return;
  }
  if (state.errors->stopped()) state.resume();
  rocksdb::WriteOptions options;
  options.sync = sync;
  {
    const std::shared_lock lock(state.writing);
    const rocksdb::Status status = state.db->Write(options, &batch.state_->batch);
    if (!status.ok()) state.errors->add();
    state.check(status, "write");
  }
  state.log_bytes += batch.bytes();
  if (state.log_bytes <= kLongLog || state.cutting.exchange(true)) return;
  try {
    if (state.log_bytes > kLongLog) state.flush(false);  // or another write has just done so
  } catch (const std::exception&) {  // the batch is written; the next write mends the store
  }
  state.cutting = false;
}

void Store::sync() {
  // Not SyncWAL, which ends the process where an earlier write failed.
  StoreBatch batch = this->batch();
  batch.put(Family::meta, "synced", {});
  write(std::move(batch), true);
}

void Store::shorten_log() {
  const Unwatched unwatched;
  State& state = *state_;
  if (state.log_bytes < kShortLog) return;
  if (state.errors->stopped()) state.resume();
  state.flush(true);
}

void Store::compact() {
  const Unwatched unwatched;
  State& state = *state_;
  if (state.errors->stopped()) state.resume();
  const std::lock_guard lock(state.writing);
  for (const Family family : {Family::postings, Family::values}) {
    const rocksdb::Status status =
        state.db->CompactRange(rocksdb::CompactRangeOptions(), state.of(family), nullptr, nullptr);
    if (!status.ok()) state.errors->add();
    state.check(status, "compact");
  }
  state.fill_tables();
}

void Store::copy_to(const std::filesystem::path& folder) const {
  const Unwatched unwatched;
  if (state_->frozen) {
    std::vector<rocksdb::LiveFileMetaData> tables;
    state_->db->GetLiveFilesMetaData(&tables);
    std::set<std::string> names;
    for (const auto& table : tables) names.insert(table.relative_filename);
    return state_->frozen->copy_to(folder, names);
  }
  // Like RocksDB's Checkpoint, but writers wait while the list is made: the manifest is taken
  // before the logs, and the logs must not go on after a later change of the manifest.
  rocksdb::DB& db = *state_->db;
  std::unique_lock lock(state_->writing);
  const KeptFiles kept(db);
  state_->check(kept.status(), "back up");
  std::vector<rocksdb::LiveFileStorageInfo> files;
  rocksdb::LiveFilesStorageInfoOptions options;
  options.wal_size_for_flush = UINT64_MAX;  // no flush: the logs have what the tables lack
  state_->check(db.GetLiveFilesStorageInfo(options, &files), "back up");
  lock.unlock();
  // Under another name until it is complete.
  const std::filesystem::path part = folder.string() + ".tmp";
  std::filesystem::create_directory(part);
  for (const rocksdb::LiveFileStorageInfo& file : files) {
    const auto to = part / file.relative_filename;
    const auto from = std::filesystem::path(file.directory) / file.relative_filename;
    if (!file.replacement_contents.empty()) {
      write_new_file(to, file.replacement_contents);
    } else if (file.file_type == rocksdb::kTableFile) {
      if (!link_or_copy(from, to)) throw detail::io_error(from, "cannot copy", ENOENT);
    } else {
      copy_file(from, file.size, to);
    }
  }
  std::filesystem::rename(part, folder);
}

// ---- reading ------------------------------------------------------------------------------------

std::optional<std::string> Store::get(Family family, std::string_view key,
                                      const Snapshot& at) const {
  const Unwatched unwatched;
  std::string value;
  const auto status = state_->db->Get(State::reading(at), state_->of(family), slice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  state_->check(status, "read");
  return value;
}

std::vector<std::optional<std::string>> Store::get(Family family, std::span<const std::string> keys,
                                                   const Snapshot& at) const {
  std::vector<std::optional<std::string>> found(keys.size());
  read(family, std::vector<std::string_view>(keys.begin(), keys.end()), at,
       [&](std::size_t i, const std::string_view* value) {
         if (value != nullptr) found[i].emplace(*value);
       });
  return found;
}

void Store::read(Family family, std::span<const std::string_view> keys, const Snapshot& at,
                 const std::function<void(std::size_t, const std::string_view*)>& each) const {
  if (keys.empty()) return;
  const Unwatched unwatched;
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  state_->db->MultiGet(State::reading(at), state_->of(family), slices.size(), slices.data(),
                       values.data(), statuses.data(), std::ranges::is_sorted(keys));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) {
      each(i, nullptr);
      continue;
    }
    state_->check(statuses[i], "read");
    const std::string_view value = values[i].ToStringView();
    each(i, &value);
  }
}

Store::Snapshot Store::snapshot() const {
  const Unwatched unwatched;
  if (state_->frozen) return {};
  return std::make_shared<const HeldSnapshot>(state_->db.get());
}

std::uint64_t Store::sequence(const Snapshot& at) const noexcept {
  const Unwatched unwatched;
  if (!at) return state_->db->GetLatestSequenceNumber();
  return static_cast<const HeldSnapshot*>(at.get())->snapshot->GetSequenceNumber();
}

struct Store::Cursor::State {
  const Store::State* store;
  Snapshot at;
  std::string to;
  rocksdb::Slice bound;  // RocksDB keeps a pointer to it
  std::unique_ptr<rocksdb::Iterator> iterator;
  std::uint64_t skipped = 0;

  /// Moves the iterator and counts the deleted entries that it passes.
  template <class Move>
  void move(Move to_next) {
    // RocksDB counts for each thread.
    const std::uint64_t& deleted = rocksdb::get_perf_context()->internal_delete_skipped_count;
    const std::uint64_t before = deleted;
    to_next(*iterator);
    skipped = deleted - before;
  }
};

Store::Cursor::Cursor(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Store::Cursor::Cursor(Cursor&&) noexcept = default;
Store::Cursor::~Cursor() = default;

Store::Cursor Store::cursor(Family family, std::string_view from, std::string_view to,
                            const Snapshot& at) const {
  const Unwatched unwatched;
  auto cursor = std::make_unique<Cursor::State>();
  cursor->store = state_.get();
  cursor->at = at;
  cursor->to = to;
  cursor->bound = cursor->to;
  rocksdb::ReadOptions options = State::reading(at);
  if (!to.empty()) options.iterate_upper_bound = &cursor->bound;
  cursor->iterator.reset(state_->db->NewIterator(options, state_->of(family)));
  Cursor made(std::move(cursor));
  made.seek(from);
  return made;
}

void Store::Cursor::look() {
  valid_ = state_->iterator->Valid();
  if (valid_) {
    key_ = state_->iterator->key().ToStringView();
  } else {
    state_->store->check(state_->iterator->status(), "read");
  }
}
void Store::Cursor::seek(std::string_view key) {
  const Unwatched unwatched;
  state_->move([&](rocksdb::Iterator& iterator) { iterator.Seek(slice(key)); });
  look();
}
std::uint64_t Store::Cursor::skipped() const noexcept { return state_->skipped; }
void Store::Cursor::next() {
  const Unwatched unwatched;
  state_->move([](rocksdb::Iterator& iterator) { iterator.Next(); });
  look();
}
std::string_view Store::Cursor::value() const { return state_->iterator->value().ToStringView(); }

std::uint64_t Store::errors() const noexcept { return state_->errors->count(); }

std::uint64_t Store::bytes() const {
  const Unwatched unwatched;
  std::uint64_t sum = 0;
  for (auto* family : state_->families) {
    for (const auto* name : {"rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables"}) {
      std::uint64_t part = 0;
      if (state_->db->GetIntProperty(family, name, &part)) sum += part;
    }
  }
  return sum;
}

}  // namespace scbf::index
