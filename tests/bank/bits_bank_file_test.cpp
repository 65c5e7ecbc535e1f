// SPDX-License-Identifier: Apache-2.0
// Files of banks of bits: what was saved is what is loaded, read or mapped, in every growth and
// kind of payload; damage is found in every byte; wrong contents with right checksums are refused;
// and whatever the rows of a mapped file are, answers name members that exist. The offsets repeat
// docs/file_format.md.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <thread>
#include <variant>

#include "files/file_test_support.hpp"
#include "files/rows_format.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "support/bank_check.hpp"

namespace scbf::test::bits_bank_file_test {
namespace {

constexpr std::size_t kLevelCountAt = 136, kStagesAt = 144;
constexpr std::size_t kLevelsAt = 168, kLevel = 40, kMember = 32, kStage = 32;

/// A bank with some of everything: members that were removed, one without keys, several stages, a
/// mark, metadata of the bank, of members and of a stage.
BloomBank sample_bank(const Growth& growth, std::uint32_t members = 6, std::size_t keys = 60) {
  BloomBank bank(growth, {.seed = 0xFEDC'BA98'7654'3210, .capacity = members + 20});
  for (std::uint32_t m = 0; m < members; ++m) {
    Filter filter(growth, {.seed = bank.seed()});
    filter.insert(scbf_test::random_keys(keys * m, m));
    filter.remove(scbf_test::random_keys(keys * m / 5, m));
    filter.set_metadata("member " + std::to_string(m));
    BloomFilter bits(filter);
    if (m % 2 == 0) bits.advance(bits);  // has an epoch
    EXPECT_EQ(bank.add_member(bits), m);
  }
  bank.remove_member(1);
  bank.remove_member(3);
  bank.ask_always(2, true);
  bank.set_metadata("{\"made by\": \"a test\"}");
  BankState& state = const_cast<BankState&>(BankAccess::state(bank));
  state.members[5 % members].stages.back().stage().metadata = "of a stage";
  return bank;
}

std::vector<BloomBank> samples() {
  std::vector<BloomBank> all;
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 20)), Growth::one(Geometry::split(7, 301)),
        Growth::one(Geometry::ranked(67, 5, 3)),  // rows that end within a word
        Growth::fixed(Geometry::split_block(2, 7), 256), Growth::fixed(Geometry::split(5, 200), 20),
        Growth::tightening(40, 0.05), Growth::tightening(40, 0.05, Layout::split, 1.5, 0.7),
        Growth::tightening(200, 0.02, Layout::ranked)}) {
    all.push_back(sample_bank(growth));
  }
  all.push_back(sample_bank(Growth::one(Geometry::split_block(1, 20)), 300, 5));  // long rows
  all.push_back(sample_bank(Growth::one(Geometry::split(3, 9)), 7));              // short rows
  all.push_back(sample_bank(Growth::one(Geometry::split_block(1, 17'000))));      // several chunks
  all.emplace_back(Growth::tightening(40, 0.05), BankOptions{.seed = 7});         // no members
  // A merge leaves a member with two stages of index 0, and then one of index 1.
  const Growth growth = Growth::tightening(40, 0.05);
  Filter merged(growth), other(growth);
  merged.insert(scbf_test::random_keys(100, 1));
  other.insert(scbf_test::random_keys(100, 2));
  merged.merge(other);
  all.emplace_back(growth);
  all.back().add_member(BloomFilter(merged));
  EXPECT_EQ(BankAccess::state(all.back()).later.at(0)->index, 0u);
  return all;
}

std::map<std::uint32_t, BloomFilter> members_of(const BloomBank& bank) {
  std::map<std::uint32_t, BloomFilter> members;
  for (std::uint32_t m = 0; m < bank.slots(); ++m) {
    if (bank.has_member(m)) members.emplace(m, bank.copy_member(m));
  }
  return members;
}

void expect_same_bank(const BloomBank& got, const BloomBank& want) {
  EXPECT_EQ(got.growth(), want.growth());
  EXPECT_EQ(got.seed(), want.seed());
  EXPECT_EQ(got.metadata(), want.metadata());
  EXPECT_EQ(got.size(), want.size());
  EXPECT_EQ(got.slots(), want.slots());
  EXPECT_EQ(got.capacity(), want.capacity());
  EXPECT_EQ(got.bytes(), want.bytes());
  const auto members = members_of(want);
  ASSERT_EQ(scbf_test::bits_error(got, members), std::nullopt);
  for (const auto& [m, filter] : members) {
    ASSERT_TRUE(got.has_member(m));
    EXPECT_EQ(got.asked_always(m), want.asked_always(m));
    const BloomFilter copy = got.copy_member(m);
    EXPECT_EQ(to_bytes(copy), to_bytes(filter)) << m;  // with metadata, of its stages, too
  }
  MemberLists here, there;
  const auto keys = scbf_test::random_keys(2000, 5);
  got.find(keys, here);
  want.find(keys, there);
  EXPECT_EQ(here.offsets, there.offsets);
  EXPECT_EQ(here.members, there.members);
}

std::size_t header_bytes(const Bytes& bank) { return get<std::uint64_t>(bank, 96); }

/// A level of a file with right fields.
struct LevelAt {
  std::uint64_t bytes, offset, table;
};
std::vector<LevelAt> levels_of(const Bytes& bytes) {
  std::vector<LevelAt> levels;
  const auto count = get<std::uint32_t>(bytes, kLevelCountAt);
  std::uint64_t table = kLevelsAt + kLevel * count + kMember * get<std::uint32_t>(bytes, 32) +
                        kStage * get<std::uint64_t>(bytes, kStagesAt);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kLevelsAt + kLevel * i;
    levels.push_back(
        {get<std::uint64_t>(bytes, at + 24), get<std::uint64_t>(bytes, at + 32), table});
    table += 8 * ((levels.back().bytes + (1u << 20) - 1) >> 20);
  }
  return levels;
}

/// Corrects all checksums of a plain file whose header is otherwise sound.
void sign_bank(Bytes& bytes) {
  constexpr std::uint64_t kChunk = 1u << 20;
  for (const LevelAt& level : levels_of(bytes)) {
    for (std::uint64_t at = 0, i = 0; at < level.bytes; at += kChunk, ++i) {
      put<std::uint64_t>(
          bytes, level.table + 8 * i,
          XXH3_64bits(bytes.data() + level.offset + at, std::min(kChunk, level.bytes - at)));
    }
  }
  sign_header(bytes, header_bytes(bytes));
}

TEST(BitsBankFile, IsReadBackInEveryWay) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  for (const BloomBank& bank : samples()) {
    SCOPED_TRACE(bank.growth().describe());
    for (const bool compress : {false, true}) {
      SCOPED_TRACE(compress);
      bank.save(path, {.compress = compress});
      const Bytes bytes = read_bytes(path);
      EXPECT_EQ(to_bytes(bank, {.compress = compress}), bytes);
      std::vector<BloomBank> all;
      all.push_back(BloomBank::load(path));
      all.push_back(BloomBank::load(path, {.backend = "scalar"}));
      all.push_back(BloomBank::read(source_of(bytes, 1000)));
      if (!compress) all.push_back(BloomBank::map(path));
      for (const BloomBank& read : all) {
        EXPECT_EQ(read.read_only(), !compress && &read == &all.back());
        expect_same_bank(read, bank);
        EXPECT_EQ(to_bytes(read, {.compress = compress}), bytes);
      }
      for (const BankFileInfo& info : {read_bank_file_info(path), verify_bank_file(path),
                                       std::get<BankFileInfo>(read_any_file_info(path)),
                                       std::get<BankFileInfo>(verify_any_file(path))}) {
        EXPECT_EQ(info.version, 2u);
        EXPECT_EQ(info.cell, Cell::bit);
        EXPECT_EQ(info.growth, bank.growth());
        EXPECT_EQ(info.seed, bank.seed());
        EXPECT_EQ(info.capacity, bank.capacity());
        EXPECT_GE(info.row_bytes, bank.bytes());
        EXPECT_LT(info.row_bytes, bank.bytes() + 1000 * bank.capacity());
        EXPECT_EQ(info.file_bytes, bytes.size());
        EXPECT_EQ(info.metadata, bank.metadata());
        EXPECT_EQ(info.compressed, compress);
        ASSERT_EQ(info.members.size(), bank.size());
        for (const MemberFileInfo& member : info.members) {
          EXPECT_EQ(member.asked_always, bank.asked_always(member.number));
          EXPECT_EQ(member.filter.cell(), Cell::bit);
          EXPECT_EQ(member.filter.metadata, bank.metadata(member.number));
          EXPECT_EQ(member.filter.epoch, bank.epoch(member.number));
          const BloomFilter copy = bank.copy_member(member.number);
          ASSERT_EQ(member.filter.stages.size(), copy.stages());
          std::uint64_t inserted = 0, removed = 0;
          for (const StageFileInfo& stage : member.filter.stages) {
            inserted += stage.keys_inserted, removed += stage.keys_removed;
          }
          EXPECT_EQ(inserted, copy.keys_inserted());
          EXPECT_EQ(removed, copy.keys_removed());
        }
      }
    }
  }
}

TEST(BitsBankFile, GoesOnAfterLoading) {
  const TemporaryFolder folder;
  const Growth growth = Growth::tightening(40, 0.05);
  BloomBank bank = sample_bank(growth);
  bank.save(folder / "b.bank");
  BloomBank loaded = BloomBank::load(folder / "b.bank", {.seed = 1, .capacity = 600});
  EXPECT_EQ(loaded.seed(), bank.seed());
  EXPECT_GE(loaded.capacity(), 600u);
  bank.reserve(600);
  for (std::uint32_t i = 0; i < 9; ++i) {
    BloomFilter filter(growth, {.seed = bank.seed()});
    filter.insert(scbf_test::random_keys(90 * i, i));
    ASSERT_EQ(loaded.add_member(filter), bank.add_member(filter));
    if (i == 4) bank.remove_member(5), loaded.remove_member(5);
    if (i == 6) bank.replace_member(0, filter), loaded.replace_member(0, filter);
  }
  BloomFilter sender = bank.copy_member(2), later = sender;
  later.insert(scbf_test::random_keys(5, 77));
  const Delta delta = sender.advance(later);
  ASSERT_EQ(delta.since().number, 1u);
  bank.apply(2, delta), loaded.apply(2, delta);
  expect_same_bank(loaded, bank);
  EXPECT_EQ(to_bytes(loaded), to_bytes(bank));
}

TEST(MappedBitsBank, IsReadOnly) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const BloomBank bank = sample_bank(Growth::tightening(40, 0.05));
  bank.save(path);
  BloomBank mapped = BloomBank::map(path, {.capacity = 5000});
  const BloomFilter filter = mapped.copy_member(0);
  const char* const why = "the bank is mapped from a file, read-only: load the file to change it";
  EXPECT_THROW_WITH(mapped.add_member(filter), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.add_members({filter, filter}), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.remove_member(0), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.replace_member(0, filter), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.apply(0, BloomFilter(filter).advance(filter)), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.reserve(5000), ReadOnly, why);
  EXPECT_THROW_WITH(mapped.remove_member(1), InvalidArgument, "member 1: there is none");
  expect_same_bank(mapped, bank);
  // What is not in the rows can be set, and the file stays.
  mapped.ask_always(0, true);
  mapped.ask_always(2, false);
  mapped.set_metadata(0, "other");
  mapped.set_metadata("another");
  const auto nowhere = std::uint64_t{0x1234'5678'9ABC'DEF0};
  EXPECT_EQ(mapped.find(nowhere), std::vector<std::uint32_t>{0});
  EXPECT_EQ(mapped.copy_member(0).metadata(), "other");
  expect_same_bank(BloomBank::map(path), bank);
  // It keeps the file that it has opened.
  bank.save(path);
  fs::remove(path);
  EXPECT_EQ(mapped.find(nowhere), std::vector<std::uint32_t>{0});
  BloomBank moved = std::move(mapped);
  EXPECT_EQ(moved.find(nowhere), std::vector<std::uint32_t>{0});
}

TEST(MappedBitsBank, HasCopiesInMemory) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  for (const BloomBank& bank : samples()) {
    SCOPED_TRACE(bank.growth().describe());
    bank.save(path);
    const BloomBank mapped = BloomBank::map(path);
    BloomBank copy = mapped;
    EXPECT_FALSE(copy.read_only());
    EXPECT_TRUE(copy == mapped && mapped == bank);
    expect_same_bank(copy, bank);
    BloomFilter filter(bank.growth(), {.seed = bank.seed()});
    filter.insert(scbf_test::random_keys(90, 1));
    auto members = members_of(bank);
    members.emplace(copy.add_member(filter), filter);
    EXPECT_EQ(scbf_test::bits_error(copy, members), std::nullopt);
    EXPECT_FALSE(copy == mapped);
    expect_same_bank(mapped, bank);
  }
}

TEST(MappedBitsBank, OfWhatHasNoRowsToMap) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const Growth growth = Growth::tightening(40, 0.05);
  sample_bank(growth).save(path, {.compress = true});
  EXPECT_THROW_WITH(BloomBank::map(path), IoError, "cannot map: the rows are compressed; load it");
  EXPECT_THROW_WITH(BloomBank::map(folder / "none"), IoError, "none");
  EXPECT_THROW_WITH(BloomBank::map("/dev/null"), IoError, "not a regular file; load it");
  // A bank of counters is loaded.
  Bank counters(growth);
  counters.insert(counters.add_member(), scbf_test::random_keys(100, 1));
  counters.save(path);
  BloomBank bits = BloomBank::map(path);
  EXPECT_FALSE(bits.read_only());
  expect_same_bank(bits, BloomBank(counters));
  sample(growth).save(path);
  EXPECT_THROW_WITH(BloomBank::map(path), Incompatible, "a filter, and no bank");
}

TEST(BitsBankFile, OfAnotherKindIsRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const Bytes bytes = to_bytes(sample_bank(Growth::tightening(40, 0.05)));
  write_bytes(path, bytes);
  const char* const why = "a bank of bits, without counters: load it as a BloomBank";
  EXPECT_THROW_WITH(Bank::load(path), WrongKind, why);
  EXPECT_THROW_WITH(Bank::read(source_of(bytes)), Incompatible, why);
  EXPECT_THROW_WITH(Filter::load(path), WrongKind,
                    "a bank of bits, and no filter: load it as a BloomBank");
  EXPECT_THROW_WITH(BloomFilter::load(path), WrongKind, "a bank of bits, and no filter");
  Bytes newer = bytes;
  put<std::uint32_t>(newer, 8, 3);
  EXPECT_THROW_WITH(BloomBank::read(source_of(newer)), CorruptFile,
                    "bank version 3: this library reads versions up to 2");
}

TEST(BitsBankFile, IsReadFromAPipe) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const BloomBank bank = sample_bank(Growth::tightening(40, 0.05));
  for (const bool compress : {false, true}) {
    const Bytes bytes = to_bytes(bank, {.compress = compress});
    const auto through_pipe = [&](const auto& read) {
      std::thread writer([&] { write_bytes(pipe, bytes); });
      auto result = read();
      writer.join();
      return result;
    };
    expect_same_bank(through_pipe([&] { return BloomBank::load(pipe); }), bank);
    for (BankFileInfo (*const read)(const fs::path&) : {&read_bank_file_info, &verify_bank_file}) {
      const BankFileInfo info = through_pipe([&] { return read(pipe); });
      EXPECT_EQ(info.members.size(), bank.size());
      EXPECT_EQ(info.file_bytes, bytes.size());
    }
  }
}

/// `by_headers`: the headers alone say so.
void expect_refused(const Bytes& bytes, const fs::path& path, bool by_headers = false) {
  EXPECT_THROW(BloomBank::read(source_of(bytes)), CorruptFile);
  write_bytes(path, bytes);
  EXPECT_THROW(BloomBank::load(path), CorruptFile);
  EXPECT_THROW(verify_bank_file(path), CorruptFile);
  if (by_headers) {
    EXPECT_THROW(read_bank_file_info(path), CorruptFile);
    EXPECT_THROW(BloomBank::map(path), Error);  // of a compressed one, also IoError
  }
}

TEST(BitsBankFile, EveryFlippedBitIsFound) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  for (const bool compress : {false, true}) {
    for (const Growth& growth : {Growth::one(Geometry::split(3, 9)), Growth::tightening(10, 0.2)}) {
      const Bytes good = to_bytes(sample_bank(growth, 5, 8), {.compress = compress});
      const std::size_t header = header_bytes(good);
      // One bit of each byte that the header has, and of a compressed file; then of some.
      std::size_t used = header;
      while (good[used - 1] == std::byte{0}) --used;
      const std::size_t step = compress ? 1 : 37;
      for (std::size_t at = 0; at < good.size(); at += at < used ? 1 : step) {
        SCOPED_TRACE(at);
        Bytes bytes = good;
        bytes[at] ^= std::byte{static_cast<unsigned char>(1u << at % 8)};
        EXPECT_THROW(BloomBank::read(source_of(bytes)), CorruptFile);
        if (at % 5 == 0) expect_refused(bytes, path, at < header);
      }
    }
  }
}

TEST(BitsBankFile, EveryShorterOrLongerFileIsRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  for (const bool compress : {false, true}) {
    const Bytes good =
        to_bytes(sample_bank(Growth::tightening(10, 0.2), 5, 8), {.compress = compress});
    for (std::size_t n = 0; n < good.size(); n += n < 300 ? 1 : compress ? 13 : 1021) {
      expect_refused(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)), path,
                     true);
    }
    Bytes longer = good;
    longer.push_back(std::byte{0});
    write_bytes(path, longer);
    EXPECT_THROW_WITH(BloomBank::load(path), CorruptFile, "bytes follow");
    EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, "bytes follow");
    if (!compress) EXPECT_THROW_WITH(BloomBank::map(path), CorruptFile, "bytes follow");
  }
}

TEST(HostileBitsBank, EveryFieldWithEvilValues) {
  const auto evil =
      evil_values(9, {0, 3, 4095, ~0ull, 0x7FF0'0000'0000'0000, 0xFFF8'0000'0000'0001});
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 20)), Growth::fixed(Geometry::split(5, 200), 20),
        Growth::tightening(40, 0.05)}) {
    const BloomBank bank = sample_bank(growth, 5);
    for (const bool compress : {false, true}) {
      const Bytes good = to_bytes(bank, {.compress = compress});
      const auto count = get<std::uint32_t>(good, kLevelCountAt);
      const std::size_t members = kLevelsAt + kLevel * count;
      const std::size_t stages = members + kMember * bank.size();
      const std::size_t end = stages + kStage * get<std::uint64_t>(good, kStagesAt);
      const auto is_short = [&](std::size_t at) {
        if (at >= stages) return (at - stages) % kStage < 8;
        if (at >= members) return (at - members) % kMember < 16;
        if (at >= kLevelsAt) return (at - kLevelsAt) % kLevel < 16;
        return at < 24 || (at >= 32 && at < 40) || (at >= 72 && at < 80) ||
               (at >= 128 && at < kStagesAt);
      };
      for (std::size_t at = 8, width = 0; at < end; at += width) {
        width = is_short(at) ? 4 : 8;
        for (const std::uint64_t any : evil) {
          const std::uint64_t value = width == 4 ? any & 0xFFFF'FFFF : any;
          SCOPED_TRACE(std::to_string(at) + ": " + std::to_string(value));
          Bytes bytes = good;
          std::memcpy(bytes.data() + at, &value, width);
          if (bytes == good || at == kChecksumAt) continue;
          sign_header(bytes, header_bytes(good));
          // These may have other values, within limits: the seed, which the bits do not show; the
          // length of the metadata; where all stages are alike, their index; marks; epochs; and
          // numbers of keys.
          const std::size_t in_stage = at < stages ? 0 : (at - stages) % kStage;
          const bool is_later_index = at > kLevelsAt && at < members &&
                                      (at - kLevelsAt) % kLevel == 0 &&
                                      growth.policy() == Growth::Policy::fixed;
          const bool is_mark = at >= members && at < stages && (at - members) % kMember == 4;
          const std::size_t in_member = at < members || at >= stages ? 0 : (at - members) % kMember;
          const bool has_epoch = get<std::uint64_t>(bytes, at - in_member + 16) != 0;
          const bool is_epoch = (in_member == 16 && value <= std::uint64_t{1} << 62 &&
                                 (value != 0 || get<std::uint64_t>(bytes, at + 8) == 0)) ||
                                (in_member == 24 && (has_epoch || value == 0));
          const bool may = is_epoch || at == 24 || (at == 112 && value < 3000) ||
                           (is_later_index && value < growth.most_stages()) || is_mark ||
                           in_stage == 8 || in_stage == 16;
          try {
            const BloomBank read = BloomBank::read(source_of(bytes));
            EXPECT_TRUE(may);
            EXPECT_EQ(read.size(), bank.size());
          } catch (const CorruptFile&) {
          }
        }
      }
    }
  }
}

/// Ones where nothing can be, under right checksums.
TEST(HostileBitsBank, StrayBits) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const auto with_byte = [&](const BloomBank& bank, std::size_t level, std::uint64_t byte,
                             unsigned char set) {
    Bytes bytes = to_bytes(bank);
    bytes[levels_of(bytes).at(level).offset + byte] |= std::byte{set};
    sign_bank(bytes);
    write_bytes(path, bytes);
    return bytes;
  };
  const auto expect_loads_refuse = [&](const Bytes& bytes, const std::string& why) {
    EXPECT_THROW_WITH(BloomBank::read(source_of(bytes)), CorruptFile, why);
    EXPECT_THROW_WITH(BloomBank::load(path), CorruptFile, why);
    EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, why);
  };
  {
    // Slots 1 and 3 have no member, and there are 32.
    const BloomBank bank = sample_bank(Growth::one(Geometry::split_block(1, 20)));
    ASSERT_EQ(bank.capacity(), 32u);
    Bytes bytes = with_byte(bank, 0, 4 * 100, 0b1010);
    expect_loads_refuse(bytes,
                        "rows of level 0: a slot without a stage is not zero, at byte 400 of "
                        "the rows");
    EXPECT_TRUE(BloomBank::map(path) == bank);
    // All bits of all rows: members that exist are in every answer, and no others.
    const LevelAt level = levels_of(bytes).at(0);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(level.offset), level.bytes,
                std::byte{0xFF});
    sign_bank(bytes);
    write_bytes(path, bytes);
    const BloomBank mapped = BloomBank::map(path);
    EXPECT_EQ(mapped.find(std::uint64_t{77}), (std::vector<std::uint32_t>{0, 2, 4, 5}));
    std::vector<std::uint8_t> bits(mapped.answer_bytes());
    mapped.contains_bits(std::vector<std::uint64_t>{77}, bits);
    EXPECT_EQ(bits, (std::vector<std::uint8_t>{0b110101, 0, 0, 0}));
    EXPECT_THROW_WITH(to_bytes(mapped), CorruptFile,
                      "the bank is damaged, as a mapped file may be");
    EXPECT_THROW_WITH(BloomBank{mapped}, CorruptFile,
                      "the bank is damaged, as a mapped file may be");
  }
  {
    const BloomBank bank = sample_bank(Growth::tightening(40, 0.05));
    Bytes bytes = to_bytes(bank);
    const auto levels = levels_of(bytes);
    ASSERT_GE(levels.size(), 2u);
    for (std::size_t i = 1; i < levels.size(); ++i) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(levels[i].offset), levels[i].bytes,
                  std::byte{0xFF});
    }
    sign_bank(bytes);
    write_bytes(path, bytes);
    EXPECT_THROW_WITH(BloomBank::load(path), CorruptFile, "rows of level 1: a slot without");
    std::vector<std::uint32_t> with_later_stages = {2};  // which is always asked
    for (const std::uint32_t member : {4u, 5u}) {
      ASSERT_GT(bank.stages(member), 1u);
      with_later_stages.push_back(member);
    }
    ASSERT_EQ(bank.stages(0), 1u);
    const auto nowhere = std::uint64_t{0x1234'5678'9ABC'DEF0};
    ASSERT_EQ(bank.find(nowhere), std::vector<std::uint32_t>{2});
    BloomBank mapped = BloomBank::map(path);
    EXPECT_EQ(mapped.find(nowhere), with_later_stages);
    // Nor is such a file written again as if it were sound, nor one that lacks a bit.
    for (const bool compress : {false, true}) {
      EXPECT_THROW_WITH(mapped.save(folder / "copy", {.compress = compress}), CorruptFile,
                        "the bank is damaged, as a mapped file may be: rows of level 1: a slot");
    }
    Bytes lacking = to_bytes(bank);
    const std::size_t at = levels.at(0).offset + levels.at(0).bytes / 2;
    const auto bit = std::find_if(lacking.begin() + static_cast<std::ptrdiff_t>(at), lacking.end(),
                                  [](std::byte b) { return b != std::byte{0}; });
    *bit = std::byte{0};
    write_bytes(path, lacking);
    mapped = BloomBank::map(path);
    for (const bool compress : {false, true}) {
      EXPECT_THROW_WITH(mapped.save(folder / "copy", {.compress = compress}), CorruptFile,
                        "the bank is damaged, as a mapped file may be: rows of level 0: chunk 0: "
                        "checksum mismatch");
    }
    EXPECT_FALSE(fs::exists(folder / "copy"));
    EXPECT_THROW_WITH(BloomBank{mapped}, CorruptFile, "chunk 0: checksum mismatch");
    EXPECT_FALSE(mapped == bank);
  }
  // Padding: of a slice, behind the last row.
  const Geometry slices = Geometry::split(3, 9);
  for (const std::uint64_t byte : {(128 + 9) * 4, 3 * 128 * 4 - 4}) {
    const Bytes bytes = with_byte(sample_bank(Growth::one(slices)), 0, byte, 1);
    const std::string why = "rows of level 0: padding is not zero, at byte " + std::to_string(byte);
    expect_loads_refuse(bytes, why);
    EXPECT_THROW_WITH(BloomBank::map(path), CorruptFile, why);
  }
  {
    const Geometry geometry = Geometry::ranked(67, 5, 3);
    const BloomBank bank = [&] {
      BloomBank few(Growth::one(geometry), {.capacity = 8});
      few.add_member(BloomFilter(Growth::one(geometry)));
      return few;
    }();
    const std::uint64_t rows = geometry.padded_counters();
    ASSERT_NE(rows % 16, 0u);
    const Bytes bytes = with_byte(bank, 0, rows, 1);
    const std::string why = "padding is not zero, at byte " + std::to_string(rows);
    expect_loads_refuse(bytes, why);
    EXPECT_THROW_WITH(BloomBank::map(path), CorruptFile, why);
  }
}

TEST(HostileBitsBank, FieldsThatDoNotFit) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const Bytes good = to_bytes(sample_bank(Growth::one(Geometry::split_block(1, 20))));
  const auto refused = [&](std::size_t at, std::uint64_t value, std::size_t width,
                           const std::string& why) {
    SCOPED_TRACE(why);
    Bytes bytes = good;
    std::memcpy(bytes.data() + at, &value, width);
    sign_header(bytes, header_bytes(good));
    EXPECT_THROW_WITH(BloomBank::read(source_of(bytes)), CorruptFile, why);
    write_bytes(path, bytes);
    EXPECT_THROW_WITH(BloomBank::map(path), CorruptFile, why);
    EXPECT_THROW_WITH(read_bank_file_info(path), CorruptFile, why);
  };
  refused(96, 1u << 30, 8, "truncated");
  refused(96, std::uint64_t{1} << 50, 8, "header bytes 1125899906842624: must be");
  refused(128, 2, 4, "hash 2: must be 1");
  refused(132, 2, 4, "hash version 2: must be 1");
  refused(kLevelCountAt, 258, 4, "258 levels: must be 1 to 257");
  refused(kLevelCountAt, 0, 4, "0 levels: must be 1 to 257");
  refused(kStagesAt, ~std::uint64_t{0}, 8, "stages 18446744073709551615: must be at most");
  refused(152, 1u << 20, 8, "chunks 1048576: must be at most");
  refused(160, 1u << 20, 8, "metadata bytes of members 1048576: must be at most");
  refused(kLevelsAt, 1, 4, "index 1 of level 0: must be 0 to below 1");
  refused(kLevelsAt + 4, 1u << 21, 4, "slots 2097152: must be at most 1048576");
  refused(kLevelsAt + 4, 33, 4, "slots 33: must be 64");
  refused(kLevelsAt + 16, 21, 8,
          "level 0: probes 8, groups 1, extent 21: this growth has probes 8, groups 1, extent 20");
  const std::size_t members = kLevelsAt + kLevel;
  refused(members + 8, 1000, 4, "1000 stages of member 0: must be 1 to 1");
  refused(members + 8, 0, 4, "0 stages of member 0: must be 1 to 1");
  refused(members + 12, 1u << 20, 4, "metadata bytes of members 1048576: must be at most");
  refused(members + kMember, 0, 4, "number 0 of a member: must be 1 to below 32");
  refused(members + 16, ~std::uint64_t{0}, 8,
          "member 0: epoch 18446744073709551615: must be at most 2^62");
  refused(members + 16, 0, 8, "member 0: history of no epoch");
  const std::size_t stages = members + 4 * kMember;
  refused(stages + 4, 1, 4, "stage 0 of member 0: level 0, slot 1: there is none, or it is");
  refused(stages, 1, 4, "stage 0 of member 0: level 1, slot 0: there is none, or it is");
}

/// A member has no more stages than its growth has, whatever levels there are.
TEST(HostileBitsBank, TooManyStages) {
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 3)), Growth::fixed(Geometry::split_block(1, 3), 2)}) {
    rows_format::Header header{.growth = growth};
    const std::uint32_t most = growth.most_stages();
    const StageShape shape = growth.stage(0);
    const std::vector<std::uint64_t> checksums(1);
    header.levels = {{0, 8, shape, checksums}, {0, 8, shape, checksums}};
    header.members = {{.number = 0, .stages = {{0, 0}}}};
    for (std::uint32_t slot = 0; slot < most; ++slot) header.members[0].stages.push_back({1, slot});
    header.lay_out();
    Bytes bytes = rows_format::encode_header(header);
    bytes.resize(header.levels[1].offset + header.levels[1].bytes());
    sign_bank(bytes);
    EXPECT_THROW_WITH(
        BloomBank::read(source_of(bytes)), CorruptFile,
        std::to_string(most + 1) + " stages of member 0: must be 1 to " + std::to_string(most));
    header.members[0].stages.pop_back();
    if (most == 1) header.levels.pop_back();  // a later level has a stage
    header.lay_out();
    bytes = rows_format::encode_header(header);
    bytes.resize(header.levels.back().offset + header.levels.back().bytes());
    sign_bank(bytes);
    EXPECT_EQ(BloomBank::read(source_of(bytes)).stages(0), most);
  }
}

/// Rows of 1 GiB, in a header that is right by itself: the reader wants to see them first.
TEST(HostileBitsBank, ClaimsOfMuch) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  BloomBank bank(Growth::one(Geometry::split_block(8, 1u << 14)), {.capacity = 8});
  for (const bool compress : {false, true}) {
    rows_format::Header header{
        .growth = bank.growth(),
        .payload = compress ? file_format::Payload::packed : file_format::Payload::plain};
    header.levels.push_back({0, 512, bank.growth().stage(0)});
    ASSERT_EQ(header.levels[0].bytes(), std::uint64_t{1} << 30);
    if (!compress) {
      header.levels[0].chunk_checksums.resize(file_format::chunk_count(header.levels[0].bytes()));
    }
    header.lay_out();
    Bytes bytes = rows_format::encode_header(header);
    bytes.resize(bytes.size() + 100);
    EXPECT_THROW(BloomBank::read(source_of(bytes)), CorruptFile);
    write_bytes(path, bytes);
    const char* const why = compress ? "ends after" : "truncated";
    EXPECT_THROW_WITH(BloomBank::load(path), CorruptFile, why);
    EXPECT_THROW_WITH(read_bank_file_info(path), CorruptFile, why);
    EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, why);
  }
}

TEST(BitsBankFile, ASinkThatFailsFailsTheCall) {
  const BloomBank bank = sample_bank(Growth::tightening(10, 0.2), 5, 8);
  for (const bool compress : {false, true}) {
    int calls = 0;
    bank.write([&](std::span<const std::byte>) { ++calls; }, {.compress = compress});
    ASSERT_GE(calls, 3);
    for (int fail = 0; fail < calls; ++fail) {
      int call = 0;
      EXPECT_THROW(bank.write(
                       [&](std::span<const std::byte>) {
                         if (call++ == fail) throw IoError("no room");
                       },
                       {.compress = compress}),
                   IoError);
    }
  }
  const TemporaryFolder folder;
  EXPECT_THROW(bank.save(folder / "no such folder" / "b.bank"), IoError);
}

}  // namespace
}  // namespace scbf::test::bits_bank_file_test
