// SPDX-License-Identifier: Apache-2.0
// The global index: a bank with one growing filter for each region, and its lock.
#pragma once

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

#include "fair_mutex.hpp"
#include "scbf/bank.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// Questions and changes are small: threads come from the callers.
inline constexpr BatchOptions kAlone{.threads = 1};

class Router {
 public:
  Router(const IndexPlan& plan, const IndexOptions& options);

  // Growth, seed and backend never change: these take no lock.

  /// A filter that can be a member. Regions begin with a copy of it, which is cheaper than to work
  /// out the shape of a stage.
  const Filter& empty_filter() const noexcept { return empty_; }
  /// Of entries (encoding.hpp).
  std::vector<std::uint64_t> hash(std::span<const std::string_view> entries) const;

  /// Returns work(bank). Others may read at the same time.
  template <class Work>
  auto read(const Work& work) const {
    const std::shared_lock lock(mutex_);
    return work(bank_);
  }
  /// Returns work(bank). All others wait, those that read included.
  template <class Work>
  auto change(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(bank_);
  }

 private:
  Filter empty_;
  mutable FairSharedMutex mutex_;
  Bank bank_;
};

/// The rate of a member's filter as its fill says; 1 if it is asked always.
double estimated_fpr(const Bank& bank, std::uint32_t member);

}  // namespace scbf::index
