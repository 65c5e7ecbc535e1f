// SPDX-License-Identifier: Apache-2.0
// Filters of bits on all backends that have them: the bits are those of the counters, and every
// answer is that of the counting filter.
#include "scbf/bloom_filter.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "scbf/growth.hpp"
#include "scbf/sizing.hpp"
#include "support/end_of_page.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/moving.hpp"
#include "support/setups.hpp"

namespace scbf_test::bloom_filter_test {
namespace {

using scbf::BloomFilter;
using scbf::BulkInserter;
using scbf::Cell;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::KeyEstimate;

using Keys = std::vector<std::uint64_t>;

[[maybe_unused]] const bool kFar = add_far_backends();

/// The bits of counters, one by one: bit i says whether counter i is not 0. Of ranked counters, the
/// positions of the bitmaps, slice by slice and block by block.
std::vector<std::uint64_t> bits_one_by_one(const Geometry& geometry,
                                           const std::vector<std::uint64_t>& counters) {
  std::vector<std::uint64_t> bits;
  std::size_t count = 0;
  const auto push = [&](std::uint64_t bit) {
    if (count % 64 == 0) bits.push_back(0);
    bits.back() |= bit << count++ % 64;
  };
  if (geometry.layout() == scbf::Layout::ranked) {
    for (std::uint64_t slice = 0; slice < 4 * geometry.blocks_per_group(); ++slice) {
      const std::uint64_t first = slice / 4 * 8 + slice % 4;
      for (unsigned p = 0; p < geometry.positions(); ++p) {
        push(counters[first + p / 64 * 4] >> p % 64 & 1);
      }
    }
    while (count % 128 != 0) push(0);
  } else {
    for (const std::uint64_t word : counters) {
      for (unsigned i = 0; i < 16; ++i) push((word >> i * 4 & 15) != 0);
    }
  }
  return bits;
}

/// Bits are those of the counters, stage by stage, and so is all that a filter says of itself.
::testing::AssertionResult are_bits_of(const BloomFilter& bits, const Filter& counters) {
  if (bits.stages() != counters.stages()) {
    return ::testing::AssertionFailure() << bits.stages() << " stages";
  }
  std::uint64_t ones = 0;
  for (std::size_t s = 0; s < bits.stages(); ++s) {
    if (bits.stage(s).geometry() != counters.stage(s).geometry().with(Cell::bit)) {
      return ::testing::AssertionFailure() << bits.stage(s).geometry().describe();
    }
    const auto words = words_of(bits.stage(s));
    const auto same = same_words(
        words, bits_one_by_one(counters.stage(s).geometry(), words_of(counters.stage(s))));
    if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
    for (const std::uint64_t word : words) ones += static_cast<unsigned>(std::popcount(word));
    if (bits.stage(s).keys_inserted() != counters.stage(s).keys_inserted()) {
      return ::testing::AssertionFailure() << bits.stage(s).keys_inserted() << " keys";
    }
  }
  if (bits.nonzero() != ones || bits.nonzero() != counters.nonzero()) {
    return ::testing::AssertionFailure() << "nonzero() is " << bits.nonzero() << ", not " << ones;
  }
  return ::testing::AssertionSuccess();
}

std::vector<Case> cases() {
  // Under the thread sanitizer the model of ranked counters would take ten minutes.
  const auto shapes = kThreadSanitizer ? contract_shapes(300'000) : all_shapes(300'000);
  std::vector<Case> all = cases_of(shapes);
  const auto modes = contract_modes();
  for (const Shape& shape : shapes) {
    all.push_back({&scbf::find_backend("scalar"), shape, modes[0]});
  }
  std::erase_if(all, [](const Case& c) { return !c.backend->supports(Cell::bit); });
  return all;
}

class Bits : public ::testing::TestWithParam<Case> {
 protected:
  BloomFilter filter(std::uint64_t seed) const {
    return BloomFilter(GetParam().shape.geometry,
                       {.seed = seed, .backend = GetParam().backend->name()});
  }
  scbf::BatchOptions options() const { return GetParam().mode.options(); }
};
INSTANTIATE_TEST_SUITE_P(All, Bits, ::testing::ValuesIn(cases()), CaseName());

TEST_P(Bits, AreAndAnswerAsTheCounters) {
  Mixture mixture(1);
  Filter counters = GetParam().model(5);
  BloomFilter bits = filter(5);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                              std::size_t{513}, std::size_t{20'000}}) {
    SCOPED_TRACE(n);
    const Keys keys = mixture.to_insert(n);
    EXPECT_EQ(bits.insert(keys, options()).inserted, n);
    counters.insert(keys);
    ASSERT_TRUE(are_bits_of(bits, counters));
    const Keys asked = mixture.to_ask(n + 3000);
    const Answers want = contains(counters, asked);
    ASSERT_TRUE(same_answers(contains(bits, asked, options()), want));
    ASSERT_EQ(bits.count_present(asked, options()).hits, present_in(want));
    ASSERT_TRUE(same_answers(contains(BloomFilter(counters), asked, options()), want));
    for (std::size_t i = 0; i < 40; ++i) ASSERT_EQ(bits.contains(asked[i]), want[i] == 1);
  }
  EXPECT_TRUE(BloomFilter(counters) == bits);
}

TEST_P(Bits, TakeKeysOfAllKindsWithNulls) {
  const StringColumn column = StringColumn(string_sets()[2].keys);
  const Keys numbers = random_keys(3000, 2);
  const std::vector<std::byte> bitmap(400, std::byte{0xB6});
  Filter counters = GetParam().model(6);
  BloomFilter bits = filter(6);
  std::vector<KeyBatch> batches = batches_of(column);
  batches.push_back(KeyBatch(numbers).with_validity(bitmap));
  for (const KeyBatch& keys : batches) {
    const KeyBatch some = keys.with_validity(bitmap, 3);
    EXPECT_EQ(bits.insert(some, options()).nulls, counters.insert(some).nulls);
  }
  ASSERT_TRUE(are_bits_of(bits, counters));
  for (const KeyBatch& keys : batches) {
    ASSERT_TRUE(same_answers(contains(bits, keys, options()), contains(counters, keys)));
    std::vector<std::uint8_t> packed((keys.size() + 7) / 8), want(packed.size());
    EXPECT_EQ(bits.contains_bits(keys, packed, options()).hits,
              counters.contains_bits(keys, want).hits);
    EXPECT_EQ(packed, want);
    Keys found(keys.size(), 0), wanted(keys.size(), 0);
    EXPECT_EQ(bits.find(keys, found, options()).hits, counters.find(keys, wanted).hits);
    EXPECT_EQ(found, wanted);
  }
}

TEST_P(Bits, InBulkAndOneByOne) {
  const Keys keys = random_keys(9000, 3);
  Filter counters = GetParam().model(7);
  BloomFilter bits = filter(7);
  counters.insert(keys);
  {
    BulkInserter bulk = bits.bulk(options());
    for (std::size_t first = 0; first < 8000; first += 500) {
      bulk.insert(KeyBatch(keys).slice(first, 500));
    }
    bulk.finish();
    EXPECT_EQ(bulk.insert(KeyBatch(keys).slice(8000, 800)).inserted, 800u);
  }
  for (std::size_t i = 8800; i < 9000; ++i) bits.insert(keys[i]);
  EXPECT_TRUE(are_bits_of(bits, counters));
  bits.insert("word");
  EXPECT_TRUE(bits.contains("word"));
}

TEST_P(Bits, CombineBitByBit) {
  BloomFilter a = filter(8), b = filter(8);
  const Keys keys = random_keys(6000, 4);
  a.insert(KeyBatch(keys).slice(0, 4000));
  b.insert(KeyBatch(keys).slice(3000, 3000));
  const auto of_a = words_of(a), of_b = words_of(b);
  BloomFilter both = a, either = a;
  both.intersect(b, options());
  either.merge(b, options());
  std::uint64_t ones = 0;
  auto want_both = of_a, want_either = of_a;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    want_both[i] &= of_b[i];
    want_either[i] |= of_b[i];
    ones += static_cast<unsigned>(std::popcount(want_either[i]));
  }
  EXPECT_TRUE(same_words(words_of(both), want_both));
  EXPECT_TRUE(same_words(words_of(either), want_either));
  EXPECT_EQ(either.nonzero(options()), ones);
  EXPECT_EQ(a.estimated_union(b, options()).keys, either.estimated_keys().keys);
  EXPECT_EQ(either.keys_inserted(), 7000u);
  BloomFilter all = filter(8);
  all.insert(keys);
  EXPECT_TRUE(either == all);
}

TEST_P(Bits, StatisticsAreThoseOfTheCounters) {
  Filter counters = GetParam().model(9);
  counters.insert(random_keys(5000, 5));
  const scbf::Statistics of_counters = counters.statistics();
  BloomFilter bits = filter(9);
  bits.insert(random_keys(5000, 5));
  const scbf::Statistics of_bits = bits.statistics(options());
  EXPECT_EQ(of_bits.nonzero, of_counters.nonzero);
  EXPECT_EQ(of_bits.stages[0].slice_fill, of_counters.stages[0].slice_fill);
  EXPECT_EQ(of_bits.estimated_keys, of_counters.estimated_keys);
  EXPECT_EQ(of_bits.estimated_fpr, of_counters.estimated_fpr);
  EXPECT_EQ(of_bits.bytes, GetParam().shape.geometry.with(Cell::bit).bytes());
  EXPECT_EQ(of_bits.saturated, 0u);
}

// ---- one backend --------------------------------------------------------------------------------

TEST(BitFilter, IsMadeFromAFilterThatHasLostKeys) {
  for (const Shape& shape : all_shapes(100'000)) {
    SCOPED_TRACE(shape.name);
    Filter counters(shape.geometry, {.seed = 3});
    const Keys keys = random_keys(4000, 6);
    counters.insert(keys);
    const auto report = counters.remove(KeyBatch(keys).slice(1000, 2000));
    EXPECT_EQ(report.removed + report.kept, 2000u);
    counters.set_metadata("what it is");
    const BloomFilter bits(counters);
    EXPECT_TRUE(are_bits_of(bits, counters));
    EXPECT_EQ(bits.keys_removed(), report.removed);
    EXPECT_EQ(bits.metadata(), "what it is");
    EXPECT_EQ(bits.seed(), 3u);
  }
}

TEST(BitFilter, GrowsAsAFilterDoes) {
  for (const Growth& growth :
       {Growth::tightening(500, 0.02), Growth::tightening(300, 0.1, scbf::Layout::split),
        Growth::tightening(400, 0.03, scbf::Layout::ranked),
        Growth::fixed(Geometry::split_block(2, 40), 30)}) {
    Filter counters(growth, {.seed = 4});
    BloomFilter bits(growth, {.seed = 4}), in_bulk(growth, {.seed = 4});
    BulkInserter bulk = in_bulk.bulk();
    const Keys keys = random_keys(5000, 7);
    for (std::size_t first = 0; first < keys.size(); first += 250) {
      const KeyBatch some = KeyBatch(keys).slice(first, 250);
      counters.insert(some);
      bits.insert(some);
      bulk.insert(some);
    }
    bulk.finish();
    ASSERT_GT(counters.stages(), 2u);
    EXPECT_TRUE(are_bits_of(bits, counters));
    EXPECT_TRUE(are_bits_of(in_bulk, counters));
    EXPECT_TRUE(BloomFilter(counters) == bits);
    EXPECT_EQ(bits.fpr_bound(), counters.fpr_bound());
    const Keys asked = random_keys(20'000, 8);
    ASSERT_TRUE(same_answers(contains(bits, asked), contains(counters, asked)));
    ASSERT_TRUE(same_answers(contains(bits, keys), contains(counters, keys)));
    for (std::size_t i = 0; i < 300; ++i) ASSERT_TRUE(bits.contains(keys[i]));
    SCBF_EXPECT_THROW(bits.intersect(bits), scbf::Incompatible, "single stage");
    SCBF_EXPECT_THROW(bits.estimated_union(bits), scbf::Incompatible, "single stage");
    BloomFilter sum = bits;
    sum.merge(bits);
    ASSERT_TRUE(same_answers(contains(sum, asked), contains(bits, asked)));
    bits.clear();
    EXPECT_EQ(bits.stages(), 1u);
    EXPECT_EQ(bits.nonzero(), 0u);
  }
}

TEST(BitFilter, FilterFullSaysHowManyKeysAreIn) {
  BloomFilter bits(Growth::fixed(Geometry::split_block(1, 4), 2));
  const Keys keys = random_keys(1000, 9);
  try {
    bits.insert(keys);
    FAIL() << "not full";
  } catch (const scbf::FilterFull& full) {
    EXPECT_GT(full.processed(), 20u);
    EXPECT_EQ(bits.keys_inserted(), full.processed());
    for (std::size_t i = 0; i < full.processed(); ++i) ASSERT_TRUE(bits.contains(keys[i]));
  }
}

TEST(BitFilter, TakesAQuarterOfTheMemory) {
  const BloomFilter bits(1'000'000, 0.01);
  EXPECT_LE(bits.bytes() * 80, 115 * 1'000'000u);  // 11.5 bits per key
  EXPECT_EQ(bits.bytes() * 4, Filter(1'000'000, 0.01).bytes());
  EXPECT_EQ(bits.geometry().describe().substr(bits.geometry().describe().size() - 8), " of bits");
}

TEST(BitFilter, OfRankedHasTheBitmapsAlone) {
  const Geometry geometry =
      scbf::plan({.capacity = 1'000'000, .fpr = 0.01, .layout = scbf::Layout::ranked}).geometry;
  const BloomFilter bits(geometry);
  const std::uint64_t positions = std::uint64_t{4} * geometry.positions();
  EXPECT_EQ(bits.geometry().counters(), geometry.blocks_per_group() * positions);
  EXPECT_LT(bits.bytes() * 8 - bits.geometry().counters(), 128u);
  EXPECT_LE(bits.bytes() * 80, 110 * 1'000'000u);  // 11 bits per key
}

/// Words of bits that are made apart end within blocks.
TEST(BitFilter, OfManyRankedBlocksIsMadeInPieces) {
  for (const std::uint32_t positions : {65u, 101u}) {
    Filter counters(Geometry::ranked(positions, 60'000, 900));
    counters.insert(random_keys(scaled(700'000, 70'000), 11));
    EXPECT_TRUE(are_bits_of(BloomFilter(counters), counters));
    EXPECT_TRUE(are_bits_of(BloomFilter(counters, {.executor = &two_threads()}), counters));
  }
}

TEST(BitFilter, ReadsNothingBehindItsLastBlock) {
  const Keys keys = random_keys(20'000, 1);
  std::vector<Geometry> geometries = {Geometry::split_block(2, 512), Geometry::split(3, 65'536)};
  for (const std::uint32_t positions : {65u, 66u, 81u, 82u, 96u, 112u}) {
    for (const std::uint64_t blocks : {512u, 513u}) {
      geometries.push_back(Geometry::ranked(positions, blocks, 0));
    }
  }
  for (const Geometry& counters : geometries) {
    const Geometry geometry = counters.with(Cell::bit);
    for (const scbf::Backend* backend : available_backends()) {
      if (backend->memory() != scbf::kHostMemory) continue;
      SCOPED_TRACE(std::string(backend->name()) + ", " + geometry.describe());
      const AtTheEndOfAPage memory(geometry.words());
      for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
        const scbf::BatchOptions options{.threads = 1, .path = path};
        backend->insert({geometry, 1, memory.words()}, keys, options);
        const scbf::ConstCounterView view{geometry, 1, memory.words()};
        Answers answers(keys.size());
        EXPECT_EQ(backend->contains({&view, 1}, keys, answers.data(), options), keys.size());
        EXPECT_GT(backend->count_nonzero(view, options), 0u);
        backend->histograms(view, options);
      }
    }
  }
}

/// What is told of memory is told of bits.
TEST(BitFilter, PlansNameTheMemoryOfBits) {
  using scbf::Layout;
  const auto plan_of = [](scbf::PlanRequest request) {
    request.cell = Cell::bit;
    return scbf::plan(request);
  };
  SCBF_EXPECT_THROW(plan_of({.capacity = 1'000'000, .fpr = 0.01, .memory_bytes = 1000}),
                    scbf::InvalidArgument,
                    "memory 1000 bytes: capacity 1000000 at fpr 0.01 needs at least 1428784 bytes");
  SCBF_EXPECT_THROW(
      plan_of({.fpr = 0.01, .memory_bytes = 20, .layout = Layout::split, .probes = 3}),
      scbf::InvalidArgument, "memory 20 bytes: split needs at least 48, 16 bytes");
  SCBF_EXPECT_THROW(plan_of({.fpr = 0.01, .memory_bytes = 15}), scbf::InvalidArgument,
                    "memory 15 bytes: must be at least 16, one block");
  SCBF_EXPECT_THROW(scbf::plan_fixed(10, 0.01, 0.1, Layout::split_block, Cell::bit),
                    scbf::InvalidArgument, "memory 10 bytes: split_block needs at least 16");
  const auto ranked = [&](double fpr) {
    return plan_of({.capacity = 1'000'000, .fpr = fpr, .layout = Layout::ranked}).reason;
  };
  EXPECT_NE(ranked(0.01).find("split_block would take 4."), std::string::npos) << ranked(0.01);
  EXPECT_NE(ranked(0.001).find("split_block would save"), std::string::npos) << ranked(0.001);
}

TEST(BitFilter, IsPlannedForItsOwnMemory) {
  for (const scbf::Layout layout :
       {scbf::Layout::split, scbf::Layout::split_block, scbf::Layout::ranked}) {
    SCOPED_TRACE(to_string(layout));
    const std::uint64_t memory = 1'000'000;
    const auto plan =
        scbf::plan({.fpr = 0.01, .memory_bytes = memory, .layout = layout, .cell = Cell::bit});
    const BloomFilter bits(plan.geometry);
    EXPECT_LE(bits.bytes(), memory);
    EXPECT_GT(bits.bytes(), memory * 99 / 100);
    EXPECT_EQ(plan.bits_per_key,
              static_cast<double>(8 * bits.bytes()) / static_cast<double>(plan.capacity));
    const auto rate = scbf::plan(
        {.capacity = plan.capacity, .memory_bytes = memory, .layout = layout, .cell = Cell::bit});
    EXPECT_NEAR(rate.fpr, 0.01, 0.0005);
  }
}

TEST(BitFilter, RefusesWhatDoesNotFit) {
  const Geometry geometry = Geometry::split(4, 1000);
  BloomFilter bits(geometry, {.seed = 1});
  SCBF_EXPECT_THROW(Filter(geometry.with(Cell::bit)), scbf::InvalidArgument,
                    "a Filter needs counters");
  SCBF_EXPECT_THROW(bits.merge(BloomFilter(geometry)), scbf::Incompatible, "seeds differ");
  SCBF_EXPECT_THROW(bits.intersect(BloomFilter(Geometry::split(4, 1001), {.seed = 1})),
                    scbf::Incompatible, "geometries differ");
  std::vector<std::uint8_t> out(2);
  SCBF_EXPECT_THROW(bits.contains(random_keys(3, 1), out), scbf::InvalidArgument, "room for 2");
  EXPECT_TRUE(BloomFilter(geometry.with(Cell::bit), {.seed = 1}) == bits);
}

TEST(BitFilter, CopiesAndMoves) {
  BloomFilter bits(Geometry::split_block(1, 100));
  bits.insert(random_keys(500, 1));
  BloomFilter copy = bits;
  copy.insert(random_keys(10, 2));
  EXPECT_FALSE(copy == bits);
  copy = bits;
  EXPECT_TRUE(copy == bits);
  BloomFilter moved = std::move(copy);
  EXPECT_TRUE(moved == bits);
  SCBF_EXPECT_THROW(copy.stages(), scbf::InvalidArgument, "moved from");
}

/// Backends that work on counters only say so, and their filters become bits on the host.
TEST(BitFilter, ComesFromADeviceThatHasNoBits) {
  std::size_t devices = 0;
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->supports(Cell::bit)) continue;
    ++devices;
    const Geometry geometry = Geometry::split_block(2, 50);
    SCBF_EXPECT_THROW(BloomFilter(geometry, {.backend = backend->name()}), scbf::BackendUnavailable,
                      "does not work on filters of bits");
    BloomFilter bits(geometry);
    SCBF_EXPECT_THROW(bits.to(backend->name()), scbf::BackendUnavailable, "filters of bits");
    Filter counters(geometry, {.backend = backend->name()});
    counters.insert(random_keys(800, 3));
    EXPECT_TRUE(are_bits_of(BloomFilter(counters), counters));
  }
  EXPECT_GE(devices, 1u);
}

// ---- estimates ----------------------------------------------------------------------------------

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments_of(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size() - 1));
  return m;
}

/// Over many filters, estimates scatter about the true number as their standard errors say. (The
/// deviation of 1,000 values is itself known to 2 %, the error that one filter says of its
/// intersection to some 10 %.)
TEST(Estimates, ScatterAsTheirErrorsSay) {
  constexpr int kFilters = 1000;
  constexpr std::size_t kA = 900, kB = 600, kCommon = 300;
  for (const Geometry& geometry :
       {Geometry::split(1, 2000), Geometry::split(5, 1500), Geometry::split_block(1, 90),
        Geometry::split_block(3, 70), Geometry::ranked(82, 60, 20)}) {
    SCOPED_TRACE(geometry.describe());
    std::vector<double> a_keys, unions, intersections;
    KeyEstimate a_error{}, union_error{}, intersection_error{};
    for (int i = 0; i < kFilters; ++i) {
      const Keys keys = random_keys(kA + kB - kCommon, 1000 + static_cast<std::uint64_t>(i));
      BloomFilter a(geometry), b(geometry);
      a.insert(KeyBatch(keys).slice(0, kA));
      b.insert(KeyBatch(keys).slice(kA - kCommon, kB));
      a_error = a.estimated_keys();
      union_error = a.estimated_union(b);
      intersection_error = a.estimated_intersection(b);
      a_keys.push_back(a_error.keys);
      unions.push_back(union_error.keys);
      intersections.push_back(intersection_error.keys);
    }
    const auto check = [&](const std::vector<double>& values, double truth, double said,
                           double tolerance) {
      const Moments m = moments_of(values);
      EXPECT_NEAR(m.mean, truth, 0.005 * truth + 4 * m.deviation / std::sqrt(kFilters));
      EXPECT_NEAR(m.deviation / said, 1, tolerance);
    };
    check(a_keys, kA, a_error.standard_error, 0.1);
    check(unions, kA + kB - kCommon, union_error.standard_error, 0.1);
    check(intersections, kCommon, intersection_error.standard_error, 0.2);
  }
}

TEST(Estimates, AtTheEnds) {
  const Geometry geometry = Geometry::split(2, 64);
  BloomFilter empty(geometry), full(geometry);
  EXPECT_EQ(empty.estimated_keys().keys, 0);
  EXPECT_EQ(empty.estimated_keys().standard_error, 0);
  EXPECT_EQ(empty.estimated_intersection(empty).keys, 0);
  full.insert(random_keys(5000, 1));
  EXPECT_TRUE(std::isinf(full.estimated_keys().keys));
  EXPECT_TRUE(std::isinf(full.estimated_keys().standard_error));
  EXPECT_TRUE(std::isinf(full.estimated_union(empty).keys));
  EXPECT_TRUE(std::isinf(full.estimated_intersection(empty).standard_error));
}

}  // namespace
}  // namespace scbf_test::bloom_filter_test
