// SPDX-License-Identifier: Apache-2.0
// What errors say of a file or stream that holds something else than was asked for.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "files/file_test_support.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"

namespace scbf::test::wrong_kind_test {
namespace {

/// What is said of a file that is not of this class.
template <class Class>
std::pair<FileKind, std::string> refusal(const fs::path& path) {
  try {
    Class::load(path);
  } catch (const WrongKind& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with(std::string(error.finding()) + ": "));
    return {error.found(), std::string(error.finding())};
  }
  ADD_FAILURE() << "loaded, or not of a wrong kind: " << path;
  return {};
}

TEST(WrongKind, SaysWhichKindAFileIs) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  const auto are = [&](FileKind kind, const std::string& what) {
    return std::pair(kind, "'" + path.string() + "': " + what);
  };
  Bank bank(Growth::tightening(40, 0.05));
  bank.add_member();
  bank.save(path);
  EXPECT_EQ(refusal<Filter>(path), are(FileKind::bank, "a bank of filters, and no filter"));
  EXPECT_EQ(refusal<Delta>(path), are(FileKind::bank, "a bank of filters, and no filter"));
  BloomBank(bank).save(path);
  EXPECT_EQ(refusal<Filter>(path), are(FileKind::bank_of_bits, "a bank of bits, and no filter"));
  EXPECT_EQ(refusal<Bank>(path), are(FileKind::bank_of_bits, "a bank of bits, without counters"));
  Filter filter = sample(Geometry::split_block(1, 20));
  filter.save(path);
  EXPECT_EQ(refusal<Bank>(path), are(FileKind::filter, "a filter, and no bank"));
  EXPECT_EQ(refusal<BloomBank>(path), are(FileKind::filter, "a filter, and no bank"));
  EXPECT_EQ(refusal<Delta>(path), are(FileKind::filter, "a filter of counters, and no delta"));
  BloomFilter bits(filter);
  bits.save(path);
  EXPECT_EQ(refusal<Filter>(path),
            are(FileKind::filter_of_bits, "a filter of bits, without counters"));
  EXPECT_EQ(refusal<Delta>(path),
            are(FileKind::filter_of_bits, "a filter of bits without an epoch, and no delta"));
  bits.advance(filter);
  filter.insert("one more");
  bits.advance(filter).save(path);
  EXPECT_EQ(refusal<Filter>(path),
            are(FileKind::delta, "a delta, from epoch 1 to 2, and no filter"));
  EXPECT_EQ(refusal<BloomFilter>(path),
            are(FileKind::delta, "a delta, from epoch 1 to 2, and no filter"));
}

}  // namespace
}  // namespace scbf::test::wrong_kind_test
