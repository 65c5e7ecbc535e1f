// SPDX-License-Identifier: Apache-2.0
// Removal from several filters, each key from the one that claims it at its turn. Used by backends
// that remove from one filter at a time, and by banks, which must update rows as well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"

namespace scbf {

// Keys that are removed together: enough to hide the latency of their counters, and few enough that
// the counters are still in the L2 cache when it is the keys' turn.
inline constexpr std::size_t kRemoveKeys = 4096;

/// Claimers: a filter's number, or one of these.
inline constexpr std::uint32_t kNoClaimer = 0xFFFF'FFFFu, kSeveralClaim = kNoClaimer - 1;

/// How many verdicts are Removal::kept.
inline std::uint64_t count_kept(std::span<const std::uint8_t> verdicts) noexcept {
  return static_cast<std::uint64_t>(
      std::ranges::count(verdicts, static_cast<std::uint8_t>(Removal::kept)));
}

/// Which of so many filters claims a key; claims(f) says whether filter f does.
template <class Claims>
std::uint32_t claimer_among(std::size_t filters, Claims claims) {
  std::uint32_t claimer = kNoClaimer;
  for (std::size_t f = 0; f < filters; ++f) {
    if (!claims(f)) continue;
    if (claimer != kNoClaimer) return kSeveralClaim;
    claimer = static_cast<std::uint32_t>(f);
  }
  return claimer;
}

/// Which filter claims the key with this hash now.
template <class Filters>
std::uint32_t claimer_of(const Backend& backend, const Filters& filters, std::uint64_t hash) {
  return claimer_among(filters.size(), [&](std::size_t f) {
    const auto& [geometry, seed, words] = filters[f];
    const ConstCounterView filter{geometry, seed, words};
    std::uint8_t answer = 0;
    return backend.contains({&filter, 1}, KeyBatch::from_hashes({&hash, 1}), &answer,
                            kOnThisThread) == 1;
  });
}

/// A window of keys that are removed one after another, and from which filters.
///
/// Removals only lower counters, so before its turn a key can lose claims but not gain any. A key
/// that no filter claims beforehand is absent. A key that a single filter claims is, at its turn,
/// claimed by that filter or by none, and removal from that filter decides which: such keys go to
/// their filters in runs. A key that several filters claim ends the run and is looked up again at
/// its turn.
class RemovalWindow {
 public:
  /// Makes a window for at most `keys` keys. Nothing is allocated later. `Filters` is as in
  /// few_keys.hpp, of any view.
  template <class Filters>
  RemovalWindow(const Backend& backend, const Filters& filters, std::size_t keys)
      : RemovalWindow(backend, filters.size(), keys, nullptr) {
    for (std::size_t f = 0; f < filters.size(); ++f) {
      const auto& [geometry, seed, words] = filters[f];
      filters_.push_back({geometry, seed, words});
    }
  }

  /// Empties the window.
  void begin() noexcept;
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

  /// A Removal for each key appended.
  std::span<const std::uint8_t> verdicts() const noexcept {
    return std::span(verdicts_).first(keys_);
  }
  /// How many keys of all runs so far were ambiguous.
  std::uint64_t ambiguous() const noexcept { return ambiguous_; }

 private:
  RemovalWindow(const Backend& backend, std::size_t filters, std::size_t keys, std::nullptr_t);

  const Backend* backend_;
  std::vector<ConstCounterView> filters_;
  std::size_t keys_ = 0;
  std::size_t run_end_ = 0;  ///< keys before it have had their turn
  std::uint64_t ambiguous_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> claimers_;
  std::vector<std::uint8_t> verdicts_;
  // The run, ordered by filter.
  std::vector<std::size_t> starts_;  ///< filters + 1
  std::vector<std::uint64_t> run_hashes_;
  std::vector<std::uint32_t> run_keys_;
  std::vector<std::uint8_t> answers_;
};

/// As remove_claimed, but key by key, and without allocating memory.
template <class Filters, class RemoveFrom>
RemoveCounts remove_one_by_one(const Backend& backend, const Filters& filters, const KeyBatch& keys,
                               std::uint8_t* verdicts, RemoveFrom remove_from) {
  RemoveCounts counts;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::uint64_t hash = 0;
    std::uint8_t verdict = static_cast<std::uint8_t>(Removal::absent);
    if (hash_keys(keys, i, 1, filters[0].seed, kPlainHashes, &hash) == 1) {
      const std::uint32_t claimer = claimer_of(backend, filters, hash);
      if (claimer == kSeveralClaim) {
        verdict = static_cast<std::uint8_t>(Removal::ambiguous);
        ++counts.ambiguous;
      } else if (claimer != kNoClaimer) {
        counts.removed += remove_from(claimer, KeyBatch::from_hashes({&hash, 1}),
                                      std::span<std::uint8_t>(&verdict, 1));
        counts.kept += count_kept({&verdict, 1});
      }
    }
    if (verdicts != nullptr) verdicts[i] = verdict;
  }
  return counts;
}

/// Removes the keys of a batch, as Backend::remove, but `verdicts` may be null. remove_from(f,
/// keys, verdicts) removes keys from filter f alone and returns how many it removed. Throws only
/// what remove_from and Backend::contains throw: if memory is short, it goes key by key.
template <class Filters, class RemoveFrom>
RemoveCounts remove_claimed(const Backend& backend, const Filters& filters, const KeyBatch& keys,
                            std::uint8_t* verdicts, RemoveFrom remove_from) {
  std::optional<RemovalWindow> room;
  try {
    room.emplace(backend, filters, std::min(keys.size(), kRemoveKeys));
  } catch (const std::bad_alloc&) {
    return remove_one_by_one(backend, filters, keys, verdicts, remove_from);
  }
  RemoveCounts counts;
  RemovalWindow& window = *room;
  for (std::size_t first = 0; first < keys.size(); first += kRemoveKeys) {
    const std::size_t count = std::min(kRemoveKeys, keys.size() - first);
    window.begin();
    window.append(keys, first, count);
    window.ask();
    while (window.next_run()) {
      for (std::size_t f = 0; f < filters.size(); ++f) {
        if (window.run(f).empty()) continue;
        counts.removed +=
            remove_from(f, KeyBatch::from_hashes(window.run(f)), window.run_answers(f));
        counts.kept += count_kept(window.run_answers(f));
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
