// SPDX-License-Identifier: Apache-2.0
// The map from keys to regions and from regions to servers. A map is immutable. A split, merge or
// move installs a new map, so a reader keeps the map that it began with.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "encoding.hpp"
#include "list_gaps.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// Upper bound (exclusive) of region numbers. Each number is used once.
inline constexpr RegionId kMaxRegionNumber = 0xFFFF'FF00u;

/// The initial `changes` of a region made by a split or a merge. Its initial values count as the
/// first change, which the log does not hold, and their history is random. So if the filter's file
/// is missing, the filter is rebuilt from the values.
inline constexpr std::uint64_t kBornWithValues = 1;

/// The mutable state of a region. Whoever writes to the region holds `writers`.
struct Region {
  Region(RegionId number, std::uint32_t filter) : id(number), member(filter) {}

  const RegionId id;
  const std::uint32_t member;  ///< number of its filter in the router's bank
  std::mutex writers;
  // Protected by `writers`. The atomic numbers may be read without it.
  bool retired = false;              ///< replaced by other regions: look the key up again
  std::atomic<bool> trusted = true;  ///< its filter contains all of its values
  std::uint64_t history = 0;         ///< digest of its changes (history.hpp)
  std::atomic<std::uint64_t> rows = 0, values = 0;
  std::atomic<std::uint64_t> changes =
      0;  ///< number of changes to its filter since the region was made
  std::atomic<std::uint64_t> saved = 0;        ///< how many of them the filter file contains
  std::atomic<std::uint64_t> log_entries = 0;  ///< hashes logged since the filter was saved
  std::atomic<std::uint64_t> left_over = 0;    ///< filter entries for values that are gone
  /// Values removed since its filter was built. Where the filter comes from a file, this begins
  /// with the number of values, as earlier removals are not known.
  std::uint64_t removed = 0;
  // About its filter, when its rate was last estimated:
  std::atomic<std::uint32_t> stages = 1;
  std::atomic<std::uint64_t> filter_bytes = 0;
  std::atomic<double> fpr = 0;
  std::uint64_t unrated = 0;  ///< hashes inserted and removed since then

  LostPostings lost;  ///< protected by `writers`
  ListGaps gaps;      ///< has a lock of its own

  RegionState state() const noexcept { return {rows, values, changes, history}; }
  void set(const RegionState& state) noexcept {
    rows = state.rows;
    values = state.values;
    changes = state.changes;
    history = state.history;
  }
};

/// An entry of the map: a region with its first key and its server.
struct RegionLocation {
  std::string from;
  ServerId server;
  std::shared_ptr<Region> region;
};

class RegionMap {
 public:
  /// `locations` are in key order. The first one begins at the empty key.
  explicit RegionMap(std::vector<RegionLocation> locations);

  std::size_t size() const noexcept { return locations_.size(); }
  const RegionLocation& operator[](std::size_t i) const noexcept { return locations_[i]; }
  const std::vector<RegionLocation>& locations() const noexcept { return locations_; }
  /// The key at which location i ends and the next begins; empty for the last location.
  std::string_view end(std::size_t i) const noexcept {
    return i + 1 < locations_.size() ? std::string_view(locations_[i + 1].from)
                                     : std::string_view();
  }
  /// The index of the location that holds a key. Cost: a binary search.
  std::size_t at(std::string_view key) const noexcept;
  /// The index of a region's location. Throws InvalidArgument if there is no such region.
  std::size_t of(RegionId region) const;
  /// Number of servers with at least one location. server_of numbers these servers from 0 on,
  /// without gaps.
  std::size_t servers() const noexcept { return servers_; }
  std::size_t server_of(std::size_t i) const noexcept { return server_of_[i]; }
  /// The index of the location whose filter is this member of the bank; size() if there is none.
  std::size_t of_member(std::uint32_t member) const noexcept {
    return member < of_member_.size() ? of_member_[member] : size();
  }

 private:
  std::vector<RegionLocation> locations_;
  std::vector<std::size_t> of_member_;
  std::vector<std::uint32_t> server_of_;
  std::uint32_t servers_ = 0;
};

/// How often each server is expected to be asked for a value that none of its regions holds.
struct Outlook {
  std::shared_ptr<const RegionMap> map;
  std::uint64_t as_of;            ///< State::rates_as_of when the rates were read
  std::vector<double> unclaimed;  ///< by server_of: probability that no filter claims it
  double requests;                ///< sum of (1 − unclaimed) over all servers

  Outlook(std::shared_ptr<const RegionMap> of_map, std::uint64_t rates_as_of);
};

}  // namespace scbf::index
