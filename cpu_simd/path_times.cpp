// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/path_times.hpp"

#include <array>

#include "cpu_simd/work_kinds.hpp"

namespace scbf {

namespace {

/// What a booked time grows by whenever another is booked.
constexpr float kAgeing = 1.1f;
/// Tries that are always due, and how many batches ask between later ones.
constexpr std::uint32_t kFirstTries = 3, kBetweenTries = 32;

/// What the lines of a filter cost per key, in random lines.
double lines_per_key(std::size_t keys, double lines) noexcept {
  return 0.5 * lines / static_cast<double>(keys);
}

}  // namespace

void PathTimes::book(Way way, std::size_t keys, double lines, double seconds) noexcept {
  const double each = std::max(seconds * 1e9 / static_cast<double>(keys), 0.01);
  if (way == Way::direct) return book_least(direct_, each, kAgeing);
  const double random_line = direct_.load(std::memory_order_relaxed);
  const double least = each / 4;  // whatever the guess about lines says
  book_least(by_position_, std::max(each - random_line * lines_per_key(keys, lines), least),
             kAgeing);
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
  static std::array<PathTimes, kWorkKinds> all;
  return all[work_kind(operation, geometry, threads)];
}

}  // namespace scbf
