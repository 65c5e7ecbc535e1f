// SPDX-License-Identifier: Apache-2.0
// How large must a filter be? Computed in three ways: from keys and rate, from memory and rate, and
// from memory and keys.
#include <cstdio>

#include "scbf/sizing.hpp"

namespace {

void show(const char* question, const scbf::Plan& plan) {
  std::printf("%s\n  %s, %.1f MB, %.1f bits per key, %llu keys at %.3g %%\n  %s\n", question,
              plan.geometry.describe().c_str(), static_cast<double>(plan.geometry.bytes()) / 1e6,
              plan.bits_per_key, static_cast<unsigned long long>(plan.capacity),
              plan.predicted_fpr * 100, plan.reason.c_str());
}

}  // namespace

int main() {
  const auto memory = scbf::plan({.capacity = 100'000'000, .fpr = 0.01});
  show("How much memory do 100 million keys need at 1 %?", memory);
  const auto keys = scbf::plan({.fpr = 0.001, .memory_bytes = 1 << 30});
  show("How many keys fit into 1 GiB at 0.1 %?", keys);
  const auto rate = scbf::plan({.capacity = 1'000'000'000, .memory_bytes = 4ull << 30});
  show("What rate do a billion keys get in 4 GiB?", rate);

  // Each formula has its inverse.
  const bool consistent =
      scbf::capacity_for(memory.geometry, 0.01) >= 100'000'000 &&
      scbf::predicted_fpr(keys.geometry, static_cast<double>(keys.capacity)) <= 0.001 &&
      rate.geometry.bytes() <= 4ull << 30;
  return consistent ? 0 : 1;
}
