// SPDX-License-Identifier: Apache-2.0
// The functions of Backend that have a default, for backends without a better way. Two are
// elsewhere: allocate in host_memory.cpp, rows in row_kernels.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "kit/answer_forms.hpp"
#include "kit/few_keys.hpp"
#include "kit/hash_keys.hpp"
#include "kit/piece_room.hpp"
#include "kit/word_ops.hpp"
#include "scbf/backend.hpp"
#include "scbf/errors.hpp"

namespace scbf {

namespace {

/// Inserts every batch as it comes.
class BatchByBatch final : public BulkInsertion {
 public:
  BatchByBatch(const Backend& backend, CounterView view, const BatchOptions& options) noexcept
      : backend_(backend), view_(view), options_(options) {}

  void accept(const KeyBatch& keys) override {
    const NonzeroChange filled = std::exchange(filled_, std::nullopt);  // unknown if this throws
    const NonzeroChange more = backend_.insert(view_, keys, options_);
    if (filled && more) filled_ = *filled + *more;
  }
  NonzeroChange finish() noexcept override { return std::exchange(filled_, 0); }

 private:
  const Backend& backend_;
  CounterView view_;
  BatchOptions options_;
  NonzeroChange filled_ = 0;
};

// The inline functions of few_keys.hpp, as functions with addresses.

template <auto function, class Word>
auto of_key(const Geometry& geometry, Word* words, std::uint64_t hash) noexcept {
  return function(geometry, words, hash);
}
using Word = std::uint64_t;
constexpr OneKey kOfCounters = {of_key<holds_key, const Word>, of_key<count_of, const Word>,
                                of_key<add_key, Word>, of_key<take_key, Word>};
constexpr OneKey kOfBits = {of_key<holds_bits, const Word>, of_key<count_bits, const Word>,
                            of_key<add_bits, Word>, nullptr};

}  // namespace

NewKeys Backend::insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                            const BatchOptions&) const {
  if (memory() != kHostMemory) {
    throw NotOnHost(fmt::format(
        "insert_new: the backend {} has none for counters in the memory of {}: move the "
        "filter with to(\"simd\"), or use contains and insert",
        name(), memory()));
  }
  const OneKey& functions = one_key(view.geometry);
  std::uint64_t inserted = 0, filled = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out[i] = 0;
    std::uint64_t hash = 0;
    if (hash_keys(keys, i, 1, view.seed, kPlainHashes, &hash) == 0) continue;  // null
    if (functions.holds(view.geometry, view.words, hash)) continue;
    filled += functions.add(view.geometry, view.words, hash);
    out[i] = 1;
    ++inserted;
  }
  return {inserted, filled};
}

std::unique_ptr<BulkInsertion> Backend::begin_bulk(CounterView view,
                                                   const BatchOptions& options) const {
  return std::make_unique<BatchByBatch>(*this, view, options);
}

std::uint64_t Backend::count_present(std::span<const ConstCounterView> filters,
                                     const KeyBatch& keys, const BatchOptions& options) const {
  std::size_t window = kAnswerWindow;
  for (const auto& filter : filters) window = std::max(window, answer_window(filter.geometry));
  PieceRoom<std::uint8_t> answers(std::min(window, keys.size()));
  std::uint64_t present = 0;
  for (std::size_t first = 0; first < keys.size(); first += answers.size()) {
    const std::size_t n = std::min(answers.size(), keys.size() - first);
    present += contains(filters, keys.slice(first, n), answers.data(), options);
  }
  return present;
}

std::unique_ptr<BulkRemoval> Backend::begin_bulk_removal(CounterView, const BatchOptions&) const {
  return nullptr;
}

std::optional<RemovalChange> Backend::remove_without_verdicts(CounterView, const KeyBatch&,
                                                              const BatchOptions&) const {
  return std::nullopt;
}

void Backend::intersect(CounterView into, ConstCounterView from, const BatchOptions&) const {
  intersect_words(into.words, from.words, into.geometry.words());
}

std::uint64_t Backend::count_joined(ConstCounterView a, ConstCounterView b,
                                    const BatchOptions&) const {
  return ones_in_either(a.words, b.words, a.geometry.words());
}

void Backend::project(CounterView bits, ConstCounterView counters, const BatchOptions&) const {
  project_words(counters.geometry, counters.words, {0, bits.geometry.words()}, bits.words);
}

std::uint64_t Backend::count_nonzero(ConstCounterView view, const BatchOptions& options) const {
  std::uint64_t zero = 0;
  for (const Histogram& slice : histograms(view, options)) zero += slice[0];
  return view.geometry.counters() - zero;
}

const OneKey& Backend::one_key(const Geometry& geometry) const noexcept {
  return geometry.cell() == Cell::bit ? kOfBits : kOfCounters;
}

}  // namespace scbf
