// SPDX-License-Identifier: Apache-2.0
// Filters of equal geometry and seed can be merged: build one for each shard, merge them, and
// subtract one again when its shard goes away.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

int main() {
  constexpr std::uint64_t keys_per_shard = 50'000;
  const auto geometry = scbf::geometry_for(scbf::Layout::split_block, 3 * keys_per_shard, 0.01);
  std::vector<scbf::Filter> shards;
  for (std::uint64_t s = 0; s < 3; ++s) {
    std::vector<std::uint64_t> keys(keys_per_shard);
    std::iota(keys.begin(), keys.end(), s * keys_per_shard);
    shards.emplace_back(geometry).insert(keys);
  }

  scbf::Filter all(geometry);
  for (const auto& shard : shards) all.merge(shard);
  std::printf("all shards: %llu keys\n", static_cast<unsigned long long>(all.keys_inserted()));

  const auto report = all.subtract(shards[1]);
  std::printf("without shard 1, %llu counters inexact\n",
              static_cast<unsigned long long>(report.inexact_counters));

  // The result equals the merge of the other two, because no counter was saturated.
  scbf::Filter expected = shards[0];
  expected.merge(shards[2]);
  return all == expected && report.inexact_counters == 0 ? 0 : 1;
}
