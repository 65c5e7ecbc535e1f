// SPDX-License-Identifier: Apache-2.0
#include "kit/known_backends.hpp"

#include <algorithm>

#include "kit/hash_keys.hpp"
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
    if (hash_keys(keys, i, 1, seed, plain_hash_u64, &hash) == 1) visit(i, hash);
  }
}

unsigned smallest_counter(ConstCounterView view, std::uint64_t hash) noexcept {
  unsigned smallest = kCounterMax;
  for_each_probe(view.geometry, hash, [&](Probe p) {
    smallest = std::min(smallest, detail::counter_at(view.words[p.word], p.shift));
  });
  return smallest;
}

class ScalarBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "scalar"; }
  std::string_view description() const noexcept override {
    return "one key at a time, plain C++; the model that the others are compared with";
  }
  std::string_view target() const noexcept override { return "scalar"; }
  std::string unavailable_reason() const override { return {}; }

  NonzeroChange insert(CounterView view, const KeyBatch& keys, const BatchOptions&) const override {
    std::uint64_t filled = 0;
    for_each_hash(keys, view.seed, [&](std::size_t, std::uint64_t hash) {
      for_each_probe(view.geometry, hash, [&](Probe p) {
        filled += detail::counter_at(view.words[p.word], p.shift) == 0;
        view.words[p.word] = detail::incremented(view.words[p.word], p.shift);
      });
    });
    return filled;
  }

  void contains(ConstCounterView view, const KeyBatch& keys, std::uint8_t* out,
                const BatchOptions&) const override {
    std::fill_n(out, keys.size(), std::uint8_t{0});
    for_each_hash(keys, view.seed, [&](std::size_t i, std::uint64_t hash) {
      out[i] = smallest_counter(view, hash) != 0;
    });
  }

  NonzeroChange remove(CounterView view, const KeyBatch& keys, std::uint8_t* verdicts,
                       const BatchOptions&) const override {
    std::uint64_t emptied = 0;
    std::fill_n(verdicts, keys.size(), std::uint8_t{0});
    for_each_hash(keys, view.seed, [&](std::size_t i, std::uint64_t hash) {
      if (smallest_counter({view.geometry, view.seed, view.words}, hash) == 0) return;
      verdicts[i] = 1;
      for_each_probe(view.geometry, hash, [&](Probe p) {
        emptied += detail::counter_at(view.words[p.word], p.shift) == 1;
        view.words[p.word] = detail::decremented(view.words[p.word], p.shift);
      });
    });
    return emptied;
  }

  void count(ConstCounterView view, const KeyBatch& keys, std::uint8_t* out,
             const BatchOptions&) const override {
    std::fill_n(out, keys.size(), std::uint8_t{0});
    for_each_hash(keys, view.seed, [&](std::size_t i, std::uint64_t hash) {
      out[i] = static_cast<std::uint8_t>(smallest_counter(view, hash));
    });
  }

  void merge(CounterView into, ConstCounterView from, const BatchOptions&) const override {
    merge_words(into.words, from.words, into.geometry.words());
  }
  SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                const BatchOptions&) const override {
    return check_subtract_words(from.words, what.words, from.geometry.words());
  }
  void subtract(CounterView from, ConstCounterView what, const BatchOptions&) const override {
    subtract_words(from.words, what.words, from.geometry.words());
  }
  std::vector<Histogram> histograms(ConstCounterView view, const BatchOptions&) const override {
    return histograms_of(view, 0, histogram_units(view.geometry), plain_count_values());
  }
  std::uint64_t count_nonzero(ConstCounterView view, const BatchOptions&) const override {
    return nonzero_in_words(view.words, view.geometry.words());
  }
};

}  // namespace

const Backend& scalar_backend() noexcept {
  static const ScalarBackend backend;
  return backend;
}

}  // namespace scbf
