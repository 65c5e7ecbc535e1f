// SPDX-License-Identifier: Apache-2.0
// scbf::cuda::DeviceFilter on fake devices, beyond cuda_device_test, which also runs on them:
// several streams, the caller's memory, other devices.
#include "scbf/cuda/device_filter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fake_test_support.hpp"
#include "support/device.hpp"
#include "support/keys.hpp"
#include "support/moving.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::Filter;
using scbf::Geometry;
using scbf::cuda::DeviceFilter;

[[maybe_unused]] const bool kStarted = start_fake_cuda();

constexpr std::uint64_t kSeed = 99;

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }
  void wait_for(cudaStream_t other) const {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, other), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

std::vector<std::uint64_t> words(const DeviceFilter& filter, cudaStream_t stream = nullptr) {
  std::vector<std::uint64_t> all(filter.geometry().words(), 0xCC);
  filter.download(all, stream);
  return all;
}

class DeviceFilterOf : public ::testing::TestWithParam<Shape> {
 protected:
  DeviceFilterOf() { DeviceFilter::synchronize(); }
  Filter model{GetParam().geometry, {.seed = kSeed, .backend = "scalar"}};
  DeviceFilter filter{GetParam().geometry, kSeed};
};
INSTANTIATE_TEST_SUITE_P(All, DeviceFilterOf, ::testing::ValuesIn(contract_shapes(40'000)),
                         [](const auto& shape) { return shape.param.name; });

TEST_P(DeviceFilterOf, NothingWaitsOnTheCallersStreams) {
  const Stream changes, asks;
  const auto keys = random_keys(1500, 1), others = random_keys(1500, 2);
  const OnDevice<std::uint64_t> there(keys), others_there(others);
  const OnDevice<std::uint8_t> hits(1500), counts(1500), verdicts(1500), new_ones(1500);
  const char* const kWaits[] = {"cudaStreamSynchronize",
                                "cudaDeviceSynchronize",
                                "cudaMemcpy",
                                "cudaEventSynchronize",
                                "cudaMalloc",
                                "cudaFree"};
  (void)filter.histograms();  // makes the pool
  std::map<std::string, std::uint64_t> before;
  for (const char* call : kWaits) before[call] = fake_cuda::calls_of(call);
  for (const auto path : {scbf::Path::direct, scbf::Path::partitioned}) {
    const scbf::cuda::DeviceOptions on_changes{.stream = changes, .path = path};
    filter.insert_async({there.get(), 1500}, on_changes);
    asks.wait_for(changes);
    filter.contains_async({others_there.get(), 1500}, hits.get(), {.stream = asks});
    filter.count_async({there.get(), 1500}, counts.get(), {.stream = asks});
    changes.wait_for(asks);
    filter.insert_async({others_there.get(), 1500}, on_changes);
    filter.remove_async({there.get(), 1500}, verdicts.get(), on_changes);
    filter.insert_new_async({there.get(), 1500}, new_ones.get(), on_changes);
  }
  for (const char* call : kWaits) EXPECT_EQ(fake_cuda::calls_of(call), before[call]) << call;
  DeviceFilter::synchronize(changes);
  Answers want_hits, want_counts, want_verdicts, want_new(1500);
  for (int i = 0; i < 2; ++i) {
    model.insert(keys);
    want_hits = contains(model, others);
    want_counts = count(model, keys);
    model.insert(others);
    want_verdicts = remove(model, keys);
    model.insert_new(keys, want_new);
  }
  EXPECT_TRUE(same_answers(hits.to_host(), want_hits));
  EXPECT_TRUE(same_answers(counts.to_host(), want_counts));
  EXPECT_TRUE(same_answers(verdicts.to_host(), want_verdicts));
  EXPECT_TRUE(same_answers(new_ones.to_host(), want_new));
  EXPECT_TRUE(same_words(words(filter, changes), model.words()));
  const OnDevice<std::uint64_t> indices(1500);
  const auto want_found = contains(model, others);
  EXPECT_EQ(filter.find({others_there.get(), 1500}, indices.get(), {.stream = asks}),
            static_cast<std::uint64_t>(std::count(want_found.begin(), want_found.end(), 1)));
}

TEST_P(DeviceFilterOf, InsertionsOnTwoStreamsAddUpOnAnyPath) {
  const Stream one, two;
  const auto keys = random_keys(3000, 1), others = random_keys(3000, 2);
  const OnDevice<std::uint64_t> there(keys), others_there(others);
  using scbf::Path;
  for (const auto& [first, second] :
       {std::pair(Path::partitioned, Path::partitioned), std::pair(Path::direct, Path::partitioned),
        std::pair(Path::automatic, Path::automatic)}) {
    filter.insert_async({there.get(), 3000}, {.stream = one, .path = first});
    filter.insert_async({others_there.get(), 3000}, {.stream = two, .path = second});
    DeviceFilter::synchronize(one);
    DeviceFilter::synchronize(two);
    model.insert(keys);
    model.insert(others);
    EXPECT_TRUE(same_words(words(filter), model.words()));
    EXPECT_EQ(filter.keys_inserted(), model.keys_inserted());
  }
  filter.insert({there.get(), 3000}, {.path = Path::partitioned, .alone = true});
  model.insert(keys);
  EXPECT_TRUE(same_words(words(filter), model.words()));
}

/// Counts allocations, and takes memory from no pool.
class CountingMemory final : public scbf::cuda::MemoryResource {
 public:
  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    EXPECT_GT(bytes, 0u);
    if (refuses_ && --left_ == 0) throw scbf::cuda::OutOfDeviceMemory("the caller's memory is out");
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
    given_[data] = {bytes, stream};
    ++calls;
    return data;
  }
  void deallocate(void* data, std::size_t bytes, cudaStream_t stream) noexcept override {
    EXPECT_EQ(given_.at(data), std::pair(bytes, stream));
    given_.erase(data);
    cudaFree(data);
  }
  bool all_back() const { return given_.empty(); }
  void refuse(int nth) {
    refuses_ = nth > 0;
    left_ = nth;
  }
  bool has_refused() const { return left_ <= 0; }
  int calls = 0;

 private:
  std::map<void*, std::pair<std::size_t, cudaStream_t>> given_;
  bool refuses_ = false;
  int left_ = 0;
};

TEST_P(DeviceFilterOf, AllTemporaryMemoryIsTheCallers) {
  const Stream stream;
  CountingMemory memory;
  const auto keys = random_keys(3000, 1);
  const OnDevice<std::uint64_t> there(keys), indices(3000);
  const OnDevice<std::uint8_t> answers(3000);
  const auto pool = fake_cuda::calls_of("cudaMallocFromPoolAsync");
  const scbf::cuda::DeviceOptions options{
      .stream = stream, .path = scbf::Path::partitioned, .memory = &memory};
  filter.insert({there.get(), 3000}, options);
  filter.remove({there.get(), 3000}, answers.get(), options);
  filter.insert({there.get(), 3000}, options);
  EXPECT_EQ(filter.find({there.get(), 3000}, indices.get(), options), 3000u);
  (void)filter.histograms(options);
  EXPECT_EQ(filter.subtract(filter, options).inexact_counters, 0u);
  EXPECT_GT(memory.calls, 20);
  EXPECT_TRUE(memory.all_back());
  EXPECT_EQ(fake_cuda::calls_of("cudaMallocFromPoolAsync"), pool);
}

/// Calls change() with every allocation refused in turn, and sees that nothing is changed, until
/// none is refused.
template <class Change>
void change_with_refusals(CountingMemory& memory, const DeviceFilter& filter, const Filter& model,
                          Change change, int least = 6) {
  int refusals = 0;
  for (int nth = 1;; ++nth) {
    memory.refuse(nth);
    try {
      change();
    } catch (const scbf::cuda::OutOfDeviceMemory&) {
      ++refusals;
      ASSERT_TRUE(memory.all_back());
      ASSERT_TRUE(same_words(words(filter), model.words())) << "refusal " << nth;
      ASSERT_EQ(filter.keys_inserted(), model.keys_inserted());
      ASSERT_EQ(filter.keys_removed(), model.keys_removed());
      continue;
    }
    break;
  }
  EXPECT_GE(refusals, least);
  memory.refuse(0);
}

TEST_P(DeviceFilterOf, WhereTheCallersMemoryRunsOutNothingIsChanged) {
  CountingMemory memory;
  const auto keys = random_keys(3000, 1);
  const OnDevice<std::uint64_t> there(keys);
  const OnDevice<std::uint8_t> answers(3000);
  const scbf::cuda::DeviceOptions options{.path = scbf::Path::partitioned, .memory = &memory};
  filter.insert({there.get(), 3000}, options);
  model.insert(keys);
  for (const bool inserts : {true, false}) {
    const auto change = [&] {
      if (inserts) {
        filter.insert({there.get(), 3000}, options);
      } else {
        filter.remove({there.get(), 3000}, answers.get(), options);
      }
    };
    ASSERT_NO_FATAL_FAILURE(change_with_refusals(memory, filter, model, change));
    if (inserts) {
      model.insert(keys);
    } else {
      EXPECT_TRUE(same_answers(answers.to_host(), remove(model, keys)));
    }
    ASSERT_TRUE(same_words(words(filter), model.words()));
  }
  // Keys to be hashed first, so that not only the table of owners needs memory.
  const auto as_bytes =
      scbf::cuda::DeviceKeys::from_fixed(reinterpret_cast<const std::byte*>(there.get()), 8, 3000);
  const auto insert_new = [&] { filter.insert_new(as_bytes, answers.get(), options); };
  ASSERT_NO_FATAL_FAILURE(change_with_refusals(memory, filter, model, insert_new, 2));
  Answers want(3000);
  model.insert_new(scbf::KeyBatch::from_fixed(std::as_bytes(std::span(keys)), 8), want);
  EXPECT_TRUE(same_answers(answers.to_host(), want));
  EXPECT_TRUE(same_words(words(filter), model.words()));
}

/// A filter of counters in the layout ranked takes insertions and lookups.
class RankedDeviceFilter : public ::testing::Test {
 protected:
  RankedDeviceFilter() { DeviceFilter::synchronize(); }  // it is zeroed on the null stream
  const Geometry geometry = Geometry::ranked(82, 40, 10);
  const std::vector<std::uint64_t> keys = random_keys(1500, 1);  // blocks spill and are stuck
  const OnDevice<std::uint64_t> there{keys};
  Filter model{geometry, {.seed = kSeed, .backend = "scalar"}};
  DeviceFilter filter{geometry, kSeed};
};

/// Insertions on several streams take turns, although nothing here waits, also in a filter that was
/// moved.
TEST_F(RankedDeviceFilter, InsertionsOnTwoStreamsTakeTurns) {
  const Stream one, two;
  const auto others = random_keys(1500, 2);
  const OnDevice<std::uint64_t> others_there(others);
  DeviceFilter moved(std::move(filter));
  const auto waits = [] {
    return fake_cuda::calls_of("cudaStreamSynchronize") +
           fake_cuda::calls_of("cudaDeviceSynchronize") +
           fake_cuda::calls_of("cudaEventSynchronize");
  };
  const std::uint64_t before = waits(), turns = fake_cuda::calls_of("cudaStreamWaitEvent");
  for (int i = 0; i < 3; ++i) {
    moved.insert_async({there.get(), 1500}, {.stream = one});
    moved.insert_async({others_there.get(), 1500}, {.stream = two});
    model.insert(keys);
    model.insert(others);
  }
  EXPECT_EQ(waits(), before);
  // All but the first wait for the one before, on the device. (That it is needed shows rarely: most
  // orders of the kernels of two insertions do no harm.)
  EXPECT_EQ(fake_cuda::calls_of("cudaStreamWaitEvent"), turns + 5);
  DeviceFilter::synchronize(one);
  DeviceFilter::synchronize(two);
  EXPECT_TRUE(same_words(words(moved), model.words()));
  EXPECT_EQ(moved.keys_inserted(), model.keys_inserted());
}

TEST_F(RankedDeviceFilter, WhereTheCallersMemoryRunsOutNothingIsChanged) {
  CountingMemory memory;
  filter.insert({there.get(), 1000});
  model.insert(std::span(keys).first(1000));
  ASSERT_NO_FATAL_FAILURE(change_with_refusals(memory, filter, model, [&] {
    filter.insert({there.get() + 1000, 500}, {.memory = &memory});
  }));
  EXPECT_TRUE(memory.all_back());
  model.insert(std::span(keys).subspan(1000));
  EXPECT_TRUE(same_words(words(filter), model.words()));
  const auto others = random_keys(1500, 2);
  const OnDevice<std::uint64_t> others_there(others);
  const OnDevice<std::uint8_t> new_ones(1500);
  ASSERT_NO_FATAL_FAILURE(change_with_refusals(memory, filter, model, [&] {
    filter.insert_new({others_there.get(), 1500}, new_ones.get(), {.memory = &memory});
  }));
  Answers want(1500);
  model.insert_new(others, want);
  EXPECT_TRUE(same_answers(new_ones.to_host(), want));
  EXPECT_TRUE(same_words(words(filter), model.words()));
}

TEST_F(RankedDeviceFilter, IsNotInsertedIntoByAGraph) {
  const Stream stream;
  fake_cuda::set_capturing(stream, true);
  SCBF_EXPECT_THROW(filter.insert_async({there.get(), 1500}, {.stream = stream}),
                    scbf::InvalidArgument, "cannot be captured into a graph");
  fake_cuda::set_capturing(stream, false);
  filter.insert({there.get(), 1500}, {.stream = stream});
  model.insert(keys);
  EXPECT_TRUE(same_words(words(filter), model.words()));
}

TEST_P(DeviceFilterOf, GoesToAnotherDeviceAsAFilter) {
  model.insert(random_keys(3000, 1));
  model.remove(random_keys(100, 1));
  filter = DeviceFilter(model);
  const Filter there = filter.to_filter({.backend = "cuda:1"});
  EXPECT_EQ(there, model);
  EXPECT_EQ(there.keys_inserted(), model.keys_inserted());
  EXPECT_EQ(there.keys_removed(), model.keys_removed());
}

TEST(Misuse, OfAFilterOnAnotherDeviceIsRefused) {
  const Geometry geometry = Geometry::split_block(1, 10);
  DeviceFilter filter(geometry, kSeed);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    DeviceFilter other(geometry, kSeed);
    const char* const here = "the filter is on device 0: device 1 is current";
    SCBF_EXPECT_THROW(filter.insert({nullptr, 0}), scbf::InvalidArgument, here);
    SCBF_EXPECT_THROW(filter.clear_async(), scbf::InvalidArgument, here);
    SCBF_EXPECT_THROW((void)filter.to_filter(), scbf::InvalidArgument, here);
    SCBF_EXPECT_THROW(other.merge_async(filter), scbf::InvalidArgument, here);
    SCBF_EXPECT_THROW((void)other.subtract(filter), scbf::InvalidArgument, here);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    SCBF_EXPECT_THROW(filter.merge_async(other), scbf::InvalidArgument,
                      "the filter is on device 1: device 0 is current");
  }
}

TEST(Misuse, AFilterOfSeveralStagesIsRefused) {
  Filter filter(scbf::Growth::tightening(50, 0.1));
  filter.insert(random_keys(200, 1));
  SCBF_EXPECT_THROW(DeviceFilter{filter}, scbf::InvalidArgument, "a DeviceFilter has one");
  filter.clear();
  EXPECT_EQ(DeviceFilter(filter).keys_inserted(), 0u);
}

static_assert(std::is_trivially_copyable_v<scbf::cuda::FilterRef> &&
              std::is_trivially_copyable_v<scbf::cuda::DeviceKeys>);

TEST(Misuse, MovesByTheRule) {
  const Geometry geometry = Geometry::split_block(2, 10);
  Filter model(geometry, {.seed = kSeed});
  model.insert(random_keys(100, 1));
  const OnDevice<std::uint64_t> keys(random_keys(8, 2)), indices(8);
  const OnDevice<std::uint8_t> answers(8);
  const scbf::cuda::DeviceKeys some{keys.get(), 8};
  DeviceFilter good(model), bits(geometry.with(scbf::Cell::bit), kSeed);
  std::vector<std::uint64_t> host(geometry.words());
  expect_rule_of_moving<DeviceFilter>(
      [&] { return DeviceFilter(model); },
      [&](const DeviceFilter& f) { return f.to_filter() == model && f.keys_inserted() == 100; },
      {
          [](DeviceFilter& f) { (void)f.geometry(); },
          [](DeviceFilter& f) { (void)f.seed(); },
          [](DeviceFilter& f) { (void)f.ref(); },
          [&](DeviceFilter& f) { f.insert_async(some); },
          [&](DeviceFilter& f) { f.insert(some); },
          [&](DeviceFilter& f) { f.contains_async(some, answers.get()); },
          [&](DeviceFilter& f) { f.contains(some, answers.get()); },
          [&](DeviceFilter& f) { f.contains_bits_async(some, answers.get()); },
          [&](DeviceFilter& f) { f.contains_bits(some, answers.get()); },
          [&](DeviceFilter& f) { f.find_async(some, indices.get(), indices.get()); },
          [&](DeviceFilter& f) { (void)f.find(some, indices.get()); },
          [&](DeviceFilter& f) { f.count_async(some, answers.get()); },
          [&](DeviceFilter& f) { f.count(some, answers.get()); },
          [&](DeviceFilter& f) { f.remove_async(some, answers.get()); },
          [&](DeviceFilter& f) { f.remove(some, answers.get()); },
          [&](DeviceFilter& f) { f.merge_async(good); },
          [&](DeviceFilter& f) { f.project_async(bits); },
          [&](DeviceFilter& f) { good.project_async(f); },
          [&](DeviceFilter& f) { good.merge_async(f); },
          [&](DeviceFilter& f) { f.subtract(good); },
          [&](DeviceFilter& f) { good.subtract(f); },
          [](DeviceFilter& f) { f.clear_async(); },
          [](DeviceFilter& f) { (void)f.histograms(); },
          [](DeviceFilter& f) { (void)f.keys_inserted(); },
          [](DeviceFilter& f) { (void)f.keys_removed(); },
          [&](DeviceFilter& f) { f.download(host); },
          [](DeviceFilter& f) { f.download({}); },
          [](DeviceFilter& f) { (void)f.to_filter(); },
      });
  EXPECT_TRUE(good.to_filter() == model);
}

// Each counter is both the one changed and the one added or subtracted.
TEST(Misuse, AFilterCanBeMergedWithItselfAndTakenFromItself) {
  Filter model(Geometry::split_block(2, 10), {.seed = kSeed, .backend = "scalar"});
  model.insert(random_keys(200, 1));
  DeviceFilter filter(model);
  filter.merge_async(filter);
  const Filter copy = model;
  model.merge(copy);
  EXPECT_TRUE(filter.to_filter({.backend = "scalar"}) == model);
  EXPECT_EQ(filter.keys_inserted(), 400u);
  const Filter twice = model;
  EXPECT_EQ(filter.subtract(filter).inexact_counters, model.subtract(twice).inexact_counters);
  EXPECT_TRUE(filter.to_filter({.backend = "scalar"}) == model);
  EXPECT_EQ(filter.keys_removed(), model.keys_removed());
}

}  // namespace
