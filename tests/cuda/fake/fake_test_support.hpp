// SPDX-License-Identifier: Apache-2.0
// Shared by programs with the fake runtime: their machine, its backends, and a check after every
// test that everything was given back and no mistake was noted.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend.hpp"
#include "dispatch/backend_table.hpp"
#include "fake_runtime.hpp"
#include "kit/known_backends.hpp"
#include "scbf/cuda/memory.hpp"
#include "scbf/filter.hpp"

namespace scbf_test {

/// Keys per window of the backend "cuda:windows". There are few, so that batches take many windows.
inline constexpr std::size_t kSmallWindow = 1000;

/// Runs `checks` in a process of its own. If they fail there, the test fails.
inline void in_own_process(const std::function<void()>& checks) {
  const auto run = [&] {
    checks();
    for (const std::string& problem : fake_cuda::take_problems()) ADD_FAILURE() << problem;
    // The parent shows what the child writes to standard error.
    const auto* result = ::testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int i = 0; i < result->total_part_count(); ++i) {
      std::cerr << result->GetTestPartResult(i).message() << '\n';
    }
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // the child begins anew
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

/// Fails a test that does not give everything back, or during which a mistake was noted.
class Tidiness : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo&) override {
    fake_cuda::heal();
    scbf::cuda::release_device_scratch();
    const fake_cuda::Alive left = fake_cuda::alive();
    EXPECT_EQ(left.device_blocks, 0u) << "device memory was not given back";
    EXPECT_EQ(left.pool_blocks, 0u) << "temporary device memory was not given back";
    EXPECT_EQ(left.pinned_blocks, 0u) << "pinned memory was not given back";
    EXPECT_EQ(left.streams, 0u) << "streams were not destroyed";
    EXPECT_EQ(left.events, 0u) << "events were not destroyed";
    for (const std::string& problem : fake_cuda::take_problems()) ADD_FAILURE() << problem;
  }
};

/// Sets up two devices. The environment variable SCBF_FAKE_SCHEDULE chooses the order of work:
/// late, early, or the seed of a random order. Call it while the program starts.
inline bool start_fake_cuda() {
  fake_cuda::set_machine({.devices = std::vector<fake_cuda::DeviceSpec>(2)});
  const char* variable = std::getenv("SCBF_FAKE_SCHEDULE");
  const std::string schedule = variable == nullptr ? "1" : variable;
  if (schedule == "late") {
    fake_cuda::set_schedule(fake_cuda::Schedule::late);
  } else if (schedule == "early") {
    fake_cuda::set_schedule(fake_cuda::Schedule::early);
  } else {
    fake_cuda::set_schedule(fake_cuda::Schedule::random, std::stoull(schedule));
  }
  static const auto windows = scbf::make_cuda_backend(0, "cuda:windows", kSmallWindow);
  scbf::add_backend(*windows);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Tidiness);
  return true;
}

}  // namespace scbf_test
