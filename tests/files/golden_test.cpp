// SPDX-License-Identifier: Apache-2.0
// The format does not change: today's code writes exactly the bytes of tests/golden and reads them.
// Readers written in Python from docs/file_format.md agree with the library.
//
// A changed format is a new version, with golden files of its own beside the old ones.
// SCBF_WRITE_GOLDEN=1 writes golden files that are missing; it never overwrites one.
#include <sys/wait.h>

#include <fmt/format.h>

#include <cstdio>
#include <type_traits>

#include "files/file_test_support.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"

namespace scbf::test::golden_test {
namespace {

const fs::path kGolden = fs::path(SCBF_TEST_DATA_DIR) / "golden";
constexpr const char* kContainer = "scalable.scbf";

struct Golden {
  std::string name;
  Geometry geometry;
};

std::vector<Golden> golden_filters() {
  return {{"split_block_g1.scbf", Geometry::split_block(1, 13)},
          {"split_block_g2.scbf", Geometry::split_block(2, 8)},
          {"split_k7.scbf", Geometry::split(7, 150)},
          {"ranked.scbf", Geometry::ranked(100, 5, 2)}};
}

std::vector<std::uint64_t> integer_keys() {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 40; ++i) keys.push_back(i * i * i);
  for (const std::uint64_t key :
       {std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> string_keys() {
  // Every length class of XXH3: 0, 1 – 3, 4 – 8, 9 – 16, 17 – 128, 129 – 240, longer.
  std::vector<std::string> keys;
  for (const std::size_t length : {0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1500}) {
    keys.push_back(std::string(length, 'a'));
  }
  keys.push_back(std::string("a\0b", 3));
  keys.push_back("Schlüssel");
  return keys;
}

Filter build(const Golden& golden) {
  Filter filter(golden.geometry, {.seed = 0xFEDC'BA98'7654'3210});
  filter.insert(integer_keys());
  filter.insert(string_keys());
  filter.insert(std::vector<std::string>(17, "saturated"));
  filter.insert(std::vector<std::string>(3, "thrice"));
  filter.remove(std::vector<std::string>{"thrice", "a"});
  filter.set_metadata("{\"name\": \"" + golden.name + "\", \"sign\": \"✓\"}");
  return filter;
}

Filter build_container() {
  Filter filter(Growth::tightening(20, 0.05), {.seed = 0xFEDC'BA98'7654'3210});
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 90; ++i) keys.push_back(i * i * i);
  filter.insert(keys);
  filter.insert(std::vector<std::string>(17, "saturated"));
  filter.remove(keys[5]);
  filter.set_metadata("{\"sign\": \"✓\"}");
  return filter;
}

// Filters of bits: of a filter above, and of one that grows.
constexpr const char* kBitsOfBlocks = "split_block_g2_bits.scbf";
constexpr const char* kBitsOfSlices = "split_k7_bits.scbf";
constexpr const char* kBitsOfRanked = "ranked_bits.scbf";
constexpr const char* kBitsOfStages = "scalable_bits.scbf";

// Banks: of members of one stage, and of members that grow, compressed.
constexpr const char* kBanks[] = {"bank.scbf", "growing_bank_compressed.scbf"};

// And of their bits.
constexpr const char* kBitsBanks[] = {"bits_bank.scbf", "growing_bits_bank.scbf",
                                      "growing_bits_bank_compressed.scbf"};

Bank build_bank(const Growth& growth) {
  Bank bank(growth, {.seed = 0xFEDC'BA98'7654'3210, .capacity = 8});
  for (std::uint32_t m = 0; m < 4; ++m) bank.add_member();
  bank.insert(0, integer_keys());
  bank.insert(2, string_keys());
  bank.insert(3, integer_keys());
  bank.insert(3, string_keys());
  bank.remove(3, std::vector<std::string>{"a"});
  bank.remove_member(1);
  bank.ask_always(2, true);
  bank.set_metadata(3, "both");
  bank.set_metadata("{\"sign\": \"✓\"}");
  return bank;
}

std::vector<Bank> build_banks() {
  std::vector<Bank> banks;
  banks.push_back(build_bank(Growth::one(Geometry::split_block(1, 13))));
  banks.push_back(build_bank(Growth::tightening(20, 0.05)));
  return banks;
}

void write_if_missing(const std::string& name, const Bytes& bytes) {
  const char* write = std::getenv("SCBF_WRITE_GOLDEN");
  if (write != nullptr && *write == '1' && !fs::exists(kGolden / name)) {
    write_bytes(kGolden / name, bytes);
  }
}

template <class AnyFilter>
void expect_golden(const AnyFilter& filter, const std::string& name) {
  SCOPED_TRACE(name);
  const Bytes written = to_bytes(filter);
  write_if_missing(name, written);
  EXPECT_EQ(written, read_bytes(kGolden / name));
  if constexpr (std::is_same_v<AnyFilter, Filter>) {
    expect_same(Filter::load(kGolden / name), filter);
  } else {
    EXPECT_TRUE(BloomFilter::load(kGolden / name) == filter);
  }
}

TEST(GoldenFile, TodaysCodeWritesTheSameBytes) {
  for (const Golden& golden : golden_filters()) expect_golden(build(golden), golden.name);
  expect_golden(build_container(), kContainer);
  expect_golden(BloomFilter(build(golden_filters()[1])), kBitsOfBlocks);
  expect_golden(BloomFilter(build(golden_filters()[2])), kBitsOfSlices);
  expect_golden(BloomFilter(build(golden_filters()[3])), kBitsOfRanked);
  expect_golden(BloomFilter(build_container()), kBitsOfStages);
}

// Version 2: filters of bits of an epoch, and what leads from each to the next.
struct Epochs {
  std::string bits, delta;
  Filter counters;
};

std::vector<Epochs> golden_epochs() {
  std::vector<Epochs> all;
  all.push_back({"blocks_epoch.scbf", "blocks.delta", Filter(Geometry::split_block(2, 60))});
  all.push_back({"slices_epoch.scbf", "slices.delta", Filter(Geometry::split(7, 700))});
  all.push_back({"ranked_epoch.scbf", "ranked.delta", Filter(Geometry::ranked(82, 30, 5))});
  all.push_back({"stages_epoch.scbf", "stages.delta", Filter(Growth::tightening(60, 0.05))});
  for (Epochs& epochs : all) {
    epochs.counters.insert(integer_keys());
    epochs.counters.set_metadata("{\"sign\": \"✓\"}");
  }
  return all;
}

std::vector<std::uint64_t> later_keys() { return {1'000'001, 1'000'002, 1'000'003, 1'000'004}; }

void change(Filter& counters) {
  counters.insert(later_keys());
  counters.remove(std::vector<std::uint64_t>{1, 8});
  if (counters.growth().policy() != Growth::Policy::one) {
    counters.insert(scbf_test::random_keys(40, 1));  // another stage
  }
}

TEST(GoldenFile, TodaysCodeWritesTheSameEpochs) {
  for (Epochs& epochs : golden_epochs()) {
    SCOPED_TRACE(epochs.bits);
    BloomFilter published(epochs.counters);
    published.advance(epochs.counters);
    expect_golden(published, epochs.bits);
    change(epochs.counters);
    const Delta delta = published.advance(epochs.counters);
    EXPECT_FALSE(delta.whole());
    write_if_missing(epochs.delta, to_bytes(delta));
    EXPECT_EQ(to_bytes(delta), read_bytes(kGolden / epochs.delta));
    BloomFilter reader = BloomFilter::load(kGolden / epochs.bits);
    reader.apply(Delta::load(kGolden / epochs.delta));
    EXPECT_TRUE(reader == published);
    EXPECT_EQ(reader.epoch(), published.epoch());
  }
}

// Compressed by zstd 1.5.4. Other versions may write other bytes; all read these.
constexpr const char* kCompressed[] = {"split_block_g2_compressed.scbf", "scalable_compressed.scbf",
                                       "split_k7_bits_compressed.scbf"};

TEST(GoldenFile, CompressedFilesAreRead) {
  const auto save = [](const auto& filter, const char* name) {
    write_if_missing(name, to_bytes(filter, {.compress = true}));
  };
  const Filter blocks = build(golden_filters()[1]), container = build_container();
  const BloomFilter bits(build(golden_filters()[2]));
  save(blocks, kCompressed[0]);
  save(container, kCompressed[1]);
  save(bits, kCompressed[2]);
  expect_same(Filter::load(kGolden / kCompressed[0]), blocks);
  expect_same(Filter::load(kGolden / kCompressed[1]), container);
  EXPECT_TRUE(BloomFilter::load(kGolden / kCompressed[2]) == bits);
}

TEST(GoldenFile, TodaysCodeWritesTheSameBanks) {
  const std::vector<Bank> banks = build_banks();
  for (std::size_t i = 0; i < banks.size(); ++i) {
    SCOPED_TRACE(kBanks[i]);
    const Bytes written = to_bytes(banks[i], {.compress = i == 1});
    write_if_missing(kBanks[i], written);
    // Not the bytes of the compressed one, which other versions of zstd may choose.
    if (i == 0) {
      EXPECT_EQ(written, read_bytes(kGolden / kBanks[i]));
    }
    const Bank loaded = Bank::load(kGolden / kBanks[i]);
    EXPECT_EQ(to_bytes(loaded), to_bytes(banks[i]));
    const BloomBank bits = BloomBank::load(kGolden / kBanks[i]);
    EXPECT_EQ(bits.metadata(), banks[i].metadata());
    EXPECT_EQ(bits.size(), 3u);
    for (const std::uint32_t m : {0u, 2u, 3u}) {
      EXPECT_TRUE(bits.copy_member(m) == BloomFilter(banks[i].copy_member(m))) << m;
      EXPECT_EQ(bits.asked_always(m), m == 2);
    }
  }
}

TEST(GoldenFile, TodaysCodeWritesTheSameBanksOfBits) {
  const std::vector<Bank> banks = build_banks();
  for (std::size_t i = 0; i < std::size(kBitsBanks); ++i) {
    const fs::path path = kGolden / kBitsBanks[i];
    SCOPED_TRACE(path);
    const bool compressed = i == 2;  // other versions of zstd may choose other bytes
    BloomBank bits(banks[std::min<std::size_t>(i, 1)]);
    BloomFilter sent = bits.copy_member(3);
    bits.apply(3, sent.advance(sent));  // has an epoch
    const Bytes written = to_bytes(bits, {.compress = compressed});
    write_if_missing(kBitsBanks[i], written);
    if (!compressed) {
      EXPECT_EQ(written, read_bytes(path));
      EXPECT_EQ(to_bytes(BloomBank::map(path)), written);
    }
    EXPECT_EQ(to_bytes(BloomBank::load(path)), to_bytes(bits));
  }
}

TEST(GoldenFile, IsUnderstood) {
  for (const Golden& golden : golden_filters()) {
    SCOPED_TRACE(golden.name);
    const fs::path path = kGolden / golden.name;
    const FileInfo info = verify_file(path);
    EXPECT_EQ(info.growth, scbf::Growth::one(golden.geometry));
    EXPECT_EQ(info.seed, 0xFEDC'BA98'7654'3210);
    EXPECT_EQ(info.stages[0].keys_inserted, integer_keys().size() + string_keys().size() + 20);
    EXPECT_EQ(info.stages[0].keys_removed, 2u);
    EXPECT_TRUE(has(info.metadata, "\"sign\": \"✓\""));
    for (const Filter& filter : {Filter::load(path), Filter::map(path)}) {
      for (const std::uint64_t key : integer_keys()) EXPECT_TRUE(filter.contains(key)) << key;
      for (const std::string& key : string_keys()) {
        EXPECT_TRUE(key == "a" || filter.contains(key)) << key;
      }
      EXPECT_EQ(filter.count("saturated"), 15u);
      EXPECT_GE(filter.count("thrice"), 2u);
      unsigned found = 0;
      for (std::uint64_t key = 1'000'000; key < 1'001'000; ++key) found += filter.contains(key);
      EXPECT_LT(found, 200u);
    }
  }
}

// ---- a reader that shares no code with the library ----------------------------------------------

constexpr const char* kFilters = "read_filter.py";
constexpr const char* kContainers = "read_container.py";
constexpr const char* kBankReader = "read_bank.py";
constexpr const char* kBitsBankReader = "read_bits_bank.py";

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

/// Runs a reader and returns its exit status. Output goes to `out`.
int run_reader(const char* reader, const fs::path& file, const std::string& arguments,
               const fs::path& out) {
  const char* python = std::getenv("SCBF_PYTHON");
  const std::string command = std::string(python != nullptr ? python : "python3") + " -B " +
                              quoted(kGolden / reader) + " " + quoted(file) + " " + arguments +
                              " > " + quoted(out) + " 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string text_of(const fs::path& path) {
  const Bytes bytes = read_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class IndependentReader : public testing::Test {
 protected:
  void SetUp() override {
    const int status =
        run_reader(kFilters, kGolden / golden_filters()[0].name, "", folder_ / "out");
    if (status != 3 && status != 127) return;
    const std::string reason =
        "python3 with the package xxhash was not found (Debian: python3-xxhash; SCBF_PYTHON=… "
        "names another interpreter)";
    const char* required = std::getenv("SCBF_REQUIRE_PYTHON");
    if (required != nullptr && *required == '1') FAIL() << reason;
    GTEST_SKIP() << reason;
  }

  template <class Key>
  static unsigned count_of(const Filter& filter, const Key& key) {
    return filter.count(key);
  }
  template <class Key>
  static unsigned count_of(const BloomFilter& filter, const Key& key) {
    return filter.contains(key);
  }

  /// The reader's counts of all these keys must be the library's.
  template <class AnyFilter>
  void compare(const char* reader, const fs::path& path, const AnyFilter& filter,
               const std::string& after = {}) {
    compare_answers(reader, path, after + "count",
                    [&](const auto& key) { return std::to_string(count_of(filter, key)); });
  }
  /// Or, of a bank, the members that it finds.
  template <class AnyBank>
  void compare_banks(const char* reader, const fs::path& path, const AnyBank& bank) {
    compare_answers(reader, path, "find", [&](const auto& key) {
      return fmt::format("{}", fmt::join(bank.find(key), " "));
    });
  }

  template <class Answer>
  void compare_answers(const char* reader, const fs::path& path, const std::string& question,
                       Answer answer) {
    std::ofstream keys(folder_ / "keys");
    std::string expected;
    for (std::uint64_t i = 0; i < 500; ++i) {
      for (const std::uint64_t key : {i, i * i * i, i << 32, ~i}) {
        keys << "u64 " << key << "\n";
        expected += answer(key) + "\n";
      }
    }
    std::vector<std::string> strings = string_keys();
    strings.insert(strings.end(), {"saturated", "thrice", "absent", std::string(300, '\0')});
    for (const std::string& key : strings) {
      keys << "hex ";
      for (const char c : key) {
        char hex[3];
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(c));
        keys << hex;
      }
      keys << "\n";
      expected += answer(std::string_view(key)) + "\n";
    }
    keys.close();
    const int status =
        run_reader(reader, path, question + " < " + quoted(folder_ / "keys"), folder_ / "out");
    ASSERT_EQ(status, 0) << text_of(folder_ / "out");
    EXPECT_EQ(text_of(folder_ / "out"), expected);
  }

  const TemporaryFolder folder_;
};

TEST_F(IndependentReader, AgreesOnTheGoldenFiles) {
  for (const Golden& golden : golden_filters()) {
    SCOPED_TRACE(golden.name);
    const fs::path path = kGolden / golden.name;
    compare(kFilters, path, Filter::load(path));
    ASSERT_EQ(run_reader(kFilters, path, "", folder_ / "out"), 0);
    const std::string header = text_of(folder_ / "out");
    EXPECT_TRUE(has(header, "\"seed\": 18364758544493064720"));
    EXPECT_TRUE(has(header, "\"keys_removed\": 2"));
  }
}

TEST_F(IndependentReader, AgreesOnFiltersOfBits) {
  for (const char* name : {kBitsOfBlocks, kBitsOfSlices, kBitsOfRanked}) {
    SCOPED_TRACE(name);
    compare(kFilters, kGolden / name, BloomFilter::load(kGolden / name));
  }
  compare(kContainers, kGolden / kBitsOfStages, BloomFilter::load(kGolden / kBitsOfStages));
}

TEST_F(IndependentReader, AgreesOnVersion2) {
  for (const Epochs& epochs : golden_epochs()) {
    SCOPED_TRACE(epochs.bits);
    const bool grows = epochs.counters.growth().policy() != Growth::Policy::one;
    const char* const reader = grows ? kContainers : kFilters;
    BloomFilter bits = BloomFilter::load(kGolden / epochs.bits);
    compare(reader, kGolden / epochs.bits, bits);
    bits.apply(Delta::load(kGolden / epochs.delta));
    compare(reader, kGolden / epochs.bits, bits, "after " + quoted(kGolden / epochs.delta) + " ");
    // Twice is out of order.
    bits.save(folder_ / "later.scbf");
    EXPECT_EQ(run_reader(reader, folder_ / "later.scbf", "after " + quoted(kGolden / epochs.delta),
                         folder_ / "out"),
              1);
    EXPECT_TRUE(has(text_of(folder_ / "out"), "has epoch 2, the delta begins at 1"));
  }
  compare(kFilters, kGolden / kCompressed[0], Filter::load(kGolden / kCompressed[0]));
  compare(kContainers, kGolden / kCompressed[1], Filter::load(kGolden / kCompressed[1]));
  compare(kFilters, kGolden / kCompressed[2], BloomFilter::load(kGolden / kCompressed[2]));
}

TEST_F(IndependentReader, AgreesOnTheGoldenContainer) {
  const fs::path path = kGolden / kContainer;
  compare(kContainers, path, Filter::load(path));
  ASSERT_EQ(run_reader(kContainers, path, "", folder_ / "out"), 0);
  const std::string header = text_of(folder_ / "out");
  EXPECT_TRUE(has(header, "\"seed\": 18364758544493064720"));
  const FileInfo info = verify_file(path);
  ASSERT_EQ(info.stages.size(), 3u);
  for (const auto& stage : info.stages) {
    EXPECT_TRUE(has(header, "\"offset\": " + std::to_string(stage.offset)));
    EXPECT_TRUE(has(header, "\"full_at\": " + std::to_string(stage.shape.full_at)));
  }
}

TEST_F(IndependentReader, AgreesOnFiltersOfEveryGrowth) {
  const fs::path path = folder_ / "filter.scbf";
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(3, 12'345)), Growth::one(Geometry::split_block(1, 1)),
        Growth::one(Geometry::split(5, 1'000'003)), Growth::one(Geometry::split(64, 1)),
        Growth::fixed(Geometry::split(1, 200), 256), Growth::fixed(Geometry::split_block(2, 5), 9),
        Growth::tightening(10, 0.05, Layout::split, 1.5, 0.7),
        Growth::tightening(200'000, 0.001)}) {
    SCOPED_TRACE(growth.describe());
    const bool grows = growth.policy() != Growth::Policy::one;
    Filter filter(growth, {.seed = 42});
    filter.insert(integer_keys());
    filter.insert(string_keys());
    filter.insert(std::vector<std::string>(20, "saturated"));
    filter.save(path);
    compare(grows ? kContainers : kFilters, path, filter);
    if (!grows) continue;
    // A stage of another growth, and counts that add up to more than 15.
    Filter other(Growth::tightening(77, 0.01), {.seed = 42});
    other.insert(std::vector<std::string>(20, "saturated"));
    filter.merge(other);
    filter.save(path);
    compare(kContainers, path, filter);
    ASSERT_EQ(run_reader(kContainers, path, "", folder_ / "out"), 0);
    EXPECT_TRUE(has(text_of(folder_ / "out"), "\"index\": 4294967295"));
  }
}

TEST_F(IndependentReader, AgreesOnBanks) {
  for (const char* name : kBanks) {
    SCOPED_TRACE(name);
    compare_banks(kBankReader, kGolden / name, Bank::load(kGolden / name));
  }
  for (const char* name : kBitsBanks) {
    SCOPED_TRACE(name);
    compare_banks(kBitsBankReader, kGolden / name, BloomBank::load(kGolden / name));
  }
  const fs::path path = folder_ / "b.scbf";
  for (const Growth& growth :
       {Growth::one(Geometry::split(5, 100)), Growth::one(Geometry::ranked(100, 5, 2)),
        Growth::fixed(Geometry::split_block(2, 7), 20),
        Growth::tightening(20, 0.05, Layout::split)}) {
    SCOPED_TRACE(growth.describe());
    const Bank bank = build_bank(growth);
    bank.save(path);
    compare_banks(kBankReader, path, bank);
    BloomBank(bank).save(path);
    compare_banks(kBitsBankReader, path, bank);
  }
  ASSERT_EQ(run_reader(kBankReader, kGolden / kBanks[0], "", folder_ / "out"), 0);
  const std::string header = text_of(folder_ / "out");
  EXPECT_TRUE(has(header, "\"capacity\": 8"));
  EXPECT_TRUE(has(header, "\"asked_always\": 1"));
}

TEST_F(IndependentReader, RefusesDamage) {
  const fs::path path = folder_ / "filter.scbf";
  const auto refuses = [&](const char* reader, const char* golden,
                           const std::vector<std::size_t>& places) {
    const Bytes good = read_bytes(kGolden / golden);
    for (const std::size_t at : places) {
      Bytes bytes = good;
      bytes[at < good.size() ? at : good.size() - 1] ^= std::byte{4};
      write_bytes(path, bytes);
      EXPECT_EQ(run_reader(reader, path, "", folder_ / "out"), 1)
          << at << ": " << text_of(folder_ / "out");
    }
  };
  refuses(kFilters, "split_k7.scbf", {0, 30, 130, 4000, 4100, SIZE_MAX});
  // In order: magic, header, entry, metadata, padding; then a stage's header, padding and counters;
  // the gap between stages; the last counters.
  refuses(kContainers, kContainer,
          {0, 30, 130, 280, 4000, 4100, 4300, 8200, 9000, 12288, SIZE_MAX});
  // The same; then the metadata of the last member, and its counters.
  refuses(kBankReader, kBanks[0], {0, 30, 104, 132, 150, 230, 4000, 4100, 8200, 9100, SIZE_MAX});
  // In order: magic, header, levels, members, stages, checksums, metadata, padding, rows.
  refuses(kBitsBankReader, kBitsBanks[0],
          {0, 30, 104, 132, 138, 172, 223, 268, 358, 364, 4000, 4100, SIZE_MAX});
}

}  // namespace
}  // namespace scbf::test::golden_test
