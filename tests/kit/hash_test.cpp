// SPDX-License-Identifier: Apache-2.0
// The library's hashes against xxHash itself. contract_test checks that all backends hash alike.
#include "scbf/detail/hash.hpp"

#include <gtest/gtest.h>

#include "kit/hash_keys.hpp"
#include "scbf/key_batch.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace {

using scbf::detail::hash_u64;
using scbf::detail::PlainOps;
using scbf::detail::u64_seed_mask;
using scbf_test::xxh3;

std::vector<std::uint64_t> seeds() {
  std::vector<std::uint64_t> seeds = {0,     1,          255,          0x8000'0000u,
                                      ~0ull, 1ull << 63, 0xFFFF'FFFFu, 0xFFFF'FFFF'0000'0000u};
  for (unsigned bit = 0; bit < 64; ++bit) seeds.push_back(1ull << bit);
  for (std::uint64_t seed : scbf_test::random_keys(200, 3)) seeds.push_back(seed);
  return seeds;
}

TEST(Hash, U64EqualsXxh3OfEightBytesForAllSeeds) {
  auto keys = scbf_test::random_keys(200, 4);
  for (unsigned bit = 0; bit < 64; ++bit) keys.push_back(1ull << bit);
  keys.insert(keys.end(), {0, ~0ull});
  for (const std::uint64_t seed : seeds()) {
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(hash_u64<PlainOps>(key, u64_seed_mask(seed)), xxh3(key, seed))
          << "key " << key << " seed " << seed;
    }
  }
}

// The XXH3-64 of eight zero bytes, as published by xxHash 0.8. It pins the hash even if the tests'
// copy of xxHash changes. Being constexpr, it also shows that the hash works at compile time.
constexpr std::uint64_t kHashOfZero = hash_u64<PlainOps>(0, u64_seed_mask(0));
TEST(Hash, KnownValues) {
  EXPECT_EQ(kHashOfZero, 0xC77B'3ABB'6F87'ACD9u);
  EXPECT_EQ(kHashOfZero, xxh3(std::uint64_t{0}, 0));
}

void hash_scalar(const std::uint64_t* keys, std::size_t n, std::uint64_t seed,
                 std::uint64_t* hashes) noexcept {
  for (std::size_t i = 0; i < n; ++i) hashes[i] = hash_u64<PlainOps>(keys[i], u64_seed_mask(seed));
}

class StringHash : public ::testing::TestWithParam<scbf_test::StringSet> {};

TEST_P(StringHash, EqualsXxh3OfTheBytes) {
  const scbf_test::StringColumn column(GetParam().keys, 3);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    for (const scbf::KeyBatch& batch : batches_of(column)) {
      ASSERT_EQ(batch.size(), column.strings.size());
      std::vector<std::uint64_t> hashes(batch.size());
      ASSERT_EQ(scbf::hash_keys(batch, 0, batch.size(), seed, hash_scalar, hashes.data()),
                batch.size());
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        ASSERT_EQ(hashes[i], xxh3(column.strings[i], seed))
            << "kind " << static_cast<int>(batch.kind()) << " key " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, StringHash, ::testing::ValuesIn(scbf_test::string_sets()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
