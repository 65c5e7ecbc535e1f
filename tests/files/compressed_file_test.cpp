// SPDX-License-Identifier: Apache-2.0
// Compressed files: the filters are those that were saved, damage is found in every byte, and no
// claim of theirs costs memory before it is kept.
#include "files/file_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/setups.hpp"

namespace scbf::test::compressed_file_test {
namespace {

constexpr SaveOptions kCompress{.compress = true};

template <class AnyFilter>
Bytes compressed(const AnyFilter& filter) {
  return to_bytes(filter, kCompress);
}

std::vector<Filter> samples() {
  std::vector<Filter> all = growing_samples();
  for (const Geometry& geometry : small_geometries()) all.push_back(sample(geometry));
  all.push_back(sample(Geometry::split_block(3, 30'001), 3000));  // several chunks
  all.push_back(sample(Geometry::split(5, 1'000'003), 3000));
  all.push_back(Filter(Geometry::split_block(2, 50'000)));  // empty
  return all;
}

TEST(CompressedFile, IsReadBackInEveryWay) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : samples()) {
    SCOPED_TRACE(filter.growth().describe());
    const bool grows = filter.growth().policy() != Growth::Policy::one;
    filter.save(path, kCompress);
    const Bytes bytes = read_bytes(path);
    EXPECT_EQ(bytes, compressed(filter));
    EXPECT_LE(bytes.size(), to_bytes(filter).size());
    expect_same(Filter::load(path), filter);
    expect_same(Filter::read(source_of(bytes, 1000)), filter);
    EXPECT_EQ(compressed(Filter::read(source_of(bytes))), bytes);
    EXPECT_TRUE(BloomFilter::load(path) == BloomFilter(filter));
    EXPECT_TRUE(BloomFilter::map(path) == BloomFilter(filter));  // reads counters in any case
    EXPECT_THROW_WITH(Filter::map(path), IoError, "cannot map: the payload is compressed; load it");
    for (const FileInfo& info : {read_file_info(path), verify_file(path)}) {
      EXPECT_TRUE(info.compressed);
      EXPECT_FALSE(info.is_delta);
      EXPECT_EQ(info.version, 2u);
      EXPECT_EQ(info.file_bytes, bytes.size());
      EXPECT_EQ(info.is_container(), grows);
      std::uint64_t stored = 0;
      for (const auto& stage : info.stages) stored += stage.stored_bytes;
      EXPECT_LT(stored, bytes.size());
      EXPECT_GT(stored + 4096 + 200 * info.stages.size(), bytes.size());
      EXPECT_EQ(info.growth, filter.growth());
    }
    const BloomFilter bits(filter);
    bits.save(path, kCompress);
    EXPECT_TRUE(BloomFilter::load(path) == bits);
    EXPECT_EQ(BloomFilter::load(path).keys_removed(), bits.keys_removed());
    EXPECT_EQ(BloomFilter::load(path).metadata(), bits.metadata());
    EXPECT_EQ(compressed(BloomFilter::load(path)), compressed(bits));
    EXPECT_THROW_WITH(BloomFilter::map(path), IoError, "cannot map: the payload is compressed");
    EXPECT_THROW_WITH(Filter::load(path), Incompatible, "a filter of bits");
  }
}

TEST(CompressedFile, SeveralFollowEachOtherInAStream) {
  Bytes all;
  for (const Filter& filter : samples()) {
    const Bytes one = compressed(filter);
    all.insert(all.end(), one.begin(), one.end());
  }
  const ByteSource source = source_of(all, 4099);
  for (const Filter& filter : samples()) expect_same(Filter::read(source), filter);
}

TEST(CompressedFile, AYoungFilterBecomesShort) {
  Filter filter(1'000'000, 0.01);  // 5.7 MB
  filter.insert(scbf_test::random_keys(1000, 1));
  EXPECT_LT(compressed(filter).size(), 30'000u);
  EXPECT_LT(compressed(BloomFilter(filter)).size(), 7'500u);
}

TEST(CompressedFile, DamageIsFoundInEveryByte) {
  for (const Filter& filter :
       {sample(Geometry::split(3, 1000)), sample(Growth::tightening(60, 0.05), 200)}) {
    const auto refuses = [](const Bytes& good, auto read) {
      for (std::size_t at = 0; at < good.size(); ++at) {
        Bytes bad = good;
        bad[at] ^= std::byte{static_cast<unsigned char>(1u << at % 8)};
        EXPECT_THROW(read(bad), CorruptFile) << "byte " << at << " of " << good.size();
      }
      for (std::size_t length = 0; length < good.size(); ++length) {
        const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_THROW(read(cut), CorruptFile) << "cut at " << length;
      }
    };
    refuses(compressed(filter), [](const Bytes& bytes) { Filter::read(source_of(bytes)); });
    refuses(compressed(BloomFilter(filter)),
            [](const Bytes& bytes) { BloomFilter::read(source_of(bytes)); });
  }
}

TEST(CompressedFile, ATruncatedOneIsNoticedByItsHeadersAlone) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : {sample(Geometry::split(3, 1000)), growing_samples()[0]}) {
    const Bytes good = compressed(filter);
    for (std::size_t length = 0; length < good.size(); length += 7) {
      write_bytes(path, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
      EXPECT_THROW(read_file_info(path), CorruptFile) << length << " of " << good.size();
    }
    Bytes longer = good;
    longer.push_back(std::byte{0});
    write_bytes(path, longer);
    EXPECT_THROW_WITH(read_file_info(path), CorruptFile, "bytes follow its end");
    EXPECT_THROW_WITH(Filter::load(path), CorruptFile, "bytes follow its end");
  }
}

/// Chunks of two files are exchanged, although both files are sound.
TEST(CompressedFile, AChunkBelongsToItsFileAndPlace) {
  const Filter one = sample(Geometry::split_block(1, 40'000), 100);  // three chunks
  const Bytes good = compressed(one);
  const auto chunk_at = [&](std::size_t at) { return 16 + get<std::uint32_t>(good, at + 4); };
  const auto first = get<std::uint64_t>(good, 80);
  const std::size_t second = first + chunk_at(first), third = second + chunk_at(second);
  Bytes exchanged(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(first));
  const auto append = [&](std::size_t from, std::size_t to) {
    exchanged.insert(exchanged.end(), good.begin() + static_cast<std::ptrdiff_t>(from),
                     good.begin() + static_cast<std::ptrdiff_t>(to));
  };
  append(second, third);
  append(first, second);
  append(third, good.size());
  EXPECT_THROW_WITH(Filter::read(source_of(exchanged)), CorruptFile,
                    "payload chunk 0: checksum mismatch");
}

TEST(CompressedFile, HeadersThatContradictThemselvesAreRefused) {
  const Bytes good = compressed(BloomFilter(sample(Geometry::split_block(1, 10))));
  const auto refuses = [&](std::size_t at, auto value, const char* why) {
    SCOPED_TRACE(why);
    Bytes bad = good;
    put(bad, at, value);
    sign_header(bad, get<std::uint64_t>(bad, 80));
    EXPECT_THROW_WITH(BloomFilter::read(source_of(bad)), CorruptFile, why);
  };
  refuses(8, std::uint32_t{3}, "format version 3: this library reads versions up to 2");
  refuses(8, std::uint32_t{0}, "format version 0");
  refuses(12, std::uint32_t{128}, "fixed header bytes 128: must be 176");
  refuses(128, std::uint32_t{3}, "content 3: must be 1 (filter) or 2 (delta)");
  refuses(128, std::uint32_t{2}, "epoch 0 of a delta");
  refuses(132, std::uint32_t{0}, "payload 0: must be 1 (plain) or 2 (packed)");
  refuses(132, std::uint32_t{1}, "must be 1, as no field needs version 2");
  refuses(144, std::uint64_t{5}, "history of no epoch 5: must be 0");
  refuses(152, std::uint64_t{5}, "epoch before that of a filter");
  refuses(168, std::uint64_t{5}, "changes of a filter 5: must be 0");
  // A chunk of more bytes than its words have, and of a coding that there is not.
  const auto chunk = get<std::uint64_t>(good, 80);
  Bytes bad = good;
  put(bad, chunk + 4, std::uint32_t{161});
  EXPECT_THROW_WITH(BloomFilter::read(source_of(bad)), CorruptFile,
                    "payload chunk 0: 161 bytes: must be at most 160");
  bad = good;
  put(bad, chunk, std::uint32_t{5});
  EXPECT_THROW_WITH(BloomFilter::read(source_of(bad)), CorruptFile,
                    "payload chunk 0: coding 5: must be below 5");
}

/// A header of 2^45 bytes and chunks of zeros: only pages that hold something cost memory.
TEST(CompressedFile, AHugeClaimCostsNoMemory) {
  Bytes bytes = compressed(Filter(Geometry::split_block(1, 1)));
  put(bytes, 48, std::uint64_t{0xFFFF'FFFF});       // blocks
  put(bytes, 88, std::uint64_t{0xFFFF'FFFF} * 64);  // payload_bytes, 2^38
  put(bytes, 104, std::uint64_t{1} << 18);          // chunks
  sign_header(bytes, get<std::uint64_t>(bytes, 80));
  try {
    Filter::read(source_of(bytes));
    ADD_FAILURE() << "accepted";
  } catch (const CorruptFile& error) {
    EXPECT_TRUE(has(error.what(), "checksum mismatch") || has(error.what(), "truncated"));
  } catch (const std::bad_alloc&) {  // the system refuses the address space
  }
}

}  // namespace
}  // namespace scbf::test::compressed_file_test
