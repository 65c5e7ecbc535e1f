// SPDX-License-Identifier: Apache-2.0
// The byte-string hash for GPUs (scbf/cuda/xxh3.hpp), compiled for the host, against xxHash:
// lengths that cover all of its cases, every alignment, several seeds.
#include "scbf/cuda/xxh3.hpp"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/keys.hpp"

namespace scbf_test::cuda_xxh3_test {
namespace {

/// Random bytes in whole aligned words, because the hash reads words.
class Bytes {
 public:
  explicit Bytes(std::size_t bytes) : words_(random_keys(bytes / 8 + 2, 3)) {}
  const std::byte* at(std::size_t offset) const {
    return reinterpret_cast<const std::byte*>(words_.data()) + offset;
  }

 private:
  std::vector<std::uint64_t> words_;
};

constexpr std::uint64_t kSeeds[] = {0, 1, 0x8000'0000, 0x1'0000'0000, 0xDEAD'BEEF'CAFE'F00D, ~0ull};

void expect_equal(const Bytes& bytes, std::size_t offset, std::size_t length) {
  for (const std::uint64_t seed : kSeeds) {
    ASSERT_EQ(scbf::cuda::hash_bytes(bytes.at(offset), length, seed),
              XXH3_64bits_withSeed(bytes.at(offset), length, seed))
        << length << " bytes at " << offset << ", seed " << seed;
  }
}

TEST(DeviceHash, EqualsXxh3ForEveryLengthAndAlignment) {
  const Bytes bytes(1100);
  for (std::size_t length = 0; length <= 1040; ++length) {
    for (std::size_t offset = 0; offset < 8; ++offset) expect_equal(bytes, offset, length);
  }
}

TEST(DeviceHash, EqualsXxh3ForLongStrings) {
  const Bytes bytes(70'000);
  for (const std::size_t blocks : {2u, 3u, 64u}) {
    for (std::size_t length = blocks * 1024 - 65; length <= blocks * 1024 + 65; ++length) {
      expect_equal(bytes, length % 8, length);
    }
  }
}

TEST(DeviceHash, OfEightBytesIsThatOfTheNumber) {
  for (const std::uint64_t key : random_keys(1000, 9)) {
    for (const std::uint64_t seed : kSeeds) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&key);
      ASSERT_EQ(
          scbf::cuda::hash_bytes(bytes, 8, seed),
          scbf::detail::hash_u64<scbf::detail::PlainOps>(key, scbf::detail::u64_seed_mask(seed)));
    }
  }
}

/// Words without a byte of the string must not be read, because they may not be allocated.
TEST(DeviceHash, ReadsNoWordBeyondTheString) {
  for (std::size_t length = 0; length <= 300; ++length) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      // Only the words that hold the string are allocated, so that a sanitizer sees other reads.
      const std::size_t words = (offset + length + 7) / 8;
      const auto source = random_keys(words, 5);
      const auto exact = std::make_unique<std::uint64_t[]>(words);
      std::copy(source.begin(), source.end(), exact.get());
      const auto* at = reinterpret_cast<const std::byte*>(exact.get()) + offset;
      ASSERT_EQ(scbf::cuda::hash_bytes(at, length, 7), XXH3_64bits_withSeed(at, length, 7));
    }
  }
}

}  // namespace
}  // namespace scbf_test::cuda_xxh3_test
