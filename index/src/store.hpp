// SPDX-License-Identifier: Apache-2.0
// The part of RocksDB that the index needs: column families, atomic batches, snapshots and cursors.
// Its errors become IoError and CorruptFile, which name the store. Only store.cpp,
// disk_errors and frozen_files include RocksDB's headers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/secondary_index.hpp"

namespace scbf::index {

enum class Family : std::uint8_t {
  meta,      ///< the definition; the record and the state of each region
  rows,      ///< key → values
  postings,  ///< (region, column, value, key) → nothing
  values,    ///< (region, column, value) → number of rows with the value
  log,       ///< (region, change) → hashes added to and removed from the filter
};
inline constexpr std::size_t kFamilies = 5;

/// Changes that are written atomically. A batch for a table (Store::table_batch) takes each
/// family's keys in ascending order, each once, and no ranges.
class StoreBatch {
 public:
  StoreBatch(StoreBatch&&) noexcept;
  StoreBatch& operator=(StoreBatch&&) noexcept;
  ~StoreBatch();

  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  /// Erases all keys with from ≤ key < to.
  void erase_range(Family family, std::string_view from, std::string_view to);
  std::size_t bytes() const noexcept;

 private:
  friend class Store;
  struct State;
  explicit StoreBatch(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

class Store {
 public:
  /// The contents of the store at one moment. They stay readable as long as the snapshot exists.
  /// Empty for a store that is open for reading only, whose contents never change.
  using Snapshot = std::shared_ptr<const void>;

  /// Iterates over the keys of a family in order.
  class Cursor {
   public:
    Cursor(Cursor&&) noexcept;
    ~Cursor();
    bool valid() const noexcept { return valid_; }  ///< false at the end
    void seek(std::string_view key);
    void next();
    std::string_view key() const noexcept { return key_; }  ///< until the cursor moves
    std::string_view value() const;
    /// Deleted entries that the last seek or step of this cursor passed.
    std::uint64_t skipped() const noexcept;

   private:
    friend class Store;
    struct State;
    explicit Cursor(std::unique_ptr<State> state) noexcept;
    void look();
    std::unique_ptr<State> state_;
    bool valid_ = false;
    std::string_view key_;
  };

  /// `read_only` shows the store as it is now, and may be used beside a process that writes it.
  enum class Open : std::uint8_t { existing, create, read_only };
  Store(const std::filesystem::path& path, Open how, std::uint64_t cache_bytes);
  ~Store();

  /// Whether the store is open for reading only, so that its contents never change.
  bool is_frozen() const noexcept;
  /// Whether a store open for reading only shows everything that has been written.
  bool is_current() const;
  Freshness freshness() const;

  std::optional<std::string> get(Family family, std::string_view key,
                                 const Snapshot& at = {}) const;
  std::vector<std::optional<std::string>> get(Family family, std::span<const std::string> keys,
                                              const Snapshot& at = {}) const;
  /// Calls each(i, value of keys[i]) for all keys in order, with a null pointer if there is none.
  /// The bytes are valid during the call.
  void read(Family family, std::span<const std::string_view> keys, const Snapshot& at,
            const std::function<void(std::size_t, const std::string_view*)>& each) const;
  /// A cursor at the first key ≥ from. It ends before `to`, unless `to` is empty.
  Cursor cursor(Family family, std::string_view from, std::string_view to,
                const Snapshot& at = {}) const;
  Snapshot snapshot() const;
  /// The number of the last write that a snapshot contains; without one, the last of all. Writes
  /// are numbered in order, across restarts too.
  std::uint64_t sequence(const Snapshot& at = {}) const noexcept;
  /// An empty batch for this store.
  StoreBatch batch() const;
  /// An empty batch that goes into tables of its own, in files beside the store's, instead of the
  /// log and the tables in memory. Writing it makes these files a part of the store, and is synced.
  StoreBatch table_batch() const;
  /// Whether tables can be ingested. Not after an error: even when writing has been resumed,
  /// RocksDB would end the process, as it still takes itself for stopped and numbers no files.
  bool takes_tables() const noexcept;
  /// Writes a batch. On return the operating system has it, or with `sync` the disk. After a failed
  /// write, and after an error in the background, the next one first tries to mend the store.
  void write(StoreBatch&& batch, bool sync);
  /// On return everything written so far is on disk.
  void sync();
  /// Writes the in-memory tables to disk if the next open would have much of the log to replay.
  void shorten_log();
  /// Gives the space of erased postings and values back. Cost: rewrites the tables of both families
  /// in which something was erased or replaced.
  void compact();
  /// Copies the contents of this moment (of a store open for reading only: what it shows) to a new
  /// folder, whose path is absolute. The folder appears as a whole or not at all; not everything in
  /// it is on disk. Files that never change are hard links, where possible. Writers go on
  /// meanwhile.
  void copy_to(const std::filesystem::path& folder) const;
  /// How many writes have failed, in the background, too.
  std::uint64_t errors() const noexcept;
  /// Estimated size on disk, in bytes.
  std::uint64_t bytes() const;

 private:
  friend class StoreBatch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace scbf::index
