// SPDX-License-Identifier: Apache-2.0
// The library's hashes against xxHash itself. contract_test checks that all backends hash alike.
#include "scbf/detail/hash.hpp"

#include <gtest/gtest.h>

#include "kit/hash_keys.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/backend.hpp"
#include "scbf/key_batch.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::hash_test {
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

TEST(Hash, SixteenBytesEqualXxh3ForAllSeeds) {
  const auto words = scbf_test::random_keys(200, 5);
  for (const std::uint64_t seed : seeds()) {
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const std::string_view key(reinterpret_cast<const char*>(&words[i]), 16);
      ASSERT_EQ(scbf::detail::hash_16_bytes<PlainOps>(words[i], words[i + 1],
                                                      scbf::detail::first_seed_mask(seed),
                                                      scbf::detail::last_seed_mask(seed)),
                xxh3(key, seed))
          << "key " << i << " seed " << seed;
    }
  }
}

/// The vectors of every backend that runs on this host.
class HashKernels : public ::testing::TestWithParam<const scbf::Backend*> {
 protected:
  const scbf::HashKernels& kernels() const { return GetParam()->rows().hashes; }
};

INSTANTIATE_TEST_SUITE_P(Backends, HashKernels,
                         ::testing::ValuesIn(scbf_test::available_backends()),
                         [](const auto& test) {
                           return scbf_test::identifier(test.param->name());
                         });

TEST_P(HashKernels, EqualXxh3AtEveryLengthOfTheBatch) {
  const auto words = scbf_test::random_keys(201, 6);
  const char* const bytes = reinterpret_cast<const char*>(words.data());
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    for (std::size_t n = 0; n <= 40; ++n) {
      constexpr std::uint64_t kUntouched = 0xDEAD'BEEF;
      std::vector<std::uint64_t> hashes(n + 1, kUntouched);
      kernels().u64(words.data(), n, seed, hashes.data());
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(hashes[i], xxh3(words[i], seed))
            << "seed " << seed << ", key " << i << " of " << n;
      }
      ASSERT_EQ(hashes[n], kUntouched);
      for (std::size_t shift = 0; shift < 8; ++shift) {  // keys may lie anywhere
        kernels().of_16_bytes(bytes + shift, n, seed, hashes.data());
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(hashes[i], xxh3(std::string_view(bytes + shift + 16 * i, 16), seed))
              << "seed " << seed << ", key " << i << " of " << n << ", from byte " << shift;
        }
        ASSERT_EQ(hashes[n], kUntouched);
      }
    }
  }
}

/// Batches of keys of one width from any address on, with nulls or without.
TEST(Hash, KeysOfEveryWidth) {
  const auto words = scbf_test::random_keys(3000, 7);
  const auto bytes = std::as_bytes(std::span(words));
  const std::vector<std::byte> validity(80, std::byte{0xB7});
  for (std::size_t width = 1; width <= 40; ++width) {
    for (std::size_t shift = 0; shift < 9; ++shift) {
      const std::size_t n = 550;
      const auto all = scbf::KeyBatch::from_fixed(bytes.subspan(shift, n * width), width);
      for (const scbf::KeyBatch& batch : {all, all.slice(3, 531), all.with_validity(validity, 5),
                                          all.with_validity(validity, 1).slice(7, 490)}) {
        std::vector<std::uint64_t> hashes(batch.size());
        batch.hashes(7, hashes);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          ASSERT_EQ(hashes[i], batch.valid(i) ? xxh3(batch.bytes(i), 7) : 0)
              << "width " << width << " key " << i;
        }
      }
    }
  }
}

class StringHash : public ::testing::TestWithParam<scbf_test::StringSet> {};

TEST_P(StringHash, EqualsXxh3OfTheBytes) {
  const scbf_test::StringColumn column(GetParam().keys, 3);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    for (const scbf::KeyBatch& batch : batches_of(column)) {
      ASSERT_EQ(batch.size(), column.strings.size());
      std::vector<std::uint64_t> hashes(batch.size());
      ASSERT_EQ(scbf::hash_keys(batch, 0, batch.size(), seed, scbf::kPlainHashes, hashes.data()),
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
}  // namespace scbf_test::hash_test
