// SPDX-License-Identifier: Apache-2.0
// What a Filter is made of; shared by filter.cpp (batches) and filter_io.cpp (files).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "scbf/counter_store.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// A number that is known or not. Const operations may learn it, several at once: all learn the
/// same, and whoever comes later is spared the work.
class KnownCount {
 public:
  KnownCount() noexcept = default;
  explicit KnownCount(std::uint64_t value) noexcept : value_(value) {}
  KnownCount(const KnownCount& other) noexcept : value_(other.value_.load()) {}
  KnownCount& operator=(const KnownCount& other) noexcept {
    value_ = other.value_.load();
    return *this;
  }

  std::optional<std::uint64_t> get() const noexcept {
    const std::uint64_t value = value_.load(std::memory_order_relaxed);
    return value == kUnknown ? std::nullopt : std::optional(value);
  }
  void learn(std::uint64_t value) const noexcept { value_.store(value, std::memory_order_relaxed); }
  void forget() noexcept { value_ = kUnknown; }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};  // no filter has so many counters
  mutable std::atomic<std::uint64_t> value_{kUnknown};
};

struct Filter::State {
  Geometry geometry;
  std::uint64_t seed;
  const Backend* backend;
  std::unique_ptr<CounterStore> store;  ///< in the memory of `backend`
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  std::string metadata;
  KnownCount nonzero{};  ///< counters; unknown after whatever changes them uncounted

  CounterView view() const noexcept { return {geometry, seed, store->words()}; }
  ConstCounterView const_view() const noexcept { return {geometry, seed, store->words()}; }
  /// Calls an insertion (+1) or removal (−1) and books the counters that it says it changed.
  void change_nonzero(int sign, const std::function<NonzeroChange()>& operation);
  void remove(const KeyBatch& keys, std::uint8_t* verdicts, const BatchOptions& options);
  /// A writable copy of the counters in the memory of a backend.
  std::unique_ptr<CounterStore> store_on(const Backend& other) const;
  /// The counters where a backend can work on them: as they are if they lie in its memory, else a
  /// copy that lives as long as `copy`.
  ConstCounterView view_on(const Backend& other, std::unique_ptr<CounterStore>& copy) const;
};

}  // namespace scbf
