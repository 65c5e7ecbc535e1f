// SPDX-License-Identifier: Apache-2.0
#include "region_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace scbf::index {

RegionMap::RegionMap(std::vector<RegionLocation> locations) : locations_(std::move(locations)) {
  std::uint32_t members = 0;
  for (const RegionLocation& location : locations_)
    members = std::max(members, location.region->member + 1);
  of_member_.assign(members, locations_.size());
  for (std::size_t i = 0; i < locations_.size(); ++i) of_member_[locations_[i].region->member] = i;
  std::unordered_map<ServerId, std::uint32_t> numbers;
  for (const RegionLocation& location : locations_) {
    server_of_.push_back(numbers.try_emplace(location.server, servers_).first->second);
    servers_ = static_cast<std::uint32_t>(numbers.size());
  }
}

std::size_t RegionMap::at(std::string_view key) const noexcept {
  const auto behind = std::upper_bound(locations_.begin() + 1, locations_.end(), key,
                                       [](std::string_view wanted, const RegionLocation& location) {
                                         return wanted < location.from;
                                       });
  return static_cast<std::size_t>(behind - locations_.begin()) - 1;
}

std::size_t RegionMap::of(RegionId region) const {
  for (std::size_t i = 0; i < locations_.size(); ++i) {
    if (locations_[i].region->id == region) return i;
  }
  throw InvalidArgument(fmt::format("region {}: no such region; the index has {} region{}", region,
                                    locations_.size(), locations_.size() == 1 ? "" : "s"));
}

Outlook::Outlook(std::shared_ptr<const RegionMap> of_map, std::uint64_t rates_as_of)
    : map(std::move(of_map)), as_of(rates_as_of), unclaimed(map->servers(), 1.0), requests(0) {
  for (std::size_t i = 0; i < map->size(); ++i) {
    unclaimed[map->server_of(i)] *= 1 - (*map)[i].region->fpr;
  }
  for (const double none : unclaimed) requests += 1 - none;
}

}  // namespace scbf::index
