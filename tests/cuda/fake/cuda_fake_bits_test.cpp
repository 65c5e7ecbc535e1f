// SPDX-License-Identifier: Apache-2.0
// Filters of bits on fake devices, beyond the suite of all backends: made from counters there,
// stages, moves between devices, what waits and what is copied.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "fake_test_support.hpp"
#include "files/file_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "support/environment.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::BloomFilter;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;

[[maybe_unused]] const bool kStarted = start_fake_cuda();

const char* const kBackends[] = {"cuda", "cuda:1", "cuda:windows"};

std::vector<Growth> growths() {
  std::vector<Growth> all{Growth::fixed(Geometry::split_block(1, 20), 200),
                          Growth::tightening(300, 0.05),
                          Growth::tightening(300, 0.05, scbf::Layout::split)};
  for (const Shape& shape : contract_shapes(40'000)) all.push_back(Growth::one(shape.geometry));
  return all;
}

BloomFilter filled(std::string_view backend, std::uint64_t keys = 1) {
  BloomFilter filter(Geometry::split_block(2, 155), {.seed = 5, .backend = backend});
  filter.insert(random_keys(2500, keys));
  filter.set_metadata("m");
  return filter;
}

/// How much was copied, and how often a thread waited.
std::vector<std::uint64_t> calls() {
  std::vector<std::uint64_t> all;
  for (const char* call : {"cudaMemcpyAsync", "cudaMemcpy", "cudaStreamSynchronize"}) {
    all.push_back(fake_cuda::calls_of(call));
  }
  return all;
}

TEST(BitsFromCounters, AreMadeWhereTheCountersAre) {
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    for (const char* backend : kBackends) {
      Filter model(growth, {.seed = 4, .backend = "scalar"});
      model.insert(random_keys(3000, 1));
      model.remove(random_keys(500, 1));
      Filter counters = model;
      counters.to(backend);
      const auto before = calls();
      const BloomFilter bits(counters);
      const auto after = calls();
      EXPECT_EQ(after[0], before[0]) << "copied";
      EXPECT_EQ(after[1], before[1]) << "copied";
      EXPECT_EQ(bits.backend().name(), backend);
      EXPECT_TRUE(bits == BloomFilter(model));
      EXPECT_EQ(bits.keys_removed(), model.keys_removed());
      const auto asked = random_keys(3000, 2);
      EXPECT_TRUE(same_answers(contains(bits, asked), contains(model, asked)));
    }
  }
}

TEST(BitStages, EqualTheModelAcrossWindows) {
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    for (const char* backend : {"cuda", "cuda:windows"}) {
      BloomFilter filter(growth, {.seed = 3, .backend = backend}),
          model(growth, {.seed = 3, .backend = "scalar"});
      for (const std::size_t n : {kSmallWindow - 1, kSmallWindow + 1, 3 * kSmallWindow + 64}) {
        const auto keys = random_keys(n, n);
        for (const scbf::Path path : {scbf::Path::direct, scbf::Path::partitioned}) {
          ASSERT_EQ(filter.insert(keys, {.path = path}).inserted, n);
          ASSERT_EQ(model.insert(keys).inserted, n);
          ASSERT_TRUE(filter == model);
        }
        for (const auto& batch : {random_keys(n, n + 1), keys}) {
          Answers hits(n, 0xCC), want(n);
          ASSERT_EQ(filter.contains(batch, hits).hits, model.contains(batch, want).hits);
          ASSERT_TRUE(same_answers(hits, want));
        }
        ASSERT_EQ(filter.nonzero(), model.nonzero());
        ASSERT_EQ(filter.statistics().stages.back().slice_fill,
                  model.statistics().stages.back().slice_fill);
      }
    }
  }
}

// More stages cost a question no further copies and no further waits.
TEST(BitStages, NoStageHasTheHostWaitForIt) {
  const auto keys = random_keys(2 * kSmallWindow, 5);
  const auto cost_of = [&](const BloomFilter& filter) {
    Answers out(keys.size());
    const auto before = calls();
    filter.contains(keys, out);
    auto after = calls();
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
    return after;
  };
  BloomFilter many(growths()[0], {.backend = "cuda:windows"});
  many.insert(keys);
  ASSERT_GT(many.stages(), 5u);
  EXPECT_EQ(cost_of(many), cost_of(filled("cuda:windows")));
}

TEST(BitMoves, BetweenHostAndDevicesAndBack) {
  const BloomFilter near = filled("scalar");
  for (const char* backend : kBackends) {
    BloomFilter filter = near;
    filter.to(backend);
    SCBF_EXPECT_THROW(filter.words(), scbf::NotOnHost, "cuda:");
    for (const char* next : kBackends) {
      SCOPED_TRACE(std::string(backend) + " to " + next);
      filter.to(next);
      EXPECT_EQ(filter.backend().name(), next);
      EXPECT_TRUE(filter == near);
      BloomFilter copy = filter;
      copy.insert("more");
      EXPECT_TRUE(copy.contains("more"));
      EXPECT_FALSE(copy == filter);
      copy.clear();
      EXPECT_EQ(copy.nonzero(), 0u);
    }
    EXPECT_TRUE(same_words(filter.to("simd").words(), near.words()));
  }
}

TEST(BitMoves, CombineAcrossMemories) {
  const BloomFilter model = filled("scalar"), other_model = filled("scalar", 2);
  BloomFilter either = model, both = model;
  either.merge(other_model);
  both.intersect(other_model);
  for (const char* mine : {"simd", "cuda", "cuda:1", "cuda:windows"}) {
    for (const char* others : {"simd", "cuda", "cuda:1", "cuda:windows"}) {
      SCOPED_TRACE(std::string(mine) + " and " + others);
      const BloomFilter other = filled(others, 2);
      BloomFilter merged = filled(mine), common = filled(mine);
      EXPECT_EQ(merged.estimated_union(other).keys, model.estimated_union(other_model).keys);
      EXPECT_EQ(merged.estimated_intersection(other).keys,
                model.estimated_intersection(other_model).keys);
      merged.merge(other);
      EXPECT_TRUE(merged == either);
      EXPECT_EQ(merged.keys_inserted(), either.keys_inserted());
      common.intersect(other);
      EXPECT_TRUE(common == both);
      EXPECT_EQ(common.nonzero(), both.nonzero());
    }
  }
}

TEST(BitMoves, Files) {
  const scbf::test::TemporaryFolder folder;
  const auto path = folder.path() / "filter";
  const BloomFilter near = filled("scalar");
  for (const char* backend : kBackends) {
    SCOPED_TRACE(backend);
    filled(backend).save(path);
    EXPECT_TRUE(BloomFilter::load(path) == near);
    const BloomFilter there = BloomFilter::load(path, {.backend = backend});
    EXPECT_TRUE(there == near);
    EXPECT_EQ(there.keys_inserted(), near.keys_inserted());
    EXPECT_EQ(there.metadata(), "m");
    EXPECT_TRUE(BloomFilter::map(path).to(backend) == near);
    Filter counters(near.geometry().with(scbf::Cell::counter), {.seed = 5, .backend = backend});
    counters.insert(random_keys(2500, 1));
    counters.save(path);
    EXPECT_TRUE(BloomFilter::load(path, {.backend = backend}) == near);
  }
}

TEST(BitThreads, ConstOperationsRunAtOnce) {
  for (const char* backend : kBackends) {
    const BloomFilter shared = filled(backend), other = filled(backend, 2),
                      model = filled("scalar");
    const auto keys = random_keys(3 * kSmallWindow + 1, 1);
    const Answers hits = contains(model, keys);
    const double either = model.estimated_union(filled("scalar", 2)).keys;
    const int wrong = wrong_at_once(4, [&](unsigned) {
      int mine = 0;
      for (std::size_t round = 0; round < scaled(10, 3); ++round) {
        mine += contains(shared, keys) != hits;
        mine += !(BloomFilter(shared) == model);
        mine += shared.estimated_union(other).keys != either;
        mine += shared.statistics().nonzero != model.statistics().nonzero;
      }
      return mine;
    });
    EXPECT_EQ(wrong, 0) << backend;
  }
}

TEST(Deltas, AreMadeAndAppliedOnDevices) {
  const BackendVariable variable("cuda");  // what is meant by "auto" is on a device, too
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    for (const char* backend : kBackends) {
      Filter model(growth, {.seed = 4, .backend = "scalar"});
      Filter counters(growth, {.seed = 4, .backend = backend});
      BloomFilter published(counters), on_host(model);
      scbf::Replica replica(published.advance(counters), {.backend = backend});
      on_host.advance(model);
      for (std::uint64_t round = 1; round < 4; ++round) {
        counters.insert(random_keys(300, round));
        model.insert(random_keys(300, round));
        const scbf::Delta delta = published.advance(counters), want = on_host.advance(model);
        EXPECT_TRUE(std::ranges::equal(delta.message(), want.message()));
        replica.apply(delta);
        EXPECT_EQ(replica.epoch(), published.epoch());
        EXPECT_EQ(published.backend().name(), backend);
        EXPECT_EQ(replica.snapshot().backend().name(), backend);
        EXPECT_TRUE(replica.snapshot() == on_host);
        EXPECT_TRUE(published == on_host);
        for (const std::uint64_t key : random_keys(20, round)) EXPECT_TRUE(replica.contains(key));
      }
    }
  }
}

}  // namespace
