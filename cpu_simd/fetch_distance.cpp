// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/fetch_distance.hpp"

#include "cpu_simd/work_kinds.hpp"

namespace scbf {

bool FetchDistance::is_due() const noexcept {
  return tries_.load(std::memory_order_relaxed) < kTriesAtFirst * kChoices.size() ||
         since_.load(std::memory_order_relaxed) >= kKeysBetweenTries;
}

std::size_t FetchDistance::next_try() noexcept {
  since_.store(0, std::memory_order_relaxed);
  return tries_.fetch_add(1, std::memory_order_relaxed) % kChoices.size();
}

void FetchDistance::book(std::size_t choice, double ns_per_key) noexcept {
  // The choices are often a tenth apart: what is booked must not age by that much from one try to
  // the next.
  book_least(times_[choice], std::max(ns_per_key, 0.01), 1.01f);
}

std::size_t FetchDistance::best() const noexcept {
  std::size_t best = 0;
  float least = 0;
  for (std::size_t i = 0; i < kChoices.size(); ++i) {
    const float time = times_[i].load(std::memory_order_relaxed);
    if (time == 0) return 0;
    if (i > 0 && time >= least) continue;
    best = i;
    least = time;
  }
  return best;
}

FetchDistance& fetch_distance(Operation operation, const Geometry& geometry) noexcept {
  static std::array<FetchDistance, kWorkKinds> all;
  return all[work_kind(operation, geometry, 1)];
}

}  // namespace scbf
