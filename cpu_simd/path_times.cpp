// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/path_times.hpp"

#include <array>
#include <bit>

namespace scbf {

namespace {

/// Tries that are always due, and how many batches that ask there are between later ones.
constexpr std::uint32_t kFirstTries = 3, kBetweenTries = 32;
/// What a booked time grows by whenever another is booked.
constexpr float kAgeing = 1.1f;

/// What the lines of a filter cost per key, in random lines.
double lines_per_key(std::size_t keys, double lines) noexcept {
  return 0.5 * lines / static_cast<double>(keys);
}

void keep_least(std::atomic<float>& booked, float now) noexcept {
  const float before = booked.load(std::memory_order_relaxed);
  booked.store(before == 0 ? now : std::min(before * kAgeing, now), std::memory_order_relaxed);
}

}  // namespace

void PathTimes::book(Way way, std::size_t keys, double lines, double seconds) noexcept {
  const double each = std::max(seconds * 1e9 / static_cast<double>(keys), 0.01);
  if (way == Way::direct) return keep_least(direct_, static_cast<float>(each));
  const double random_line = direct_.load(std::memory_order_relaxed);
  const double least = each / 4;  // whatever the guess about lines says
  keep_least(by_position_,
             static_cast<float>(std::max(each - random_line * lines_per_key(keys, lines), least)));
}

std::optional<Way> PathTimes::faster(std::size_t keys, double lines) const noexcept {
  const double direct = direct_.load(std::memory_order_relaxed);
  const double by_position = by_position_.load(std::memory_order_relaxed);
  if (direct == 0 || by_position == 0) return std::nullopt;
  return by_position + direct * lines_per_key(keys, lines) < direct ? Way::by_position
                                                                    : Way::direct;
}

bool PathTimes::are_due() noexcept {
  const std::uint32_t before = asked_.fetch_add(1, std::memory_order_relaxed);
  return tried_.load(std::memory_order_relaxed) < kFirstTries || before % kBetweenTries == 0;
}

PathTimes& path_times(Operation operation, const Geometry& geometry, unsigned threads) noexcept {
  constexpr std::size_t kOperations = 3, kShapes = 4, kThreads = 3, kSizes = 65;
  static std::array<PathTimes, kOperations * kShapes * kThreads * kSizes> all;
  const std::size_t shape =
      2 * (geometry.cell() == Cell::bit) + (geometry.cache_lines_per_key() > 1);
  const std::size_t shared = std::min(threads, 3u) - 1;
  const auto size = static_cast<std::size_t>(std::bit_width(geometry.bytes()));
  return all[((static_cast<std::size_t>(operation) * kShapes + shape) * kThreads + shared) *
                 kSizes +
             size];
}

}  // namespace scbf
