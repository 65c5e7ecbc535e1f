// SPDX-License-Identifier: Apache-2.0
// Machines without a device, with one that is too old, with one without pools …: what the table of
// backends contains, and what it refuses. The table is made once per process, so each machine has a
// process of its own.
#include <gtest/gtest.h>

#include <functional>

#include "fake_test_support.hpp"
#include "scbf/cuda/device_filter.hpp"
#include "scbf/cuda/errors.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using fake_cuda::Machine;
using scbf::BackendUnavailable;
using scbf::Filter;
using scbf::Geometry;

const Geometry kGeometry = Geometry::split_block(1, 300);

void on(const Machine& machine, const std::function<void()>& checks) {
  in_own_process([&] {
    fake_cuda::set_machine(machine);
    checks();
  });
}

void expect_unavailable(std::string_view reason) {
  const auto& table = scbf::cuda_backends();
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0]->name(), "cuda");
  EXPECT_NE(table[0]->unavailable_reason().find(reason), std::string::npos)
      << table[0]->unavailable_reason();
  SCBF_EXPECT_THROW(scbf::find_backend("cuda"), BackendUnavailable, reason);
  SCBF_EXPECT_THROW(Filter(kGeometry, {.backend = "cuda"}), BackendUnavailable, reason);
  Filter filter(kGeometry);
  EXPECT_EQ(filter.backend().name(), "simd");
  EXPECT_THROW(filter.to("cuda"), BackendUnavailable);
  EXPECT_THROW(scbf::find_backend("cuda:1"), BackendUnavailable);
}

TEST(Machines, WithoutADeviceOrItsDriver) {
  on({.devices = {}}, [] {
    expect_unavailable("no CUDA-capable device is detected");
    SCBF_EXPECT_THROW(scbf::cuda::DeviceFilter(kGeometry, 0), BackendUnavailable,
                      "no CUDA-capable");
    scbf::cuda::release_device_scratch();
  });
  on({.devices = {}, .without_devices = cudaErrorInsufficientDriver}, [] {
    expect_unavailable("driver version is insufficient");
    SCBF_EXPECT_THROW(scbf::cuda::DeviceFilter(kGeometry, 0), BackendUnavailable,
                      "driver version is insufficient");
  });
}

TEST(Machines, WithADeviceThatNothingWasCompiledFor) {
  on({.devices = {{.has_kernels = false}}}, [] {
    expect_unavailable(
        "Fake GPU 0, compute capability 9.0: looking for its kernels: no kernel "
        "image is available");
  });
}

TEST(Machines, WithADeviceThatIsBusyForAWhile) {
  on({}, [] {
    fake_cuda::fail_call([](auto f) { return f == "cudaFuncGetAttributes"; }, 1,
                         cudaErrorMemoryAllocation);
    SCBF_EXPECT_THROW(scbf::find_backend("cuda"), BackendUnavailable, "out of memory");
    EXPECT_EQ(scbf::find_backend("cuda").memory(), "cuda:0");
  });
}

TEST(Machines, WithADeviceThatDoesNotAnswer) {
  on({}, [] {
    fake_cuda::fail_call([](auto f) { return f == "cudaGetDeviceProperties"; }, 1,
                         cudaErrorUnknown);
    expect_unavailable("asking for the properties of the device");
  });
}

TEST(Machines, WithOneDevice) {
  on({.devices = {{.memory_bytes = std::size_t{3} << 30}}}, [] {
    ASSERT_EQ(scbf::cuda_backends().size(), 1u);
    const scbf::Backend& cuda = scbf::find_backend("cuda");
    EXPECT_EQ(cuda.memory(), "cuda:0");
    EXPECT_EQ(cuda.target(), "Fake GPU 0, compute capability 9.0");
    EXPECT_EQ(cuda.description(),
              "Fake GPU 0, compute capability 9.0, 3.0 GiB of memory at 16 GB/s");
    EXPECT_EQ(scbf::find_backend("auto").memory(), scbf::kHostMemory);
  });
}

TEST(Machines, WithTwoDevices) {
  on({.devices = std::vector<fake_cuda::DeviceSpec>(2)}, [] {
    ASSERT_EQ(scbf::cuda_backends().size(), 2u);
    EXPECT_EQ(scbf::find_backend("cuda:1").memory(), "cuda:1");
    Filter filter(kGeometry, {.backend = "cuda:1"});
    filter.insert(random_keys(100, 1));
    EXPECT_EQ(fake_cuda::alive().device_blocks, 2u);  // the filter and a window
    EXPECT_EQ(fake_cuda::memory_in_use(0), 0u);
  });
}

TEST(Machines, WhoseDeviceHasNoPoolsOrLittleSharedMemory) {
  for (const fake_cuda::DeviceSpec& spec :
       {fake_cuda::DeviceSpec{.has_pools = false}, fake_cuda::DeviceSpec{.shared_bytes = 48 * 1024},
        fake_cuda::DeviceSpec{.l2_bytes = 1 << 28}}) {
    on({.devices = {spec}}, [] {
      Filter filter(Geometry::split_block(1, 5000), {.backend = "cuda"});
      Filter model(filter.geometry(), {.backend = "scalar"});
      for (const auto path : {scbf::Path::partitioned, scbf::Path::automatic}) {
        const auto keys = random_keys(20'000, 1);
        filter.insert(keys, {.path = path});
        model.insert(keys);
        EXPECT_TRUE(same_answers(remove(filter, keys), remove(model, keys)));
        EXPECT_EQ(filter, model);
      }
    });
  }
}

}  // namespace
