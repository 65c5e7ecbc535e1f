// SPDX-License-Identifier: Apache-2.0
// What a filter was made for, to notice when it holds clearly more keys than that.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "scbf/sizing.hpp"

namespace scbf::python {

class PlannedFor {
 public:
  /// How far the rate may be above the plan: neither estimates nor capacities are exact.
  static constexpr double kWarnedFactor = 1.25;

  bool is_set() const noexcept { return capacity_ > 0; }
  std::uint64_t capacity() const noexcept { return capacity_; }  ///< 0 if it is not set
  double fpr() const noexcept { return fpr_; }

  // Before the filter is used.

  void set(std::uint64_t capacity, double fpr) noexcept {
    capacity_ = capacity;
    fpr_ = fpr;
    look_at_.store(capacity, std::memory_order_relaxed);
  }
  /// The filter has been emptied. If it has warned, it stays quiet.
  void begin_again() noexcept {
    if (is_set() && look_at_.load(std::memory_order_relaxed) != kNever) set(capacity_, fpr_);
  }
  void take(const PlannedFor& other) noexcept {
    if (other.capacity_ > 0) set(other.capacity_, other.fpr_);
  }

  /// Is it time to look, now that this many keys have been inserted? Rarely true, so asking costs
  /// nothing.
  bool is_due(std::uint64_t inserted) const noexcept {
    return inserted > look_at_.load(std::memory_order_relaxed);
  }
  /// Whether a warning may be issued: once, by one thread.
  bool may_warn() noexcept {
    return look_at_.exchange(kNever, std::memory_order_relaxed) != kNever;
  }
  /// A warning if the filter, or the member of a bank, of one stage, holds clearly more than
  /// planned; or nothing. `what`: "the filter". Nobody may change it meanwhile.
  template <class F>
  std::string look(const F& filter, std::uint64_t inserted, const std::string& what) {
    const double keys =
        keys_for_fill(filter.fill(), static_cast<double>(filter.geometry().counters_per_slice()));
    const double rate = predicted_fpr(filter.geometry(), keys);
    const double uncertain = 2 * std::sqrt(static_cast<double>(capacity_));
    if (rate <= kWarnedFactor * fpr_ || keys <= static_cast<double>(capacity_) + uncertain) {
      // Repeated keys take no room. Look again when there are an eighth more.
      look_at_.store(inserted + std::max<std::uint64_t>(inserted / 8, 1),
                     std::memory_order_relaxed);
      return {};
    }
    return fmt::format(
        "{} was made for {} keys at a false-positive rate of {:.3g} and holds {}: "
        "its rate is about {:.3g}; give it a larger capacity, or a growth, such as "
        "Growth.tightening({}, {:.3g})",
        what, capacity_, fpr_,
        std::isfinite(keys) ? fmt::format("about {:.0f} distinct ones", keys) : "far more", rate,
        capacity_, fpr_);
  }

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t capacity_ = 0;
  double fpr_ = 0;
  std::atomic<std::uint64_t> look_at_{kNever};
};

}  // namespace scbf::python
