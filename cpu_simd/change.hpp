// SPDX-License-Identifier: Apache-2.0
// Insertion and removal, on the direct and the partitioned path.
#pragma once

#include <cstdint>

#include "cpu_simd/choose.hpp"
#include "cpu_simd/engine.hpp"
#include "cpu_simd/pass.hpp"

namespace scbf {

using ChangePass = ArrayPass<std::uint64_t>;

/// Returns how many counters became non-zero. Throws nothing: if there is no memory for partitions,
/// it goes the direct way, which needs none, and sets choice.way to that.
std::uint64_t add_keys(const FilterArrays& filter, const KeyBatch& keys, Choice& choice,
                       const BatchOptions& options) noexcept;

/// Adds the keys that the pass has taken in. Returns how many counters became non-zero.
std::uint64_t add_taken_in(const FilterArrays& filter, ChangePass& pass) noexcept;

struct RemovedKeys {
  std::uint64_t keys = 0;     ///< removed
  std::uint64_t emptied = 0;  ///< counters that became zero

  RemovedKeys& operator+=(const RemovedKeys& more) noexcept {
    keys += more.keys;
    emptied += more.emptied;
    return *this;
  }
};
/// Removes keys as if one after another, in batch order; verdicts[i] = 1 if key i was removed.
/// Throws nothing, as add_keys.
RemovedKeys take_keys(const FilterArrays& filter, const KeyBatch& keys, std::uint8_t* verdicts,
                      Choice& choice, const BatchOptions& options) noexcept;

}  // namespace scbf
