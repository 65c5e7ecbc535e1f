// SPDX-License-Identifier: Apache-2.0
// The state of a SecondaryIndex and its locks. The files that implement SecondaryIndex share it:
//   secondary_index.cpp  create, open, statistics      queries.cpp   queries and reads
//   writes.cpp           put, remove, bulk load        regions.cpp   split, merge, move
//   filter_files.cpp     save and rebuild filters      recovery.cpp  load the state on opening
//   check.cpp            compare rows, local indexes and filters
//   definition.cpp       open the store, change the definition of a closed index
//   backup.cpp           backups
// history.hpp says how a filter file and a region are known to belong together.
//
// Lock order: `reshaping`; then the `writers` of regions, in key order; then `topology`; then the
// router's mutex. A writer looks up its region, locks the region's `writers`, and looks it up again
// if the region was retired meanwhile. A query holds `topology` shared only while it takes the map,
// a snapshot of the store and the router's answer. So all three show the same set of regions.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "fair_mutex.hpp"
#include "local_index.hpp"
#include "region_map.hpp"
#include "router.hpp"
#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf {

namespace index {
/// The folder with the filter files in the directory of an index.
inline constexpr const char* kFilterFolder = "filters";
}  // namespace index

struct SecondaryIndex::State {
  static constexpr const char* kOwner = "SecondaryIndex";

  State(std::filesystem::path where, const TableSchema& table, const IndexPlan& what,
        const IndexOptions& how, std::unique_ptr<index::Store> opened, bool reads_only = false);

  std::filesystem::path path;
  TableSchema schema;
  IndexPlan plan;
  IndexOptions options;
  std::unique_ptr<index::Store> store;
  const bool read_only;
  std::uint64_t identity;  ///< random number of this index; filter files name it
  index::Router router;
  RecoveryReport recovery = {};

  std::mutex reshaping;      ///< held by each split, merge, move and presplit
  RegionId next_region = 0;  ///< under reshaping
  mutable index::FairSharedMutex topology;
  std::shared_ptr<const index::RegionMap> map;  ///< under topology

  struct Tally {
    std::atomic<std::uint64_t> queries = 0, requests = 0, broadcast_requests = 0,
                               false_requests = 0, everywhere = 0;
    std::atomic<std::uint64_t> regions_asked = 0, regions_skipped = 0,
                               rows_found = 0;                      ///< of queries
    std::atomic<std::uint64_t> put = 0, replaced = 0, removed = 0;  ///< rows
  };
  std::shared_ptr<Tally> tally = std::make_shared<Tally>();  ///< stays when a reader is refreshed

  std::atomic<std::uint64_t> rates_as_of = 0;  ///< number of changes to any region.fpr
  mutable std::mutex outlook_mutex;
  mutable std::shared_ptr<const index::Outlook> last_outlook;  ///< under outlook_mutex

  /// Throws ReadOnly if the index is open for reading only. `change` says what the caller would do.
  void must_write(std::string_view change) const;

  /// Recomputed only if the map or a region's rate has changed since the last call.
  std::shared_ptr<const index::Outlook> outlook(
      const std::shared_ptr<const index::RegionMap>& now) const {
    const std::lock_guard lock(outlook_mutex);
    const std::uint64_t as_of = rates_as_of;
    if (last_outlook == nullptr || last_outlook->map != now || last_outlook->as_of != as_of) {
      last_outlook = std::make_shared<const index::Outlook>(now, as_of);
    }
    return last_outlook;
  }
  std::shared_ptr<const index::RegionMap> current_map() const {
    const std::shared_lock lock(topology);
    return map;
  }
  /// Finds the region of a key, locks its `writers`, and runs work(its number in the map, map).
  template <class Work>
  void with_region_of(std::string_view key, const Work& work) const {
    while (true) {
      const auto now = current_map();
      const std::size_t at = now->at(key);
      const std::lock_guard lock((*now)[at].region->writers);
      if ((*now)[at].region->retired) continue;
      return work(at, *now);
    }
  }
  /// Does the same for the region with this number. Throws InvalidArgument if there is none.
  template <class Work>
  void with_region(RegionId id, const Work& work) const {
    while (true) {
      const auto now = current_map();
      const std::size_t at = now->of(id);
      const std::lock_guard lock((*now)[at].region->writers);
      if ((*now)[at].region->retired) continue;
      return work(at, *now);
    }
  }

  // ---- writes.cpp
  /// `bulk`: they are rows to put, and many of a region may be written at once. Calls
  /// written(mutations done so far) after each batch.
  WriteReport write(std::vector<index::Mutation> mutations, bool bulk = false,
                    const std::function<void(std::size_t)>& written = {});
  void write_region(index::Region& region, std::span<const index::Mutation> mutations,
                    bool as_tables, WriteReport& report);

  // ---- queries.cpp
  /// Answers at most 1,024 queries from one snapshot. Calls take(number of the query, row) until it
  /// returns false, for each query in turn. Reads at most `batch_rows` rows of each at first, later
  /// more; UINT64_MAX reads all of a region at once.
  std::vector<RoutingReport> answer(
      std::span<const Query> queries, std::uint64_t batch_rows,
      const std::function<bool(std::size_t query, Row&& row)>& take) const;

  // ---- filter_files.cpp; the caller holds the region's `writers`
  std::filesystem::path filter_path(RegionId region) const;
  /// Saves the filter if it is trusted and has changed. Rebuilds it first if it has many left-over
  /// entries or is oversized.
  void save(index::Region& region);
  Filter built_from_values(RegionId region, std::uint64_t* values = nullptr) const;
  void rebuild(index::Region& region);
  void distrust(index::Region& region);
  /// Removes the file, so that it is not taken for the filter of later changes.
  void remove_filter_file(RegionId region) const;
  /// Whether fewer stages would do for half as many values again, and enough were removed to pay
  /// for a rebuild.
  bool oversized(const index::Region& region) const;
  /// 0 if the filter is not oversized and its left-over entries are within their bound. Each time
  /// it grows, a rebuild is due; one that failed is not tried again until it grows once more.
  std::uint64_t rebuilds_due(const index::Region& region) const;
  /// Sets region.fpr, stages and filter_bytes.
  void estimate_rate(index::Region& region);
  /// Does so if enough hashes have changed since the last estimate; `changed` are new.
  void refresh_rate(index::Region& region, std::uint64_t changed);

  // ---- recovery.cpp
  void recover();
  void read_everything();

  // ---- regions.cpp
  struct NewRegion {
    RegionId id;  ///< from new_number, so never used before
    std::string from;
    ServerId server;
    index::RegionState state = {};
    Filter filter;
  };
  /// What happens to the old regions' members of the bank. `give_up` removes them once the new
  /// regions have theirs. `reuse_first` passes the first one on to the first new region, so that a
  /// full bank need not grow. It requires that the old regions hold no values.
  enum class OldMembers : std::uint8_t { give_up, reuse_first };
  void switch_regions(std::size_t first, std::size_t count, std::vector<NewRegion> fresh,
                      OldMembers members = OldMembers::give_up);
  ServerId least_loaded_server() const;
  /// Returns a region number that was never used. Throws IoError if none is left.
  RegionId new_number();
};

}  // namespace scbf
