// SPDX-License-Identifier: Apache-2.0
// Where the posting lists of a region begin. The store keeps deleted postings until it compacts
// them, and a cursor steps over each. A queue deletes at the front of a list, so its readers would
// step over everything that was ever taken. A reader who met many deleted postings notes where the
// list begins, and later readers start there. For readers who cannot know, such as those in another
// process, the writer erases the front of a list as one range once it has lost many postings.
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

namespace scbf::index {

class ListStarts {
 public:
  /// The posting_key before which a list has no postings, for a reader whose snapshot has this
  /// sequence number. The list's prefix, if nothing is known.
  std::string of(const std::string& prefix, std::uint64_t snapshot) const {
    const std::lock_guard lock(mutex_);
    const auto known = starts_.find(prefix);
    return known != starts_.end() && known->second.since <= snapshot ? known->second.first : prefix;
  }

  /// Notes that the snapshot has no posting of the list before `first`. Ignored if a posting may
  /// have come since the snapshot was taken.
  void learn(const std::string& prefix, std::string first, std::uint64_t snapshot) {
    const std::lock_guard lock(mutex_);
    if (adding_ || added_ > snapshot) return;
    if (starts_.size() >= kMost) starts_.clear();
    starts_.insert_or_assign(prefix, Start{std::move(first), snapshot});
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
  struct Start {
    std::string first;
    std::uint64_t since;
  };
  // Memory: a start holds a prefix and a posting_key.
  static constexpr std::size_t kMost = 64;

  void begin(std::span<const std::string> postings) {
    const std::lock_guard lock(mutex_);
    adding_ = true;
    if (starts_.empty()) return;
    for (const std::string& posting : postings) {
      auto list = starts_.upper_bound(posting);
      if (list == starts_.begin()) continue;
      --list;  // no prefix is the beginning of another
      if (posting.starts_with(list->first) && posting < list->second.first) {
        list->second.first = posting;
      }
    }
  }
  void end(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    adding_ = false;
    added_ = sequence;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Start> starts_;  // by prefix
  bool adding_ = false;      // a write is on its way, or has failed and may be in the store
  std::uint64_t added_ = 0;  // postings added by finished writes are in later snapshots
};

/// Finds the lists of a region that lose many postings. Memory: 16 counts. It finds every list that
/// loses more than a sixteenth of all, as Misra and Gries (1982) do.
class LostPostings {
 public:
  /// A list has lost `lost` postings. Returns whether it has lost so many since it was last found
  /// that its front may be worth erasing.
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
