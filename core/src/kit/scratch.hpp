// SPDX-License-Identifier: Apache-2.0
// Temporary memory of large batches. Fresh memory costs a page fault and zeroing for every page, up
// to a quarter of the time of a bulk build. So the block of the last operation is kept for the next
// one. (Marking it reclaimable in between, by MADV_FREE, brought the faults back: the system took
// the pages within milliseconds.)
#pragma once

#include <cstdint>

#include "kit/host_memory.hpp"

namespace scbf {

/// A block of temporary memory of arbitrary contents. The destructor keeps it for the next one.
class Scratch {
 public:
  /// Throws std::bad_alloc.
  explicit Scratch(std::uint64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const noexcept { return memory_.words(); }

 private:
  HostMemory memory_;
};

/// Bytes of the block that is kept at the moment.
std::uint64_t kept_scratch() noexcept;
/// Would a block of this size be mostly fresh memory now, but be kept for the next time?
bool pays_once_for_scratch(std::uint64_t bytes) noexcept;

}  // namespace scbf
