// SPDX-License-Identifier: Apache-2.0
// The ranked layout against a model that keeps counts of positions and writes the words as Geometry
// describes them: whatever happened before, the words follow from the counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kit/ranked_check.hpp"
#include "scbf/bank.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::ranked_test {
namespace {

using scbf::Geometry, scbf::Removal;

constexpr unsigned kSlices = 4;

/// Where a key lies, as the format describes it: a block, and a position in each slice.
struct At {
  std::uint64_t block;
  std::array<unsigned, kSlices> position;
};
At place(const Geometry& g, std::uint64_t hash) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(hash) * g.blocks_per_group();
  At at{static_cast<std::uint64_t>(product >> 64), {}};
  std::uint64_t fraction = static_cast<std::uint64_t>(product) >> 32;
  for (unsigned& position : at.position) {
    position = static_cast<unsigned>(fraction * g.positions() >> 32);
    fraction = fraction * g.positions() & 0xFFFF'FFFFu;
  }
  return at;
}

class Model {
 public:
  explicit Model(const Geometry& geometry) : g_(geometry) {}

  void insert(std::uint64_t hash) {
    const At at = place(g_, hash);
    Block& block = blocks_[at.block];
    for (unsigned j = 0; j < kSlices; ++j) {
      unsigned& count = block.counts[j][at.position[j]];
      count = std::min(count + 1, 255u);
    }
    block.spills = spills(block);
    find_stuck();
  }
  Removal remove(std::uint64_t hash) {
    if (count(hash) == 0) return Removal::absent;
    const At at = place(g_, hash);
    Block& block = blocks_[at.block];
    if (stuck_.count(at.block) != 0) return Removal::kept;
    for (unsigned j = 0; j < kSlices; ++j) {
      const auto found = block.counts[j].find(at.position[j]);
      if (found->second == 255) continue;
      if (--found->second == 0) block.counts[j].erase(found);
    }
    block.spills = spills(block);
    return Removal::removed;
  }
  unsigned count(std::uint64_t hash) const {
    const At at = place(g_, hash);
    const auto block = blocks_.find(at.block);
    if (block == blocks_.end()) return 0;
    unsigned least = 15;
    for (unsigned j = 0; j < kSlices; ++j) {
      const auto found = block->second.counts[j].find(at.position[j]);
      least = std::min(least, found == block->second.counts[j].end() ? 0 : found->second);
    }
    return stuck_.count(at.block) != 0 && least > 0 ? scbf::kCounterMax : least;
  }
  std::size_t spilled() const { return table().size(); }
  std::size_t stuck() const { return stuck_.size(); }

  std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> words(g_.words(), 0);
    for (const auto& [number, block] : blocks_) {
      for (unsigned j = 0; j < kSlices; ++j) {
        // A bit of the slice, whose words are 4 apart.
        const auto set = [&, number = number](unsigned bit) {
          words[number * 8 + j + bit / 64 * 4] |= std::uint64_t{1} << bit % 64;
        };
        unsigned end = g_.positions();
        const bool in_lists = !block.spills && stuck_.count(number) == 0;
        for (const auto& [position, count] : block.counts[j]) {
          set(position);
          end += count;
          if (in_lists) set(end - 1);
        }
        if (!in_lists && j == 0) set(127);
      }
    }
    for (const auto& [slot, number] : table()) {
      const Block& block = blocks_.at(number);
      std::uint64_t* const entry =
          &words[g_.blocks_per_group() * 8 + slot * g_.spill_entry_words()];
      entry[0] = (number + 1) << 32;
      auto* const counts = reinterpret_cast<std::uint8_t*>(entry + 1);
      for (unsigned j = 0; j < kSlices; ++j) {
        for (const auto& [position, count] : block.counts[j]) {
          counts[j * g_.positions() + position] = static_cast<std::uint8_t>(count);
        }
      }
    }
    return words;
  }

 private:
  struct Block {
    std::array<std::map<unsigned, unsigned>, kSlices> counts;
    bool spills = false;
  };
  bool spills(const Block& block) const {
    unsigned keys = 0;
    for (const auto& [position, count] : block.counts[0]) keys += count;
    if (keys > 128 - g_.positions()) return true;
    return std::ranges::any_of(block.counts, [](const auto& slice) {
      return std::ranges::any_of(slice, [](const auto& count) { return count.second == 255; });
    });
  }
  /// Slot → block: each at the first free slot from its home on, in the order of the blocks.
  std::map<std::uint64_t, std::uint64_t> table(std::set<std::uint64_t>* without = nullptr) const {
    std::map<std::uint64_t, std::uint64_t> slots;
    std::uint64_t next = 0;
    for (const auto& [number, block] : blocks_) {
      if (!block.spills || stuck_.count(number) != 0) continue;
      const std::uint64_t home = number * g_.spill_homes() / g_.blocks_per_group();
      const std::uint64_t slot = std::max(home, next);
      if (g_.spill_slots() == 0 || slot >= home + g_.spill_reach()) {
        if (without != nullptr) without->insert(number);
        continue;
      }
      slots[slot] = number;
      next = slot + 1;
    }
    return slots;
  }
  void find_stuck() {
    std::set<std::uint64_t> without;
    table(&without);
    stuck_.insert(without.begin(), without.end());
  }

  Geometry g_;
  std::map<std::uint64_t, Block> blocks_;
  std::set<std::uint64_t> stuck_;
};

std::uint64_t hash_of(std::uint64_t key, std::uint64_t seed) {
  return scbf::detail::hash_u64<scbf::detail::PlainOps>(key, scbf::detail::u64_seed_mask(seed));
}

bool removes(scbf::Filter& filter, std::uint64_t key) {
  return filter.remove(key) == Removal::removed;
}

struct RankedCase {
  const char* name;
  Geometry geometry;
  std::size_t keys;  ///< in use at a time
};
std::ostream& operator<<(std::ostream& out, const RankedCase& c) { return out << c.name; }

class Ranked : public ::testing::TestWithParam<RankedCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, Ranked,
    ::testing::Values(RankedCase{"few_spill", Geometry::ranked(82, 40, 40), 1100},
                      RankedCase{"many_spill", Geometry::ranked(90, 70, 70), 2700},
                      RankedCase{"table_beyond_the_reach", Geometry::ranked(112, 400, 180), 6200},
                      RankedCase{"some_stuck", Geometry::ranked(100, 50, 10), 1300},
                      RankedCase{"nearly_all_stuck", Geometry::ranked(65, 9, 1), 900},
                      RankedCase{"no_table", Geometry::ranked(72, 33, 0), 1600},
                      RankedCase{"one_block", Geometry::ranked(66, 1, 1), 60}),
    [](const auto& test) { return std::string(test.param.name); });

/// Random insertions and removals, also of absent and of repeated keys, at all loads.
TEST_P(Ranked, WordsFollowFromTheCounts) {
  const auto& [name, geometry, most] = GetParam();
  for (const scbf::Backend* backend : available_backends()) {
    if (!backend->supports(geometry.layout())) continue;
    SCOPED_TRACE(backend->name());
    scbf::Filter filter(geometry, {.seed = 7, .backend = backend->name()});
    Model model(geometry);
    Random random(1);
    std::vector<std::uint64_t> held;
    for (int turn = 0; turn < 12; ++turn) {
      const std::size_t aim = turn % 3 == 2 ? most / 4 : most - most / 3 * (turn % 2);
      for (int step = 0; step < 200 || held.size() < aim; ++step) {
        const bool grows = held.size() < aim || random() % 4 == 0;
        if (grows) {
          const bool again = !held.empty() && random() % 8 == 0;
          const std::uint64_t key = again ? held[random() % held.size()] : random();
          filter.insert(key);
          model.insert(hash_of(key, 7));
          held.push_back(key);
        } else {
          const bool known = random() % 8 != 0;
          std::size_t i = random() % held.size();
          const std::uint64_t key = known ? held[i] : random();
          ASSERT_EQ(filter.remove(key), model.remove(hash_of(key, 7)));
          if (known) {
            held[i] = held.back();
            held.pop_back();
          }
        }
        while (held.size() > aim + aim / 8 + 1) {
          ASSERT_EQ(filter.remove(held.back()), model.remove(hash_of(held.back(), 7)));
          held.pop_back();
        }
      }
      ASSERT_TRUE(same_words(words_of(filter), model.words())) << "turn " << turn;
      ASSERT_TRUE(knows_its_fill(filter));
      for (const std::uint64_t key : held) {
        const unsigned count = model.count(hash_of(key, 7));  // 0: with an absent key it went
        ASSERT_EQ(filter.count(key), count);
        ASSERT_EQ(filter.contains(key), count > 0);
      }
      const auto words = words_of(filter);
      scbf::RankedCheck check(geometry);
      ASSERT_FALSE(check.next(words).has_value());
      ASSERT_EQ(check.saturated() > 0, model.stuck() > 0);
      ASSERT_EQ(check.saturated(), filter.statistics().saturated);
      ASSERT_FALSE(scbf::misfit_of_spilled(geometry, words.data()).has_value());
    }
    const bool should_be_stuck = std::string_view(name).find("stuck") != std::string_view::npos ||
                                 std::string_view(name) == "no_table";
    EXPECT_EQ(model.stuck() > 0, should_be_stuck);
  }
}

/// The same keys give the same words in any order, in batches of any size.
TEST_P(Ranked, OrderDoesNotMatter) {
  const auto& [name, geometry, most] = GetParam();
  auto keys = random_keys(most, 3);
  keys.insert(keys.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(most / 5));
  scbf::Filter one(geometry, {.seed = 1});
  one.insert(keys);
  Random random(9);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(random()));
    scbf::Filter other(geometry, {.seed = 1});
    for (std::size_t first = 0; first < keys.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 300, keys.size() - first);
      other.insert(scbf::KeyBatch(keys).slice(first, n));
      first += n;
    }
    ASSERT_TRUE(same_words(words_of(other), words_of(one)));
  }
}

/// A hot key: 255 copies are counted, more are not, and they stay.
TEST(RankedFilter, CountsUpTo255) {
  const Geometry geometry = Geometry::ranked(82, 3, 3);
  scbf::Filter filter(geometry, {.seed = 1});
  Model model(geometry);
  const std::uint64_t hot = 42, other = 4711;
  filter.insert(other);
  model.insert(hash_of(other, 1));
  for (int i = 1; i <= 300; ++i) {
    filter.insert(hot);
    model.insert(hash_of(hot, 1));
    EXPECT_EQ(filter.count(hot), static_cast<unsigned>(std::min(i, 15)));
  }
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
  for (int i = 0; i < 400; ++i) {
    EXPECT_TRUE(removes(filter, hot));
    model.remove(hash_of(hot, 1));
  }
  EXPECT_TRUE(filter.contains(hot));  // as a counter of 4 bits that is saturated
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
  EXPECT_TRUE(removes(filter, other));

  scbf::Filter fewer(geometry, {.seed = 1});
  for (int i = 0; i < 254; ++i) fewer.insert(hot);
  for (int i = 0; i < 254; ++i) EXPECT_TRUE(removes(fewer, hot));
  EXPECT_FALSE(fewer.contains(hot));
  EXPECT_EQ(words_of(fewer), std::vector<std::uint64_t>(geometry.words(), 0));
}

/// Two hot keys that share their position in the first slice only: its count stays at 255 when both
/// are gone, and the other slices are empty. That is a filter like any other.
TEST(RankedFilter, SlicesOfASpilledBlockMayBeEmpty) {
  const Geometry geometry = Geometry::ranked(82, 1, 1);
  const At first = place(geometry, hash_of(0, 0));
  std::uint64_t other = 1;
  const auto shares = [&](unsigned slice) {
    return place(geometry, hash_of(other, 0)).position[slice] == first.position[slice];
  };
  while (!(shares(0) && !shares(1) && !shares(2) && !shares(3))) ++other;
  std::vector<std::uint64_t> keys(128, 0);
  keys.insert(keys.end(), 128, other);
  scbf::Filter filter(geometry);
  filter.insert(keys);
  EXPECT_EQ(filter.remove(keys).absent, 0u);
  EXPECT_EQ(filter.stage(0).nonzero(), 1u);
  std::string bytes;
  filter.write([&](std::span<const std::byte> more) {
    bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
  });
  std::size_t read = 0;
  const scbf::Filter again = scbf::Filter::read([&](std::span<std::byte> into) {
    const std::size_t n = std::min(into.size(), bytes.size() - read);
    std::memcpy(into.data(), bytes.data() + read, n);
    read += n;
    return n;
  });
  EXPECT_TRUE(again == filter);
  scbf::Filter assigned(geometry);
  assigned.assign(words_of(filter), 256, 256);
  EXPECT_TRUE(assigned == filter);
  filter.insert(keys);
  EXPECT_EQ(filter.remove(keys).absent, 0u);
}

/// Blocks that are stuck lose no key, and no count is too low.
TEST(RankedFilter, NeverForgetsAKey) {
  const Geometry geometry = Geometry::ranked(80, 20, 2);
  scbf::Filter filter(geometry, {.seed = 5});
  const auto keys = random_keys(3000, 6);
  filter.insert(keys);
  EXPECT_EQ(contains(filter, keys), Answers(keys.size(), 1));
  for (int i = 0; i < 4; ++i) filter.insert(keys);
  const Answers counts = scbf_test::count(filter, keys);
  EXPECT_GE(*std::ranges::min_element(counts), 5);
  for (int i = 0; i < 4; ++i) filter.remove(keys);
  const auto some = std::vector(keys.begin(), keys.begin() + 1500);
  filter.remove(some);
  const auto rest = std::vector(keys.begin() + 1500, keys.end());
  EXPECT_EQ(contains(filter, rest), Answers(rest.size(), 1));
  EXPECT_GT(filter.statistics().saturated, 0u);
}

/// The verdicts on keys that are removed one by one, and how many were kept.
std::pair<Answers, std::uint64_t> one_by_one(scbf::Filter filter,
                                             const std::vector<std::uint64_t>& keys) {
  Answers verdicts;
  for (const std::uint64_t key : keys) {
    verdicts.push_back(static_cast<std::uint8_t>(filter.remove(key)));
  }
  return {verdicts, static_cast<std::uint64_t>(
                        std::ranges::count(verdicts, static_cast<std::uint8_t>(Removal::kept)))};
}

/// A stage whose blocks are partly stuck, and for growths that grow, stages after it.
scbf::Filter with_stuck_blocks(const scbf::Growth& growth, std::string_view backend,
                               const std::vector<std::uint64_t>& keys) {
  scbf::Filter filter(growth, {.seed = 3, .backend = std::string(backend)});
  for (int copy = 0; copy < 8; ++copy) filter.insert(scbf::KeyBatch(keys).slice(0, 1600));
  filter.insert(keys);
  EXPECT_GT(filter.statistics().saturated, 0u);
  return filter;
}

/// What is in a stuck block stays, and removals say so: one by one and in batches, on every
/// backend and path, from one stage and from several, all or nothing, and in banks.
TEST(RankedFilter, SaysWhatStuckBlocksKeep) {
  auto keys = random_keys(5200, 6);
  const auto absent = random_keys(1200, 7);
  for (const scbf::Growth& growth : {scbf::Growth::one(Geometry::ranked(100, 240, 40)),
                                     scbf::Growth::tightening(2000, 0.01, scbf::Layout::ranked)}) {
    auto asked = keys;
    asked.insert(asked.end(), absent.begin(), absent.end());
    std::shuffle(asked.begin(), asked.end(), std::mt19937_64(1));
    const scbf::Filter filled = with_stuck_blocks(growth, "scalar", keys);
    EXPECT_EQ(filled.stages() > 1, growth.policy() != scbf::Growth::Policy::one);
    const auto [verdicts, kept] = one_by_one(filled, asked);
    ASSERT_GT(kept, 400u);
    ASSERT_LT(kept, 5000u);
    const auto check = [&](const scbf::RemoveReport& report, const Answers& given) {
      EXPECT_TRUE(given == verdicts);
      EXPECT_EQ(report.kept, kept);
      EXPECT_EQ(report.removed + report.ambiguous + report.kept + report.absent, asked.size());
      EXPECT_EQ(report.removed, static_cast<std::uint64_t>(std::ranges::count(verdicts, 1)));
    };
    for (const scbf::Backend* backend : available_backends()) {
      if (backend->memory() != scbf::kHostMemory) continue;
      SCOPED_TRACE(backend->name());
      const scbf::Filter full = with_stuck_blocks(growth, backend->name(), keys);
      for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
        for (const unsigned threads : {1u, 2u}) {
          scbf::Filter filter = full;
          const std::uint64_t removed_before = filter.keys_removed();
          Answers given(asked.size());
          const auto report = filter.remove(asked, given, {.threads = threads, .path = path});
          check(report, given);
          EXPECT_EQ(filter.keys_removed() - removed_before, report.removed);
          scbf::Filter unasked = full;
          EXPECT_EQ(unasked.remove(asked, {}, {.threads = threads, .path = path}).kept, kept);
          EXPECT_TRUE(unasked == filter);
        }
      }
      EXPECT_TRUE(one_by_one(full, asked).first == verdicts);
      Answers given(asked.size());
      scbf::Filter filter = full;
      check(filter.remove(asked, given, {.most_absent = 2400}), given);
      filter = full;
      const std::vector<std::byte> every_other((asked.size() + 7) / 8, std::byte{0x55});
      std::vector<std::uint64_t> valid;
      for (std::size_t i = 0; i < asked.size(); i += 2) valid.push_back(asked[i]);
      const auto [of_valid, kept_of_valid] = one_by_one(full, valid);
      const auto some = filter.remove(scbf::KeyBatch(asked).with_validity(every_other), given);
      EXPECT_EQ(some.kept, kept_of_valid);
      EXPECT_EQ(some.nulls, asked.size() - valid.size());
      for (std::size_t i = 0; i < asked.size(); ++i) {
        ASSERT_EQ(given[i], i % 2 == 0 ? of_valid[i / 2] : 0) << i;
      }
      filter = full;
      EXPECT_THROW(filter.remove(asked, given, {.most_absent = 0}), scbf::KeysAbsent);
      EXPECT_TRUE(given == verdicts);
      EXPECT_TRUE(filter == full);

      scbf::Bank bank(growth, {.seed = 3, .backend = std::string(backend->name())});
      bank.add_member(filter);
      bank.add_member(filter);
      check(bank.remove(0, asked, given), given);
      const scbf::MemberKeys batch{1, asked};
      check(bank.remove(std::span(&batch, 1)), given);
      EXPECT_TRUE(bank.copy_member(0) == bank.copy_member(1));
      std::vector<std::uint64_t> still;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        if (given[i] == static_cast<std::uint8_t>(Removal::kept)) still.push_back(asked[i]);
      }
      for (const std::uint64_t key : still) {
        ASSERT_EQ(bank.find(key), (std::vector<std::uint32_t>{0, 1}));
      }
    }
  }
}

/// Damage is found, wherever it is.
TEST(RankedFilter, DamageIsFound) {
  for (const unsigned positions : {90u, 89u}) {  // with and without bytes left over in an entry
    const Geometry geometry = Geometry::ranked(positions, 8, 10);
    scbf::Filter filter(geometry, {.seed = 5});
    filter.insert(random_keys(320, 6));
    const auto words = words_of(filter);
    ASSERT_GT(std::ranges::count_if(words, [](auto word) { return word >> 32 == 1; }), 0);
    for (std::uint64_t bit = 0; bit < words.size() * 64; ++bit) {
      auto damaged = words;
      damaged[bit / 64] ^= std::uint64_t{1} << bit % 64;
      scbf::RankedCheck check(geometry);
      ASSERT_TRUE(check.next(damaged).has_value() ||
                  scbf::misfit_of_spilled(geometry, damaged.data()).has_value())
          << "bit " << bit;
    }
  }
}

TEST(RankedFilter, AnyWordsAreSafe) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Geometry geometry = Geometry::ranked(65 + static_cast<unsigned>(random() % 48),
                                               1 + random() % 40, random() % 70);
    std::vector<std::uint64_t> words(geometry.words());
    for (auto& word : words) word = random() & random() & (round % 2 == 0 ? ~0ull : random());
    scbf::Filter filter(geometry, {.seed = 1});
    EXPECT_THROW(filter.assign(words, 0, 0), scbf::InvalidArgument);
    // As from a mapped file, which is not looked through.
    for (const scbf::Backend* backend : available_backends()) {
      if (!backend->supports(geometry.layout()) || backend->memory() != scbf::kHostMemory) continue;
      std::vector<std::uint64_t> copy(words.size() + 8);
      auto* const at = reinterpret_cast<std::uint64_t*>(
          (reinterpret_cast<std::uintptr_t>(copy.data()) + 63) / 64 * 64);
      std::ranges::copy(words, at);
      const scbf::CounterView view{geometry, 1, at};
      const auto keys = random_keys(200, static_cast<std::uint64_t>(round));
      Answers answers(keys.size());
      scbf::RemovalChange change;
      const scbf::BatchOptions options{.threads = 1};
      const scbf::ConstCounterView seen{geometry, 1, at};
      backend->insert(view, keys, options);
      backend->contains({&seen, 1}, keys, answers.data(), options);
      backend->count({&seen, 1}, keys, answers.data(), options);
      backend->remove({&view, 1}, keys, answers.data(), {&change, 1}, options);
      backend->histograms(seen, options);
      backend->merge(view, seen, options);
    }
  }
}

/// Keys leave and others come, many times over: nothing of it stays.
TEST(RankedFilter, ChurnLeavesNoTrace) {
  constexpr std::size_t n = 20'000;
  const Geometry geometry = scbf::geometry_for(scbf::Layout::ranked, n, 0.01);
  scbf::Filter filter(geometry, {.seed = 1});
  auto keys = random_keys(n, 1);
  filter.insert(keys);
  for (std::uint64_t turn = 0; turn < 100; ++turn) {
    const auto others = random_keys(n, 100 + turn);
    constexpr std::size_t kParts = 8;
    for (std::size_t part = 0; part < kParts; ++part) {  // the number of keys stays
      const std::size_t first = n * part / kParts, count = n * (part + 1) / kParts - first;
      ASSERT_EQ(filter.remove(scbf::KeyBatch(keys).slice(first, count)).absent, 0u);
      filter.insert(scbf::KeyBatch(others).slice(first, count));
    }
    keys = others;
  }
  scbf::Filter fresh(geometry, {.seed = 1});
  fresh.insert(keys);
  EXPECT_TRUE(same_words(words_of(filter), words_of(fresh)));
  EXPECT_EQ(filter.statistics().saturated, 0u);
}

TEST(RankedFilter, MergeAndSubtract) {
  const Geometry geometry = Geometry::ranked(82, 50, 50);
  const auto a = random_keys(1100, 1), b = random_keys(700, 2);
  const scbf::FilterOptions options{.seed = 3};
  scbf::Filter one(geometry, options), other(geometry, options), both(geometry, options);
  one.insert(a);
  other.insert(b);
  both.insert(a);
  both.insert(b);
  scbf::Filter merged = one;
  merged.merge(other);
  EXPECT_TRUE(same_words(words_of(merged), words_of(both)));
  merged.merge(merged);  // itself
  both.insert(a);
  both.insert(b);
  EXPECT_TRUE(same_words(words_of(merged), words_of(both)));
  EXPECT_EQ(merged.subtract(other).inexact_counters, 0u);
  EXPECT_EQ(merged.subtract(other).inexact_counters, 0u);
  merged.subtract(one);
  EXPECT_TRUE(same_words(words_of(merged), words_of(one)));
  EXPECT_THROW(merged.subtract(other), scbf::Incompatible);
  EXPECT_TRUE(same_words(words_of(merged), words_of(one)));
}

/// Blocks of any two loads, with keys that come several times, and some that spill: as the scalar
/// backend does it, which unpacks every block.
TEST(RankedFilter, BackendsMergeAndSubtractAsTheModel) {
  constexpr std::uint64_t kBlocks = 300;
  struct Loads {
    double a, b;  // keys per block
  };
  std::size_t backends = 0;
  for (const std::uint32_t positions : {65u, 82u, 101u, 112u}) {
    const Geometry geometry = Geometry::ranked(positions, kBlocks, 60);
    for (const auto& [a_load, b_load] : {Loads{.2, 9}, Loads{9, .2}, Loads{7, 7}, Loads{0, 12},
                                         Loads{128. - positions, 1}, Loads{12, 40}}) {
      const auto filled = [&](double load, std::uint64_t seed) {
        scbf::Filter filter(geometry, {.seed = 3, .backend = "scalar"});
        const auto keys = random_keys(static_cast<std::size_t>(load * kBlocks), seed);
        filter.insert(keys);
        for (int i = 0; i < 3; ++i) filter.insert(scbf::KeyBatch(keys).slice(0, keys.size() / 9));
        return filter;
      };
      const scbf::Filter a = filled(a_load, 1), b = filled(b_load, 2);
      scbf::Filter sum = a;
      sum.merge(b);
      scbf::Filter rest = sum;
      const auto report = rest.subtract(b);
      std::string refused;
      try {
        rest.subtract(b);
      } catch (const scbf::Incompatible& error) {
        refused = error.what();
      }
      for (const scbf::Backend* backend : available_backends()) {
        if (!backend->supports(geometry.layout()) || backend->name() == "scalar") continue;
        SCOPED_TRACE(std::string(backend->name()) + ", " + std::to_string(a_load) + " and " +
                     std::to_string(b_load) + ", " + geometry.describe());
        ++backends;
        scbf::Filter got = a;
        got.to(backend->name());
        got.merge(b, {.threads = 1});
        ASSERT_TRUE(same_words(words_of(got), words_of(sum)));
        EXPECT_EQ(got.subtract(b, {.threads = 1}).inexact_counters, report.inexact_counters);
        ASSERT_TRUE(same_words(words_of(got), words_of(rest)));
        if (refused.empty()) {
          got.subtract(b);
        } else {
          SCBF_EXPECT_THROW(got.subtract(b), scbf::Incompatible, refused);
          ASSERT_TRUE(same_words(words_of(got), words_of(rest)));
        }
      }
    }
  }
  EXPECT_GE(backends, 4u * 6u);
}

/// Also with blocks that are stuck, by whatever happened before: in any order, with any threads.
TEST(RankedFilter, MergingDependsOnNoOrder) {
  const Geometry geometry = Geometry::ranked(112, 40'000, 200);
  const auto made = [&](std::uint64_t seed) {
    scbf::Filter filter(geometry, {.seed = 3});
    const auto keys = random_keys(480'000, seed);
    filter.insert(keys);                                    // more blocks spill than find room
    filter.remove(scbf::KeyBatch(keys).slice(0, 300'000));  // and the table is nearly empty again
    filter.insert(random_keys(100'000, seed + 1));
    return filter;
  };
  const scbf::Filter a = made(1), b = made(5);
  ASSERT_GT(a.statistics().saturated, 0u);
  scbf::Filter one = a, other = b;
  one.merge(b, {.threads = 1});
  other.merge(a, {.threads = 1});
  EXPECT_TRUE(same_words(words_of(other), words_of(one)));
  const ThreadExecutor four(4);
  scbf::Filter many = a, model(geometry, {.seed = 3, .backend = "scalar"});
  many.merge(b, {.threads = 4, .executor = &four});
  EXPECT_TRUE(same_words(words_of(many), words_of(one)));
  model.merge(b);
  model.merge(a);
  EXPECT_TRUE(same_words(words_of(model), words_of(one)));
}

/// A key that comes often is counted exactly, as long as it comes less than 255 times.
TEST(RankedFilter, CopiesAreNotSaturated) {
  scbf::Filter filter(scbf::geometry_for(scbf::Layout::ranked, 1000, 0.01), {.seed = 1});
  const std::vector<std::uint64_t> copies(20, 42);
  filter.insert(copies);
  EXPECT_EQ(filter.count(std::uint64_t{42}), 15u);  // or more
  EXPECT_EQ(filter.statistics().saturated, 0u);
  EXPECT_EQ(filter.remove(copies).removed, 20u);
  EXPECT_EQ(filter.nonzero(), 0u);
}

/// Keys that two growing filters have in common would need the room of two: stages stay apart.
TEST(RankedFilter, GrowingFiltersMerge) {
  const auto growth = scbf::Growth::tightening(5000, 0.01, scbf::Layout::ranked);
  scbf::Filter one(growth, {.seed = 1}), other(growth, {.seed = 1});
  const auto keys = random_keys(5000, 1);
  one.insert(keys);
  other.insert(keys);
  one.merge(other);
  EXPECT_EQ(one.stages(), 2u);
  EXPECT_EQ(one.statistics().saturated, 0u);
  scbf::Filter blocks(scbf::Growth::tightening(5000, 0.01), {.seed = 1});
  blocks.insert(keys);
  SCBF_EXPECT_THROW(one.merge(blocks), scbf::Incompatible,
                    "layouts differ: ranked and split_block");
  SCBF_EXPECT_THROW(blocks.merge(one), scbf::Incompatible,
                    "layouts differ: split_block and ranked");
}

TEST(RankedFilter, WhatItCannotDo) {
  const Geometry geometry = Geometry::ranked(82, 50, 50);
  SCBF_EXPECT_THROW(Geometry::ranked(64, 1, 0), scbf::InvalidArgument, "65 to 112");
  SCBF_EXPECT_THROW(Geometry::ranked(113, 1, 0), scbf::InvalidArgument, "65 to 112");
  SCBF_EXPECT_THROW(Geometry::ranked(82, 0, 0), scbf::InvalidArgument, "blocks 0");
  SCBF_EXPECT_THROW(scbf::Growth::fixed(geometry, 3), scbf::InvalidArgument, "layout ranked");
}

}  // namespace
}  // namespace scbf_test::ranked_test
