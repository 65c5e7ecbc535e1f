// SPDX-License-Identifier: Apache-2.0
// What a Filter is made of; shared by filter.cpp (batches) and filter_io.cpp (files).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "scbf/counter_store.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct Filter::State {
  Geometry geometry;
  std::uint64_t seed;
  const Backend* backend;
  std::unique_ptr<CounterStore> store;  ///< in the memory of `backend`
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  std::string metadata;

  CounterView view() const noexcept { return {geometry, seed, store->words()}; }
  ConstCounterView const_view() const noexcept { return {geometry, seed, store->words()}; }
  /// A writable copy of the counters in the memory of a backend.
  std::unique_ptr<CounterStore> store_on(const Backend& other) const;
  /// The counters where a backend can work on them: as they are if they lie in its memory, else a
  /// copy that lives as long as `copy`.
  ConstCounterView view_on(const Backend& other, std::unique_ptr<CounterStore>& copy) const;
};

}  // namespace scbf
