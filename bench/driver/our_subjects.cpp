// SPDX-License-Identifier: Apache-2.0
#include "our_subjects.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "driver.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace scbf::bench {

namespace {

/// Our filter, of counters or of bits.
template <class AnyFilter>
class OurSubject : public Subject {
 public:
  static constexpr bool kCounts = std::is_same_v<AnyFilter, Filter>;

  OurSubject(const Geometry& geometry, const std::string& backend, const BatchOptions& options)
      : filter_(geometry, {.backend = backend}), options_(options) {}

  void insert(KeySpan keys) override { filter_.insert(batch(keys), options_); }
  void fill(KeySpan keys) final { filter_.insert(batch(keys), options_); }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    return filter_.contains(batch(keys), {out, keys.size}, options_).hits;
  }
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    if constexpr (!kCounts) throw std::logic_error("bits cannot be removed");
    if constexpr (kCounts) return filter_.remove(batch(keys), {out, keys.size}, options_).removed;
  }
  void count(KeySpan keys, std::uint8_t* out) override {
    if constexpr (!kCounts) throw std::logic_error("bits do not count");
    if constexpr (kCounts) filter_.count(batch(keys), {out, keys.size}, options_);
  }
  bool can_remove() const override { return kCounts; }
  bool can_count() const override { return kCounts; }
  void reset(KeySpan present) override {
    if constexpr (kCounts) {
      // Not clear(): removal checks every key once more.
      const RemoveReport report = filter_.remove(batch(present), {}, options_);
      if (report.removed != present.size) throw WrongAnswer("reset: a present key was absent");
    } else {
      filter_.clear();
    }
  }
  bool empty() const override { return filter_.statistics(options_).nonzero == 0; }
  bool saturated() const override { return filter_.statistics(options_).saturated > 0; }
  std::optional<std::uint64_t> fingerprint() const override {
    std::uint64_t print = 0;
    std::vector<std::uint64_t> words(std::min<std::uint64_t>(filter_.geometry().words(), 1 << 13));
    for (std::uint64_t at = 0; at < filter_.geometry().words(); at += words.size()) {
      words.resize(std::min<std::uint64_t>(words.size(), filter_.geometry().words() - at));
      filter_.read_words(at, words);
      for (const std::uint64_t word : words) print = key_word(print ^ word);
    }
    return print;
  }
  double bytes() const override { return static_cast<double>(filter_.geometry().bytes()); }
  std::optional<double> predicted_fpr(std::size_t n) const override {
    return scbf::predicted_fpr(filter_.geometry(), static_cast<double>(n));
  }
  std::string target() const override { return std::string(filter_.backend().target()); }

 protected:
  static KeyBatch batch(KeySpan keys) {
    if (keys.words_each == 1) return {std::span(keys.words, keys.size)};
    return KeyBatch::from_fixed(std::as_bytes(std::span(keys.words, keys.size * keys.words_each)),
                                std::size_t{8} * keys.words_each);
  }

  AnyFilter filter_;
  BatchOptions options_;
};

/// The same in small batches.
template <class AnyFilter>
class InSmallBatches : public OurSubject<AnyFilter> {
  using OneBatch = OurSubject<AnyFilter>;

 public:
  using OneBatch::OneBatch;

  void insert(KeySpan keys) override {
    for_each_batch(keys, [&](KeySpan some, std::size_t) { OneBatch::insert(some); });
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for_each_batch(keys, [&](KeySpan some, std::size_t first) {
      hits += OneBatch::contains(some, out + first);
    });
    return hits;
  }
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t removed = 0;
    for_each_batch(keys, [&](KeySpan some, std::size_t first) {
      removed += OneBatch::remove(some, out + first);
    });
    return removed;
  }
  void count(KeySpan keys, std::uint8_t* out) override {
    for_each_batch(keys,
                   [&](KeySpan some, std::size_t first) { OneBatch::count(some, out + first); });
  }

 protected:
  template <class Use>
  static void for_each_batch(KeySpan keys, Use use) {
    for (std::size_t first = 0; first < keys.size; first += kSmallBatch) {
      use(KeySpan{keys.words + first * keys.words_each, std::min(kSmallBatch, keys.size - first),
                  keys.words_each},
          first);
    }
  }
};

template <class AnyFilter>
class InBulk final : public InSmallBatches<AnyFilter> {
 public:
  using InSmallBatches<AnyFilter>::InSmallBatches;

  void insert(KeySpan keys) override {
    BulkInserter bulk = this->filter_.bulk(this->options_);
    this->for_each_batch(keys, [&](KeySpan some, std::size_t) { bulk.insert(this->batch(some)); });
    bulk.finish();
  }
  /// Says how many keys were removed, but not which.
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    if constexpr (InBulk::kCounts) {
      BulkRemover bulk = this->filter_.bulk_remove(this->options_);
      this->for_each_batch(keys,
                           [&](KeySpan some, std::size_t) { bulk.remove(this->batch(some)); });
      return bulk.finish().removed;
    } else {
      return InSmallBatches<AnyFilter>::remove(keys, out);
    }
  }
};

/// One key a call: of the filter, of a view of it, or of a view that prefetches. Keys are numbers.
template <class AnyFilter, Calls calls>
class KeyByKey final : public OurSubject<AnyFilter> {
  using OneBatch = OurSubject<AnyFilter>;

 public:
  using OneBatch::OneBatch;

  void insert(KeySpan keys) override {
    for_each(keys, [](auto& callee, std::uint64_t key, std::size_t) { callee.insert(key); });
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for_each(keys, [&](auto& callee, std::uint64_t key, std::size_t i) {
      out[i] = callee.contains(key);
      hits += out[i];
    });
    return hits;
  }
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    if constexpr (OneBatch::kCounts) {
      std::uint64_t removed = 0;
      for_each(keys, [&](auto& callee, std::uint64_t key, std::size_t i) {
        out[i] = static_cast<std::uint8_t>(callee.remove(key));
        removed += out[i];
      });
      return removed;
    } else {
      return OneBatch::remove(keys, out);
    }
  }
  void count(KeySpan keys, std::uint8_t* out) override {
    if constexpr (OneBatch::kCounts) {
      for_each(keys, [&](auto& callee, std::uint64_t key, std::size_t i) {
        out[i] = static_cast<std::uint8_t>(callee.count(key));
      });
    } else {
      OneBatch::count(keys, out);
    }
  }
  void mark() override { marked_ = this->filter_; }
  void return_to_mark() override { this->filter_ = *marked_; }

 private:
  using View = decltype(std::declval<AnyFilter&>().ref());

  /// A view whose keys are hashes.
  struct OfHashes {
    View view;
    void insert(std::uint64_t hash) { view.insert_hash(hash); }
    bool contains(std::uint64_t hash) const { return view.contains_hash(hash); }
    unsigned count(std::uint64_t hash) const { return view.count_hash(hash); }
    bool remove(std::uint64_t hash) { return view.remove_hash(hash); }
  };
  static constexpr std::size_t kAhead = 32;

  template <class Use>
  void for_each(KeySpan span, Use use) {
    if (span.words_each != 1) throw std::invalid_argument("one key a call: keys must be numbers");
    const std::span keys(span.words, span.size);
    if constexpr (calls == Calls::key) {
      for (std::size_t i = 0; i < keys.size(); ++i) use(this->filter_, keys[i], i);
    } else if constexpr (calls == Calls::view) {
      View view = this->filter_.ref();
      for (std::size_t i = 0; i < keys.size(); ++i) use(view, keys[i], i);
    } else {
      OfHashes callee = {this->filter_.ref()};
      std::array<std::uint64_t, kAhead> hashes;  // of the next keys
      for (std::size_t i = 0; i < keys.size() + kAhead; ++i) {
        std::uint64_t& hash = hashes[i % kAhead];
        if (i >= kAhead) use(callee, hash, i - kAhead);
        if (i >= keys.size()) continue;
        hash = callee.view.hash(keys[i]);
        callee.view.prefetch_hash(hash);
      }
    }
  }

  std::optional<AnyFilter> marked_;
};

}  // namespace

MakeSubject subject_of(const FilterCase& c) {
  if (!c.ours()) return c.other;
  // The geometry is found here, where no time is taken.
  const Geometry geometry = geometry_for(layout_from_string(c.structure), c.n, c.fpr);
  const auto make = [&]<class S>(std::type_identity<S>) -> MakeSubject {
    return [=, backend = c.backend, options = c.options] {
      return std::make_unique<S>(geometry, backend, options);
    };
  };
  const auto of_cell = [&]<class AnyFilter>(std::type_identity<AnyFilter>) -> MakeSubject {
    switch (c.calls) {
      case Calls::small:
        return make(std::type_identity<InSmallBatches<AnyFilter>>());
      case Calls::bulk:
        return make(std::type_identity<InBulk<AnyFilter>>());
      case Calls::key:
        return make(std::type_identity<KeyByKey<AnyFilter, Calls::key>>());
      case Calls::view:
        return make(std::type_identity<KeyByKey<AnyFilter, Calls::view>>());
      case Calls::ahead:
        return make(std::type_identity<KeyByKey<AnyFilter, Calls::ahead>>());
      case Calls::one:
        break;
    }
    return make(std::type_identity<OurSubject<AnyFilter>>());
  };
  return c.cell == Cell::bit ? of_cell(std::type_identity<BloomFilter>())
                             : of_cell(std::type_identity<Filter>());
}

}  // namespace scbf::bench
