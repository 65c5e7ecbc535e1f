// SPDX-License-Identifier: Apache-2.0
// How chunks are packed: whatever goes in comes out, sizes are near the entropy, and no bytes,
// however hostile, lead past the end of a chunk.
#include "files/chunk_coding.hpp"

#include <bit>
#include <cmath>

#include "files/bit_stream.hpp"
#include "files/file_format.hpp"
#include "files/file_test_support.hpp"

namespace scbf::test::chunk_coding_test {
namespace {

using file_format::BitReader;
using file_format::BitWriter;
using file_format::ChunkDecoder;
using file_format::ChunkEncoder;
using file_format::Coding;
constexpr std::size_t kMostChunkWords = file_format::kChunkWords;

using Words = std::vector<std::uint64_t>;

/// Each bit is 1 with probability `share`.
Words random_bits(std::size_t words, double share, std::uint64_t seed) {
  Words bits(words);
  const auto limit = static_cast<std::uint64_t>(share * 0x1p32);
  std::uint64_t draw = seed * 1'000'003;
  for (std::uint64_t& word : bits) {
    for (unsigned i = 0; i < 64; ++i) {
      word |= std::uint64_t{scbf_test::mixed(++draw) >> 32 < limit} << i;
    }
  }
  return bits;
}

/// The bits of this many keys of a blocked filter: one in each lane of a random block.
Words keys_of_blocks(std::size_t words, std::size_t keys, std::uint64_t seed) {
  Words bits(words);
  for (std::size_t i = 0; i < keys; ++i) {
    const std::uint64_t draw = scbf_test::mixed(seed + i);
    const std::uint64_t block = (draw >> 32) % (words / 2);
    for (unsigned lane = 0; lane < 8; ++lane) {
      bits[2 * block + lane / 4] |= std::uint64_t{1} << (lane % 4 * 16 + (draw >> 4 * lane & 15));
    }
  }
  return bits;
}

double entropy(double p) { return -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

struct Packed {
  Coding coding;
  Bytes bytes;
};

Packed pack(const Words& words, Cell cell, bool zstd) {
  ChunkEncoder encoder(cell, zstd);
  const auto [coding, bytes] = encoder.encode(words);
  return {coding, {bytes.begin(), bytes.end()}};
}

void expect_round_trip(const Words& words, Cell cell) {
  for (const bool zstd : {false, true}) {
    const Packed packed = pack(words, cell, zstd);
    EXPECT_LE(packed.bytes.size(), words.size() * 8);
    Words got(words.size(), 0xAAAA'AAAA'AAAA'AAAA);  // what was there before is overwritten
    ChunkDecoder decoder;
    const file_format::Fault why = decoder.decode(cell, packed.coding, packed.bytes, got);
    ASSERT_FALSE(why) << *why;
    EXPECT_TRUE(got == words) << words.size() << " words, coding "
                              << static_cast<unsigned>(packed.coding);
  }
}

TEST(BitStream, NumbersOfEveryWidthComeBack) {
  std::vector<std::byte> bytes;
  BitWriter out(bytes);
  for (unsigned width = 0; width <= 32; ++width) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, (std::uint64_t{1} << width) - 1,
          scbf_test::mixed(width) & ((std::uint64_t{1} << width) - 1)}) {
      out.put(value, width);
    }
  }
  out.finish();
  BitReader in(bytes);
  for (unsigned width = 0; width <= 32; ++width) {
    EXPECT_EQ(in.get(width), 0u);
    EXPECT_EQ(in.get(width), (std::uint64_t{1} << width) - 1);
    EXPECT_EQ(in.get(width), scbf_test::mixed(width) & ((std::uint64_t{1} << width) - 1));
  }
  EXPECT_TRUE(in.at_end());
  in.get(8);
  EXPECT_TRUE(in.overrun());
}

TEST(BitStream, RiceCodesComeBack) {
  constexpr std::uint64_t kMost = 1 << 23;
  for (unsigned k = 0; k <= file_format::kMostRice; ++k) {
    std::vector<std::uint64_t> values = {0,        1,        (1u << k) - 1, 1u << k,
                                         31u << k, 32u << k, 65u << k};
    for (std::uint64_t i = 0; i < 100; ++i) values.push_back(scbf_test::mixed(i) % (4u << k));
    if (k >= 12) values.push_back(kMost);
    std::erase_if(values, [](std::uint64_t v) { return v > kMost; });
    std::vector<std::byte> bytes;
    BitWriter out(bytes);
    for (const std::uint64_t value : values) out.put_rice(value, k);
    out.finish();
    BitReader in(bytes);
    for (const std::uint64_t value : values) ASSERT_EQ(in.get_rice(k, kMost), value) << k;
    EXPECT_TRUE(in.at_end());
  }
  // Only zeros: no code ends there.
  const Bytes zeros(1000);
  BitReader in(zeros);
  EXPECT_GT(in.get_rice(0, 1u << 20), 1u << 20);
}

TEST(ChunkCoding, BitsOfEveryDensityComeBack) {
  for (const std::size_t words :
       {std::size_t{2}, std::size_t{4}, std::size_t{18}, std::size_t{1000}, kMostChunkWords}) {
    for (const double share : {0.0, 1e-6, 1e-4, 0.01, 0.1, 0.3, 0.36, 0.5, 0.9, 1.0}) {
      if (words == kMostChunkWords && share > 0.01 && share < 0.3) continue;  // takes long
      expect_round_trip(random_bits(words, share, words), Cell::bit);
    }
    expect_round_trip(keys_of_blocks(words, words / 10 + 1, words), Cell::bit);
  }
  for (const std::size_t at : {0, 63, 64, 127}) {
    Words one(2);
    one[at / 64] = std::uint64_t{1} << at % 64;
    expect_round_trip(one, Cell::bit);
    Words last(kMostChunkWords);
    last[kMostChunkWords - 2 + at / 64] = std::uint64_t{1} << at % 64;
    expect_round_trip(last, Cell::bit);
  }
}

TEST(ChunkCoding, CountersComeBack) {
  for (const std::size_t words : {std::size_t{8}, std::size_t{1000}, kMostChunkWords}) {
    expect_round_trip(Words(words), Cell::counter);
    expect_round_trip(random_bits(words, 1e-4, 1), Cell::counter);
    expect_round_trip(random_bits(words, 0.2, 2), Cell::counter);
    expect_round_trip(random_bits(words, 0.5, 3), Cell::counter);
  }
}

TEST(ChunkCoding, SizesAreNearTheEntropy) {
  constexpr std::size_t kWords = kMostChunkWords / 4;
  for (const double share : {1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3}) {
    const Words words = random_bits(kWords, share, 9);
    const Packed packed = pack(words, Cell::bit, false);
    EXPECT_EQ(packed.coding, Coding::gaps) << share;
    double ones = 0;
    for (const std::uint64_t word : words) ones += std::popcount(word);
    const double least = entropy(ones / (kWords * 64)) * kWords * 64 / 8;
    EXPECT_LT(static_cast<double>(packed.bytes.size()), 1.04 * least + 16) << share;
    EXPECT_GT(static_cast<double>(packed.bytes.size()), 0.99 * least) << share;
  }
  // A key of a blocked filter has its block, and a nibble in each of eight lanes.
  constexpr std::size_t kKeys = 1000;
  const Packed packed = pack(keys_of_blocks(kWords, kKeys, 5), Cell::bit, false);
  EXPECT_EQ(packed.coding, Coding::blocks);
  const double share = static_cast<double>(kKeys) / (kWords / 2);
  const double least = (kWords / 2 * entropy(share) + kKeys * 32.0) / 8;
  EXPECT_LT(static_cast<double>(packed.bytes.size()), 1.5 * least);
  EXPECT_EQ(pack(random_bits(kWords, 0.5, 1), Cell::bit, false).coding, Coding::plain);
  EXPECT_EQ(pack(random_bits(kWords, 0.5, 1), Cell::bit, true).coding, Coding::plain);
  EXPECT_EQ(pack(Words(kWords), Cell::bit, true).coding, Coding::zeros);
  EXPECT_EQ(pack(random_bits(kWords, 0.01, 1), Cell::counter, true).coding, Coding::zstd);
}

/// Decodes into words with room around them, which must stay as it is. Returns what is wrong.
std::string decode(Cell cell, Coding coding, const Bytes& bytes, std::size_t words) {
  constexpr std::uint64_t kGuard = 0x5555'5555'5555'5555;
  Words room(words + 2, kGuard);
  ChunkDecoder decoder;
  const auto why = decoder.decode(cell, coding, bytes, std::span(room).subspan(1, words));
  EXPECT_EQ(room.front(), kGuard);
  EXPECT_EQ(room.back(), kGuard);
  return why.value_or("");
}

TEST(ChunkCoding, DamagedBytesAreRefusedOrHarmless) {
  constexpr std::size_t kWords = 64;
  for (const Words& words : {random_bits(kWords, 0.02, 1), keys_of_blocks(kWords, 4, 2)}) {
    const Packed good = pack(words, Cell::bit, false);
    ASSERT_TRUE(good.coding == Coding::gaps || good.coding == Coding::blocks);
    for (std::size_t bit = 0; bit < good.bytes.size() * 8; ++bit) {
      Bytes bad = good.bytes;
      bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      for (std::uint32_t coding = 0; coding < file_format::kCodings + 1; ++coding) {
        decode(Cell::bit, static_cast<Coding>(coding), bad, kWords);
        decode(Cell::counter, static_cast<Coding>(coding), bad, kWords);
      }
    }
    for (std::size_t length = 0; length < good.bytes.size(); ++length) {
      Bytes bad = good.bytes;
      bad.resize(length);
      EXPECT_NE(decode(Cell::bit, good.coding, bad, kWords), "") << length;
    }
    Bytes longer = good.bytes;
    longer.push_back(std::byte{0});
    const bool gaps = good.coding == Coding::gaps;
    EXPECT_EQ(decode(Cell::bit, good.coding, longer, kWords),
              fmt::format("{} bytes: too many for {} {}", longer.size(),
                          std::to_integer<unsigned>(good.bytes[0]), gaps ? "ones" : "blocks"));
    EXPECT_EQ(decode(Cell::counter, good.coding, good.bytes, kWords),
              "a coding of bits, not of counters");
  }
  const auto of = [](std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  };
  const auto of_bits = [](Coding coding, const Bytes& bytes) {
    return decode(Cell::bit, coding, bytes, 2);
  };
  EXPECT_EQ(of_bits(Coding::gaps, of({1, 0, 0, 0})), "4 bytes: must be at least 5");
  EXPECT_EQ(of_bits(Coding::gaps, of({255, 255, 255, 255, 0})),
            "4294967295 ones: must be at most 128");
  EXPECT_EQ(of_bits(Coding::gaps, of({1, 0, 0, 0, 25, 255})),
            "Rice parameter 25: must be at most 24");
  EXPECT_EQ(of_bits(Coding::gaps, of({1, 0, 0, 0, 7, 2, 0})),
            "number 1 of 1 ones lies behind the last of 128 places, or is missing");
  EXPECT_EQ(of_bits(Coding::blocks, of({2, 0, 0, 0, 0})), "2 blocks: must be at most 1");
  EXPECT_EQ(of_bits(Coding::blocks, of({1, 0, 0, 0, 0, 1, 0, 0})),
            "block 0 has no ones: must have some");
  EXPECT_EQ(of_bits(Coding::blocks, of({1, 0, 0, 0, 0, 3, 6, 0})),
            "lane 0 of block 0 has 1 ones: must have at least 2");
  EXPECT_EQ(of_bits(Coding::zeros, of({0})), "1 bytes: must be 0");
  EXPECT_EQ(of_bits(Coding::plain, of({0})), "1 bytes: must be 16");
  EXPECT_TRUE(of_bits(Coding::zstd, of({0, 1, 2, 3})).starts_with("no zstd frame in 4 bytes: "));
  EXPECT_EQ(of_bits(static_cast<Coding>(5), {}), "must be below 5");
  // Frames of more and of fewer words than asked for.
  const Packed zstd = pack(Words(64, 7), Cell::counter, true);
  ASSERT_EQ(zstd.coding, Coding::zstd);
  const auto of_frame = [](const Bytes& bytes, std::size_t words) {
    return decode(Cell::counter, Coding::zstd, bytes, words);
  };
  EXPECT_EQ(of_frame(zstd.bytes, 64), "");
  Bytes twice = zstd.bytes;
  twice.insert(twice.end(), zstd.bytes.begin(), zstd.bytes.end());
  EXPECT_EQ(of_frame(twice, 128), fmt::format("a zstd frame of {} bytes: must take all {}",
                                              zstd.bytes.size(), twice.size()));
  EXPECT_TRUE(of_frame(zstd.bytes, 32).starts_with("no zstd frame of 256 bytes: "));
  EXPECT_EQ(of_frame(zstd.bytes, 128), "a zstd frame of 512 bytes: must be of 1024");
}

}  // namespace
}  // namespace scbf::test::chunk_coding_test
