// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/fetch_distance.hpp"

#include "cpu_simd/work_kinds.hpp"

namespace scbf {

bool FetchDistance::is_due() const noexcept {
  return begun_.load(std::memory_order_relaxed) < kTries ||
         since_.load(std::memory_order_relaxed) >= kKeysBetweenTries;
}

std::size_t FetchDistance::begin_try() noexcept {
  since_.store(0, std::memory_order_relaxed);
  return begun_.fetch_add(1, std::memory_order_relaxed) % kChoices.size();
}

void FetchDistance::book(const std::array<double, 2>& ns) noexcept {
  const std::uint32_t at = booked_.fetch_add(1, std::memory_order_relaxed) % kTries;
  saved_[at].store(static_cast<float>(ns[1] - ns[0]), std::memory_order_relaxed);
}

std::size_t FetchDistance::best() const noexcept {
  float sum = 0, least = 0, most = 0;
  for (const auto& saved : saved_) {
    const float one = saved.load(std::memory_order_relaxed);
    sum += one;
    least = std::min(least, one);
    most = std::max(most, one);
  }
  return sum - least - most >= 0 ? 0 : 1;
}

FetchDistance& fetch_distance(Operation operation, const Geometry& geometry) noexcept {
  static std::array<FetchDistance, kWorkKinds> all;
  return all[work_kind(operation, geometry, 1)];
}

}  // namespace scbf
