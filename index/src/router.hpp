// SPDX-License-Identifier: Apache-2.0
// The global index: a bank with one growing filter per region, and the mutex that protects it. Once
// an index is open for reading only, nothing but the bits of the filters is left.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

#include "fair_mutex.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// The router's batches are small, so each uses only the calling thread.
inline constexpr BatchOptions kAlone{.threads = 1};

class Router {
 public:
  Router(const IndexPlan& plan, const IndexOptions& options);

  // These depend only on growth, seed and backend, which never change. They take no lock.

  /// An empty filter of the bank's growth and seed. A new region starts with a copy of it, which is
  /// cheaper than computing the geometry of the first stage.
  const Filter& empty_filter() const noexcept { return empty_; }
  /// Hashes entries (encoding.hpp). result.size() == entries.size().
  std::vector<std::uint64_t> hash(std::span<const std::string_view> entries) const;

  /// The members that may hold entries with these hashes. Takes the mutex shared.
  void find(std::span<const std::uint64_t> hashes, MemberLists& lists) const;
  /// Bytes of the rows of bits.
  std::uint64_t row_bytes() const;
  /// Frees the counters. From then on there is no bank for read and change.
  void keep_bits_only();

  /// Returns work(bank), with the mutex held shared.
  template <class Work>
  auto read(const Work& work) const {
    const std::shared_lock lock(mutex_);
    return work(bank_);
  }
  /// Returns work(bank), with the mutex held exclusively: readers wait too.
  template <class Work>
  auto change(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(bank_);
  }

 private:
  Filter empty_;
  mutable FairSharedMutex mutex_;
  Bank bank_;  ///< moved from once there are `bits_`
  std::optional<BloomBank> bits_;
};

struct FilterFacts {
  std::uint32_t stages;
  std::uint64_t bytes;  ///< of its counters
  double fpr;           ///< false-positive rate; 1 if the member is always asked
};
/// The rate follows from the counters and is exact but for stages of more than 1 MiB, where it
/// follows from the fill and is off by some hundredths. Cost: reads the counters of the smaller
/// stages, at most 1 MiB each.
FilterFacts facts_of(const Bank& bank, std::uint32_t member);

}  // namespace scbf::index
