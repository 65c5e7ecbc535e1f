// SPDX-License-Identifier: Apache-2.0
// What a Filter is made of; shared by filter.cpp (batches) and filter_io.cpp (files).
#pragma once

#include <cstdint>
#include <string>

#include "counter_memory.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct Filter::State {
  Geometry geometry;
  std::uint64_t seed;
  const Backend* backend;
  CounterMemory memory;
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  std::string metadata;

  CounterView view() const noexcept { return {geometry, seed, memory.words()}; }
  ConstCounterView const_view() const noexcept { return {geometry, seed, memory.words()}; }
};

}  // namespace scbf
