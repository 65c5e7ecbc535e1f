// SPDX-License-Identifier: Apache-2.0
// scbf::cuda::DeviceFilter on a GPU, byte for byte against the scalar model. Without a device every
// test here reports that it is skipped; with SCBF_REQUIRE_BACKEND=cuda it fails. The file is also
// compiled for the fake runtime (SCBF_FAKE_CUDA), which cannot run the test's own kernels.
#include "scbf/cuda/device_filter.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cuda_own_kernels.hpp"
#include "engine/device_tuning.hpp"
#include "scbf/bloom_filter.hpp"
#include "support/device.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"

namespace scbf_test::cuda_device_test {
namespace {

using scbf::Path;
using scbf::cuda::DeviceFilter;
using scbf::cuda::DeviceKeys;
using scbf::cuda::DeviceOptions;

struct DeviceCase {
  Shape shape;
  Path path;
};
std::ostream& operator<<(std::ostream& out, const DeviceCase& c) { return out << c.shape; }

std::vector<DeviceCase> device_cases(std::uint64_t counters) {
  std::vector<DeviceCase> cases;
  for (const Shape& shape : contract_shapes(counters)) {
    cases.push_back({shape, Path::direct});
    cases.push_back({shape, Path::partitioned});
  }
  return cases;
}
struct DeviceCaseName {
  std::string operator()(const ::testing::TestParamInfo<DeviceCase>& info) const {
    return info.param.shape.name + (info.param.path == Path::direct ? "_direct" : "_partitioned");
  }
};

std::vector<std::uint64_t> words_of(const DeviceFilter& filter) {
  std::vector<std::uint64_t> words(filter.geometry().words());
  filter.download(words);
  return words;
}

/// A filter on the device and its model, side by side.
class OfDevice : public ::testing::TestWithParam<DeviceCase> {
 protected:
  static constexpr std::uint64_t kSeed = 99;

  void SetUp() override {
    SCBF_NEEDS_DEVICE();
    filter_ = std::make_unique<DeviceFilter>(GetParam().shape.geometry, kSeed);
  }
  DeviceFilter& filter() { return *filter_; }
  DeviceOptions options() const { return {.path = GetParam().path}; }

  void insert(const std::vector<std::uint64_t>& keys) {
    const OnDevice<std::uint64_t> there(keys);
    filter().insert({there.get(), keys.size()}, options());
    model.insert(keys, {.threads = 1});
    ASSERT_TRUE(same_words(words_of(filter()), model.words())) << "after insert";
  }
  void compare_answers(const DeviceKeys& there, const scbf::KeyBatch& keys) {
    const OnDevice<std::uint8_t> out(keys.size());
    filter().contains(there, out.get(), options());
    const Answers hits = scbf_test::contains(model, keys);
    ASSERT_TRUE(same_answers(out.to_host(), hits));
    filter().count(there, out.get(), options());
    ASSERT_TRUE(same_answers(out.to_host(), scbf_test::count(model, keys)));
    const OnDevice<std::uint8_t> bits((keys.size() + 7) / 8);
    filter().contains_bits(there, bits.get(), options());
    Answers want_bits((keys.size() + 7) / 8);
    model.contains_bits(keys, want_bits, {.threads = 1});
    ASSERT_TRUE(same_answers(bits.to_host(), want_bits));
    const OnDevice<std::uint64_t> indices(keys.size());
    std::vector<std::uint64_t> want(keys.size());
    const std::uint64_t found = filter().find(there, indices.get(), options());
    ASSERT_EQ(found, model.find(keys, want, {.threads = 1}).hits);
    auto got = indices.to_host();
    got.resize(found);
    want.resize(found);
    ASSERT_EQ(got, want);
  }
  void compare_remove(const DeviceKeys& there, const scbf::KeyBatch& keys) {
    const OnDevice<std::uint8_t> verdicts(keys.size());
    filter().remove(there, verdicts.get(), options());
    ASSERT_TRUE(same_answers(verdicts.to_host(), scbf_test::remove(model, keys)));
    ASSERT_TRUE(same_words(words_of(filter()), model.words())) << "after remove";
  }
  void compare_remove(const std::vector<std::uint64_t>& keys) {
    const OnDevice<std::uint64_t> there(keys);
    compare_remove({there.get(), keys.size()}, keys);
  }
  void compare_books() {
    EXPECT_EQ(filter().keys_inserted(), model.keys_inserted());
    EXPECT_EQ(filter().keys_removed(), model.keys_removed());
  }

  scbf::Filter model{GetParam().shape.geometry, {.seed = kSeed, .backend = "scalar"}};

 private:
  std::unique_ptr<DeviceFilter> filter_;
};
INSTANTIATE_TEST_SUITE_P(All, OfDevice, ::testing::ValuesIn(device_cases(400'000)),
                         DeviceCaseName());

TEST_P(OfDevice, BatchesOfAllSizes) {
  Mixture mixture(1);
  // Sizes around a warp and around a block of threads.
  for (const std::size_t n : {0u, 1u, 7u, 31u, 32u, 33u, 255u, 256u, 257u, 10'007u}) {
    SCOPED_TRACE("batch of " + std::to_string(n));
    ASSERT_NO_FATAL_FAILURE(insert(mixture.to_insert(n)));
    const auto asked = mixture.to_ask(n);
    const OnDevice<std::uint64_t> there(asked);
    ASSERT_NO_FATAL_FAILURE(compare_answers({there.get(), n}, asked));
    ASSERT_NO_FATAL_FAILURE(compare_remove(mixture.to_ask(n)));
    compare_books();
  }
}

TEST_P(OfDevice, ManyKeysThatShareAPartition) {
  Mixture mixture(2);
  const std::size_t n = scaled(400'000, 20'000);
  ASSERT_NO_FATAL_FAILURE(insert(mixture.to_insert(n)));
  ASSERT_NO_FATAL_FAILURE(compare_remove(mixture.to_ask(n)));
  compare_books();
}

TEST_P(OfDevice, OneKeyForAll) {
  const std::vector<std::uint64_t> keys(scaled(1'000'000, 20'000), 42);
  for (const long copies : {3L, 14L}) {
    ASSERT_NO_FATAL_FAILURE(insert({keys.begin(), keys.begin() + copies}));
    ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
  }
  ASSERT_NO_FATAL_FAILURE(insert(keys));
  ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
}

TEST_P(OfDevice, EverythingTwice) {
  auto keys = random_keys(scaled(20'000, 2'000), 3);
  ASSERT_NO_FATAL_FAILURE(insert(keys));
  const auto once = keys;
  keys.insert(keys.end(), once.begin(), once.end());
  ASSERT_NO_FATAL_FAILURE(compare_remove(keys));
  compare_books();
}

/// Keys that come several times, in several windows; of counters and of bits.
TEST_P(OfDevice, InsertsNewKeysAsALoopWould) {
  const scbf::Geometry geometry = GetParam().shape.geometry;
  scbf::BloomFilter model_of_bits(geometry, {.seed = kSeed, .backend = "scalar"});
  DeviceFilter bits(geometry.with(scbf::Cell::bit), kSeed);
  Random random(22);
  for (const std::size_t n : {std::size_t{1}, std::size_t{33}, scaled(300'000, 3'000)}) {
    std::vector<std::uint64_t> keys(n);
    for (auto& key : keys) key = random.below(n / 2 + 1);
    const OnDevice<std::uint64_t> there(keys);
    const OnDevice<std::uint8_t> verdicts(n), verdicts_of_bits(n);
    filter().insert_new({there.get(), n}, verdicts.get(), options());
    bits.insert_new({there.get(), n}, verdicts_of_bits.get(), options());
    Answers want(n), want_of_bits(n);
    model.insert_new(keys, want, {.threads = 1});
    model_of_bits.insert_new(keys, want_of_bits, {.threads = 1});
    ASSERT_TRUE(same_answers(verdicts.to_host(), want));
    ASSERT_TRUE(same_answers(verdicts_of_bits.to_host(), want_of_bits));
    ASSERT_TRUE(same_words(words_of(filter()), model.words()));
    ASSERT_TRUE(same_words(words_of(bits), model_of_bits.words()));
    compare_books();
    EXPECT_EQ(bits.keys_inserted(), model_of_bits.keys_inserted());
  }
  const OnDevice<std::uint64_t> same(std::vector<std::uint64_t>(scaled(300'000, 3'000), ~0ull));
  const OnDevice<std::uint8_t> verdicts(scaled(300'000, 3'000));
  filter().insert_new({same.get(), scaled(300'000, 3'000)}, verdicts.get(), options());
  const bool was_new = model.insert_new(~std::uint64_t{0});
  EXPECT_EQ(verdicts.to_host()[0], was_new ? 1 : 0);
  compare_books();
}

TEST_P(OfDevice, PassesThatHoldFewKeys) {
  Mixture mixture(4);
  const auto keys = mixture.to_insert(300'000);
  const OnDevice<std::uint64_t> there(keys);
  filter().insert({there.get(), keys.size()}, {.path = GetParam().path, .scratch_bytes = 1});
  model.insert(keys, {.threads = 1});
  ASSERT_TRUE(same_words(words_of(filter()), model.words()));
  const OnDevice<std::uint8_t> verdicts(keys.size());
  filter().remove({there.get(), keys.size()}, verdicts.get(),
                  {.path = GetParam().path, .scratch_bytes = 1});
  ASSERT_TRUE(same_answers(verdicts.to_host(), scbf_test::remove(model, keys)));
  ASSERT_TRUE(same_words(words_of(filter()), model.words()));
}

TEST_P(OfDevice, StringsAndNulls) {
  for (const StringSet& set : string_sets()) {
    SCOPED_TRACE(set.name);
    const StringColumn column(set.keys, 2);
    const std::size_t n = column.strings.size();
    std::vector<std::byte> bitmap(n / 8 + 2);
    Random random(5);
    for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
    const OnDevice<std::byte> data(column.data), validity(bitmap);
    const OnDevice<std::int32_t> offsets32(column.offsets32);
    const OnDevice<std::int64_t> offsets64(column.offsets64);
    const auto some =
        scbf::KeyBatch::from_offsets(column.data, column.offsets32).with_validity(bitmap, 3);
    const auto there32 = DeviceKeys::from_offsets(data.get(), offsets32.get(), n)
                             .with_validity(scbf::cuda::Validity(validity.get(), 3));
    const auto there64 = DeviceKeys::from_offsets(data.get(), offsets64.get(), n);
    filter().insert(there32, options());
    model.insert(some, {.threads = 1});
    ASSERT_TRUE(same_words(words_of(filter()), model.words()));
    ASSERT_NO_FATAL_FAILURE(compare_answers(there64, column.views));
    ASSERT_NO_FATAL_FAILURE(compare_answers(there32, some));
    ASSERT_NO_FATAL_FAILURE(compare_remove(there32, some));
    compare_books();
  }
}

TEST_P(OfDevice, FixedWidthsAndReadyHashes) {
  const std::string bytes = random_bytes(60'000, 6);
  const auto data = std::as_bytes(std::span(bytes));
  const OnDevice<std::byte> there(std::vector<std::byte>(data.begin(), data.end()));
  for (const std::size_t width : {1u, 3u, 8u, 20u, 200u, 300u}) {
    SCOPED_TRACE(width);
    const auto keys = scbf::KeyBatch::from_fixed(data, width);
    const auto keys_there = DeviceKeys::from_fixed(there.get(), width, keys.size());
    filter().insert(keys_there, options());
    model.insert(keys, {.threads = 1});
    ASSERT_TRUE(same_words(words_of(filter()), model.words()));
    ASSERT_NO_FATAL_FAILURE(compare_remove(keys_there, keys));
  }
  const auto hashes = random_keys(5'000, 7);
  const OnDevice<std::uint64_t> hashes_there(hashes);
  const auto keys = scbf::KeyBatch::from_hashes(hashes);
  const auto keys_there = DeviceKeys::from_hashes(hashes_there.get(), hashes.size());
  filter().insert(keys_there, options());
  model.insert(keys, {.threads = 1});
  ASSERT_TRUE(same_words(words_of(filter()), model.words()));
  ASSERT_NO_FATAL_FAILURE(compare_answers(keys_there, keys));
}

TEST_P(OfDevice, WholeFilters) {
  const auto few = random_keys(3'000, 8);
  ASSERT_NO_FATAL_FAILURE(insert(random_keys(9'000, 9)));
  scbf::Filter other(GetParam().shape.geometry, {.seed = kSeed, .backend = "scalar"});
  for (int i = 0; i < 4; ++i) other.insert(few, {.threads = 1});
  const DeviceFilter other_there(other);
  for (int i = 0; i < 4; ++i) {
    filter().merge_async(other_there);
    model.merge(other);
    ASSERT_TRUE(same_words(words_of(filter()), model.words()));
  }
  compare_books();
  EXPECT_EQ(filter().subtract(other_there).inexact_counters,
            model.subtract(other).inexact_counters);
  ASSERT_TRUE(same_words(words_of(filter()), model.words()));
  compare_books();
  const auto histograms = filter().histograms();
  const auto want =
      model.backend().histograms({model.geometry(), kSeed, model.words().data()}, {.threads = 1});
  EXPECT_EQ(histograms, want);

  scbf::Filter more = other;
  more.insert(random_keys(100, 10), {.threads = 1});
  const DeviceFilter more_there(more);
  DeviceFilter empty(GetParam().shape.geometry, kSeed);
  SCBF_EXPECT_THROW(empty.subtract(more_there), scbf::Incompatible, "would fall below zero");
  const DeviceFilter of_other_seed(GetParam().shape.geometry, kSeed + 1);
  SCBF_EXPECT_THROW(filter().merge_async(of_other_seed), scbf::Incompatible, "the seeds differ");
}

TEST_P(OfDevice, MovesFromAndToTheHost) {
  model.insert(random_keys(5'000, 11), {.threads = 1});
  model.remove(random_keys(500, 11), {}, {.threads = 1});
  DeviceFilter there(model);
  EXPECT_TRUE(same_words(words_of(there), model.words()));
  const scbf::Filter back = there.to_filter({.backend = "scalar"});
  EXPECT_TRUE(back == model);
  EXPECT_EQ(back.keys_inserted(), model.keys_inserted());
  EXPECT_EQ(back.keys_removed(), model.keys_removed());
  DeviceFilter moved(std::move(there));
  EXPECT_TRUE(same_words(words_of(moved), model.words()));
  moved.clear_async();
  DeviceFilter::synchronize();
  EXPECT_TRUE(same_words(words_of(moved), std::vector<std::uint64_t>(model.words().size())));
  EXPECT_EQ(moved.keys_inserted(), 0u);
  std::vector<std::uint64_t> too_few(3);
  SCBF_EXPECT_THROW(moved.download(too_few), scbf::InvalidArgument, "has room for 3: must be ");
}

/// Filters of bits: built there, of counters there, and of a BloomFilter.
TEST_P(OfDevice, BitsAnswerAsTheCounters) {
  const scbf::Geometry geometry = GetParam().shape.geometry.with(scbf::Cell::bit);
  const auto keys = random_keys(scaled(40'000, 4000), 14);
  const std::size_t half = keys.size() / 2;
  ASSERT_NO_FATAL_FAILURE(insert(keys));
  const scbf::BloomFilter bits(model);
  const OnDevice<std::uint64_t> there(keys);
  DeviceFilter built(geometry, kSeed), other(geometry, kSeed), projected(geometry, kSeed);
  for (std::size_t i = 0; i < 2; ++i) built.insert({there.get(), half}, options());
  other.insert({there.get() + half, keys.size() - half}, options());
  built.merge_async(other);
  ASSERT_TRUE(same_words(words_of(built), bits.words()));
  EXPECT_EQ(built.keys_inserted(), keys.size() + half);
  filter().project_async(projected);
  ASSERT_TRUE(same_words(words_of(projected), bits.words()));
  EXPECT_EQ(projected.keys_inserted(), keys.size());
  filter().project_async(projected);
  EXPECT_EQ(projected.keys_inserted(), keys.size());
  EXPECT_EQ(projected.histograms(),
            bits.backend().histograms({geometry, kSeed, bits.words().data()}, {.threads = 1}));
  for (const DeviceFilter& each : {DeviceFilter(bits), std::move(built), std::move(projected)}) {
    const auto asked = Mixture(14).to_ask(4001);
    const OnDevice<std::uint64_t> asked_there(asked), indices(asked.size());
    const OnDevice<std::uint8_t> out(asked.size()), packed((asked.size() + 7) / 8);
    const Answers want = scbf_test::contains(model, asked);
    each.contains({asked_there.get(), asked.size()}, out.get());
    EXPECT_TRUE(same_answers(out.to_host(), want));
    each.count({asked_there.get(), asked.size()}, out.get());
    EXPECT_TRUE(same_answers(out.to_host(), want));
    each.contains_bits({asked_there.get(), asked.size()}, packed.get());
    Answers want_packed((asked.size() + 7) / 8);
    const std::uint64_t hits = model.contains_bits(asked, want_packed).hits;
    EXPECT_TRUE(same_answers(packed.to_host(), want_packed));
    EXPECT_EQ(each.find({asked_there.get(), asked.size()}, indices.get()), hits);
  }
}

TEST_P(OfDevice, BitsAreNotTakenForCounters) {
  DeviceFilter bits(GetParam().shape.geometry.with(scbf::Cell::bit), kSeed);
  DeviceFilter of_other_seed(bits.geometry(), kSeed + 1);
  SCBF_EXPECT_THROW(bits.remove({nullptr, 0}, nullptr), scbf::InvalidArgument,
                    "remove: the filter");
  SCBF_EXPECT_THROW(bits.subtract(bits), scbf::InvalidArgument, "has bits");
  SCBF_EXPECT_THROW(bits.to_filter(), scbf::InvalidArgument, "has bits");
  SCBF_EXPECT_THROW(bits.project_async(bits), scbf::InvalidArgument, "has bits");
  SCBF_EXPECT_THROW(filter().project_async(of_other_seed), scbf::Incompatible, "seeds differ");
  SCBF_EXPECT_THROW(filter().project_async(filter()), scbf::Incompatible, "geometries differ");
  SCBF_EXPECT_THROW(filter().merge_async(bits), scbf::Incompatible, "geometries differ");
}

/// Counts allocations and passes them on to the device's own allocator.
class CountingResource final : public scbf::cuda::MemoryResource {
 public:
  void* allocate(std::size_t bytes, cudaStream_t) override {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    live += bytes;
    most = std::max(most, live);
    return memory;
  }
  void deallocate(void* memory, std::size_t bytes, cudaStream_t stream) noexcept override {
    cudaStreamSynchronize(stream);
    cudaFree(memory);
    live -= bytes;
  }
  std::size_t live = 0, most = 0;
};

TEST_P(OfDevice, WorksOnTheCallersStreamWithTheCallersMemory) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  CountingResource memory;
  {
    const DeviceOptions options{.stream = stream, .path = GetParam().path, .memory = &memory};
    DeviceFilter on_stream(GetParam().shape.geometry, kSeed, stream);
    const auto keys = random_keys(20'000, 12);  // too few to saturate a counter
    const OnDevice<std::uint64_t> there(keys);
    const OnDevice<std::uint8_t> answers(keys.size()), verdicts(keys.size());
    on_stream.insert_async({there.get(), keys.size()}, options);
    on_stream.contains_async({there.get(), keys.size()}, answers.get(), options);
    on_stream.remove_async({there.get(), keys.size()}, verdicts.get(), options);
    EXPECT_EQ(on_stream.keys_removed(stream), keys.size());  // waits for the stream
    const Answers all(keys.size(), 1);
    EXPECT_TRUE(same_answers(answers.to_host(), all));
    EXPECT_TRUE(same_answers(verdicts.to_host(), all));
    std::vector<std::uint64_t> words(on_stream.geometry().words());
    on_stream.download(words, stream);
    EXPECT_TRUE(std::all_of(words.begin(), words.end(), [](auto w) { return w == 0; }));
  }
  EXPECT_GT(memory.most, 0u);
  EXPECT_EQ(memory.live, 0u);
  cudaStreamDestroy(stream);
}

#ifndef SCBF_FAKE_CUDA
TEST_P(OfDevice, KernelsOfTheProgramUseTheView) {
  const auto keys = random_keys(10'007, 13);
  const OnDevice<std::uint64_t> there(keys);
  const OnDevice<std::uint8_t> by_thread(keys.size()), by_group(keys.size());
  insert_by_threads(filter().ref(), there.get(), keys.size() / 2);
  insert_by_groups(filter().ref(), there.get() + keys.size() / 2, keys.size() - keys.size() / 2);
  model.insert(keys, {.threads = 1});
  ASSERT_TRUE(same_words(words_of(filter()), model.words()));
  const auto asked = Mixture(13).to_ask(keys.size());
  const OnDevice<std::uint64_t> asked_there(asked);
  contains_by_threads(filter().ref(), asked_there.get(), asked.size(), by_thread.get());
  contains_by_groups(filter().ref(), asked_there.get(), asked.size(), by_group.get());
  const Answers want = scbf_test::contains(model, asked);
  EXPECT_TRUE(same_answers(by_thread.to_host(), want));
  EXPECT_TRUE(same_answers(by_group.to_host(), want));
  std::vector<std::uint64_t> present;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (want[i] != 0) present.push_back(asked[i]);
  }
  const OnDevice<std::uint64_t> selected(asked.size()), how_many(1);
  select_by_cub(filter().ref(), asked_there.get(), asked.size(), selected.get(), how_many.get());
  ASSERT_EQ(how_many.to_host(), std::vector<std::uint64_t>{present.size()});
  auto got = selected.to_host();
  got.resize(present.size());
  EXPECT_EQ(got, present);

  const DeviceFilter bits(filter().geometry().with(scbf::Cell::bit), kSeed);
  insert_by_threads(bits.ref(), there.get(), keys.size() / 2);
  insert_by_groups(bits.ref(), there.get() + keys.size() / 2, keys.size() - keys.size() / 2);
  ASSERT_TRUE(same_words(words_of(bits), scbf::BloomFilter(model).words()));
  contains_by_threads(bits.ref(), asked_there.get(), asked.size(), by_thread.get());
  contains_by_groups(bits.ref(), asked_there.get(), asked.size(), by_group.get());
  EXPECT_TRUE(same_answers(by_thread.to_host(), want));
  EXPECT_TRUE(same_answers(by_group.to_host(), want));
}
#endif

/// In the layout ranked a device answers for a filter of the host, and builds counters and bits.
TEST(RankedOnDevice, AnswersAndBuilds) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::ranked(82, 120, 20);
  scbf::Filter model(geometry, {.seed = 3, .backend = "scalar"});
  const auto keys = random_keys(geometry.counters() / 7, 15);  // blocks spill and are stuck
  model.insert(keys);
  auto asked = random_keys(5000, 16);
  asked.insert(asked.begin(), keys.begin(), keys.end());
  const OnDevice<std::uint64_t> there(keys), asked_there(asked), indices(asked.size());
  const OnDevice<std::uint8_t> out(asked.size()), packed((asked.size() + 7) / 8);
  Answers want_packed((asked.size() + 7) / 8);
  const std::uint64_t hits = model.contains_bits(asked, want_packed).hits;
  const std::size_t half = keys.size() / 2;
  DeviceFilter copy(model), counters(geometry, 3);
  DeviceFilter bits(geometry.with(scbf::Cell::bit), 3), other(bits.geometry(), 3);
  bits.insert({there.get(), half});
  other.insert({there.get() + half, keys.size() - half});
  bits.merge_async(other);
  ASSERT_TRUE(same_words(words_of(bits), scbf::BloomFilter(model).words()));
  counters.insert({there.get(), half});
  counters.insert({there.get() + half, keys.size() - half});
  ASSERT_TRUE(same_words(words_of(counters), model.words()));
  for (const DeviceFilter* each : {&copy, &counters, &bits}) {
    each->contains({asked_there.get(), asked.size()}, out.get());
    EXPECT_TRUE(same_answers(out.to_host(), scbf_test::contains(model, asked)));
    each->contains_bits({asked_there.get(), asked.size()}, packed.get());
    EXPECT_TRUE(same_answers(packed.to_host(), want_packed));
    EXPECT_EQ(each->find({asked_there.get(), asked.size()}, indices.get()), hits);
    EXPECT_EQ(each->keys_inserted(), keys.size());
  }
  EXPECT_EQ(copy.to_filter(), model);
  EXPECT_EQ(counters.to_filter(), model);
}

/// Several partitions, and chunks of the keys of one; more entries than get their slots at once.
TEST(RankedOnDevice, InsertionsIntoManyBlocks) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::ranked(112, 700, 650);
  scbf::Filter model(geometry, {.seed = 3, .backend = "scalar"});
  DeviceFilter filter(geometry, 3);
  for (const std::uint64_t seed : {1, 2}) {
    auto keys = random_keys(7000, seed);
    if (seed == 2) keys.insert(keys.end(), 7000, 42);
    const OnDevice<std::uint64_t> there(keys);
    filter.insert({there.get(), keys.size()});
    model.insert(keys);
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
  }
}

TEST(RankedOnDevice, InsertsNewKeysAsALoopWould) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::ranked(82, 120, 20);
  scbf::Filter model(geometry, {.seed = 3, .backend = "scalar"});
  DeviceFilter filter(geometry, 3);
  Random random(23);
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<std::uint64_t> keys(3000);
    for (auto& key : keys) key = random.below(6000);
    const OnDevice<std::uint64_t> there(keys);
    const OnDevice<std::uint8_t> verdicts(keys.size());
    filter.insert_new({there.get(), keys.size()}, verdicts.get());
    Answers want(keys.size());
    model.insert_new(keys, want);
    ASSERT_TRUE(same_answers(verdicts.to_host(), want));
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
    EXPECT_EQ(filter.keys_inserted(), model.keys_inserted());
  }
}

/// So many partitions that positions are sorted in two levels, in tiles of several stretches.
TEST(ManyPartitionsOnDevice, InsertionsOfAFewKeysEach) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::split_block(1, 1'100'000).with(scbf::Cell::bit);
  const auto plan =
      scbf::cuda::plan_partitions(scbf::cuda::Array(geometry, 0), scbf::cuda::Tuning().limits);
  ASSERT_EQ(plan.levels(), 2u);
  scbf::BloomFilter model(geometry, {.seed = 7, .backend = "scalar"});
  DeviceFilter filter(geometry, 7);
  auto keys = random_keys(9000, 21);
  keys.insert(keys.end(), 200, 42);
  const OnDevice<std::uint64_t> there(keys);
  for (const bool alone : {false, true}) {
    filter.insert({there.get(), keys.size()}, {.path = Path::partitioned, .alone = alone});
    model.insert(keys, {.threads = 1});
    ASSERT_TRUE(same_words(words_of(filter), model.words()));
  }
}

/// Insertions on several streams take turns.
TEST(RankedOnDevice, InsertionsOnSeveralStreams) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::ranked(82, 120, 20);
  scbf::Filter model(geometry, {.seed = 3, .backend = "scalar"});
  const auto keys = random_keys(geometry.counters() / 7, 15);
  model.insert(keys);
  const OnDevice<std::uint64_t> there(keys);
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  }
  DeviceFilter filter(geometry, 3);
  DeviceFilter::synchronize();  // it is zeroed on the null stream
  const std::size_t part = keys.size() / 4;
  for (std::size_t i = 0; i < 4; ++i) {
    filter.insert_async({there.get() + i * part, i < 3 ? part : keys.size() - 3 * part},
                        {.stream = streams[i % 2]});
  }
  for (cudaStream_t stream : streams) {
    DeviceFilter::synchronize(stream);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
  EXPECT_EQ(filter.keys_inserted(), keys.size());
}

TEST(RankedOnDevice, WhatIsForTheHostIsRefused) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::ranked(82, 120, 20);
  DeviceFilter filter(geometry, 0), bits(geometry.with(scbf::Cell::bit), 0);
  const char* const why =
      "on a device, a filter of layout ranked (ranked, 120 blocks of 4 times 82 "
      "positions, 20 may spill) takes only insertions and lookups";
  SCBF_EXPECT_THROW(filter.remove({nullptr, 0}, nullptr), scbf::InvalidArgument, why);
  SCBF_EXPECT_THROW(filter.count({nullptr, 0}, nullptr), scbf::InvalidArgument, why);
  SCBF_EXPECT_THROW(filter.merge_async(filter), scbf::InvalidArgument, why);
  SCBF_EXPECT_THROW(filter.subtract(filter), scbf::InvalidArgument, why);
  SCBF_EXPECT_THROW(filter.project_async(bits), scbf::InvalidArgument, why);
  SCBF_EXPECT_THROW(filter.histograms(), scbf::InvalidArgument, "is counted on the host");
  SCBF_EXPECT_THROW(bits.histograms(), scbf::InvalidArgument, "is counted on the host");
}

TEST(DeviceFilterErrors, TooLargeAFilterIsRefusedWithTheNumbers) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::split_block(8, scbf::kMaxBlocksPerGroup);  // 2 TiB
  SCBF_EXPECT_THROW(DeviceFilter(geometry, 0), scbf::cuda::OutOfDeviceMemory,
                    "bytes of device memory");
  SCBF_EXPECT_THROW(scbf::Filter(geometry, {.backend = "cuda"}), scbf::cuda::OutOfDeviceMemory,
                    "are free");
  // The device is as usable as before.
  DeviceFilter small(scbf::Geometry::split_block(1, 100), 0);
  DeviceFilter::synchronize();
}

TEST(DeviceFilterErrors, TooLargeABatchIsRefusedAndTheFilterIsUnharmed) {
  SCBF_NEEDS_DEVICE();
  class NoMemory final : public scbf::cuda::MemoryResource {
   public:
    void* allocate(std::size_t bytes, cudaStream_t) override {
      throw scbf::cuda::OutOfDeviceMemory("no " + std::to_string(bytes) + " bytes");
    }
    void deallocate(void*, std::size_t, cudaStream_t) noexcept override {}
  } none;
  DeviceFilter filter(scbf::Geometry::split_block(1, 1000), 0);
  const auto keys = random_keys(1000, 1);
  const OnDevice<std::uint64_t> there(keys);
  const OnDevice<std::uint8_t> verdicts(keys.size());
  filter.insert({there.get(), keys.size()});
  const auto before = words_of(filter);
  const DeviceOptions options{.path = Path::partitioned, .memory = &none};
  EXPECT_THROW(filter.insert({there.get(), keys.size()}, options), scbf::cuda::OutOfDeviceMemory);
  EXPECT_THROW(filter.remove({there.get(), keys.size()}, verdicts.get(), options),
               scbf::cuda::OutOfDeviceMemory);
  EXPECT_TRUE(same_words(words_of(filter), before));
  EXPECT_EQ(filter.keys_inserted(), keys.size());
}

TEST(DeviceFilterErrors, WithoutADeviceTheReasonIsGiven) {
  if (no_device().empty()) GTEST_SKIP() << "there is a device";
  SCBF_EXPECT_THROW(DeviceFilter(scbf::Geometry::split_block(1, 100), 0), scbf::BackendUnavailable,
                    "allocating device memory for split_block");
  SCBF_EXPECT_THROW(scbf::Filter(scbf::Geometry::split_block(1, 100), {.backend = "cuda"}),
                    scbf::BackendUnavailable, "backend 'cuda': ");
}

}  // namespace
}  // namespace scbf_test::cuda_device_test
