// SPDX-License-Identifier: Apache-2.0
// Ranked filters in files: read back in every way, claims of headers, damage behind right
// checksums.
#include "files/file_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/sizing.hpp"
#include "support/setups.hpp"

namespace scbf::test::ranked_file_test {
namespace {

Filter spilled_sample() {
  Filter filter(Geometry::ranked(89, 10, 12), {.seed = 1});
  filter.insert(scbf_test::random_keys(400, 1));
  filter.set_metadata("x");
  return filter;
}
/// A chunk has 16,384 blocks; the table lies across the end of one.
Filter large_sample() {
  Filter filter(Geometry::ranked(82, 16'380, 40), {.seed = 2});
  filter.insert(scbf_test::random_keys(500'000, 2));
  return filter;
}

TEST(RankedFile, IsReadBackInEveryWay) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  std::vector<Filter> all = {spilled_sample(), large_sample(), Filter(Geometry::ranked(65, 1, 0)),
                             sample(Growth::tightening(100, 0.05, Layout::ranked))};
  EXPECT_GT(all[1].statistics().saturated, 0u);  // more blocks spill than have room
  for (const Filter& filter : all) {
    SCOPED_TRACE(filter.growth().describe());
    for (const bool compress : {false, true}) {
      filter.save(path, {.compress = compress});
      expect_same(Filter::load(path), filter);
      expect_same(Filter::read(source_of(read_bytes(path), 1000)), filter);
      const FileInfo info = verify_file(path);
      EXPECT_EQ(info.growth, filter.growth());
      EXPECT_EQ(info.stages[0].shape.geometry, filter.stage(0).geometry());
      EXPECT_EQ(info.stages[0].saturated, filter.statistics().stages[0].saturated);
      EXPECT_TRUE(BloomFilter::load(path) == BloomFilter(filter));
      if (!compress) expect_same(Filter::map(path), filter);
    }
  }
}

TEST(RankedFile, HeadersAreCheckedBeforeMemoryIsTaken) {
  const Bytes good = to_bytes(spilled_sample());
  const auto refused = [&](std::size_t at, auto value, const char* why) {
    Bytes bytes = good;
    put(bytes, at, value);
    sign_header(bytes, get<std::uint64_t>(good, 80));
    EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile, why);
  };
  refused(36, std::uint32_t{8}, "probes 8: must be 4");
  refused(40, std::uint32_t{64}, "positions 64: must be 65 to 112");
  refused(40, std::uint32_t{113}, "positions 113: must be 65 to 112");
  refused(44, std::uint32_t{1}, "payload bytes 5056: must be 448");
  refused(48, std::uint64_t{0}, "blocks 0: must be 1 to");
  refused(48, std::uint64_t{1} << 32, "blocks 4294967296: must be 1 to");
  refused(88, std::uint64_t{0}, "payload bytes 0: must be at least 640 for 10 blocks");
  refused(88, std::uint64_t{1} << 62, "slots for spilled blocks");
  refused(88, get<std::uint64_t>(good, 88) + 8, "payload bytes");
  for (const std::uint64_t value : evil_values(3, {})) {
    for (const std::size_t at : {std::size_t{48}, std::size_t{88}}) {
      if (value == get<std::uint64_t>(good, at)) continue;
      Bytes bytes = good;
      put(bytes, at, value);
      sign_header(bytes, get<std::uint64_t>(good, 80));
      EXPECT_THROW(Filter::read(source_of(bytes)), CorruptFile) << value << " at " << at;
    }
  }
}

/// The upper half of their extent says how many slots the counters had.
TEST(RankedFile, BitsKnowTheGeometryOfTheCounters) {
  const BloomFilter bits(spilled_sample());
  const Bytes good = to_bytes(bits);
  EXPECT_EQ(get<std::uint64_t>(good, 48), 10u | std::uint64_t{12} << 32);
  EXPECT_EQ(BloomFilter::read(source_of(good)).geometry(),
            Geometry::ranked(89, 10, 12).with(Cell::bit));
  for (const auto& [extent, why] : {std::pair{std::uint64_t{12} << 32, "blocks 0: must be 1 to"},
                                    std::pair{std::uint64_t{14}, "payload bytes"}}) {
    Bytes bytes = good;
    put(bytes, 48, extent);
    sign_header(bytes, get<std::uint64_t>(good, 80));
    EXPECT_THROW_WITH(BloomFilter::read(source_of(bytes)), CorruptFile, why);
  }
  // What stands behind the last block must be zero.
  Bytes bytes = good;
  ASSERT_NE(bits.geometry().counters() % 128, 0u);
  bytes.back() |= std::byte{0x80};
  sign(bytes);
  EXPECT_THROW_WITH(BloomFilter::read(source_of(bytes)), CorruptFile, "padding after slice 3");
}

/// Any single bit of the payload, with right checksums: load finds it; whoever maps it anyway can
/// work with it, and cannot save it as if it were sound.
TEST(RankedFile, DamageBehindRightChecksumsIsFound) {
  const TemporaryFolder folder;
  const fs::path path = folder / "damaged.scbf", copy = folder / "copy.scbf";
  const Bytes good = to_bytes(spilled_sample());
  const auto payload = get<std::uint64_t>(good, 80);
  std::size_t not_saved = 0;
  for (std::size_t bit = payload * 8; bit < good.size() * 8; bit += 7) {
    Bytes bytes = good;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    sign(bytes);
    ASSERT_THROW(Filter::read(source_of(bytes)), CorruptFile) << "bit " << bit;
    if (bit % 5 != 0) continue;
    write_bytes(path, bytes);
    const Filter mapped = Filter::map(path);
    const auto keys = scbf_test::random_keys(50, 1);
    for (const std::uint64_t key : keys) {
      EXPECT_EQ(mapped.contains(key), mapped.count(key) > 0);
    }
    try {
      mapped.save(copy);
      ADD_FAILURE() << "bit " << bit << ": saved";
    } catch (const CorruptFile& error) {
      EXPECT_TRUE(has(error.what(), "the filter is damaged, as a mapped file may be"));
      ++not_saved;
    }
  }
  EXPECT_GT(not_saved, 10u);
}

TEST(RankedFile, ACountOfAPositionThatIsNotInUseIsFound) {
  const TemporaryFolder folder;
  const fs::path path = folder / "damaged.scbf";
  const Bytes good = to_bytes(spilled_sample());
  const Geometry geometry = spilled_sample().geometry();
  const auto table = get<std::uint64_t>(good, 80) + 64 * geometry.blocks_per_group();
  const std::uint64_t entry = 8 * geometry.spill_entry_words();
  std::size_t found = 0;
  for (std::size_t at = table; at < table + geometry.spill_slots() * entry; ++at) {
    const bool is_count =
        (at - table) % entry >= 8 && get<std::uint64_t>(good, at - (at - table) % entry) != 0;
    if (!is_count || good[at] != std::byte{0}) continue;
    Bytes bytes = good;
    bytes[at] = std::byte{1};
    sign(bytes);
    write_bytes(path, bytes);
    try {
      verify_file(path);
      ADD_FAILURE() << "byte " << at;
    } catch (const CorruptFile& error) {
      EXPECT_FALSE(has(error.what(), "saturated")) << error.what();
      ++found;
    }
  }
  EXPECT_GT(found, 50u);
}

TEST(RankedFile, LayoutsAreNotMixedInAContainer) {
  // A growing filter's stage, replaced by a ranked one of the same length.
  const Filter ranked = sample(Growth::tightening(100, 0.05, Layout::ranked));
  Bytes bytes = to_bytes(ranked);
  put(bytes, 20, std::uint32_t{2});  // a growth of split_block
  sign_header(bytes, get<std::uint64_t>(bytes, 96));
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile,
                    "layout ranked, in a growth of split_block");
}

}  // namespace
}  // namespace scbf::test::ranked_file_test
