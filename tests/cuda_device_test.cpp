// SPDX-License-Identifier: Apache-2.0
// scbf::cuda::DeviceFilter on a GPU, byte for byte against the scalar model. Without a device every
// test here is skipped, aloud; SCBF_REQUIRE_BACKEND=cuda makes that a failure.
#include "scbf/cuda/device_filter.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "support/keys.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::cuda::DeviceFilter;

/// Why there is no device, or nothing.
std::string no_device() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  return devices == 0 ? "no device" : "";
}

#define SCBF_NEEDS_DEVICE()                                                      \
  do {                                                                           \
    const std::string reason = no_device();                                      \
    if (reason.empty()) break;                                                   \
    const char* required = std::getenv("SCBF_REQUIRE_BACKEND");                  \
    if (required != nullptr && std::string_view(required) == "cuda") {           \
      FAIL() << "SCBF_REQUIRE_BACKEND=cuda, but there is no device: " << reason; \
    }                                                                            \
    GTEST_SKIP() << "needs a GPU: " << reason;                                   \
  } while (false)

/// An array in device memory.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t n) : n_(n) {
    if (cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T) + 1) != cudaSuccess) {
      throw std::bad_alloc();
    }
    // What a kernel does not write must show.
    EXPECT_EQ(cudaMemset(data_, 0xCC, n * sizeof(T)), cudaSuccess);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }

  T* get() const { return data_; }
  std::vector<T> to_host() const {
    std::vector<T> values(n_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

class DeviceFilterOf : public ::testing::TestWithParam<Shape> {
 protected:
  static constexpr std::uint64_t kSeed = 99;

  scbf::Filter model{GetParam().geometry, {.seed = kSeed, .backend = "scalar"}};

  static std::vector<std::uint64_t> words_of(const DeviceFilter& filter) {
    std::vector<std::uint64_t> words(filter.geometry().words());
    filter.download(words);
    return words;
  }
  static Answers ask(const DeviceFilter& filter, const std::vector<std::uint64_t>& keys,
                     bool count) {
    const OnDevice<std::uint64_t> on_device(keys);
    const OnDevice<std::uint8_t> out(keys.size());
    if (count) {
      filter.count_async(on_device.get(), keys.size(), out.get(), nullptr);
    } else {
      filter.contains_async(on_device.get(), keys.size(), out.get(), nullptr);
    }
    DeviceFilter::synchronize(nullptr);
    return out.to_host();
  }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceFilterOf, ::testing::ValuesIn(contract_shapes(200'000)),
                         [](const auto& shape) { return shape.param.name; });

TEST_P(DeviceFilterOf, InsertsAndAnswersAsTheModelDoes) {
  SCBF_NEEDS_DEVICE();
  DeviceFilter filter(GetParam().geometry, kSeed);
  std::vector<std::uint64_t> all;
  // Sizes around a warp and around a block of threads.
  for (const std::size_t n : {0u, 1u, 7u, 31u, 32u, 33u, 255u, 257u, 10'007u}) {
    const auto keys = random_keys(n, n + 1);
    const OnDevice<std::uint64_t> on_device(keys);
    filter.insert_async(on_device.get(), n, nullptr);
    DeviceFilter::synchronize(nullptr);
    model.insert(keys, {.threads = 1});
    ASSERT_TRUE(same_words(words_of(filter), model.words())) << n;
    all.insert(all.end(), keys.begin(), keys.end());
  }
  const auto others = random_keys(all.size(), 1234);
  all.insert(all.end(), others.begin(), others.end());
  EXPECT_TRUE(same_answers(ask(filter, all, false), contains(model, all)));
  EXPECT_TRUE(same_answers(ask(filter, all, true), count(model, all)));
}

TEST_P(DeviceFilterOf, OneKeyAMillionTimesSaturatesItsCountersAlone) {
  SCBF_NEEDS_DEVICE();
  DeviceFilter filter(GetParam().geometry, kSeed);
  const std::vector<std::uint64_t> keys(1'000'000, 42);
  const OnDevice<std::uint64_t> on_device(keys);
  filter.insert_async(on_device.get(), keys.size(), nullptr);
  DeviceFilter::synchronize(nullptr);
  model.insert(keys, {.threads = 1});
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
}

TEST_P(DeviceFilterOf, MovesFromAndToTheHost) {
  SCBF_NEEDS_DEVICE();
  model.insert(random_keys(5000, 7), {.threads = 1});
  DeviceFilter filter(model);
  EXPECT_TRUE(same_words(words_of(filter), model.words()));
  DeviceFilter moved(std::move(filter));
  EXPECT_TRUE(same_words(words_of(moved), model.words()));
  moved.clear_async(nullptr);
  DeviceFilter::synchronize(nullptr);
  EXPECT_TRUE(same_words(words_of(moved), std::vector<std::uint64_t>(model.words().size())));
  std::vector<std::uint64_t> too_few(3);
  SCBF_EXPECT_THROW(moved.download(too_few), scbf::InvalidArgument, "has room for 3: must be ");
}

TEST(DeviceFilterErrors, TooLargeAFilterIsRefusedWithTheNumbers) {
  SCBF_NEEDS_DEVICE();
  const auto geometry = scbf::Geometry::split_block(8, scbf::kMaxBlocksPerGroup);  // 2 TiB
  SCBF_EXPECT_THROW(DeviceFilter(geometry, 0), scbf::cuda::OutOfDeviceMemory,
                    "bytes of device memory");
  // And the device is as usable as before.
  DeviceFilter small(scbf::Geometry::split_block(1, 100), 0);
  DeviceFilter::synchronize(nullptr);
}

TEST(DeviceFilterErrors, WithoutADeviceTheReasonIsGiven) {
  if (no_device().empty()) GTEST_SKIP() << "there is a device";
  SCBF_EXPECT_THROW(DeviceFilter(scbf::Geometry::split_block(1, 100), 0), scbf::cuda::CudaError,
                    "allocating device memory: ");
}

}  // namespace
