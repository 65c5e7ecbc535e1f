// SPDX-License-Identifier: Apache-2.0
// Which region holds which keys, and who serves it. A map never changes; what divides or moves
// regions puts another one in its place, so that readers keep the one they began with.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "encoding.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// Numbers of regions are below this; each is given once.
inline constexpr RegionId kMaxRegionNumber = 0xFFFF'FF00u;

/// `changes` of a region that was divided from or joined of others: its values are the first
/// change, which is not in the log. Without a file its filter is then made from them.
inline constexpr std::uint64_t kBornWithValues = 1;

/// What changes about a region while it lives. Whoever writes to it holds `writers`.
struct Region {
  Region(RegionId number, std::uint32_t filter) : id(number), member(filter) {}

  const RegionId id;
  const std::uint32_t member;  ///< of the router's bank
  std::mutex writers;
  // Under `writers`; the numbers may be read without.
  bool retired = false;  ///< others have taken its place: look again
  bool trusted = true;   ///< its filter has all of its values
  std::atomic<std::uint64_t> rows = 0, values = 0;
  std::atomic<std::uint64_t> changes = 0;      ///< of its filter, ever
  std::atomic<std::uint64_t> saved = 0;        ///< of those, in the file
  std::atomic<std::uint64_t> log_entries = 0;  ///< hashes in the log since the filter was saved
  std::atomic<std::uint64_t> left_over = 0;    ///< entries of the filter without a value
  std::atomic<double> fpr = 0;                 ///< estimated, not long ago
  std::uint64_t rate_at = 0;                   ///< `values` when it was

  RegionState state() const noexcept { return {rows, values, changes}; }
  void set(const RegionState& state) noexcept {
    rows = state.rows;
    values = state.values;
    changes = state.changes;
  }
};

struct Place {
  std::string from;
  ServerId server;
  std::shared_ptr<Region> region;
};

class RegionMap {
 public:
  /// Places by key; the first begins at the empty key.
  explicit RegionMap(std::vector<Place> places);

  std::size_t size() const noexcept { return places_.size(); }
  const Place& operator[](std::size_t i) const noexcept { return places_[i]; }
  const std::vector<Place>& places() const noexcept { return places_; }
  /// Where a place ends: where the next begins; empty for the last.
  std::string_view end(std::size_t i) const noexcept {
    return i + 1 < places_.size() ? std::string_view(places_[i + 1].from) : std::string_view();
  }
  /// The place of a key.
  std::size_t at(std::string_view key) const noexcept;
  /// Throws InvalidArgument.
  std::size_t of(RegionId region) const;
  /// Servers with at least one place; they are numbered from 0 on, those of no place left out.
  std::size_t servers() const noexcept { return servers_; }
  std::size_t server_of(std::size_t i) const noexcept { return server_of_[i]; }
  /// The place of a member of the bank; size() if it has none.
  std::size_t of_member(std::uint32_t member) const noexcept {
    return member < of_member_.size() ? of_member_[member] : size();
  }

 private:
  std::vector<Place> places_;
  std::vector<std::size_t> of_member_;
  std::vector<std::uint32_t> server_of_;
  std::uint32_t servers_ = 0;
};

/// What each server is expected to be asked for a value that none of its regions has.
struct Outlook {
  std::shared_ptr<const RegionMap> map;
  std::uint64_t as_of;            ///< of the regions' rates
  std::vector<double> unclaimed;  ///< by RegionMap::server_of: no filter claims the value
  double requests;                ///< sum of the rest

  Outlook(std::shared_ptr<const RegionMap> of_map, std::uint64_t rates_as_of);
};

}  // namespace scbf::index
