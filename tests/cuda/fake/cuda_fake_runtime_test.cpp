// SPDX-License-Identifier: Apache-2.0
// The fake runtime itself: it must notice the mistakes that it is meant to notice.
#include "fake_runtime.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

namespace {

using fake_cuda::Schedule;

class FakeRuntime : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1000;
  void SetUp() override {
    fake_cuda::set_machine({.devices = std::vector<fake_cuda::DeviceSpec>(2)});
    fake_cuda::set_schedule(Schedule::late);
    for (cudaStream_t* stream : {&a, &b}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    }
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes), cudaSuccess);
  }
  void TearDown() override {
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(event);
    cudaFree(device);
    cudaFreeHost(pinned);
    EXPECT_EQ(fake_cuda::alive(), fake_cuda::Alive());
    EXPECT_EQ(fake_cuda::take_problems(), std::vector<std::string>());
  }
  void expect_problem(std::string_view text) {
    const auto problems = fake_cuda::take_problems();
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find(text), std::string::npos) << problems[0];
    (void)cudaGetLastError();
  }
  unsigned char first() {
    unsigned char value = 0;
    cudaMemcpy(&value, device, 1, cudaMemcpyDeviceToHost);
    return value;
  }

  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  unsigned char* device = nullptr;
  unsigned char* pinned = nullptr;
};

TEST_F(FakeRuntime, DeviceMemoryIsOutOfTheHostsReach) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(device[0] = 1, "");
  EXPECT_DEATH(
      {
        fake_cuda::launch(a, [&] { device[1024] = 1; });
        cudaStreamSynchronize(a);
      },
      "");
  fake_cuda::launch(a, [&] { device[0] = 5; });
  EXPECT_EQ(first(), 0xCC) << "work was done before anything waited for it";
  cudaStreamSynchronize(a);
  EXPECT_EQ(first(), 5);
}

TEST_F(FakeRuntime, MemoryOfAnotherDeviceIsOutOfReachToo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        cudaSetDevice(1);
        fake_cuda::launch(nullptr, [&] { device[0] = 1; });
        cudaDeviceSynchronize();
      },
      "");
  cudaSetDevice(1);
  EXPECT_EQ(fake_cuda::launch(a, [] {}), cudaErrorInvalidResourceHandle);
  expect_problem("not current");
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  expect_problem("another device");
  cudaSetDevice(0);
}

TEST_F(FakeRuntime, PinnedMemoryIsReadWhenTheCopyIsDone) {
  std::memset(pinned, 1, kBytes);
  cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice, a);
  std::memset(pinned, 2, kBytes);
  cudaStreamSynchronize(a);
  EXPECT_EQ(first(), 2);
  std::array<unsigned char, kBytes> pageable{};
  pageable.fill(3);
  cudaMemcpyAsync(device, pageable.data(), kBytes, cudaMemcpyHostToDevice, a);
  pageable.fill(4);
  cudaStreamSynchronize(a);
  EXPECT_EQ(first(), 3);
  cudaMemcpy(device, pageable.data(), kBytes, cudaMemcpyHostToDevice);
  cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost, a);
  cudaStreamSynchronize(a);
  EXPECT_EQ(pinned[0], 3) << "the null stream and a non-blocking stream waited for each other";
  cudaStreamSynchronize(nullptr);
  EXPECT_EQ(first(), 4);
}

TEST_F(FakeRuntime, StreamsWaitForEventsAndForNothingElse) {
  fake_cuda::launch(a, [&] { device[0] = 1; });
  cudaEventRecord(event, a);
  fake_cuda::launch(b, [&] { device[0] = 2; });
  cudaStreamSynchronize(b);
  EXPECT_EQ(first(), 2);
  cudaStreamWaitEvent(b, event, 0);
  cudaStreamSynchronize(b);
  EXPECT_EQ(first(), 1);
  cudaStream_t blocking = nullptr;
  cudaStreamCreateWithFlags(&blocking, cudaStreamDefault);
  fake_cuda::launch(blocking, [&] { device[0] = 7; });
  fake_cuda::launch(a, [&] { device[0] = 8; });
  cudaStreamSynchronize(nullptr);
  EXPECT_EQ(first(), 7) << "the null stream waited for a non-blocking stream";
  cudaStreamDestroy(blocking);
}

TEST_F(FakeRuntime, RandomOrdersDiffer) {
  std::set<unsigned> seen;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    fake_cuda::set_schedule(Schedule::random, seed);
    fake_cuda::launch(a, [&] { device[0] = 1; });
    fake_cuda::launch(b, [&] { device[0] = 2; });
    cudaDeviceSynchronize();
    seen.insert(first());
  }
  EXPECT_EQ(seen, (std::set<unsigned>{1, 2}));
}

TEST_F(FakeRuntime, WrongFreesAndWritesOutsideAreNoticed) {
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  expect_problem("cudaFree of what cudaMalloc did not give");
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  expect_problem("cudaFreeHost");
  EXPECT_EQ(cudaFreeAsync(device, a), cudaErrorInvalidValue);
  expect_problem("cudaFreeAsync");
  fake_cuda::launch(a, [&] { device[kBytes] = 1; });
  cudaFree(device);
  expect_problem("outside its memory");
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
  expect_problem("cudaFree");
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), kBytes), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device, 0, kBytes + 1, a), cudaErrorInvalidValue);
  expect_problem("memset");
  EXPECT_EQ(cudaMemcpy(device, pinned + 1, kBytes, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  expect_problem("pinned in part");
  cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice, a);
  cudaFreeHost(pinned);
  expect_problem("while the device copies it");
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes), cudaSuccess);
}

TEST_F(FakeRuntime, PoolMemoryLivesInTheOrderOfItsStream) {
  cudaMemPoolProps properties{};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  unsigned char *first_data = nullptr, *second = nullptr;
  cudaMallocFromPoolAsync(reinterpret_cast<void**>(&first_data), 500, pool, a);
  EXPECT_EQ(cudaMemsetAsync(first_data, 1, 500, b), cudaSuccess);
  cudaStreamSynchronize(b);  // stream a has not allocated it yet
  expect_problem("before or after its time");
  cudaFreeAsync(first_data, a);
  cudaMallocFromPoolAsync(reinterpret_cast<void**>(&second), 500, pool, b);
  EXPECT_NE(first_data, second) << "the block was reused before it was free";
  cudaFreeAsync(second, b);
  cudaDeviceSynchronize();
  cudaMallocFromPoolAsync(reinterpret_cast<void**>(&second), 500, pool, b);
  cudaMemsetAsync(second, 1, 500, b);
  cudaFreeAsync(second, b);
  EXPECT_EQ(cudaFreeAsync(second, b), cudaErrorInvalidValue);
  expect_problem("was freed before");
  cudaDeviceSynchronize();
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST_F(FakeRuntime, MemoryEndsAndErrorsStick) {
  fake_cuda::set_memory(0, 10'000);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 9'500), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 10'000u);
  EXPECT_EQ(free, 10'000u - 1024);
}

}  // namespace
