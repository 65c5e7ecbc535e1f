// SPDX-License-Identifier: Apache-2.0
// Every allocation and every other call of the CUDA runtime fails once, in every operation. Errors
// must be typed and say what was asked for; nothing may be lost; the filter must stay usable.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <type_traits>

#include "fake_test_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/cuda/device_filter.hpp"
#include "scbf/cuda/errors.hpp"
#include "scbf/delta.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::BloomFilter;
using scbf::Filter;
using scbf::Geometry;
using scbf::cuda::CudaError;
using scbf::cuda::DeviceLost;
using scbf::cuda::OutOfDeviceMemory;

[[maybe_unused]] const bool kStarted = start_fake_cuda();

const Geometry kGeometry = Geometry::split_block(2, 300);

bool allocates(std::string_view function) { return function.find("Malloc") != function.npos; }
/// Calls whose failure the library may ignore, because nothing can be done about it.
bool gives_back(std::string_view function) {
  return function.find("Free") != function.npos || function.find("Destroy") != function.npos ||
         function.find("Trim") != function.npos;
}

const std::vector<std::uint64_t>& known() {
  static const auto keys = random_keys(2500, 1);
  return keys;
}
const std::vector<std::uint64_t>& asked() {
  static const auto keys = random_keys(2 * kSmallWindow + 1, 2);
  return keys;
}

template <class AnyFilter = Filter>
AnyFilter filled(std::string_view backend) {
  AnyFilter filter(kGeometry, {.seed = 5, .backend = backend});
  filter.insert(known());
  return filter;
}

template <class AnyFilter>
struct Operation {
  const char* name;
  std::function<void(AnyFilter&, const scbf::BatchOptions&)> run;
};
/// On "cuda:windows" they take several windows. Each begins without kept scratch memory.
template <class F>
std::vector<Operation<F>> operations() {
  using scbf::BatchOptions;
  std::vector<Operation<F>> all = {
      {"insert", [](F& f, const BatchOptions& o) { f.insert(asked(), o); }},
      {"insert_new", [](F& f, const BatchOptions& o) { f.insert_new(asked(), {}, o); }},
      {"contains",
       [](F& f, const BatchOptions& o) {
         Answers out(asked().size());
         f.contains(asked(), out, o);
       }},
      {"merge", [](F& f, const BatchOptions& o) { f.merge(filled<F>("scalar"), o); }},
      {"statistics", [](F& f, const BatchOptions& o) { (void)f.statistics(o); }},
      {"copy", [](F& f, const BatchOptions&) { (void)F(f); }},
      {"clear", [](F& f, const BatchOptions&) { f.clear(); }},
      {"to another device and back", [](F& f, const BatchOptions&) { f.to("cuda:1").to("cuda"); }},
      {"to the host", [](F& f, const BatchOptions&) { f.to("simd"); }},
      {"write", [](F& f, const BatchOptions&) { f.write([](auto) {}); }},
  };
  if constexpr (std::is_same_v<F, BloomFilter>) {
    all.push_back(
        {"intersect", [](F& f, const BatchOptions& o) { f.intersect(filled<F>("scalar"), o); }});
    all.push_back({"union", [](F& f, const BatchOptions& o) {
                     (void)f.estimated_union(filled<F>("scalar"), o);
                   }});
  } else {
    all.push_back({"count", [](F& f, const BatchOptions& o) {
                     Answers out(asked().size());
                     f.count(asked(), out, o);
                   }});
    all.push_back({"remove", [](F& f, const BatchOptions& o) { f.remove(known(), {}, o); }});
    all.push_back(
        {"subtract", [](F& f, const BatchOptions& o) { f.subtract(filled("scalar"), o); }});
    all.push_back({"bits", [](F& f, const BatchOptions& o) { (void)BloomFilter(f, o); }});
    all.push_back({"device filter", [](F& f, const BatchOptions&) {
                     scbf::cuda::DeviceFilter there(f), other(f);
                     there.merge_async(other);
                     (void)there.histograms();
                     (void)there.subtract(other);
                     if (!(there.to_filter({.backend = "cuda"}) == f)) {
                       throw std::logic_error("not the same");
                     }
                   }});
  }
  return all;
}

/// Runs the operation once for each n, with its nth call of a kind failing. `judge` checks the
/// filter afterwards and gets the exception or null.
template <class AnyFilter>
void with_each_failing(
    const Operation<AnyFilter>& operation, const char* backend, scbf::Path path,
    bool (*which)(std::string_view), cudaError_t error, std::uint64_t times,
    const std::function<void(AnyFilter&, std::type_identity_t<const std::exception*>)>& judge) {
  SCOPED_TRACE(std::string(operation.name) + " on " + backend);
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    ASSERT_LT(nth, 3000u);
    scbf::cuda::release_device_scratch();
    AnyFilter filter = filled<AnyFilter>(backend);
    const fake_cuda::Alive before = [] {
      scbf::cuda::release_device_scratch();
      return fake_cuda::alive();
    }();
    fake_cuda::fail_call(which, nth, error, false, times);
    bool threw = false;
    try {
      operation.run(filter, {.threads = 1, .path = path});
      if (!fake_cuda::has_failed()) break;
    } catch (const scbf::Error& e) {
      threw = true;
      EXPECT_TRUE(fake_cuda::has_failed());
      fake_cuda::heal();
      judge(filter, &e);
    }
    if (!threw) judge(filter, nullptr);
    fake_cuda::heal();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error is left for later calls";
    scbf::cuda::release_device_scratch();
    if (&filter.backend() == &scbf::find_backend(backend)) {
      EXPECT_EQ(fake_cuda::alive(), before);
    }
    // The filter stays usable.
    filter.clear();
    filter.insert(asked(), {.path = path});
    static const AnyFilter fresh = [] {
      AnyFilter model(kGeometry, {.seed = 5, .backend = "scalar"});
      model.insert(asked());
      return model;
    }();
    ASSERT_TRUE(filter == fresh);
    for (const std::string& problem : fake_cuda::take_problems()) ADD_FAILURE() << problem;
    if (::testing::Test::HasFailure()) return;
  }
  fake_cuda::heal();
}

constexpr scbf::Path kPaths[] = {scbf::Path::direct, scbf::Path::partitioned};

/// Of filters of counters and of filters of bits.
template <class AnyFilter>
class OutOfMemoryWith : public ::testing::Test {};
using BothKinds = ::testing::Types<Filter, BloomFilter>;
TYPED_TEST_SUITE(OutOfMemoryWith, BothKinds);

TYPED_TEST(OutOfMemoryWith, AtEveryAllocationLeavesTheFilterAsItWas) {
  const auto model = filled<TypeParam>("scalar");
  int refusals = 0;
  for (const auto& operation : operations<TypeParam>()) {
    for (const scbf::Path path : kPaths) {
      with_each_failing<TypeParam>(operation, "cuda", path, allocates, cudaErrorMemoryAllocation, 2,
                                   [&](TypeParam& filter, const std::exception* error) {
                                     // It fails twice, because the library tries cudaMalloc twice.
                                     if (error == nullptr) return;
                                     ++refusals;
                                     const std::string_view text = error->what();
                                     EXPECT_NE(text.find(" bytes of "), text.npos) << text;
                                     EXPECT_TRUE(filter == model) << text;
                                     EXPECT_EQ(filter.keys_inserted(), model.keys_inserted());
                                   });
    }
  }
  EXPECT_GT(refusals, 30);
}

TYPED_TEST(OutOfMemoryWith, InALaterWindowIsTriedAgainWhenThoseBeforeItAreDone) {
  for (const auto& operation : operations<TypeParam>()) {
    // One failure must not be enough, except in the first window.
    with_each_failing<TypeParam>(operation, "cuda:windows", scbf::Path::partitioned, allocates,
                                 cudaErrorMemoryAllocation, 1,
                                 [&](TypeParam& filter, const std::exception* e) {
                                   if (e != nullptr) {
                                     EXPECT_TRUE(filter == filled<TypeParam>("scalar"));
                                   }
                                 });
  }
}

TYPED_TEST(OutOfMemoryWith, SaysHowMuchOfABatchWasDone) {
  for (const bool only_new : {false, true}) {
    SCOPED_TRACE(only_new ? "insert_new" : "insert");
    int in_part = 0;
    const auto insert = operations<TypeParam>()[only_new ? 1 : 0];
    const auto insert_into = [&](TypeParam& model, const scbf::KeyBatch& keys) {
      return only_new ? model.insert_new(keys).inserted : model.insert(keys).inserted;
    };
    with_each_failing<TypeParam>(
        insert, "cuda:windows", scbf::Path::partitioned, allocates, cudaErrorMemoryAllocation, 2,
        [&](TypeParam& filter, const std::exception* e) {
          auto model = filled<TypeParam>("scalar");
          if (const auto* full = dynamic_cast<const scbf::FilterFull*>(e)) {
            ++in_part;
            EXPECT_NE(std::string_view(full->what()).find(" bytes of "), std::string_view::npos);
            EXPECT_EQ(full->processed() % kSmallWindow, 0u);
            EXPECT_EQ(full->done().inserted,
                      insert_into(model, scbf::KeyBatch(asked()).slice(0, full->processed())));
          } else if (e == nullptr) {
            insert_into(model, asked());
          }
          EXPECT_TRUE(filter == model);
          EXPECT_EQ(filter.keys_inserted(), model.keys_inserted());
          EXPECT_EQ(filter.nonzero(), model.nonzero());
        });
    EXPECT_GT(in_part, only_new ? 1 : 10);
  }
}

// Each step of a batch goes to another stage, and a later one may need more memory than those
// before it.
TYPED_TEST(OutOfMemoryWith, InAnInsertionIntoSeveralStagesSaysHowManyKeysWereDone) {
  const auto growth = scbf::Growth::tightening(100, 0.1, scbf::Layout::split_block, 8.0);
  int untouched = 0, in_part = 0;
  for (const std::string way : {"insert", "bulk", "insert_new"}) {
    for (const std::uint64_t times : {1u, 2u}) {
      for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE("call " + std::to_string(nth) + ", " + way);
        ASSERT_LT(nth, 300u);
        TypeParam filter(growth, {.seed = 5, .backend = "cuda:windows"});
        scbf::cuda::release_device_scratch();
        fake_cuda::fail_call(allocates, nth, cudaErrorMemoryAllocation, false, times);
        std::size_t done = asked().size();
        Answers out(asked().size(), 0xCC);
        try {
          if (way == "bulk") {
            filter.bulk().insert(asked());
          } else if (way == "insert") {
            filter.insert(asked());
          } else {
            filter.insert_new(asked(), out);
          }
        } catch (const scbf::FilterFull& full) {
          done = full.processed();
        } catch (const CudaError&) {
          done = 0;
        }
        const bool failed = fake_cuda::has_failed();
        fake_cuda::heal();
        if (!failed) break;
        untouched += done == 0;
        in_part += done > 0 && done < asked().size();
        TypeParam model(growth, {.seed = 5, .backend = "scalar"});
        const auto keys_done = scbf::KeyBatch(asked()).slice(0, done);
        if (way == "insert_new") {
          Answers want(done);
          model.insert_new(keys_done, want);
          out.resize(done);
          EXPECT_TRUE(same_answers(out, want));
        } else {
          model.insert(keys_done);
        }
        EXPECT_EQ(filter.keys_inserted(), model.keys_inserted());
        EXPECT_EQ(filter.nonzero(), model.nonzero());
        // A further stage may have been added, which is empty.
        for (std::size_t s = 0; s < filter.stages(); ++s) {
          if (s >= model.stages()) {
            EXPECT_EQ(filter.stage(s).nonzero(), 0u);
          } else {
            EXPECT_TRUE(same_words(words_of(filter.stage(s)), words_of(model.stage(s))));
          }
        }
      }
    }
  }
  EXPECT_GT(untouched, 5);
  EXPECT_GT(in_part, 5);
}

TEST(OutOfMemory, InARemovalFromSeveralStagesLeavesThemAsTheyWereOrSaysHowManyKeysWereDone) {
  const auto growth = scbf::Growth::fixed(Geometry::split_block(1, 20), 200);
  const auto filled_stages = [&](std::string_view backend) {
    Filter filter(growth, {.seed = 5, .backend = backend});
    filter.insert(asked());
    filter.insert(known());
    return filter;
  };
  Answers want(asked().size());
  std::map<std::size_t, Filter> after;  // keys done
  for (std::size_t done = 0; done <= asked().size(); done += kSmallWindow) {
    Filter model = filled_stages("scalar");
    model.remove(std::vector(asked().begin(), asked().begin() + static_cast<long>(done)));
    after.emplace(done, model);
  }
  Filter all_done = filled_stages("scalar");
  const auto want_report = all_done.remove(asked(), want);
  const Filter full = filled_stages("cuda:windows");
  int untouched = 0, in_part = 0;
  struct Attempt {
    std::uint64_t times;
    bool in_bulk;
  };
  for (const auto [times, in_bulk] : {Attempt{1, false}, Attempt{2, false}, Attempt{1, true}}) {
    for (std::uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE("call " + std::to_string(nth) + (in_bulk ? ", in bulk" : ""));
      ASSERT_LT(nth, 300u);
      Filter filter = full;
      scbf::cuda::release_device_scratch();
      fake_cuda::fail_call(allocates, nth, cudaErrorMemoryAllocation, false, times);
      std::string text;
      std::size_t done = 0;
      Answers verdicts(asked().size(), 0xCC);
      scbf::BulkRemover bulk = filter.bulk_remove();
      try {
        if (in_bulk) bulk.remove(asked());
        const auto report = in_bulk ? bulk.finish() : filter.remove(asked(), verdicts);
        if (!in_bulk) {
          EXPECT_TRUE(same_answers(verdicts, want));
        }
        EXPECT_EQ(report.removed, want_report.removed);
        EXPECT_EQ(report.ambiguous, want_report.ambiguous);
      } catch (const scbf::RemovalStopped& stopped) {
        text = stopped.what();
        done = stopped.processed();
        EXPECT_EQ(stopped.done().removed, filter.keys_removed());
        if (in_bulk) {
          EXPECT_EQ(bulk.finish().removed, filter.keys_removed());
          verdicts = want;
        }
        verdicts.resize(done);
        EXPECT_TRUE(same_answers(
            verdicts, Answers(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(done))));
      } catch (const OutOfDeviceMemory& error) {
        text = error.what();
      } catch (const CudaError& error) {
        text = error.what();
        EXPECT_NE(text.find("pinned memory"), text.npos) << text;
      }
      const bool failed = fake_cuda::has_failed();
      fake_cuda::heal();
      if (!failed) break;
      untouched += !text.empty() && done == 0;
      in_part += done > 0;
      const Filter& model = text.empty() ? all_done : after.at(done);
      EXPECT_EQ(filter, model) << text;
      EXPECT_EQ(filter.keys_removed(), model.keys_removed());
      EXPECT_TRUE(knows_its_fill(filter));
    }
  }
  EXPECT_GT(untouched, 5);
  EXPECT_GT(in_part, 5);
}

TEST(OutOfMemory, InARemovalOfAllOrNothingLeavesTheFilterAsItWas) {
  const std::vector<scbf::Growth> growths{scbf::Growth::one(kGeometry),
                                          scbf::Growth::fixed(Geometry::split_block(1, 60), 200)};
  int failures = 0;
  for (const scbf::Growth& growth : growths) {
    Filter full(growth, {.seed = 5, .backend = "cuda:windows"});
    full.insert(known());
    Filter removed = full;
    removed.remove(known());
    for (const bool allowed : {true, false}) {
      for (const std::uint64_t times : {1u, 2u, 6u}) {
        // Too few failures to matter, so that not every call need fail.
        for (std::uint64_t nth = 1;; nth += 1 + nth / 8) {
          SCOPED_TRACE("call " + std::to_string(nth) + ", " + std::to_string(times) + " times");
          ASSERT_LT(nth, 3000u);
          Filter filter = full;
          std::vector<std::uint64_t> keys = known();
          if (!allowed) keys.insert(keys.end(), 20, keys[1]);  // more often than it is there
          scbf::cuda::release_device_scratch();
          fake_cuda::fail_call(allocates, nth, cudaErrorMemoryAllocation, false, times);
          bool threw = false;
          try {
            filter.remove(keys, {}, {.path = scbf::Path::partitioned, .most_absent = 0});
          } catch (const scbf::RemovalStopped& stopped) {
            threw = true;
            EXPECT_EQ(stopped.processed(), 0u);
          } catch (const scbf::KeysAbsent&) {
            threw = true;
            EXPECT_FALSE(allowed);
          } catch (const CudaError&) {
            threw = true;
          }
          const bool failed = fake_cuda::has_failed();
          fake_cuda::heal();
          failures += failed && threw;
          EXPECT_TRUE(allowed || threw);
          const Filter& want = threw ? full : removed;
          EXPECT_EQ(filter, want);
          EXPECT_EQ(filter.keys_inserted(), want.keys_inserted());
          EXPECT_EQ(filter.keys_removed(), want.keys_removed());
          if (!failed) break;
        }
      }
    }
  }
  EXPECT_GT(failures, 20);
}

TEST(OutOfMemory, HasTheNumbersAndScratchMakesRoomForFilters) {
  const Geometry large = Geometry::split_block(1, 100'000);  // 6.4 MB
  Filter filter(kGeometry, {.backend = "cuda"});
  filter.insert(random_keys(50'000, 1), {.path = scbf::Path::partitioned});
  filter.remove(random_keys(50'000, 1));
  const std::size_t scratch = fake_cuda::memory_in_use(0) - kGeometry.bytes();
  ASSERT_GT(scratch, 1'000'000u);
  fake_cuda::set_memory(0, kGeometry.bytes() + large.bytes() + 1000);
  {
    const Filter fits(large, {.backend = "cuda"});
    SCBF_EXPECT_THROW(Filter(large, {.backend = "cuda"}), OutOfDeviceMemory,
                      std::to_string(large.bytes()) + " bytes");
    SCBF_EXPECT_THROW(Filter(large, {.backend = "cuda"}), OutOfDeviceMemory,
                      "of " + std::to_string(kGeometry.bytes() + large.bytes() + 1000));
    SCBF_EXPECT_THROW(scbf::cuda::DeviceFilter(large, 0), OutOfDeviceMemory, "bytes of device");
    EXPECT_THROW(Filter(large, {.backend = "scalar"}).to("cuda"), OutOfDeviceMemory);
  }
  fake_cuda::set_memory(0, std::size_t{1} << 30);
}

template <class AnyFilter>
class FailuresOf : public ::testing::Test {};
TYPED_TEST_SUITE(FailuresOf, BothKinds);

TYPED_TEST(FailuresOf, EveryOtherCallAreTypedAndWorkGoesOn) {
  const auto others = [](std::string_view f) { return !allocates(f) && !gives_back(f); };
  int reported = 0;
  for (const auto& operation : operations<TypeParam>()) {
    for (const char* backend : {"cuda", "cuda:windows"}) {
      with_each_failing<TypeParam>(
          operation, backend, scbf::Path::partitioned, others, cudaErrorUnknown, 1,
          [&](TypeParam&, const std::exception* error) {
            if (error == nullptr) return;
            ++reported;
            const std::string_view text = error->what();
            EXPECT_NE(text.find(": unknown error (cudaErrorUnknown)"), text.npos);
          });
    }
  }
  EXPECT_GT(reported, 200);
}

TEST(Failures, OfTheDeviceAreReportedByTheOperationTheyBelongTo) {
  // Such failures are reported by the next wait.
  Filter filter = filled("cuda");
  const Filter other = filled("cuda");
  const auto waits = [](auto f) { return f == "cudaStreamSynchronize"; };
  const std::vector<std::function<void()>> all = {
      [&] { filter.merge(other); }, [&] { filter.insert(known()); },
      [&] { (void)filter.statistics(); }, [&] { filter.remove(known()); }};
  for (const auto& operation : all) {
    fake_cuda::fail_call(waits, 1, cudaErrorUnknown);
    EXPECT_THROW(operation(), CudaError);
  }
}

TYPED_TEST(FailuresOf, CallsThatGiveBackAreSurvived) {
  for (const auto& operation : operations<TypeParam>()) {
    with_each_failing<TypeParam>(operation, "cuda", scbf::Path::partitioned, gives_back,
                                 cudaErrorUnknown, 1, [&](TypeParam&, const std::exception* error) {
                                   EXPECT_EQ(error, nullptr) << error->what();
                                 });
  }
}

/// Bits that a failed insertion changed are at no epoch; if nothing was begun, they are at the old
/// one.
TEST(Failures, InAnInsertionOfNewKeysDoNotLeaveBitsAtTheirOldEpoch) {
  BloomFilter bits = filled<BloomFilter>("scalar"), reader = filled<BloomFilter>("cuda");
  (void)reader.advance(bits);
  const scbf::Epoch epoch = reader.epoch();
  scbf::cuda::release_device_scratch();
  fake_cuda::fail_call(allocates, 1, cudaErrorMemoryAllocation, false, 2);
  EXPECT_THROW(reader.insert_new(asked()), OutOfDeviceMemory);
  fake_cuda::heal();
  EXPECT_EQ(reader.epoch(), epoch);
  fake_cuda::fail_call([](auto f) { return f == "cudaStreamSynchronize"; }, 1, cudaErrorUnknown);
  EXPECT_THROW(reader.insert_new(asked()), CudaError);
  fake_cuda::heal();
  EXPECT_NE(reader.epoch(), epoch);
}

TEST(Failures, APoolThatCannotBeMadeIsMadeTheNextTime) {
  in_own_process([] {
    Filter filter(kGeometry, {.seed = 5, .backend = "cuda:1"});
    for (const std::string_view call : {"cudaMemPoolCreate", "cudaMemPoolSetAttribute"}) {
      fake_cuda::fail_call([=](auto f) { return f == call; }, 1, cudaErrorUnknown);
      EXPECT_THROW(filter.insert(known()), CudaError);
      EXPECT_EQ(fake_cuda::has_failed(), true) << "the device already had a pool";
      scbf::cuda::release_device_scratch();
    }
    filter.insert(known());
    EXPECT_EQ(filter, filled("scalar"));
  });
}

TEST(Failures, ADeviceThatIsLostSaysSoAndNothingHangs) {
  in_own_process([] {
    Filter filter = filled("cuda:windows"), other = filled("cuda");
    filter.to("cuda:1").to("cuda:windows");
    const auto is_lost = [&](const char* name, const std::function<void()>& operation) {
      SCOPED_TRACE(name);
      SCBF_EXPECT_THROW(operation(), DeviceLost, "until the process ends");
    };
    fake_cuda::fail_call([](auto f) { return f == "cudaLaunchKernel"; }, 7, cudaErrorIllegalAddress,
                         true);
    is_lost("insert", [&] { filter.insert(asked(), {.path = scbf::Path::partitioned}); });
    for (const auto& operation : operations<Filter>()) {
      is_lost(operation.name, [&] { operation.run(filter, {}); });
      is_lost(operation.name, [&] { operation.run(other, {}); });
    }
    is_lost("make", [&] { (void)Filter(kGeometry, {.backend = "cuda"}); });
    is_lost("make there", [&] { scbf::cuda::DeviceFilter(kGeometry, 1); });
    scbf::cuda::release_device_scratch();
    // Filters on the host still work.
    EXPECT_EQ(Filter(kGeometry).insert(known()).inserted, known().size());
  });
}

}  // namespace
