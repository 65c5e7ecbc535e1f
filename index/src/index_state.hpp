// SPDX-License-Identifier: Apache-2.0
// What a SecondaryIndex is made of, and the locks. Shared by the files that implement it:
//   secondary_index.cpp  creating, opening, facts      queries.cpp  asking
//   writes.cpp           rows in and out               regions.cpp  dividing, joining, moving
//   filter_files.cpp     filters saved and rebuilt     recovery.cpp after a restart
//   check.cpp            everything compared with everything
//
// Locks, in the order in which they may be taken: reshaping; writers of regions, by key; topology;
// the router's own. A writer looks its region up, takes its `writers`, and looks again if the
// region was retired meanwhile. A reader holds topology, shared, only while it takes the map, a
// snapshot of the store and the router's answer: then all three are of one moment as far as regions
// go.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "fair_mutex.hpp"
#include "local_index.hpp"
#include "region_map.hpp"
#include "router.hpp"
#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf {

struct SecondaryIndex::State {
  State(std::filesystem::path where, const TableSchema& table, const IndexPlan& what,
        const IndexOptions& how, std::unique_ptr<index::Store> opened);

  std::filesystem::path path;
  TableSchema schema;
  IndexPlan plan;
  IndexOptions options;
  std::unique_ptr<index::Store> store;
  std::uint64_t identity;  ///< of this index among all: a filter's file names it
  index::Router router;
  RecoveryReport recovery = {};

  std::mutex reshaping;      ///< one region is divided, joined or moved at a time
  RegionId next_region = 0;  ///< under reshaping
  mutable index::FairSharedMutex topology;
  std::shared_ptr<const index::RegionMap> map;  ///< under topology

  struct Tally {
    std::atomic<std::uint64_t> queries = 0, requests = 0, broadcast_requests = 0,
                               false_requests = 0, everywhere = 0;
  };
  mutable Tally tally = {};

  std::atomic<std::uint64_t> rates_as_of = 0;  ///< counts changes of region.fpr
  mutable std::mutex outlook_mutex;
  mutable std::shared_ptr<const index::Outlook> last_outlook;  ///< under outlook_mutex

  /// Worked out anew only when the map or a region's rate has changed since the last time.
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
  /// Runs work(place, map) with the writers of a key's region held.
  template <class Work>
  void with_region_of(std::string_view key, const Work& work) const {
    while (true) {
      const auto now = current_map();
      const std::size_t place = now->at(key);
      const std::lock_guard lock((*now)[place].region->writers);
      if ((*now)[place].region->retired) continue;
      return work(place, *now);
    }
  }
  /// The same for a region by its number. Throws InvalidArgument if there is none.
  template <class Work>
  void with_region(RegionId id, const Work& work) const {
    while (true) {
      const auto now = current_map();
      const std::size_t place = now->of(id);
      const std::lock_guard lock((*now)[place].region->writers);
      if ((*now)[place].region->retired) continue;
      return work(place, *now);
    }
  }

  // ---- writes.cpp
  /// `written` hears how many are, from time to time.
  WriteReport write(std::vector<index::Mutation> mutations,
                    const std::function<void(std::size_t)>& written = {});
  void write_region(index::Region& region, std::span<const index::Mutation> mutations,
                    WriteReport& report);

  // ---- filter_files.cpp; the region's writers are held
  std::filesystem::path filter_path(RegionId region) const;
  /// Saves a trusted filter that changed; makes it anew first if much is left over in it.
  void save(index::Region& region);
  Filter built_from_values(RegionId region, std::uint64_t* values = nullptr) const;
  void rebuild(index::Region& region);
  void distrust(index::Region& region);
  /// So that nobody takes a file for the filter of what follows.
  void remove_filter_file(RegionId region) const;
  /// Brings region.fpr up to date, if enough changed since.
  void refresh_rate(index::Region& region);
  void estimate_rate(index::Region& region);
  void set_rate(index::Region& region, double fpr);

  // ---- recovery.cpp
  void recover();
  void read_everything();

  // ---- regions.cpp
  struct NewRegion {
    RegionId id;  ///< from next_region, which goes on at once: numbers are not used again
    std::string from;
    ServerId server;
    index::RegionState state = {};
    Filter filter;
  };
  /// What becomes of the old regions' members of the bank. They are given up when the new regions
  /// have theirs; or, where they hold no value, the first goes to the first new region, so that a
  /// full bank need not grow.
  enum class OldMembers : std::uint8_t { give_up, reuse_first };
  void switch_regions(std::size_t first, std::size_t count, std::vector<NewRegion> fresh,
                      OldMembers members = OldMembers::give_up);
  ServerId least_loaded_server() const;
  /// A number that no region had. Throws IoError when there are none left.
  RegionId new_number();
};

}  // namespace scbf
