// SPDX-License-Identifier: Apache-2.0
// Temporary memory of large batches. Fresh memory costs a page fault and a zeroing for every page,
// which for a bulk build is as much as a quarter of the time; so the block of the last operation
// is kept for the next one. (Marking it reclaimable in between, MADV_FREE, brought the faults
// back: pages went within milliseconds.)
#pragma once

#include <cstdint>

#include "kit/counter_memory.hpp"

namespace scbf {

/// A block of temporary memory; its contents are arbitrary. Returns to the cache when destroyed.
class Scratch {
 public:
  /// Throws std::bad_alloc.
  explicit Scratch(std::uint64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const noexcept { return memory_.words(); }

 private:
  CounterMemory memory_;
};

}  // namespace scbf
