// SPDX-License-Identifier: Apache-2.0
// How many keys ahead the direct path fetches lines from memory. The best distance depends on how
// many lines a core can wait for at once, and on how far it looks ahead by itself. Zen 5 gains a
// third at 128 keys against 32, Zen 4 a tenth the other way round. So the library tries both, on a
// few keys at a time, and goes on with the one that costs less. Answers and counters do not depend
// on it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "cpu_simd/choose.hpp"
#include "cpu_simd/kernels.hpp"
#include "cpu_simd/tuning.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// What is known for one kind of work. Any number of threads may use it.
class FetchDistance {
 public:
  static constexpr std::array<std::size_t, 2> kChoices = {kFarDistance, kNearDistance};
  /// The first tries, which are always due. The choice is by their sum, so that one interrupted try
  /// decides nothing.
  static constexpr std::uint32_t kTries = 8;

  /// Is it time to try both choices? At first a few times, then after every kKeysBetweenTries keys.
  bool is_due() const noexcept;
  /// Begins a try of both, one right after the other, and returns the one that goes first.
  std::size_t begin_try() noexcept;
  /// Books what both choices took in a try, in nanoseconds per key.
  void book(const std::array<double, 2>& ns) noexcept;
  /// Counts keys that were worked on without a try.
  void count(std::size_t keys) noexcept { since_.fetch_add(keys, std::memory_order_relaxed); }

  /// The faster choice by the sum of the last tries, without the best try of each. Before any try,
  /// the first choice.
  std::size_t best() const noexcept;

 private:
  std::array<std::atomic<float>, kTries> saved_{};  // ns per key by the first choice
  std::atomic<std::uint32_t> begun_{0}, booked_{0};
  std::atomic<std::uint64_t> since_{0};  // keys since the last try
};

/// The distances of one kind of work (work_kinds.hpp), whatever the number of threads.
FetchDistance& fetch_distance(Operation operation, const Geometry& geometry) noexcept;

/// Calls work(first, end, fetch) for stretches of the keys first … end − 1 of a batch, in order.
template <class Work>
void at_best_distance(Operation operation, const Geometry& geometry, std::size_t first,
                      std::size_t end, Work work) {
  if (geometry.bytes() <= kFarBytes) {
    return work(first, end, Fetch{.distance = distance_for(geometry.bytes())});
  }
  FetchDistance& known = fetch_distance(operation, geometry);
  while (first < end) {
    if (end - first >= 2 * kTryKeys && known.is_due()) {
      std::array<double, 2> ns;
      std::size_t choice = known.begin_try();
      for (int i = 0; i < 2; ++i, choice = 1 - choice) {
        const auto began = std::chrono::steady_clock::now();
        work(first, first + kTryKeys, Fetch{.distance = FetchDistance::kChoices[choice]});
        const std::chrono::duration<double, std::nano> took =
            std::chrono::steady_clock::now() - began;
        ns[choice] = took.count() / kTryKeys;
        first += kTryKeys;
      }
      known.book(ns);
    } else {
      const std::size_t n = std::min(end - first, kKeysBetweenTries);
      work(first, first + n, Fetch{.distance = FetchDistance::kChoices[known.best()]});
      known.count(n);
      first += n;
    }
  }
}

}  // namespace scbf
