// SPDX-License-Identifier: Apache-2.0
// What the interpreter knows of memory: which addresses are valid, which accesses of different
// threads race, and what a cache that is not coherent may still hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx_program.hpp"

namespace ptx {

struct Range {
  std::uint64_t begin, end;
};

/// The global memory that a launch may touch.
class ValidRanges {
 public:
  explicit ValidRanges(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
  }
  bool contain(std::uint64_t address, std::size_t bytes) {
    const auto within = [&](const Range& range) {
      return address >= range.begin && address < range.end && bytes <= range.end - address;
    };
    if (last_ < ranges_.size() && within(ranges_[last_])) return true;
    const auto above =
        std::upper_bound(ranges_.begin(), ranges_.end(), address,
                         [](std::uint64_t a, const Range& r) { return a < r.begin; });
    if (above == ranges_.begin()) return false;
    last_ = static_cast<std::size_t>(above - ranges_.begin()) - 1;
    return within(ranges_[last_]);
  }

 private:
  std::vector<Range> ranges_;
  std::size_t last_ = 0;
};

/// One access of a thread, as it is remembered.
struct Access {
  std::uint32_t era = 0;  ///< the launch, or for shared memory the block's time in it; 0: none
  std::uint32_t block = 0;
  std::uint32_t epoch = 0;  ///< how many barriers the block had passed
  std::uint32_t time = 0;   ///< how often lanes of the warp had met
  std::uint32_t line = 0;   ///< in the PTX
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  ///< those of its eight, one bit each
  bool writes = false;
  Order order = Order::plain;

  bool is_of_the_thread_of(const Access& other) const {
    return thread == other.thread && block == other.block;
  }
};

/// Remembers up to four accesses of each eight bytes and finds those that clash with a new one. So
/// it may miss a race, but never invents one.
class Shadow {
 public:
  /// Notes an access of up to eight bytes that do not cross a multiple of eight. Returns an earlier
  /// one with which it races: at least one of them writes, at least one is plain, and `is_before`
  /// does not say of the earlier one that it happened before this.
  template <class IsBefore>
  std::optional<Access> note(std::uint64_t address, unsigned bytes, Access now,
                             IsBefore is_before) {
    now.bytes = static_cast<std::uint8_t>(((1u << bytes) - 1) << (address & 7));
    Granule& granule = page(address >> 12)[address >> 3 & (kGranules - 1)];
    Access* place = nullptr;
    for (Access& past : granule) {
      if (past.era != now.era) {
        place = &past;
        continue;
      }
      if ((past.bytes & now.bytes) != 0 && clash(past, now)) {
        // What is read through a cache that is not coherent must not change at all.
        const bool cached = past.order == Order::read_only || now.order == Order::read_only;
        if (cached || !is_before(past)) return past;
      }
      if (past.is_of_the_thread_of(now) && past.writes == now.writes && past.bytes == now.bytes) {
        place = &past;
        break;
      }
    }
    if (place == nullptr) place = &granule[next_++ % granule.size()];
    *place = now;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kGranules = 512;
  using Granule = std::array<Access, 4>;
  using Page = std::array<Granule, kGranules>;

  static bool clash(const Access& a, const Access& b) {
    if (!a.writes && !b.writes) return false;
    const bool cached = a.order == Order::read_only || b.order == Order::read_only;
    if (a.is_of_the_thread_of(b) && !cached) return false;
    return !is_whole(a.order) || !is_whole(b.order);
  }
  /// Does it read or write a value as a whole, even while others write it?
  static bool is_whole(Order order) { return order == Order::strong || order == Order::of_block; }
  Page& page(std::uint64_t number) {
    auto& [of, page] = recent_[number % recent_.size()];
    if (page == nullptr || of != number) {
      auto& kept = pages_[number];
      if (kept == nullptr) kept = std::make_unique<Page>();
      page = kept.get();
      of = number;
    }
    return *page;
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::array<std::pair<std::uint64_t, Page*>, 256> recent_{};
  std::size_t next_ = 0;
};

/// What a block's first-level cache may hold: values that other blocks have overwritten since.
class StaleCache {
 public:
  /// The word that a load may see instead of `now`.
  std::uint64_t load(std::uint64_t word_address, std::uint64_t now, bool refresh) {
    const auto [found, is_new] = words_.try_emplace(word_address, now);
    if (refresh) found->second = now;
    return found->second;
  }
  /// The block has written the word itself.
  void forget(std::uint64_t word_address) {
    if (!words_.empty()) words_.erase(word_address);
  }
  void clear() { words_.clear(); }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> words_;
};

}  // namespace ptx
