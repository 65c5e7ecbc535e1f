// SPDX-License-Identifier: Apache-2.0
// The bank of bits against separate filters of bits: random sequences of all its operations with
// every growth, layout and backend; the bits of a bank of counters, in memory and from its file;
// and what it refuses.
#include "scbf/bloom_bank.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "scbf/delta.hpp"
#include "support/bits_bank_model.hpp"
#include "support/counters_only.hpp"
#include "support/environment.hpp"
#include "support/far_backend.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::bloom_bank_test {
namespace {

using scbf::Bank;
using scbf::BatchOptions;
using scbf::BloomBank;
using scbf::BloomFilter;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;

const bool kAdded = add_far_backends() && add_counters_only();

/// Takes one random step on both.
void take_step(BloomBank& bank, BitsModel& model, Random& random, const BatchOptions& options) {
  const auto some_member = [&] {
    const auto i = static_cast<std::ptrdiff_t>(random.below(model.members.size()));
    return std::next(model.members.begin(), i)->first;
  };
  switch (model.members.empty() ? random.below(2) : random.below(8)) {
    case 0: {
      const std::uint32_t member = model.lowest_free();
      BloomFilter bits = model.filled(random);
      model.members.emplace(member, bits);
      ASSERT_EQ(bank.add_member(std::move(bits), options), member);
      break;
    }
    case 1: {
      std::vector<BloomFilter> several;
      std::vector<std::uint32_t> want;
      for (std::size_t n = random.below(9); n > 0; --n) {
        several.push_back(model.filled(random));
        want.push_back(model.lowest_free());
        model.members.emplace(want.back(), several.back());
      }
      ASSERT_EQ(bank.add_members(std::move(several), options), want);
      break;
    }
    case 2: {
      const std::uint32_t member = some_member();
      bank.remove_member(member, options);
      model.members.erase(member);
      model.ask.erase(member);
      break;
    }
    case 3: {
      const std::uint32_t member = some_member();
      BloomFilter bits = model.filled(random);
      model.members.at(member) = bits;
      model.ask.erase(member);
      bank.replace_member(member, std::move(bits), options);
      break;
    }
    case 4: {
      const std::uint32_t member = some_member();
      const bool ask = model.ask.erase(member) == 0;
      if (ask) model.ask.insert(member);
      bank.ask_always(member, ask);
      break;
    }
    case 5:
    case 6: {  // some keys more, or other bits
      const std::uint32_t member = some_member();
      BloomFilter& bits = model.members.at(member);
      BloomFilter later = random.below(4) == 0 ? model.filled(random) : bits;
      inserted([&] { return later.insert(random_keys(random.below(40), random.below(1000))); });
      later.set_metadata("epoch " + std::to_string(bits.epoch().number + 1));
      bank.apply(member, bits.advance(later), options);
      break;
    }
    default:
      bank.reserve(static_cast<std::uint32_t>(random.below(200)));
  }
}

class BloomBankOf : public ::testing::TestWithParam<std::pair<std::string, Growth>> {};
INSTANTIATE_TEST_SUITE_P(All, BloomBankOf, ::testing::ValuesIn(bank_growths()),
                         [](const auto& test) { return test.param.first; });

TEST_P(BloomBankOf, EqualsSeparateFilters) {
  const Growth& growth = GetParam().second;
  int tried = 0;
  for (const scbf::Backend* backend : host_backends()) {
    if (backend->name() == "simd") continue;  // one of its targets under another name
    if (!backend->supports(scbf::Cell::bit)) continue;
    for (const std::uint32_t capacity : {0u, 9u, 65u, 300u}) {
      SCOPED_TRACE(std::string(backend->name()) + ", capacity " + std::to_string(capacity));
      BloomBank bank(growth, {.seed = 7, .backend = backend->name(), .capacity = capacity});
      ASSERT_EQ(bank.backend().name(), backend->name());
      ++tried;
      BitsModel model{growth, 7};
      Random random(capacity);
      const BatchOptions options{.threads = 1 + capacity % 2};
      for (int i = 0; i < 30; ++i) {
        take_step(bank, model, random, options);
        ASSERT_FALSE(HasFatalFailure());
        if (i % 6 != 5) continue;
        ASSERT_TRUE(same_bits(bank, model, asked_keys(), options)) << i;
      }
    }
  }
  EXPECT_GE(tried, 8);
}

/// A bank of counters after some random steps, and the filters of bits that its members are.
std::pair<Bank, BitsModel> bank_and_bits(const Growth& growth, std::uint32_t members) {
  auto [bank, counters] = some_bank(growth, members);
  BitsModel model{growth, 7, {}, counters.ask};
  for (const auto& [member, filter] : counters.members) {
    bank.set_metadata(member, "member " + std::to_string(member));
    BloomFilter bits(filter);
    bits.set_metadata(bank.metadata(member));
    model.members.emplace(member, std::move(bits));
  }
  return {std::move(bank), std::move(model)};
}

TEST_P(BloomBankOf, IsTheBitsOfABank) {
  for (const std::uint32_t members : {0u, 3u, 70u}) {
    SCOPED_TRACE(members);
    const auto [bank, model] = bank_and_bits(GetParam().second, members);
    std::vector<std::byte> bytes;
    const TemporaryFolder folder;
    bank.save(folder / "plain");
    bank.save(folder / "compressed", {.compress = true});
    bank.write([&](auto part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
    std::vector<BloomBank> all;
    all.emplace_back(bank);
    all.push_back(BloomBank::load(folder / "plain"));
    all.push_back(BloomBank::load(folder / "compressed", {.backend = "scalar"}));
    std::size_t at = 0;
    all.push_back(BloomBank::read([&](std::span<std::byte> out) {
      const std::size_t n = std::min(out.size(), bytes.size() - at);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, out.begin());
      at += n;
      return n;
    }));
    Bank given_up = Bank::load(folder / "plain");
    all.emplace_back(std::move(given_up));
    SCBF_EXPECT_THROW(given_up.size(), scbf::InvalidArgument, "moved from");
    SCBF_EXPECT_THROW(BloomBank(std::move(given_up)), scbf::InvalidArgument, "moved from");
    for (BloomBank& bits : all) {
      EXPECT_EQ(bits.growth(), bank.growth());
      EXPECT_EQ(bits.seed(), 7u);
      EXPECT_EQ(bits.slots(), bank.slots());
      EXPECT_EQ(bits.capacity(), bank.capacity());
      EXPECT_EQ(bits.metadata(), "of a test");
      ASSERT_TRUE(same_bits(bits, model, asked_keys(), {}));
      // It goes on by itself.
      BitsModel later = model;
      Random random(5);
      for (int i = 0; i < 10; ++i) take_step(bits, later, random, {});
      ASSERT_TRUE(same_bits(bits, later, asked_keys(), {}));
    }
  }
}

// So many rows that threads share them.
TEST(BloomBank, LargeMembersOnSeveralThreads) {
  for (const Geometry& geometry : {Geometry::split_block(1, 3000), Geometry::split(5, 70'001),
                                   Geometry::ranked(82, 1501, 9)}) {
    SCOPED_TRACE(geometry.describe());
    const Growth growth = Growth::one(geometry);
    BloomBank bank(growth, {.seed = 7});
    BitsModel model{growth, 7};
    std::vector<BloomFilter> newcomers;
    for (std::uint32_t m = 0; m < 70; ++m) {
      BloomFilter bits(growth, {.seed = 7});
      bits.insert(random_keys(m == 30 || m == 69 ? 20'000 : 20, m));
      newcomers.push_back(bits);
      model.members.emplace(m, std::move(bits));
    }
    bank.add_members(std::move(newcomers), {.threads = 2});
    ASSERT_TRUE(same_bits(bank, model, random_keys(1000, 30), {.threads = 2}));
  }
}

TEST(BloomBank, OfAGeometryHasOneStage) {
  const Geometry geometry = Geometry::split(3, 100);
  EXPECT_EQ(BloomBank(geometry).growth(), Growth::one(geometry));
}

TEST(BloomBank, LeavesABackendOfCountersOnly) {
  const Growth growth = Growth::tightening(100, 0.05);
  SCBF_EXPECT_THROW(BloomBank(growth, {.backend = "counters only"}), scbf::BackendUnavailable,
                    "does not work on filters of bits");
  Bank bank(growth, {.seed = 7, .backend = "counters only"});
  BitsModel model{growth, 7};
  for (std::uint32_t m = 0; m < 3; ++m) {
    bank.insert(bank.add_member(), random_keys(150 * m, m));
    model.members.emplace(m, BloomFilter(bank.copy_member(m)));
  }
  // Where there is no other backend, the bank stays.
  for (const auto& [name, why] :
       std::map<const char*, const char*>{{"no such", "'no such' (from SCBF_BACKEND): unknown"},
                                          {"far", "a bank needs them on the host"},
                                          {"counters only", "does not work on filters of bits"}}) {
    const BackendVariable variable(name);
    SCBF_EXPECT_THROW(BloomBank(std::move(bank)), scbf::Error, why);
    SCBF_EXPECT_THROW(BloomBank{std::as_const(bank)}, scbf::Error, why);
    EXPECT_EQ(bank.size(), 3u);
  }
  EXPECT_GT(CountersOnly::words(), 0u);
  BloomBank copy(bank), instead(std::move(bank));
  EXPECT_EQ(CountersOnly::words(), 0u);
  for (BloomBank* bits : {&copy, &instead}) {
    EXPECT_EQ(bits->backend().name(), scbf::find_backend().name());
    Random random(1);
    BitsModel later = model;
    for (int i = 0; i < 10; ++i) take_step(*bits, later, random, {});
    ASSERT_TRUE(same_bits(*bits, later, asked_keys(), {}));
  }
}

TEST(BloomBank, AnswersTextAndNulls) {
  const Growth growth = Growth::tightening(100, 0.001);
  BloomBank bank(growth, {.seed = 7});
  BitsModel model{growth, 7};
  BloomFilter bits(growth, {.seed = 7});
  bits.insert(std::vector<std::string>{"apple", "pear"});
  bits.insert(Keys{0, 13, 26});
  model.members.emplace(bank.add_member(bits), bits);
  EXPECT_EQ(bank.find("apple"), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(bank.find("plum").empty());
  const std::vector<std::byte> validity(9, std::byte{0b1010'1010});
  const Keys keys = asked_keys();
  ASSERT_TRUE(same_bits(bank, model, KeyBatch(keys).with_validity(validity), {}));
}

// The kernel of each backend against the plain one, in lines of every length.
TEST(BloomBank, BitsBecomeRowsOnEveryBackend) {
  Random random(1);
  std::array<std::array<std::uint64_t, scbf::kWordsPerBlock>, scbf::kGatherMembers> words;
  std::array<std::uint64_t, scbf::kBitsPerLine> got, want;
  const auto& plain = scbf::scalar_backend().rows();
  for (const scbf::Backend* backend : host_backends()) {
    for (std::uint64_t n = 1; n <= scbf::kWordsPerBlock; ++n) {
      std::array<const std::uint64_t*, scbf::kGatherMembers> lines{};
      for (std::size_t m = 0; m < lines.size(); ++m) {
        for (auto& word : words[m]) word = random();
        if (random.below(4) > 0) lines[m] = words[m].data();
      }
      got.fill(1), want.fill(1);  // what lies behind stays
      backend->rows().gather_bits(lines, n, got.data());
      plain.gather_bits(lines, n, want.data());
      ASSERT_EQ(got, want) << backend->name() << ", " << n << " words";
      ASSERT_EQ(want[0] >> 5 & 1, lines[5] != nullptr ? words[5][0] & 1 : 0);
    }
  }
}

TEST(BloomBank, TakesAFifthOfABank) {
  const Growth growth = Growth::one(Geometry::split_block(1, 500));
  Bank bank(growth, {.capacity = 64});
  for (int i = 0; i < 64; ++i) bank.add_member();
  const BloomBank bits(bank);
  EXPECT_EQ(bits.bytes(), bank.memory().rows);
  EXPECT_EQ(5 * bits.bytes(), bank.memory().rows + bank.memory().counters);
}

TEST(BloomBank, FollowsAMemberByItsDeltas) {
  const Growth growth = Growth::tightening(200, 0.01);
  Filter counters(growth, {.seed = 7});
  BloomFilter sent(growth, {.seed = 7}), received(growth, {.seed = 7});
  BloomBank bank(growth, {.seed = 7});
  BitsModel model{growth, 7};
  for (std::uint32_t m = 0; m < 3; ++m) {
    bank.add_member(received);
    model.members.emplace(m, received);
  }
  bank.ask_always(1, true);
  model.ask = {1};
  std::size_t whole = 0, changes = 0;
  for (std::uint64_t epoch = 1; epoch < 8; ++epoch) {
    counters.insert(random_keys(epoch == 2 ? 20 : 100, epoch));
    counters.remove(random_keys(10, epoch));
    counters.set_metadata(std::to_string(epoch));
    if (epoch == 6) counters.clear();  // fewer stages: all bits are sent
    const scbf::Delta delta = sent.advance(counters);
    (delta.whole() ? whole : changes)++;
    received.apply(delta);
    bank.apply(1, delta);
    model.members.insert_or_assign(1, received);
    ASSERT_EQ(bank.epoch(1).number, epoch);
    ASSERT_TRUE(same_bits(bank, model, random_keys(400, epoch), {})) << epoch;
    if (epoch == 5) {
      EXPECT_GT(bank.stages(1), 1u);
    }
    SCBF_EXPECT_THROW(bank.apply(1, delta), scbf::Incompatible,
                      "apply: the filter has epoch " + std::to_string(epoch));
  }
  EXPECT_GE(whole, 2u);
  EXPECT_GE(changes, 3u);
  const scbf::Delta later = sent.advance(counters);
  ASSERT_FALSE(later.whole());
  SCBF_EXPECT_THROW(bank.apply(0, later), scbf::Incompatible,
                    "apply: the filter has no epoch, the delta begins at 7");
  const Filter elsewhere(growth, {.seed = 8});
  SCBF_EXPECT_THROW(bank.apply(2, BloomFilter(elsewhere).advance(elsewhere)), scbf::Incompatible,
                    "the seeds differ: the bank's is 7, the filter's 8");
  BloomBank other(Growth::tightening(100, 0.01), {.seed = 7});
  other.add_member(BloomFilter(other.growth(), {.seed = 7}));
  SCBF_EXPECT_THROW(other.apply(0, BloomFilter(growth, {.seed = 7}).advance(counters)),
                    scbf::Incompatible, "the growths differ");
  ASSERT_TRUE(same_bits(bank, model, random_keys(400, 1), {}));
}

/// Stages that a merge brought: of the growth, which the bank takes, and of another growth.
TEST(BloomBank, TakesMergedStagesOfItsGrowthOnly) {
  const Growth growth = Growth::tightening(50, 0.1);
  Filter counters(growth, {.seed = 7}), merged(growth, {.seed = 7}), foreign(growth, {.seed = 7});
  counters.insert(random_keys(40, 1));
  BloomFilter sent(growth, {.seed = 7}), received = sent;
  BloomBank bank(growth, {.seed = 7});
  bank.add_member(received);
  bank.add_member(received);
  const auto publish = [&] {
    const scbf::Delta delta = sent.advance(counters);
    received.apply(delta);
    return delta;
  };
  bank.apply(0, publish());
  merged.insert(random_keys(300, 2));  // several stages, one of index 0
  counters.merge(merged);
  const scbf::Delta with_stages = publish();
  ASSERT_FALSE(with_stages.whole());
  bank.apply(0, with_stages);
  EXPECT_EQ(bank.stages(0), counters.stages());
  BitsModel model{growth, 7};
  model.members.emplace(0, received);
  model.members.emplace(1, BloomFilter(growth, {.seed = 7}));
  ASSERT_TRUE(same_bits(bank, model, random_keys(300, 2), {}));
  counters.remove(random_keys(100, 2));  // then changes in all of them
  const scbf::Delta in_all = publish();
  ASSERT_FALSE(in_all.whole());
  bank.apply(0, in_all);
  model.members.at(0) = received;
  ASSERT_TRUE(same_bits(bank, model, random_keys(300, 2), {}));

  Filter elsewhere(Growth::fixed(Geometry::split_block(1, 20), 8), {.seed = 7});
  elsewhere.insert(random_keys(10, 3));
  counters.merge(elsewhere);
  const scbf::Delta of_another = publish();
  ASSERT_FALSE(of_another.whole());
  SCBF_EXPECT_THROW(bank.apply(0, of_another), scbf::Incompatible, "does not belong to its growth");
  ASSERT_TRUE(same_bits(bank, model, random_keys(300, 2), {}));
}

TEST(BloomBank, KeepsNothingOfAMappedFilter) {
  const TemporaryFolder folder;
  const Growth growth = Growth::tightening(200, 0.01);
  Filter counters(growth, {.seed = 7});
  counters.insert(random_keys(900, 1));
  const BloomFilter bits(counters);
  bits.save(folder / "bits");
  counters.save(folder / "counters");
  BloomBank bank(growth, {.seed = 7});
  BitsModel model{growth, 7};
  bank.add_member(BloomFilter::map(folder / "bits"));
  bank.add_member(BloomFilter::map(folder / "counters"));
  std::filesystem::remove(folder / "bits");
  for (std::uint32_t m = 0; m < 2; ++m) model.members.emplace(m, bits);
  ASSERT_TRUE(same_bits(bank, model, random_keys(100, 1), {}));
}

TEST(BloomBank, NamesWhatIsWrong) {
  const Growth growth = Growth::tightening(50, 0.1);
  const BankModel of_counters(growth, 1);
  SCBF_EXPECT_THROW(BloomBank(growth, {.capacity = scbf::kMaxBankMembers + 1}),
                    scbf::InvalidArgument, "capacity 1048577: a bank has at most 1048576");
  SCBF_EXPECT_THROW(BloomBank(growth, {.backend = "far"}), scbf::InvalidArgument,
                    "a bank needs them on the host");
  BloomBank bank(growth, {.seed = 1});
  const BloomFilter fits(growth, {.seed = 1});
  bank.add_member(fits);
  for (const auto& asks_member_5 : std::vector<std::function<void()>>{
           [&] { bank.remove_member(5); },
           [&] { bank.replace_member(5, fits); },
           [&] { bank.apply(5, BloomFilter(fits).advance(fits)); },
           [&] { bank.epoch(5); },
           [&] { bank.copy_member(5); },
           [&] { bank.stages(5); },
           [&] { bank.fpr_bound(5); },
           [&] { bank.metadata(5); },
           [&] { bank.set_metadata(5, ""); },
           [&] { bank.ask_always(5, true); },
           [&] { bank.asked_always(5); },
       }) {
    SCBF_EXPECT_THROW(asks_member_5(), scbf::InvalidArgument,
                      "member 5: there is none; the bank has 1, numbered below 1");
  }
  SCBF_EXPECT_THROW(bank.add_member(BloomFilter(growth, {.seed = 2})), scbf::Incompatible,
                    "the seeds differ: the bank's is 1, the filter's 2");
  SCBF_EXPECT_THROW(bank.replace_member(0, BloomFilter(growth.first_geometry(), {.seed = 1})),
                    scbf::Incompatible, "the growths differ: the bank's is tightening");
  SCBF_EXPECT_THROW(bank.add_members({fits, BloomFilter(Growth::tightening(51, 0.1), {.seed = 1})}),
                    scbf::Incompatible, "the growths differ");
  EXPECT_EQ(bank.size(), 1u);
  SCBF_EXPECT_THROW(bank.reserve(scbf::kMaxBankMembers + 1), scbf::InvalidArgument, "1048576");
  std::vector<std::uint8_t> bits(2);
  SCBF_EXPECT_THROW(bank.contains_bits(Keys{1, 2, 3}, bits), scbf::InvalidArgument,
                    "bits has 2 bytes: must be 3, 1 for each of 3 keys");
  const std::string long_text(scbf::kMaxMetadataBytes + 1, 'x');
  SCBF_EXPECT_THROW(bank.set_metadata(long_text), scbf::InvalidArgument, "metadata");
  SCBF_EXPECT_THROW(bank.set_metadata(0, long_text), scbf::InvalidArgument, "metadata");
  const TemporaryFolder folder;
  fits.save(folder / "filter");
  SCBF_EXPECT_THROW(BloomBank::load(folder / "filter"), scbf::Incompatible, "filter");
  SCBF_EXPECT_THROW(BloomBank::load(folder / "none"), scbf::IoError, "none");
  BloomBank moved = std::move(bank);
  EXPECT_EQ(moved.size(), 1u);
  SCBF_EXPECT_THROW(bank.size(), scbf::InvalidArgument, "moved from");
}

}  // namespace
}  // namespace scbf_test::bloom_bank_test
