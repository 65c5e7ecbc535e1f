// SPDX-License-Identifier: Apache-2.0
#include "kit/few_keys.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "kit/removal.hpp"

namespace scbf {

namespace {

/// Hashes of a small batch's valid keys; the constructor prefetches their lines.
class FewKeys {
 public:
  /// `keys` are at most kFewKeys.
  template <class Filters>
  FewKeys(const Filters& filters, const KeyBatch& keys, const HashKernels& hashes) noexcept
      : keys_(keys),
        valid_((assert(keys.size() <= kFewKeys),
                hash_keys(keys, 0, keys.size(), filters[0].seed, hashes, hashes_.data()))) {
    fetch_keys(filters, {hashes_.data(), valid_});
  }

  /// Writes out[i] = answer(hash) for each key, in order, and 0 for nulls.
  template <class Answer>
  void answer(std::uint8_t* out, Answer answer) const noexcept {
    for (std::size_t i = 0; i < valid_; ++i) {
      out[i] = static_cast<std::uint8_t>(answer(hashes_[i]));
    }
    spread_answers(keys_, 0, keys_.size(), out);
  }
  template <class Visit>
  void visit(Visit visit) const noexcept {
    for (std::size_t i = 0; i < valid_; ++i) visit(hashes_[i]);
  }

 private:
  const KeyBatch& keys_;
  std::array<std::uint64_t, kFewKeys> hashes_;
  std::size_t valid_;
};

}  // namespace

std::uint64_t contains_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                           const KeyByKey& how, std::uint8_t* out) noexcept {
  std::uint64_t hits = 0;
  FewKeys(filters, keys, how.hashes).answer(out, [&](std::uint64_t hash) {
    const bool hit = std::ranges::any_of(filters, [&](const ConstCounterView& filter) {
      return how.one_key.of(filter.geometry).holds(filter.geometry, filter.words, hash);
    });
    hits += hit;
    return hit;
  });
  return hits;
}

std::uint64_t count_few(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                        const KeyByKey& how, std::uint8_t* out) noexcept {
  std::uint64_t hits = 0;
  FewKeys(filters, keys, how.hashes).answer(out, [&](std::uint64_t hash) {
    unsigned sum = 0;
    for (const ConstCounterView& filter : filters) {
      sum += how.one_key.of(filter.geometry).count(filter.geometry, filter.words, hash);
    }
    hits += sum > 0;
    return std::min(sum, kCounterMax);
  });
  return hits;
}

std::uint64_t insert_few(CounterView filter, const KeyBatch& keys, const KeyByKey& how) noexcept {
  const OneKey& one_key = how.one_key.of(filter.geometry);
  std::uint64_t filled = 0;
  FewKeys(std::span(&filter, 1), keys, how.hashes).visit([&](std::uint64_t hash) {
    filled += one_key.add(filter.geometry, filter.words, hash);
  });
  return filled;
}

NewKeys insert_new_few(CounterView filter, const KeyBatch& keys, const KeyByKey& how,
                       std::uint8_t* out) noexcept {
  const OneKey& one_key = how.one_key.of(filter.geometry);
  std::uint64_t added = 0, filled = 0;
  FewKeys(std::span(&filter, 1), keys, how.hashes).answer(out, [&](std::uint64_t hash) {
    if (one_key.holds(filter.geometry, filter.words, hash)) return false;
    filled += one_key.add(filter.geometry, filter.words, hash);
    ++added;
    return true;
  });
  return {added, filled};
}

RemoveCounts remove_few(std::span<const CounterView> filters, const KeyBatch& keys,
                        const KeyByKey& how, std::uint8_t* verdicts,
                        std::span<RemovalChange> changes) noexcept {
  std::ranges::fill(changes, RemovalChange{});
  RemoveCounts counts;
  const auto take = [&](std::size_t f, std::uint64_t hash) {
    const std::uint32_t emptied =
        how.one_key.of(filters[f].geometry).take(filters[f].geometry, filters[f].words, hash);
    if (emptied == OneKey::kNotThere) return Removal::absent;
    ++changes[f].keys;
    *changes[f].emptied += emptied;
    ++counts.removed;
    return Removal::removed;
  };
  FewKeys(filters, keys, how.hashes).answer(verdicts, [&](std::uint64_t hash) {
    if (filters.size() == 1) return take(0, hash);
    const std::uint32_t claimer = claimer_among(filters.size(), [&](std::size_t f) {
      return how.one_key.of(filters[f].geometry).holds(filters[f].geometry, filters[f].words, hash);
    });
    if (claimer == kNoClaimer) return Removal::absent;
    if (claimer != kSeveralClaim) return take(claimer, hash);
    ++counts.ambiguous;
    return Removal::ambiguous;
  });
  return counts;
}

}  // namespace scbf
