// SPDX-License-Identifier: Apache-2.0
// The byte formats in the store: keys sort like what they encode, everything can be read back, and
// damaged bytes are refused.
#include "encoding.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace scbf::index::encoding_test {
namespace {

std::string random_bytes(std::mt19937_64& random) {
  // Bytes that break encodings, in short strings that are often prefixes of each other.
  const char bytes[] = {'\0', '\1', 'a', '\x7F', '\xFE', '\xFF'};
  std::string text;
  for (std::uint64_t n = random() % 5; n > 0; --n) text.push_back(bytes[random() % sizeof bytes]);
  return text;
}

TEST(Encoding, PostingsSortByRegionColumnValueAndRow) {
  std::mt19937_64 random(1);
  using Parts = std::tuple<RegionId, std::size_t, std::string, std::string>;
  const auto draw = [&]() -> Parts {
    return {static_cast<RegionId>(random() % 3 * 0x01FF'00FFu), random() % 2 * 0xFF + random() % 2,
            random_bytes(random), random_bytes(random)};
  };
  const auto encode = [](const Parts& parts) {
    const auto& [region, column, value, row] = parts;
    return posting_key(region, entry_key(column, value), row);
  };
  for (int i = 0; i < 200'000; ++i) {
    const Parts a = draw(), b = draw();
    // std::string compares as unsigned bytes.
    ASSERT_EQ(a < b, encode(a) < encode(b));
    ASSERT_EQ(a == b, encode(a) == encode(b));
    const auto& [region, column, value, row] = a;
    const std::string key = encode(a);
    const Posting posting = parse_posting(key);
    ASSERT_EQ(posting.entry, entry_key(column, value));
    ASSERT_EQ(key.substr(posting.prefix), row);
    ASSERT_EQ(key.substr(0, posting.prefix), posting_prefix(region, posting.entry));
  }
}

TEST(Encoding, PrefixesOfDifferentValuesDoNotOverlap) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::string a = entry_key(0, random_bytes(random)),
                      b = entry_key(0, random_bytes(random));
    const std::string key = posting_key(1, a, random_bytes(random));
    ASSERT_EQ(key.starts_with(posting_prefix(1, b)), a == b);
  }
}

TEST(Encoding, AfterPrefixIsBehindAllThatBeginWithIt) {
  EXPECT_EQ(after_prefix("a"), "b");
  EXPECT_EQ(after_prefix("a\xFF"), "b");
  EXPECT_EQ(after_prefix("\xFF\xFF"), "");
  EXPECT_GT(after_prefix(region_key(0xFF)), region_key(0xFF) + std::string(100, '\xFF'));
  EXPECT_LE(after_prefix(region_key(0xFF)), region_key(0x100));
}

TEST(Encoding, ValueKeysCarryTheEntry) {
  const std::string entry = entry_key(300, std::string("a\0b", 3));
  EXPECT_EQ(entry_of(value_key(7, entry)), entry);
}

TEST(Encoding, RowsComeBack) {
  const std::vector<std::string> values = {"", std::string("\0\n", 2), std::string(100'000, 'x')};
  const std::string bytes = encode_row(values);
  EXPECT_EQ(decode_row("k", bytes, 3), values);
  EXPECT_THROW(decode_row("k", bytes, 2), CorruptFile);
  EXPECT_THROW(decode_row("k", bytes + "x", 3), CorruptFile);
  for (const std::size_t cut :
       {std::size_t{0}, std::size_t{3}, std::size_t{7}, std::size_t{9}, bytes.size() - 1}) {
    EXPECT_THROW(decode_row("k", bytes.substr(0, cut), 3), CorruptFile) << cut;
  }
}

TEST(Encoding, NothingUnknownIsBelieved) {
  EXPECT_EQ(decode_number(encode_number(~0ull), "n"), ~0ull);
  EXPECT_THROW(decode_number(encode_number(1) + std::string(1, '\0'), "n"), CorruptFile);
  EXPECT_THROW(decode_number(encode_number(1).substr(1), "n"), CorruptFile);
  std::string posting = posting_key(3, entry_key(1, std::string("a\0b", 3)), "row");
  EXPECT_EQ(parse_posting(posting).entry, entry_key(1, std::string("a\0b", 3)));
  posting.at(posting.find(std::string("a\0", 2)) + 2) = '\x02';  // neither a zero nor the end
  EXPECT_THROW(parse_posting(posting), CorruptFile);
}

TEST(Encoding, StatesComeBack) {
  const std::string bytes = encode_state({1, 2, 3, 4});
  EXPECT_EQ(decode_state(bytes).history, 4u);
  const RegionState before = decode_state(bytes.substr(0, 24));  // as version 0.1 wrote it
  EXPECT_EQ(before.changes, 3u);
  for (const std::size_t cut : {0, 8, 23, 25, 31}) {
    EXPECT_THROW(decode_state(bytes.substr(0, cut)), CorruptFile) << cut;
  }
  EXPECT_THROW(decode_state(bytes + '\0'), CorruptFile);
  EXPECT_THROW(decode_state(bytes + bytes), CorruptFile);
}

TEST(Encoding, ChangesComeBack) {
  const FilterChange change = {{1, ~0ull}, {7}};
  const std::string bytes = encode_change(change);
  EXPECT_EQ(decode_change(bytes).added, change.added);
  EXPECT_EQ(decode_change(bytes).removed, change.removed);
  EXPECT_THROW(decode_change(bytes.substr(0, bytes.size() - 1)), CorruptFile);
  EXPECT_THROW(decode_change(""), CorruptFile);
  // The claimed length is checked before anything is allocated.
  EXPECT_THROW(decode_change(std::string(8, '\xFF')), CorruptFile);
  EXPECT_EQ(change_of(log_key(3, 0x0102'0304'0506'0708)), 0x0102'0304'0506'0708u);
  EXPECT_LT(log_key(3, 255), log_key(3, 256));
}

TEST(Encoding, DefinitionsComeBack) {
  const TableSchema schema = {.key = "id", .columns = {{"a", true, ", "}, {"ä", false, ""}}};
  const IndexPlan plan = {
      .fpr = 0.001, .region_values = 7, .servers = 3, .seed = ~0ull, .layout = Layout::split};
  TableSchema schema2;
  IndexPlan plan2;
  const std::string json = encode_definition(schema, plan);
  decode_definition(json, schema2, plan2);
  EXPECT_EQ(schema2, schema);
  EXPECT_EQ(plan2.fpr, plan.fpr);
  EXPECT_EQ(plan2.region_values, plan.region_values);
  EXPECT_EQ(plan2.servers, plan.servers);
  EXPECT_EQ(plan2.seed, plan.seed);
  EXPECT_EQ(plan2.layout, plan.layout);
  for (const std::string& damaged :
       {std::string("{}"), json.substr(0, json.size() / 2), std::string("[1]"), std::string()}) {
    EXPECT_THROW(decode_definition(damaged, schema2, plan2), CorruptFile) << damaged;
  }
  for (const char* servers : {"4294967297", "-1", "1.5", "\"3\""}) {
    std::string damaged = json;
    damaged.replace(damaged.find("\"servers\": 3") + 11, 1, servers);
    try {
      decode_definition(damaged, schema2, plan2);
      ADD_FAILURE() << servers;
    } catch (const CorruptFile& error) {
      const std::string want = fmt::format("servers {}: must be 0 to 4294967295", servers);
      EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(encode_definition({.key = "\xFF", .columns = {}}, plan), InvalidArgument);
  EXPECT_THROW(definition_json({.key = "\xFF", .columns = {}}, plan), InvalidArgument);
}

// Existing indexes hold these bytes, so they must not change.
TEST(Encoding, DefinitionsAreWrittenAsEver) {
  const TableSchema schema = {.key = "id", .columns = {{"a", true, ", "}, {"ä", false, ""}}};
  const IndexPlan plan = {
      .fpr = 0.001, .region_values = 7, .servers = 3, .seed = ~0ull, .layout = Layout::split};
  const std::string rest = R"(
  "key": "id",
  "columns": [
    {
      "name": "a",
      "indexed": true,
      "separator": ", "
    },
    {
      "name": "ä",
      "indexed": false,
      "separator": ""
    }
  ],
  "fpr": 0.001,
  "region_values": 7,
  "servers": 3,
  "seed": 18446744073709551615,
  "layout": "split"
})";
  EXPECT_EQ(encode_definition(schema, plan), "{\n  \"format\": 1," + rest);
  EXPECT_EQ(definition_json(schema, plan), "{" + rest);
}

}  // namespace
}  // namespace scbf::index::encoding_test
