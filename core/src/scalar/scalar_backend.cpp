// SPDX-License-Identifier: Apache-2.0
#include "kit/known_backends.hpp"

#include <algorithm>

#include "kit/hash_keys.hpp"
#include "kit/ranked_counts.hpp"
#include "kit/spill_table.hpp"
#include "kit/word_ops.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

namespace {

using detail::for_each_probe;
using detail::Probe;

/// Calls visit(i, hash) for each valid key, in order.
template <class Visit>
void for_each_hash(const KeyBatch& keys, std::uint64_t seed, Visit visit) noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::uint64_t hash;
    if (hash_keys(keys, i, 1, seed, kPlainHashes, &hash) == 1) visit(i, hash);
  }
}

// ranked: the block is unpacked, changed and packed again.

/// The count of the key in slice j.
template <class Counts>
auto& count_in(Counts& counts, std::uint64_t place, unsigned j) noexcept {
  return counts.counts[j][detail::position_of(place, j)];
}
std::uint64_t add_ranked(CounterView view, std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(view.geometry, hash);
  BlockCounts block = read_block(view.geometry, view.words, detail::block_of(place));
  std::uint64_t filled = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    std::uint8_t& count = count_in(block, place, j);
    filled += count == 0;
    count = static_cast<std::uint8_t>(count + (count < kMostSpilled));
  }
  write_block(view.geometry, view.words, detail::block_of(place), block);
  return filled;
}
std::uint64_t decrement_ranked(CounterView view, std::uint64_t hash) noexcept {
  const std::uint64_t place = detail::ranked_place(view.geometry, hash);
  BlockCounts block = read_block(view.geometry, view.words, detail::block_of(place));
  if (block.stuck) {
    removals_from_stuck(view.words).fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  std::uint64_t emptied = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    std::uint8_t& count = count_in(block, place, j);
    emptied += count == 1;
    count = static_cast<std::uint8_t>(count - (count < kMostSpilled));
  }
  write_block(view.geometry, view.words, detail::block_of(place), block);
  return emptied;
}
unsigned smallest_ranked(ConstCounterView view, std::uint64_t hash) noexcept {
  bool all = true;
  for_each_probe(view.geometry, hash,
                 [&](Probe p) { all &= detail::bit_at(view.words[p.word], p.shift); });
  if (!all) return 0;
  const std::uint64_t place = detail::ranked_place(view.geometry, hash);
  const BlockCounts block = read_block(view.geometry, view.words, detail::block_of(place));
  if (block.stuck) return kCounterMax;
  unsigned smallest = kCounterMax;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    smallest = std::min<unsigned>(smallest, count_in(block, place, j));
  }
  return std::max(smallest, 1u);  // 0 only if the words are damaged
}

unsigned smallest_counter(ConstCounterView view, std::uint64_t hash) noexcept {
  if (view.geometry.layout() == Layout::ranked) return smallest_ranked(view, hash);
  unsigned smallest = kCounterMax;
  for_each_probe(view.geometry, hash, [&](Probe p) {
    smallest = std::min(smallest, detail::counter_at(view.words[p.word], p.shift));
  });
  return smallest;
}

bool has_key(ConstCounterView view, std::uint64_t hash) noexcept {
  bool all = true;
  for_each_probe(view.geometry, hash, [&](Probe p) {
    if (view.geometry.cell() == Cell::bit) {
      const Probe bit = detail::bit_of(view.geometry, p);
      all &= detail::bit_at(view.words[bit.word], bit.shift);
    } else if (view.geometry.layout() == Layout::ranked) {
      all &= detail::bit_at(view.words[p.word], p.shift);
    } else {
      all &= detail::counter_at(view.words[p.word], p.shift) != 0;
    }
  });
  return all;
}

/// Returns how many counters, or bits, became non-zero.
std::uint64_t add(CounterView view, std::uint64_t hash) noexcept {
  const bool bits = view.geometry.cell() == Cell::bit;
  if (!bits && view.geometry.layout() == Layout::ranked) return add_ranked(view, hash);
  std::uint64_t filled = 0;
  for_each_probe(view.geometry, hash, [&](Probe p) {
    if (bits) {
      const Probe bit = detail::bit_of(view.geometry, p);
      filled += !detail::bit_at(view.words[bit.word], bit.shift);
      view.words[bit.word] |= std::uint64_t{1} << bit.shift;
    } else {
      filled += detail::counter_at(view.words[p.word], p.shift) == 0;
      view.words[p.word] = detail::incremented(view.words[p.word], p.shift);
    }
  });
  return filled;
}

/// The filters that hold a key: how many, and the last of them.
struct Claims {
  std::size_t number = 0, last = 0;
};
Claims claims_of(std::span<const CounterView> filters, std::uint64_t hash) noexcept {
  Claims claims;
  for (std::size_t f = 0; f < filters.size(); ++f) {
    const auto& [geometry, seed, words] = filters[f];
    if (!has_key({geometry, seed, words}, hash)) continue;
    ++claims.number;
    claims.last = f;
  }
  return claims;
}

/// Takes a key away. Returns how many counters became zero.
std::uint64_t decrement(CounterView view, std::uint64_t hash) noexcept {
  if (view.geometry.layout() == Layout::ranked) return decrement_ranked(view, hash);
  std::uint64_t emptied = 0;
  for_each_probe(view.geometry, hash, [&](Probe p) {
    std::uint64_t& word = view.words[p.word];
    emptied += detail::counter_at(word, p.shift) == 1;
    word = detail::decremented(word, p.shift);
  });
  return emptied;
}

class ScalarBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "scalar"; }
  std::string_view description() const noexcept override {
    return "one key at a time, plain C++; the model that the others are compared with";
  }
  std::string_view target() const noexcept override { return "scalar"; }
  std::string unavailable_reason() const override { return {}; }
  bool supports(Cell) const noexcept override { return true; }
  bool supports(Layout) const noexcept override { return true; }

  NonzeroChange insert(CounterView view, const KeyBatch& keys, const BatchOptions&) const override {
    std::uint64_t filled = 0;
    for_each_hash(keys, view.seed,
                  [&](std::size_t, std::uint64_t hash) { filled += add(view, hash); });
    return filled;
  }

  NewKeys insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                     const BatchOptions&) const override {
    NewKeys added;
    std::fill_n(out, keys.size(), std::uint8_t{0});
    for_each_hash(keys, view.seed, [&](std::size_t i, std::uint64_t hash) {
      if (has_key({view.geometry, view.seed, view.words}, hash)) return;
      out[i] = 1;
      ++added.keys;
      *added.filled += add(view, hash);
    });
    return added;
  }

  std::uint64_t contains(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                         std::uint8_t* out, const BatchOptions&) const override {
    std::uint64_t hits = 0;
    std::fill_n(out, keys.size(), std::uint8_t{0});
    if (filters.empty()) return 0;
    for_each_hash(keys, filters[0].seed, [&](std::size_t i, std::uint64_t hash) {
      out[i] =
          std::ranges::any_of(filters, [&](const auto& filter) { return has_key(filter, hash); });
      hits += out[i];
    });
    return hits;
  }

  std::uint64_t count(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                      std::uint8_t* out, const BatchOptions&) const override {
    std::uint64_t hits = 0;
    std::fill_n(out, keys.size(), std::uint8_t{0});
    if (filters.empty()) return 0;
    for_each_hash(keys, filters[0].seed, [&](std::size_t i, std::uint64_t hash) {
      unsigned sum = 0;
      for (const auto& filter : filters) sum += smallest_counter(filter, hash);
      out[i] = static_cast<std::uint8_t>(std::min(sum, kCounterMax));
      hits += sum != 0;
    });
    return hits;
  }

  RemoveCounts remove(std::span<const CounterView> filters, const KeyBatch& keys,
                      std::uint8_t* verdicts, std::span<RemovalChange> changes,
                      const BatchOptions&) const override {
    RemoveCounts counts;
    std::fill_n(verdicts, keys.size(), static_cast<std::uint8_t>(Removal::absent));
    std::ranges::fill(changes, RemovalChange{});
    for_each_hash(keys, filters[0].seed, [&](std::size_t i, std::uint64_t hash) {
      const Claims claims = claims_of(filters, hash);
      if (claims.number == 0) return;
      if (claims.number > 1) {
        verdicts[i] = static_cast<std::uint8_t>(Removal::ambiguous);
        ++counts.ambiguous;
        return;
      }
      verdicts[i] = static_cast<std::uint8_t>(Removal::removed);
      ++counts.removed;
      ++changes[claims.last].keys;
      *changes[claims.last].emptied += decrement(filters[claims.last], hash);
    });
    return counts;
  }

  void merge(CounterView into, ConstCounterView from, const BatchOptions&) const override {
    merge_filters(into, from, [&](auto work) { work(whole(into.geometry)); });
  }
  SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                const BatchOptions&) const override {
    return check_subtract_part(from, what, whole(from.geometry));
  }
  void subtract(CounterView from, ConstCounterView what, const BatchOptions&) const override {
    subtract_part(from, what, whole(from.geometry));
  }
  std::vector<Histogram> histograms(ConstCounterView view, const BatchOptions&) const override {
    return histograms_of(view, 0, histogram_units(view.geometry), plain_count_values);
  }
  std::uint64_t count_nonzero(ConstCounterView view, const BatchOptions&) const override {
    return nonzero_in_part(view, whole(view.geometry));
  }
};

}  // namespace

const Backend& scalar_backend() noexcept {
  static const ScalarBackend backend;
  return backend;
}

}  // namespace scbf
