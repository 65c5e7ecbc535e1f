// SPDX-License-Identifier: Apache-2.0
// Files of bits: written and read back in every way, made from files of counters, and refused where
// counters are needed or the file is damaged.
#include "files/file_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/setups.hpp"

namespace scbf::test::bits_file_test {
namespace {

using scbf_test::contains;
using scbf_test::same_answers;
using scbf_test::same_words;
using scbf_test::words_of;

std::vector<Growth> growths() {
  return {Growth::one(Geometry::split_block(1, 13)),
          Growth::one(Geometry::split_block(3, 30'001)),  // more than a chunk of counters
          Growth::one(Geometry::split(7, 150)),
          Growth::one(Geometry::split(5, 1'000'003)),
          Growth::one(Geometry::split(64, 1)),
          Growth::one(Geometry::ranked(65, 3, 0)),
          Growth::one(Geometry::ranked(101, 40'000, 1000)),  // a chunk of bits ends within a block
          Growth::tightening(300, 0.05),
          Growth::tightening(200, 0.05, Layout::split),
          Growth::tightening(200, 0.05, Layout::ranked),
          Growth::fixed(Geometry::split_block(2, 9), 200)};
}

Filter filled(const Growth& growth) {
  Filter filter(growth, {.seed = 77});
  filter.insert(scbf_test::random_keys(2000, 1));
  filter.insert(std::vector<std::string>(20, "often"));
  filter.remove(scbf_test::random_keys(100, 1));
  filter.set_metadata("of bits");
  return filter;
}

void expect_same(const BloomFilter& got, const BloomFilter& want) {
  ASSERT_EQ(got.stages(), want.stages());
  for (std::size_t s = 0; s < want.stages(); ++s) {
    EXPECT_TRUE(same_words(words_of(got.stage(s)), words_of(want.stage(s))));
  }
  EXPECT_TRUE(got == want);
  EXPECT_EQ(got.keys_inserted(), want.keys_inserted());
  EXPECT_EQ(got.keys_removed(), want.keys_removed());
  EXPECT_EQ(got.metadata(), want.metadata());
  EXPECT_EQ(got.nonzero(), want.nonzero());
  const auto asked = scbf_test::random_keys(5000, 2);
  EXPECT_TRUE(same_answers(contains(got, asked), contains(want, asked)));
}

TEST(BitsFile, IsReadBackInEveryWay) {
  const TemporaryFolder folder;
  const fs::path path = folder / "bits.scbf";
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    const BloomFilter bits(filled(growth));
    bits.save(path);
    const Bytes bytes = read_bytes(path);
    EXPECT_EQ(bytes, to_bytes(bits));
    expect_same(BloomFilter::load(path), bits);
    expect_same(BloomFilter::read(source_of(bytes, 1000)), bits);
    BloomFilter mapped = BloomFilter::map(path);
    expect_same(mapped, bits);
    EXPECT_TRUE(mapped.read_only());
    EXPECT_THROW(mapped.insert(std::uint64_t{1}), ReadOnly);
    const BloomFilter copy = mapped;
    EXPECT_FALSE(copy.read_only());
    const FileInfo info = verify_file(path);
    EXPECT_EQ(info.cell(), Cell::bit);
    EXPECT_EQ(info.growth, growth);
    for (const StageFileInfo& stage : info.stages) {
      EXPECT_EQ(stage.counter_bits, 1u);
      EXPECT_EQ(stage.saturated, 0u);
      EXPECT_EQ(stage.payload_bytes, stage.shape.geometry.with(Cell::bit).bytes());
    }
  }
}

TEST(BitsFile, ComesFromAFileOfCounters) {
  const TemporaryFolder folder;
  const fs::path path = folder / "counters.scbf";
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    const Filter counters = filled(growth);
    counters.save(path);
    const Bytes bytes = read_bytes(path);
    expect_same(BloomFilter::load(path), BloomFilter(counters));
    expect_same(BloomFilter::map(path), BloomFilter(counters));
    expect_same(BloomFilter::read(source_of(bytes, 4099)), BloomFilter(counters));
    EXPECT_EQ(verify_file(path).cell(), Cell::counter);
    // A damaged counter is found, although only its bit would be kept.
    Bytes damaged = bytes;
    damaged.back() ^= std::byte{2};
    write_bytes(path, damaged);
    EXPECT_THROW(BloomFilter::load(path), CorruptFile);
  }
}

TEST(BitsFile, IsNoFileOfCounters) {
  const TemporaryFolder folder;
  const fs::path path = folder / "bits.scbf";
  for (const Growth& growth : growths()) {
    const BloomFilter bits(filled(growth));
    bits.save(path);
    SCBF_EXPECT_THROW(Filter::load(path), Incompatible, "a filter of bits");
    SCBF_EXPECT_THROW(Filter::map(path), Incompatible, "a filter of bits");
    const Bytes bytes = to_bytes(bits);
    SCBF_EXPECT_THROW(Filter::read(source_of(bytes)), Incompatible, "a filter of bits");
  }
}

TEST(BitsFile, DamageIsFoundInEveryByte) {
  const BloomFilter bits(filled(Growth::one(Geometry::split(3, 1000))));
  const Bytes good = to_bytes(bits);
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{static_cast<unsigned char>(1u << at % 8)};
    EXPECT_THROW(BloomFilter::read(source_of(bad)), CorruptFile) << "byte " << at;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, good.size() - 1}) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(BloomFilter::read(source_of(cut)), CorruptFile);
  }
}

TEST(BitsFile, FalseClaimsWithRightChecksumsAreRefused) {
  const Bytes good = to_bytes(BloomFilter(filled(Growth::one(Geometry::split(3, 1000)))));
  const auto refused = [&](std::size_t at, std::uint32_t value, const char* text) {
    Bytes bad = good;
    put(bad, at, value);
    sign(bad);
    SCBF_EXPECT_THROW(BloomFilter::read(source_of(bad)), CorruptFile, text);
  };
  refused(44, 2, "counter bits 2: must be 4, or 1");
  refused(44, 0, "counter bits 0");
  refused(44, 4, "payload bytes");
  refused(72, 1, "saturated bits 1: must be 0");
  Bytes padded = good;
  padded[get<std::uint64_t>(good, 80) + 1000 / 8 + 1] = std::byte{1};
  sign(padded);
  SCBF_EXPECT_THROW(BloomFilter::read(source_of(padded)), CorruptFile, "padding after slice 0");
}

TEST(BitsFile, AContainerHasOneKindOfStage) {
  const Growth growth = Growth::fixed(Geometry::split_block(1, 16), 9);
  Filter counters(growth, {.seed = 1});
  counters.insert(scbf_test::random_keys(400, 3));
  ASSERT_GE(counters.stages(), 2u);
  const Bytes of_counters = to_bytes(counters), of_bits = to_bytes(BloomFilter(counters));
  // The first stage of bits, then the stages of counters.
  const auto first = [](const Bytes& bytes) { return get<std::uint64_t>(bytes, 128); };
  const auto length = [](const Bytes& bytes) { return get<std::uint64_t>(bytes, 136); };
  ASSERT_EQ(first(of_bits), first(of_counters));
  Bytes mixed = of_counters;
  const auto at = [](const Bytes& bytes, std::uint64_t offset) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  };
  // Both lengths round up to the same offset of the next stage.
  ASSERT_EQ(get<std::uint64_t>(of_bits, 128 + 48), get<std::uint64_t>(of_counters, 128 + 48));
  std::fill(mixed.begin() + static_cast<std::ptrdiff_t>(first(mixed)),
            mixed.begin() + static_cast<std::ptrdiff_t>(get<std::uint64_t>(mixed, 128 + 48)),
            std::byte{0});
  std::copy(at(of_bits, first(of_bits)), at(of_bits, first(of_bits) + length(of_bits)),
            mixed.begin() + static_cast<std::ptrdiff_t>(first(mixed)));
  put(mixed, 136, length(of_bits));
  sign_container(mixed, mixed);
  SCBF_EXPECT_THROW(BloomFilter::read(source_of(mixed)), CorruptFile,
                    "it has counters: the stages before it have bits");
}

}  // namespace
}  // namespace scbf::test::bits_file_test
