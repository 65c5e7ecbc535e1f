// SPDX-License-Identifier: Apache-2.0
// The global index: a bank with one growing filter per region, behind a lock. Knows hashes and
// members, nothing of rows.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fair_mutex.hpp"
#include "scbf/scalable_bank.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

using Hashes = std::span<const std::uint64_t>;

class Router {
 public:
  Router(const IndexPlan& plan, const IndexOptions& options);

  const Growth& growth() const noexcept { return growth_; }
  std::uint64_t seed() const noexcept { return seed_; }
  ScalableFilter empty_filter() const { return empty_; }
  /// Are its stages those that the growth gives, in order?
  bool regular(const ScalableFilter& filter) const;
  /// Of entries (encoding.hpp); thread-safe.
  std::vector<std::uint64_t> hash(std::span<const std::string_view> entries) const;

  std::vector<std::uint32_t> add(std::vector<ScalableFilter> filters);
  void drop(std::uint32_t member);
  void replace(std::uint32_t member, ScalableFilter filter);
  ScalableFilter copy(std::uint32_t member) const;
  void ask_always(std::uint32_t member);

  void insert(std::uint32_t member, Hashes hashes);
  /// Returns how many stay in the filter although nothing stands for them any more, because
  /// several stages claimed them.
  std::uint64_t remove(std::uint32_t member, Hashes hashes);

  /// Which members may hold each of the hashes.
  void route(Hashes hashes, MemberLists& lists) const;

  struct Facts {
    std::uint32_t stages;
    std::uint64_t bytes;
    double fpr;  ///< from the fill of the stages
    bool asked_always;
  };
  Facts facts(std::uint32_t member) const;
  BankMemory memory() const;

 private:
  Growth growth_;
  const Backend* backend_;
  std::uint64_t seed_;
  ScalableFilter empty_;
  mutable std::mutex shapes_mutex_;
  mutable std::vector<StageShape> shapes_;  ///< of the stages asked about so far
  mutable FairSharedMutex mutex_;
  ScalableBank bank_;
};

}  // namespace scbf::index
