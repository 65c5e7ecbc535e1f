// SPDX-License-Identifier: Apache-2.0
// Gaps in the posting lists of a region: deleted postings, which the store keeps until it compacts
// them, and over each of which a cursor steps. A queue deletes at the front of a list, and perhaps
// keeps a few jobs there that nobody takes, so its readers would step over everything that was ever
// taken. A reader who met a gap near the front notes it, and later readers pass it at once. For
// readers who cannot know, such as those in another process, the writer erases gaps as ranges once
// a list has lost many postings.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scbf::index {

/// No posting of the list lies between these two posting_keys.
struct Gap {
  std::string after;  ///< a posting, or the list's prefix: the gap is at its front
  std::string to;     ///< the next posting, or the end of the part of the list that was read
  std::uint64_t deleted = 0;  ///< postings that were met there
  std::uint64_t erased = 0;   ///< how many of them have been erased as a range

  bool operator==(const Gap&) const = default;
};

class ListGaps {
 public:
  /// What is known of a list, ascending, for a reader whose snapshot has this sequence number.
  std::vector<Gap> of(const std::string& prefix, std::uint64_t snapshot) const {
    std::vector<Gap> gaps;
    const std::lock_guard lock(mutex_);
    const auto list = lists_.find(prefix);
    if (list == lists_.end()) return gaps;
    for (const Known& known : list->second) {
      if (known.since <= snapshot) gaps.push_back(known.gap);
    }
    return gaps;
  }

  /// Notes that the snapshot has this gap. Ignored if a posting may have come since the snapshot
  /// was taken.
  void learn(const std::string& prefix, Gap gap, std::uint64_t snapshot) {
    const std::lock_guard lock(mutex_);
    if (adding_ || added_ > snapshot) return;
    if (lists_.size() >= kMostLists && !lists_.contains(prefix)) lists_.clear();
    std::vector<Known>& list = lists_[prefix];
    std::erase_if(list, [&](const Known& known) {
      return known.gap.after >= gap.after && known.gap.to <= gap.to;
    });
    const auto behind =
        std::ranges::find_if(list, [&](const Known& known) { return known.gap.after > gap.after; });
    list.insert(behind, Known{std::move(gap), snapshot});
    if (list.size() <= kMostGaps) return;
    list.erase(
        std::ranges::min_element(list, {}, [](const Known& known) { return known.gap.deleted; }));
  }

  /// Brackets a write that adds postings, of which the first of each list is given. Calls of the
  /// same region follow one another. `sequence` returns a sequence number that is not before the
  /// write's. If the write throws, nothing is learnt until another one succeeds.
  void add(std::span<const std::string> postings, const std::function<void()>& write,
           const std::function<std::uint64_t()>& sequence) {
    if (postings.empty()) return write();
    begin(postings);
    write();
    end(sequence());
  }

 private:
  struct Known {
    Gap gap;
    std::uint64_t since;  ///< the first snapshot that is known to have it
  };
  // Memory: a list holds its prefix and two posting_keys for each gap.
  static constexpr std::size_t kMostLists = 64, kMostGaps = 16;

  void begin(std::span<const std::string> postings) {
    const std::lock_guard lock(mutex_);
    adding_ = true;
    if (lists_.empty()) return;
    for (const std::string& posting : postings) {
      auto list = lists_.upper_bound(posting);
      if (list == lists_.begin()) continue;
      --list;  // no prefix is the beginning of another
      if (posting.starts_with(list->first)) shorten(list->first, list->second, posting);
    }
  }
  /// This posting comes to the list, and others may come behind it.
  static void shorten(const std::string& prefix, std::vector<Known>& list,
                      const std::string& posting) {
    std::erase_if(list, [&](Known& known) {
      if (known.gap.to <= posting) return false;
      if (known.gap.after != prefix) return true;
      known.gap.to = posting;
      return false;
    });
  }
  void end(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    adding_ = false;
    added_ = sequence;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Known>> lists_;  // by prefix; gaps ascend
  bool adding_ = false;      // a write is on its way, or has failed and may be in the store
  std::uint64_t added_ = 0;  // postings added by finished writes are in later snapshots
};

/// Finds the lists of a region that lose many postings. Memory: 16 counts. It finds every list that
/// loses more than a sixteenth of all, as Misra and Gries (1982) do.
class LostPostings {
 public:
  /// A list has lost `lost` postings. Returns whether it has lost so many since it was last found
  /// that its gaps may be worth erasing.
  bool add(std::string_view prefix, std::uint64_t lost) noexcept {
    const std::size_t list = std::hash<std::string_view>()(prefix);
    Count* least = &counts_[0];
    for (Count& count : counts_) {
      if (count.lost > 0 && count.list == list) return found(count, lost);
      if (count.lost < least->lost) least = &count;
    }
    // No count is free: lower all of them by the smallest, or by this loss.
    const std::uint64_t alike = std::min(least->lost, lost);
    for (Count& count : counts_) count.lost -= alike;
    if (lost == alike) return false;
    least->list = list;
    return found(*least, lost - alike);
  }

 private:
  struct Count {
    std::size_t list = 0;  // a hash of the prefix
    std::uint64_t lost = 0;
  };
  static constexpr std::uint64_t kMany = 4096;

  static bool found(Count& count, std::uint64_t lost) noexcept {
    count.lost += lost;
    if (count.lost < kMany) return false;
    count.lost = 0;
    return true;
  }

  std::array<Count, 16> counts_;
};

}  // namespace scbf::index
