// SPDX-License-Identifier: Apache-2.0
// A count that a filter keeps up to date where that is cheap; elsewhere it is forgotten, and
// computed again when it is asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace scbf::detail {

/// A number that may or may not be known. Const operations may compute and store it, several at
/// once: all store the same number, and later ones need not compute it.
class KnownCount {
 public:
  KnownCount() noexcept = default;
  KnownCount(const KnownCount& other) noexcept : value_(other.value()) {}
  KnownCount& operator=(const KnownCount& other) noexcept {
    learn(other.value());
    return *this;
  }

  std::optional<std::uint64_t> get() const noexcept {
    const std::uint64_t now = value();
    return now == kUnknown ? std::nullopt : std::optional(now);
  }
  void learn(std::uint64_t value) const noexcept { value_.store(value, std::memory_order_relaxed); }
  void forget() noexcept { learn(kUnknown); }

  // A change of the number, by one thread at a time. The sum of numbers is known if both are.
  void add(std::uint64_t n) noexcept {
    const std::uint64_t before = value();
    if (before != kUnknown) learn(before + n);
  }
  void subtract(std::uint64_t n) noexcept {
    const std::uint64_t before = value();
    if (before != kUnknown) learn(before - n);
  }
  void add(std::optional<std::uint64_t> n) noexcept { n ? add(*n) : forget(); }
  void subtract(std::optional<std::uint64_t> n) noexcept { n ? subtract(*n) : forget(); }

 private:
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};  // no stage has so many counters
  mutable std::atomic<std::uint64_t> value_{kUnknown};
};

}  // namespace scbf::detail
