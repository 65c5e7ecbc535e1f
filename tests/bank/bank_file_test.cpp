// SPDX-License-Identifier: Apache-2.0
// Bank files: a bank that was saved is the bank that is loaded, in every growth and kind of
// payload; members are filter files; damage is found in every byte; wrong contents with right
// checksums are refused; and nothing but whole members makes rows. The offsets repeat
// docs/file_format.md.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <thread>
#include <variant>

#include "files/file_test_support.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/bank_check.hpp"

namespace scbf::test::bank_file_test {
namespace {

constexpr std::size_t kEntry = 32;
constexpr std::uint64_t kSeed = 0xFEDC'BA98'7654'3210;

/// A bank with some of everything: removed members, an empty one, a mark, metadata, repeated and
/// removed keys.
Bank sample_bank(const Growth& growth, std::uint32_t members = 6, std::size_t keys = 60) {
  Bank bank(growth, {.seed = kSeed, .capacity = members + 20});
  for (std::uint32_t m = 0; m < members; ++m) {
    EXPECT_EQ(bank.add_member(), m);
    bank.insert(m, scbf_test::random_keys(keys * m, m));
    bank.remove(m, scbf_test::random_keys(keys * m / 5, m));
    bank.set_metadata(m, "member " + std::to_string(m));
  }
  const std::vector<std::string_view> often(20, "often");
  bank.insert(4, often);
  bank.remove_member(1);
  bank.remove_member(3);
  bank.ask_always(2, true);
  bank.set_metadata("{\"made by\": \"a test\"}");
  return bank;
}

std::vector<Bank> samples() {
  std::vector<Bank> all;
  all.push_back(sample_bank(Growth::one(Geometry::split_block(1, 20))));
  all.push_back(sample_bank(Growth::one(Geometry::split(7, 301))));
  all.push_back(sample_bank(Growth::one(Geometry::ranked(82, 5, 3))));  // spills
  all.push_back(sample_bank(Growth::fixed(Geometry::split_block(2, 7), 256)));
  all.push_back(sample_bank(Growth::fixed(Geometry::split(5, 200), 20)));
  all.push_back(sample_bank(Growth::tightening(40, 0.05)));
  all.push_back(sample_bank(Growth::tightening(40, 0.05, Layout::split, 1.5, 0.7)));
  all.push_back(sample_bank(Growth::tightening(200, 0.02, Layout::ranked)));
  all.push_back(sample_bank(Growth::one(Geometry::split_block(1, 17'000)), 5));  // two chunks
  all.emplace_back(Growth::tightening(40, 0.05), BankOptions{.seed = 7});        // without members
  return all;
}

std::vector<std::vector<std::uint32_t>> answers_of(const Bank& bank) {
  MemberLists lists;
  bank.find(scbf_test::random_keys(2000, 5), lists);
  std::vector<std::vector<std::uint32_t>> all;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto members = lists.of(i);
    all.emplace_back(members.begin(), members.end());
  }
  return all;
}

void expect_same_bank(const Bank& got, const Bank& want) {
  EXPECT_EQ(got.growth(), want.growth());
  EXPECT_EQ(got.seed(), want.seed());
  EXPECT_EQ(got.metadata(), want.metadata());
  EXPECT_EQ(got.size(), want.size());
  EXPECT_EQ(got.slots(), want.slots());
  EXPECT_EQ(got.capacity(), want.capacity());
  ASSERT_EQ(scbf_test::bank_error(got), std::nullopt);
  for (std::uint32_t m = 0; m < want.slots(); ++m) {
    ASSERT_EQ(got.has_member(m), want.has_member(m));
    if (!want.has_member(m)) continue;
    EXPECT_EQ(got.asked_always(m), want.asked_always(m));
    expect_same(got.copy_member(m), want.copy_member(m));
  }
  EXPECT_EQ(answers_of(got), answers_of(want));
}

std::size_t header_bytes(const Bytes& bank) { return get<std::uint64_t>(bank, 96); }

/// Corrects the headers' checksums of a bank whose only member is a container, at `at`.
void sign_member(Bytes& bytes, std::uint64_t at) {
  Bytes member(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
  sign_header(member, get<std::uint64_t>(member, 96));
  std::ranges::copy(member, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  put(bytes, 128 + 24, get<std::uint64_t>(member, kChecksumAt));
  sign_header(bytes, header_bytes(bytes));
}

/// The bank that every way of reading makes of these bytes; none of them may fail.
Bank read_in_every_way(const Bytes& bytes, const Bank& want) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  write_bytes(path, bytes);
  EXPECT_TRUE(std::holds_alternative<BankFileInfo>(read_any_file_info(path)));
  expect_same_bank(Bank::load(path), want);
  expect_same_bank(Bank::read(source_of(bytes, 1000)), want);
  for (const BankFileInfo& info : {read_bank_file_info(path), verify_bank_file(path),
                                   std::get<BankFileInfo>(read_any_file_info(path)),
                                   std::get<BankFileInfo>(verify_any_file(path))}) {
    EXPECT_EQ(info.version, 1u);
    EXPECT_EQ(info.growth, want.growth());
    EXPECT_EQ(info.seed, want.seed());
    EXPECT_EQ(info.capacity, want.capacity());
    EXPECT_EQ(info.row_bytes, BankAccess::state(want).first.rows.bytes());
    EXPECT_EQ(info.file_bytes, bytes.size());
    EXPECT_EQ(info.metadata, want.metadata());
    EXPECT_EQ(info.members.size(), want.size());
    for (const MemberFileInfo& member : info.members) {
      EXPECT_EQ(member.asked_always, want.asked_always(member.number));
      EXPECT_EQ(member.filter.stages.size(), want.stages(member.number));
      EXPECT_EQ(member.filter.metadata, want.metadata(member.number));
      const Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(member.offset), bytes.end());
      expect_same(Filter::read(source_of(part)), want.copy_member(member.number));
    }
  }
  return Bank::read(source_of(bytes));
}

TEST(BankFile, IsReadBackInEveryWay) {
  for (const Bank& bank : samples()) {
    SCOPED_TRACE(bank.growth().describe());
    for (const bool compress : {false, true}) {
      SCOPED_TRACE(compress);
      const Bytes bytes = to_bytes(bank, {.compress = compress});
      Bank copy = read_in_every_way(bytes, bank);
      EXPECT_EQ(to_bytes(copy, {.compress = compress}), bytes);
      const TemporaryFolder folder;
      bank.save(folder / "b.bank", {.compress = compress});
      EXPECT_EQ(read_bytes(folder / "b.bank"), bytes);
      if (bank.size() == 0) continue;
      // The members lie in the file as the filters that they are.
      const BankFileInfo info = read_bank_file_info(folder / "b.bank");
      for (const MemberFileInfo& member : info.members) {
        const Bytes alone = to_bytes(bank.copy_member(member.number), {.compress = compress});
        EXPECT_EQ(member.filter.file_bytes, alone.size());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                               bytes.begin() + static_cast<std::ptrdiff_t>(member.offset)));
        EXPECT_EQ(compress || member.offset % 4096 == 0, true);
      }
    }
  }
}

TEST(BankFile, GoesOnAsBefore) {
  std::vector<Bank> banks = samples();
  for (Bank& bank : banks) {
    SCOPED_TRACE(bank.growth().describe());
    Bank copy = Bank::read(source_of(to_bytes(bank)));
    EXPECT_EQ(copy.add_member(), bank.add_member());  // the smallest free number
    for (Bank* each : {&bank, &copy}) {
      for (std::uint32_t m = 0; m < each->slots(); ++m) {
        if (!each->has_member(m)) continue;
        each->remove(m, scbf_test::random_keys(20, m));
        each->insert(m, scbf_test::random_keys(90, 100 + m));
      }
      const std::uint32_t last = each->slots() - 1;
      if (each->size() > 1) each->remove_member(last);
    }
    expect_same_bank(copy, bank);
    EXPECT_EQ(to_bytes(copy), to_bytes(bank));
  }
}

TEST(BankFile, MakesRoomForMore) {
  const Bank bank = sample_bank(Growth::tightening(40, 0.05));
  const Bytes bytes = to_bytes(bank);
  const Bank wide = Bank::read(source_of(bytes), {.seed = 1, .capacity = 700});
  EXPECT_GE(wide.capacity(), 700u);
  EXPECT_EQ(wide.seed(), kSeed);
  EXPECT_EQ(answers_of(wide), answers_of(bank));
  EXPECT_EQ(Bank::read(source_of(bytes), {.capacity = 1}).capacity(), bank.capacity());
  EXPECT_THROW_WITH(Bank::read(source_of(bytes), {.backend = "no such"}), BackendUnavailable,
                    "no such");
  EXPECT_THROW_WITH(Bank::read(source_of(bytes), {.capacity = kMaxBankMembers + 1}),
                    InvalidArgument, "at most 1048576");
}

TEST(BankFile, ScalarBackendWritesTheSameBytes) {
  for (const Bank& bank : samples()) {
    const Bytes bytes = to_bytes(bank);
    EXPECT_EQ(to_bytes(Bank::read(source_of(bytes), {.backend = "scalar"})), bytes);
  }
}

TEST(BankFile, SeveralFollowEachOtherInAStream) {
  std::vector<Bank> banks = samples();
  Bytes all;
  for (const Bank& bank : banks) {
    for (const bool compress : {true, false}) {
      const Bytes bytes = to_bytes(bank, {.compress = compress});
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  const ByteSource source = source_of(all, 777);
  for (const Bank& bank : banks) {
    for (int i = 0; i < 2; ++i) expect_same_bank(Bank::read(source), bank);
  }
}

TEST(BankFile, AMappedMemberIsSaved) {
  const TemporaryFolder folder;
  const Growth growth = Growth::one(Geometry::split_block(1, 20));
  Filter filter(growth, {.seed = 3});
  filter.insert(scbf_test::random_keys(50, 1));
  filter.save(folder / "f.scbf");
  Bank bank(growth, {.seed = 3});
  bank.add_member(Filter::map(folder / "f.scbf"));
  const Bank copy = Bank::read(source_of(to_bytes(bank)));
  EXPECT_TRUE(copy.copy_member(0) == filter);
}

// ---- refusals -----------------------------------------------------------------------------------

TEST(BankFile, OtherKindsAreNamed) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  const Bank bank = sample_bank(Growth::tightening(40, 0.05));
  bank.save(path);
  EXPECT_THROW_WITH(Filter::load(path), Incompatible,
                    "a bank of filters, and no filter: load it "
                    "as a Bank");
  EXPECT_THROW_WITH(Filter::map(path), Incompatible, "load it as a Bank");
  EXPECT_THROW_WITH(BloomFilter::load(path), Incompatible, "load it as a Bank");
  EXPECT_THROW_WITH(read_file_info(path), Incompatible, "load it as a Bank");
  EXPECT_THROW_WITH(verify_file(path), Incompatible, "load it as a Bank");

  const Filter filter = sample(Growth::tightening(40, 0.05));
  for (const std::function<void()>& save : std::vector<std::function<void()>>{
           [&] { filter.save(path); },
           [&] { sample(Geometry::split(5, 100)).save(path); },
           [&] { BloomFilter(filter).save(path); },
           [&] { filter.save(path, {.compress = true}); },
       }) {
    save();
    EXPECT_TRUE(std::holds_alternative<FileInfo>(verify_any_file(path)));
    EXPECT_THROW_WITH(Bank::load(path), Incompatible, "a filter, and no bank: load it as a Filter");
    EXPECT_THROW_WITH(read_bank_file_info(path), Incompatible, "no bank");
  }
  write_bytes(path, Bytes(3000, std::byte{'x'}));
  EXPECT_THROW_WITH(Bank::load(path), CorruptFile, "not a filter file");
  EXPECT_THROW_WITH(read_any_file_info(path), CorruptFile, "not a filter file");
  write_bytes(path, {});
  EXPECT_THROW_WITH(Bank::load(path), CorruptFile, "empty");
  EXPECT_THROW(Bank::load(folder / "missing"), IoError);
  EXPECT_THROW(read_any_file_info(folder / "missing"), IoError);
  EXPECT_THROW(verify_any_file(folder / "."), IoError);
}

/// Every way of reading refuses these bytes as damaged.
void expect_refused(const Bytes& bytes, const fs::path& path, bool by_headers = false) {
  EXPECT_THROW(Bank::read(source_of(bytes)), CorruptFile);
  write_bytes(path, bytes);
  EXPECT_THROW(Bank::load(path), CorruptFile);
  EXPECT_THROW(verify_bank_file(path), CorruptFile);
  if (by_headers) {
    EXPECT_THROW(read_bank_file_info(path), CorruptFile);
  }
}

TEST(BankFile, EveryFlippedBitIsFound) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  for (const bool compress : {false, true}) {
    for (const Growth& growth :
         {Growth::one(Geometry::split_block(1, 3)), Growth::tightening(10, 0.2)}) {
      const Bytes good = to_bytes(sample_bank(growth, 5, 8), {.compress = compress});
      // All bits of the first pages, where headers are, and of a compressed file; then some.
      const std::size_t step = compress ? 1 : 37;
      for (std::size_t at = 0; at < good.size(); at += at < 600 ? 1 : step) {
        SCOPED_TRACE(at);
        Bytes bytes = good;
        bytes[at] ^= std::byte{static_cast<unsigned char>(1u << at % 8)};
        EXPECT_THROW(Bank::read(source_of(bytes)), CorruptFile);
        if (at % 5 == 0) expect_refused(bytes, path);
      }
    }
  }
}

TEST(BankFile, EveryShorterOrLongerFileIsRefused) {
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
    EXPECT_THROW_WITH(Bank::load(path), CorruptFile, "bytes follow");
    EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, "bytes follow");
  }
}

TEST(HostileBank, EveryFieldWithEvilValues) {
  const auto evil =
      evil_values(9, {0, 3, 4095, ~0ull, 0x7FF0'0000'0000'0000, 0xFFF8'0000'0000'0001});
  for (const Bank& bank : samples()) {
    if (bank.growth().first_geometry().bytes() > 1u << 20) continue;  // its rows may be too many
    for (const bool compress : {false, true}) {
      const Bytes good = to_bytes(bank, {.compress = compress});
      for (std::size_t at = 8; at < 128 + kEntry * bank.size();) {
        const std::size_t entry = at < 128 ? 128 : (at - 128) % kEntry;
        const bool short_field =
            at < 24 || (at >= 32 && at < 40) || (at >= 72 && at < 80) || entry == 0 || entry == 4;
        const std::size_t width = short_field ? 4 : 8;
        for (const std::uint64_t any : evil) {
          const std::uint64_t value = short_field ? any & 0xFFFF'FFFF : any;
          SCOPED_TRACE(std::to_string(at) + ": " + std::to_string(value));
          Bytes bytes = good;
          std::memcpy(bytes.data() + at, &value, width);
          if (bytes == good || at == kChecksumAt) continue;
          sign_header(bytes, header_bytes(good));
          // These may have other values, within limits: the capacity, the length of the metadata,
          // numbers of members and their marks; without members the growth and the seed, too.
          const auto number = [&](std::size_t i) -> std::uint64_t {
            return i < bank.size() ? get<std::uint32_t>(good, 128 + kEntry * i) : bank.capacity();
          };
          const std::size_t i = at < 128 ? 0 : (at - 128) / kEntry;
          const bool may =
              (at == 104 && value >= bank.slots() && value <= kMaxBankMembers &&
               row_stride(static_cast<std::uint32_t>(value)) * 8 == value) ||
              (at == 112 && value < 3000) ||
              (entry == 0 && (i == 0 || value > number(i - 1)) && value < number(i + 1)) ||
              (entry == 4 && value <= 1) || (bank.size() == 0 && at != 8 && at != 12 && at != 96);
          try {
            const Bank read = Bank::read(source_of(bytes));
            EXPECT_TRUE(may);
            EXPECT_EQ(read.size(), bank.size());
          } catch (const CorruptFile&) {
          } catch (const Incompatible&) {  // version 2 is of bits
            EXPECT_EQ(at, 8u);
            EXPECT_EQ(value, 2u);
          } catch (const std::bad_alloc&) {  // no memory for the rows of such a growth
            EXPECT_EQ(bank.size(), 0u);
          }
        }
        at += width;
      }
    }
  }
}

TEST(HostileBank, MessagesNameTheFieldOfAGeometry) {
  const Growth split = Growth::one(Geometry::split(7, 100)),
               blocks = Growth::one(Geometry::split_block(2, 10)),
               ranked = Growth::one(Geometry::ranked(82, 10, 4));
  const auto expect_refused = [](const Growth& growth, std::size_t at, std::uint32_t value,
                                 const char* why) {
    Bytes bytes = to_bytes(Bank(growth));
    put(bytes, at, value);
    sign_header(bytes, header_bytes(bytes));
    EXPECT_THROW_WITH(Bank::read(source_of(bytes)), CorruptFile, why);
  };
  for (const Growth& growth : {split, Growth::tightening(10, 0.2)}) {
    expect_refused(growth, 20, 4, "layout 4: must be 1 (split), 2 (split_block) or 3 (ranked)");
  }
  expect_refused(split, 72, 65, "probes 65: must be 1 to 64");
  expect_refused(split, 76, 1, "groups 1: must be 0 in layout split");
  expect_refused(blocks, 72, 8, "probes 8: must be 16 in layout split_block");
  expect_refused(ranked, 72, 3, "probes 3: must be 4 in layout ranked");
  expect_refused(ranked, 76, 64, "positions 64: must be 65 to 112");
  expect_refused(Growth::fixed(Geometry::split(4, 100), 2), 20, 3,
                 "layout 3 (ranked) of a fixed growth: must be 1 (split)");
}

TEST(HostileBank, MembersThatDoNotFit) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const Growth growth = Growth::one(Geometry::split_block(1, 20));
  const auto bank_of = [](const Growth& of, std::uint64_t seed) {
    Bank bank(of, {.seed = seed});
    bank.insert(bank.add_member(), scbf_test::random_keys(9, 1));
    return to_bytes(bank);
  };
  const Bytes good = bank_of(growth, 1);
  ASSERT_EQ(Bank::read(source_of(good)).size(), 1u);
  const auto member_at = get<std::uint64_t>(good, 128 + 8);
  // A bank whose only member is another file of the same length.
  const auto with_member = [&](const Bytes& filter) {
    Bytes bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(member_at));
    bytes.insert(bytes.end(), filter.begin(), filter.end());
    put<std::uint64_t>(bytes, 128 + 16, filter.size());
    put(bytes, 128 + 24, get<std::uint64_t>(filter, kChecksumAt));
    sign_header(bytes, header_bytes(good));
    return bytes;
  };
  const auto filter_in = [&](const Growth& of, std::uint64_t seed) {
    Filter filter(of, {.seed = seed});
    filter.insert(scbf_test::random_keys(9, 1));
    return filter;
  };
  ASSERT_EQ(Bank::read(source_of(with_member(to_bytes(filter_in(growth, 1))))).size(), 1u);
  const auto expect = [&](const Bytes& bytes, const std::string& why) {
    SCOPED_TRACE(why);
    EXPECT_THROW_WITH(Bank::read(source_of(bytes)), CorruptFile, "stream: member 0: " + why);
    write_bytes(path, bytes);
    EXPECT_THROW_WITH(Bank::load(path), CorruptFile, why);
    EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, why);
    EXPECT_THROW_WITH(read_bank_file_info(path), CorruptFile, why);
  };
  expect(with_member(to_bytes(filter_in(growth, 2))),
         "the seeds differ: the bank's is 1, the "
         "filter's 2");
  expect(with_member(to_bytes(filter_in(Growth::one(Geometry::split_block(1, 21)), 1))),
         "the growths differ: the bank's is");
  expect(with_member(to_bytes(filter_in(Growth::tightening(40, 0.05), 1))),
         "the growths differ: the bank's is");
  expect(with_member(good), "not a filter of counters");
  {
    expect(with_member(to_bytes(filter_in(growth, 1), {.compress = true})),
           "its payload is packed: the bank says not packed");
    Bytes other = with_member(to_bytes(filter_in(growth, 1)));
    put<std::uint64_t>(other, 128 + 24, 1);
    sign_header(other, header_bytes(good));
    expect(other, "the checksum of its header differs from the one that the bank has");
  }
  // Bits, which are no members.
  const Bytes of_bits = with_member(to_bytes(BloomFilter(filter_in(growth, 1))));
  EXPECT_THROW_WITH(Bank::read(source_of(of_bits)), CorruptFile, "not a filter of counters");
  EXPECT_THROW_WITH(BloomBank::read(source_of(of_bits)), CorruptFile, "not a filter of counters");
  write_bytes(path, of_bits);
  EXPECT_THROW_WITH(BloomBank::load(path), CorruptFile, "not a filter of counters");
  EXPECT_THROW_WITH(verify_bank_file(path), CorruptFile, "not a filter of counters");

  // Two members in each other's place.
  Bank two(growth, {.seed = 1});
  for (std::uint32_t m : {0u, 1u}) {
    two.add_member();
    two.insert(m, scbf_test::random_keys(9, m));
  }
  Bytes swapped = to_bytes(two);
  const auto a = get<std::uint64_t>(swapped, 128 + 8), b = get<std::uint64_t>(swapped, 160 + 8);
  std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(a),
                   swapped.begin() + static_cast<std::ptrdiff_t>(b),
                   swapped.begin() + static_cast<std::ptrdiff_t>(b));
  expect(swapped, "the checksum of its header differs from the one that the bank has");
}

/// A first stage that comes later in its growth, or is of another growth.
TEST(HostileBank, StagesOfAnotherGrowth) {
  const TemporaryFolder folder;
  const Growth growth = Growth::tightening(40, 0.05);
  Bank bank(growth);
  bank.add_member();
  const Bytes good = to_bytes(bank);
  const auto at = get<std::uint64_t>(good, 128 + 8);
  for (const std::uint32_t index : {1u, 200u, 0xFFFF'FFFFu}) {
    Bytes bytes = good;
    put<std::uint32_t>(bytes, at + 128 + 32, index);
    sign_member(bytes, at);
    const char* const why = index == 0xFFFF'FFFFu ? "does not belong to its growth"
                                                  : "stage 0 of the filter differs from stage";
    EXPECT_THROW_WITH(Bank::read(source_of(bytes)), CorruptFile, why);
    write_bytes(folder / "b.bank", bytes);
    EXPECT_THROW_WITH(verify_bank_file(folder / "b.bank"), CorruptFile, why);
  }
}

TEST(BankFile, ASinkThatFailsFailsTheCall) {
  const Bank bank = sample_bank(Growth::tightening(10, 0.2), 5, 8);
  int calls = 0;
  bank.write([&](std::span<const std::byte>) { ++calls; });
  ASSERT_GT(calls, 10);
  for (int fail = 0; fail < calls; ++fail) {
    int call = 0;
    EXPECT_THROW(bank.write([&](std::span<const std::byte>) {
      if (call++ == fail) throw IoError("no room");
    }),
                 IoError);
  }
  const TemporaryFolder folder;
  EXPECT_THROW(bank.save(folder / "no such folder" / "b.bank"), IoError);
  EXPECT_THROW(bank.save(folder / "."), IoError);
}

TEST(BankFile, AFailedSaveKeepsTheOldFile) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.bank";
  const Bank bank = sample_bank(Growth::tightening(10, 0.2), 5, 8);
  bank.save(path);
  const Bytes old = read_bytes(path);
  // A mapped member that cannot be is not saved.
  const Growth growth = Growth::one(Geometry::ranked(82, 5, 3));
  Filter filter(growth);
  filter.insert(scbf_test::random_keys(50, 1));
  filter.save(folder / "f.scbf");
  Bytes damaged = read_bytes(folder / "f.scbf");
  damaged[4096] ^= std::byte{1};
  write_bytes(folder / "f.scbf", damaged);
  Bank of_mapped(growth);
  of_mapped.add_member(Filter::map(folder / "f.scbf"));
  EXPECT_THROW_WITH(of_mapped.save(path), CorruptFile, "the filter is damaged");
  EXPECT_EQ(read_bytes(path), old);
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(path.parent_path())) {
    names.push_back(file.path().filename());
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"b.bank", "f.scbf"}));
}

TEST(BankFile, IsReadFromAPipe) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Bank bank = sample_bank(Growth::tightening(40, 0.05));
  const Filter filter = sample(Growth::tightening(40, 0.05));
  const auto through_pipe = [&](const Bytes& bytes, const auto& read) {
    std::thread writer([&] { write_bytes(pipe, bytes); });
    auto result = read();
    writer.join();
    return result;
  };
  for (const bool compress : {false, true}) {
    const Bytes of_bank = to_bytes(bank, {.compress = compress});
    const Bytes of_filter = to_bytes(filter, {.compress = compress});
    expect_same_bank(through_pipe(of_bank, [&] { return Bank::load(pipe); }), bank);
    for (AnyFileInfo (*const read)(const fs::path&) : {&read_any_file_info, &verify_any_file}) {
      const AnyFileInfo a = through_pipe(of_bank, [&] { return read(pipe); });
      EXPECT_EQ(std::get<BankFileInfo>(a).members.size(), bank.size());
      EXPECT_EQ(std::get<BankFileInfo>(a).file_bytes, of_bank.size());
      const AnyFileInfo b = through_pipe(of_filter, [&] { return read(pipe); });
      EXPECT_EQ(std::get<FileInfo>(b).stages.size(), filter.stages());
      EXPECT_EQ(std::get<FileInfo>(b).file_bytes, of_filter.size());
    }
  }
}

/// Another C library may compute other last digits of logarithms.
TEST(BankFile, LastDigitsMayBeAnotherLibrarys) {
  const Growth growth = Growth::tightening(40, 0.05);
  Bank bank(growth);
  bank.insert(bank.add_member(), scbf_test::random_keys(30, 1));
  const Bytes good = to_bytes(bank);
  const auto at = get<std::uint64_t>(good, 128 + 8);
  const auto full_at = get<std::uint64_t>(good, at + 128 + 16);
  for (const int more : {-2, -1, 1, 2}) {
    Bytes bytes = good;
    put<std::uint64_t>(bytes, at + 128 + 16, full_at + static_cast<std::uint64_t>(more));
    sign_member(bytes, at);
    if (std::abs(more) > 1) {
      EXPECT_THROW_WITH(Bank::read(source_of(bytes)), CorruptFile, "differs from stage 0");
      continue;
    }
    const Bank read = Bank::read(source_of(bytes));
    EXPECT_EQ(answers_of(read), answers_of(bank));
    EXPECT_EQ(to_bytes(read), bytes);
    Bank other(growth);
    other.add_member(read.copy_member(0));
  }
}

TEST(BankFile, MetadataHasItsLimit) {
  Bank bank = sample_bank(Growth::tightening(10, 0.2), 5, 8);
  const std::string most(kMaxMetadataBytes, 'x');
  bank.set_metadata(most);
  bank.set_metadata(0, most);
  const Bank copy = Bank::read(source_of(to_bytes(bank)));
  EXPECT_EQ(copy.metadata(), most);
  EXPECT_EQ(copy.metadata(0), most);
  EXPECT_THROW(bank.set_metadata(most + "x"), InvalidArgument);
  EXPECT_THROW(bank.set_metadata(0, most + "x"), InvalidArgument);
  EXPECT_THROW_WITH(bank.set_metadata(99, "x"), InvalidArgument, "member 99: there is none");
  EXPECT_EQ(bank.metadata(), most);
}

}  // namespace
}  // namespace scbf::test::bank_file_test
