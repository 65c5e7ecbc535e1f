// SPDX-License-Identifier: Apache-2.0
// Executors that throw, at every run of a batch, or whose tasks run batches of other filters:
// counters, answers and numbers of keys must be those of an undisturbed batch.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "scbf/filter.hpp"
#include "support/far_backend.hpp"
#include "support/fault_setups.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"
#include "support/unreliable_executors.hpp"

namespace scbf_test::unreliable_executors_test {
namespace {

using scbf::BatchOptions;
using scbf::Filter;
using scbf::Geometry;
using scbf::KeyBatch;
using scbf::Path;

[[maybe_unused]] const bool kFar = add_far_backends();

struct Operation {
  const char* name;
  std::function<void(Filter&, const KeyBatch&, const BatchOptions&)> run;
};
std::vector<Operation> operations() {
  return {
      {"insert", [](Filter& f, const KeyBatch& k, const BatchOptions& o) { f.insert(k, o); }},
      {"bulk",
       [](Filter& f, const KeyBatch& k, const BatchOptions& o) {
         scbf::BulkInserter bulk = f.bulk(o);
         bulk.insert(k.slice(0, k.size() / 3));
         bulk.insert(k.slice(k.size() / 3, k.size() - k.size() / 3));
       }},
      {"remove", [](Filter& f, const KeyBatch& k, const BatchOptions& o) { f.remove(k, {}, o); }},
      {"bulk removal",
       [](Filter& f, const KeyBatch& k, const BatchOptions& o) {
         scbf::BulkRemover bulk = f.bulk_remove(o);
         bulk.remove(k.slice(0, k.size() / 3));
         bulk.remove(k.slice(k.size() / 3, k.size() - k.size() / 3));
       }},
      {"merge", [](Filter& f, const KeyBatch&, const BatchOptions& o) { f.merge(Filter(f), o); }},
      {"subtract",
       [](Filter& f, const KeyBatch&, const BatchOptions& o) {
         const Filter one = f;
         f.merge(one);
         f.subtract(one, o);
       }},
      {"statistics",
       [](Filter& f, const KeyBatch&, const BatchOptions& o) {
         ASSERT_EQ(f.statistics(o).nonzero, f.nonzero());
       }},
      {"contains",
       [](Filter& f, const KeyBatch& k, const BatchOptions& o) {
         ASSERT_TRUE(same_answers(contains(f, k, o), contains(f, k)));
       }},
      {"count_present",
       [](Filter& f, const KeyBatch& k, const BatchOptions& o) {
         ASSERT_EQ(f.count_present(k, o).hits, present_in(contains(f, k)));
       }},
      {"count",
       [](Filter& f, const KeyBatch& k, const BatchOptions& o) {
         ASSERT_TRUE(same_answers(count(f, k, o), count(f, k)));
       }},
  };
}

TEST(FaultsOfExecutors, CostSpeedButNoKeys) {
  int thrown = 0;
  for_each_setup([&](const Filter& before, const KeyBatch& keys, const BatchOptions& usual) {
    if (usual.threads == 1) return;
    for (const Operation& operation : operations()) {
      SCOPED_TRACE(operation.name);
      Filter want = before;
      want.insert(keys.slice(0, keys.size() / 2));
      Filter start = want;
      operation.run(want, keys, usual);
      for (const auto does :
           {FailsLater::Does::nothing, FailsLater::Does::one, FailsLater::Does::all}) {
        for (int runs = 0;; ++runs) {
          const FailsLater executor(runs, does);
          BatchOptions options = usual;
          options.executor = &executor;
          Filter filter = start;
          operation.run(filter, keys, options);
          ASSERT_TRUE(same_after_fault(filter, want)) << runs << " runs before";
          thrown += executor.thrown;
          if (executor.thrown == 0) break;
        }
      }
    }
  });
  EXPECT_GT(thrown, 500);
}

TEST(Executors, MayUseOtherFiltersInTheirTasks) {
  const auto keys = random_keys(1000, 5);
  for_each_setup([&](const Filter& before, const KeyBatch& batch, const BatchOptions& usual) {
    if (usual.threads == 1) return;
    for (const Operation& operation : operations()) {
      SCOPED_TRACE(operation.name);
      Filter want = before;
      operation.run(want, batch, usual);
      Filter other(Geometry::split_block(2, 400), {.backend = "simd"});
      int calls = 0;
      const Nests executor([&] {
        if (++calls > 3) return;
        const BatchOptions how{.threads = 2, .path = Path::partitioned, .executor = &two_threads()};
        other.insert(keys, how);
        ASSERT_EQ(contains(other, keys, how), Answers(keys.size(), 1));
        ASSERT_EQ(other.remove(keys, {}, how).removed, keys.size());
      });
      BatchOptions options = usual;
      options.executor = &executor;
      Filter filter = before;
      operation.run(filter, batch, options);
      ASSERT_TRUE(same_after_fault(filter, want));
      ASSERT_EQ(other.nonzero(), 0u);
    }
  });
}

}  // namespace
}  // namespace scbf_test::unreliable_executors_test
