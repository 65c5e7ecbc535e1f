// SPDX-License-Identifier: Apache-2.0
// RocksDB, as much of it as the index needs: families of sorted keys, atomic batches, snapshots,
// cursors. Its errors become IoError and CorruptFile, naming the store. Nothing else here includes
// its headers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scbf::index {

enum class Family : std::uint8_t {
  meta,      ///< definition; record and state of each region
  rows,      ///< key → values
  postings,  ///< (region, column, value, key) → nothing
  values,    ///< (region, column, value) → rows that have it
  log,       ///< (region, change) → what it did to the filter
};
inline constexpr std::size_t kFamilies = 5;

/// Changes that are made together or not at all.
class StoreBatch {
 public:
  StoreBatch(StoreBatch&&) noexcept;
  StoreBatch& operator=(StoreBatch&&) noexcept;
  ~StoreBatch();

  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  /// from ≤ key < to.
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
  /// What the store was at one moment; what it read then stays readable while this exists.
  using Snapshot = std::shared_ptr<const void>;

  /// Keys of a family in order.
  class Cursor {
   public:
    Cursor(Cursor&&) noexcept;
    ~Cursor();
    bool valid() const;  ///< throws when the store failed
    void seek(std::string_view key);
    void next();
    std::string_view key() const;  ///< until the cursor moves
    std::string_view value() const;

   private:
    friend class Store;
    struct State;
    explicit Cursor(std::unique_ptr<State> state) noexcept;
    std::unique_ptr<State> state_;
  };

  enum class Open : std::uint8_t { existing, create };
  Store(const std::filesystem::path& path, Open how, std::uint64_t cache_bytes);
  ~Store();

  std::optional<std::string> get(Family family, std::string_view key,
                                 const Snapshot& at = {}) const;
  std::vector<std::optional<std::string>> get(Family family, std::span<const std::string> keys,
                                              const Snapshot& at = {}) const;
  /// At the first key ≥ from; ends before `to`, if that is not empty.
  Cursor cursor(Family family, std::string_view from, std::string_view to,
                const Snapshot& at = {}) const;
  Snapshot snapshot() const;
  /// An empty batch for this store.
  StoreBatch batch() const;
  /// When it returns, the operating system has it; with `sync`, the disk.
  void write(StoreBatch&& batch, bool sync);
  /// Everything written so far is on the disk.
  void sync();
  /// Writes out what is in memory, so that the next to open need not read it from the log.
  void flush();
  /// On disk, estimated.
  std::uint64_t bytes() const;

 private:
  friend class StoreBatch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace scbf::index
