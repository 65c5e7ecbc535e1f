// SPDX-License-Identifier: Apache-2.0
// Removal from several filters, each key from the one that claims it at its turn. Used by backends
// that remove from one filter at a time, and by banks, which must update rows as well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"

namespace scbf {

// Keys that are removed together: enough to hide the latency of their counters, and few enough that
// the counters are still in the L2 cache when it is the keys' turn.
inline constexpr std::size_t kRemoveKeys = 4096;

/// A window of keys that are removed one after another, and from which filters.
///
/// Removals only lower counters, so before its turn a key can lose claims but not gain any. A key
/// that no filter claims beforehand is absent. A key that a single filter claims is, at its turn,
/// claimed by that filter or by none, and removal from that filter decides which: such keys go to
/// their filters in runs. A key that several filters claim ends the run and is looked up again at
/// its turn.
class RemovalWindow {
 public:
  /// Makes a window for at most `keys` keys.
  RemovalWindow(const Backend& backend, std::size_t keys);

  /// Empties the window and sets its filters.
  void begin(std::span<const ConstCounterView> filters);
  /// Appends the valid keys among keys first … first + count − 1.
  void append(const KeyBatch& keys, std::size_t first, std::size_t count);
  /// Looks up all keys in all filters. To be called once, before the first next_run.
  void ask();
  /// Plans the next run; the last one must have been removed. Returns false if no key is left.
  bool next_run();
  /// The keys of the run that are to be removed from a filter, as hashes, in order.
  std::span<const std::uint64_t> run(std::size_t filter) const noexcept {
    return std::span(run_hashes_).subspan(starts_[filter], starts_[filter + 1] - starts_[filter]);
  }
  /// Room for the filter's answer to each of them.
  std::span<std::uint8_t> run_answers(std::size_t filter) noexcept {
    return std::span(answers_).subspan(starts_[filter], starts_[filter + 1] - starts_[filter]);
  }
  /// Turns these answers into verdicts.
  void take_answers(std::size_t filter) noexcept;

  std::size_t filters() const noexcept { return filters_.size(); }
  std::size_t keys() const noexcept { return keys_; }
  /// A Removal for each key appended.
  std::span<const std::uint8_t> verdicts() const noexcept {
    return std::span(verdicts_).first(keys_);
  }
  /// How many keys of all runs so far were ambiguous.
  std::uint64_t ambiguous() const noexcept { return ambiguous_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu, kSeveral = kNone - 1;
  std::uint32_t claimer_now(std::size_t key) const;

  const Backend* backend_;
  std::vector<ConstCounterView> filters_;
  std::size_t keys_ = 0;
  std::size_t run_end_ = 0;  ///< keys before it have had their turn
  std::uint64_t ambiguous_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> claimers_;  ///< a filter, kNone or kSeveral
  std::vector<std::uint8_t> verdicts_;
  // The run, ordered by filter.
  std::vector<std::size_t> starts_;  ///< filters + 1
  std::vector<std::uint64_t> run_hashes_;
  std::vector<std::uint32_t> run_keys_;
  std::vector<std::uint8_t> answers_;
};

/// Removes the keys of a batch, as Backend::remove, but `verdicts` may be null. remove_from(f,
/// keys, verdicts) removes keys from filter f alone and returns how many it removed.
template <class RemoveFrom>
RemoveCounts remove_claimed(const Backend& backend, std::span<const ConstCounterView> filters,
                            const KeyBatch& keys, std::uint8_t* verdicts, RemoveFrom remove_from) {
  RemoveCounts counts;
  RemovalWindow window(backend, std::min(keys.size(), kRemoveKeys));
  for (std::size_t first = 0; first < keys.size(); first += kRemoveKeys) {
    const std::size_t count = std::min(kRemoveKeys, keys.size() - first);
    window.begin(filters);
    window.append(keys, first, count);
    window.ask();
    while (window.next_run()) {
      for (std::size_t f = 0; f < filters.size(); ++f) {
        if (window.run(f).empty()) continue;
        counts.removed +=
            remove_from(f, KeyBatch::from_hashes(window.run(f)), window.run_answers(f));
        window.take_answers(f);
      }
    }
    counts.ambiguous += window.ambiguous();
    if (verdicts == nullptr) continue;
    std::ranges::copy(window.verdicts(), verdicts + first);
    spread_answers(keys, first, count, verdicts + first);
  }
  return counts;
}

/// Backend::remove from several filters, for a backend that can remove from one.
RemoveCounts remove_from_several(const Backend& backend, std::span<const CounterView> filters,
                                 const KeyBatch& keys, std::uint8_t* verdicts,
                                 std::span<RemovalChange> changes);

}  // namespace scbf
