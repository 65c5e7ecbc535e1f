// SPDX-License-Identifier: Apache-2.0
// How filters are cut into partitions for threads that change them at once.
#include "cpu_simd/shards.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "scbf/geometry.hpp"

namespace scbf_test::shards_test {
namespace {

using scbf::Cell;
using scbf::Geometry;

TEST(Partitions, BeginWithACacheLine) {
  std::vector<Geometry> geometries = {Geometry::split(7, 1'000'003),
                                      Geometry::split_block(2, 30'001)};
  for (std::uint32_t positions = scbf::kMinRankedPositions; positions <= scbf::kMaxRankedPositions;
       ++positions) {
    geometries.push_back(Geometry::ranked(positions, 30'001, 100));
  }
  for (const Geometry& counters : geometries) {
    for (const Cell cell : {Cell::counter, Cell::bit}) {
      const Geometry geometry = counters.with(cell);
      SCOPED_TRACE(geometry.describe());
      for (const unsigned threads : {1u, 2u, 64u, 1000u}) {
        const auto plan =
            scbf::plan_partitions(geometry, 1'000'000, threads, std::size_t{1} << 40, {});
        EXPECT_EQ(plan.partition_words % 8, 0u);
        // A partition is that many whole blocks, or counters.
        const bool blocks = geometry.in_blocks();
        const std::uint64_t units = std::uint64_t{1} << (plan.shift - (blocks ? 32 : 0));
        const std::uint64_t bits = blocks ? geometry.block_bits() : geometry.cell_bits();
        EXPECT_EQ(plan.partition_words * 64, units * bits);
        const std::uint64_t all =
            blocks ? geometry.blocks_per_group() : geometry.counters_per_slice();
        EXPECT_EQ(plan.partitions, (all - 1) / units + 1);
      }
    }
  }
}

}  // namespace
}  // namespace scbf_test::shards_test
