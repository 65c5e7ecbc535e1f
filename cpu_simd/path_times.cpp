// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/path_times.hpp"

#include <algorithm>
#include <array>

#include "cpu_simd/caches.hpp"
#include "cpu_simd/work_kinds.hpp"

namespace scbf {

namespace {

/// Batches that ask between later tries. Cheap ones are more frequent: where the last cache could
/// hold the filter, the direct path may have lost its first tries because a neighbour filled the
/// cache.
constexpr std::uint32_t kBetweenTries = 32, kBetweenCheapTries = 4;

/// What a line of the filter costs a pass, in random lines.
constexpr double kLineCost = 0.5;

}  // namespace

void PathTimes::book(double direct_ns, double pass_ns, double lines_per_key) noexcept {
  const double least = pass_ns / 4;  // whatever the guess about lines says
  Try& latest = tries_[booked_.fetch_add(1, std::memory_order_relaxed) % kTries];
  latest.pass.store(
      static_cast<float>(std::max(pass_ns - kLineCost * direct_ns * lines_per_key, least)),
      std::memory_order_relaxed);
  latest.direct.store(static_cast<float>(std::max(direct_ns, 0.01)), std::memory_order_release);
}

std::optional<Way> PathTimes::faster(std::size_t keys, double lines) const noexcept {
  const double lines_cost = kLineCost * lines / static_cast<double>(keys);
  int tries = 0, passes = 0;  // in which the pass was faster
  for (const Try& one : tries_) {
    const double direct = one.direct.load(std::memory_order_acquire);
    if (direct == 0) continue;
    const double pass = one.pass.load(std::memory_order_relaxed) + direct * lines_cost;
    passes += pass < direct;
    ++tries;
  }
  if (tries == 0) return std::nullopt;
  return 2 * passes > tries - 1 ? Way::by_position : Way::direct;
}

bool PathTimes::are_due(bool cheap) noexcept {
  const std::uint32_t before = asked_.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t between = cheap ? kBetweenCheapTries : kBetweenTries;
  return begun_.load(std::memory_order_relaxed) < kTries || before % between == 0;
}

std::size_t samples_for(const Geometry& geometry, std::size_t keys, std::size_t sample) noexcept {
  if (geometry.bytes() > l3_bytes()) return kSamples;
  // Two random lines for each line there is: one in seven is never touched.
  const auto enough = static_cast<std::size_t>(2 * lines_per_array(geometry));
  return std::max<std::size_t>(kSamples, std::min(enough, keys / 8) / sample);
}

PathTimes& path_times(Operation operation, const Geometry& geometry, unsigned threads) noexcept {
  static std::array<PathTimes, kWorkKinds> all;
  return all[work_kind(operation, geometry, threads)];
}

}  // namespace scbf
