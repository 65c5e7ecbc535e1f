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

struct ChangedKeys {
  std::uint64_t keys = 0;    ///< inserted, or removed
  std::uint64_t turned = 0;  ///< counters that became non-zero, or zero

  ChangedKeys& operator+=(const ChangedKeys& more) noexcept {
    keys += more.keys;
    turned += more.turned;
    return *this;
  }
};
/// Inserts the keys that are absent at their turn, as if one after another, in batch order;
/// answers[i] = 1 if key i was inserted. Throws nothing, as add_keys. A filter of more arrays than
/// kMostArraysByPosition must go the direct way.
ChangedKeys add_new_keys(const FilterArrays& filter, const KeyBatch& keys, std::uint8_t* answers,
                         Choice& choice, const BatchOptions& options) noexcept;
/// Removes keys as if one after another, in batch order; verdicts[i] = 1 if key i was removed.
/// Throws nothing, as add_keys. For a filter of one array, `verdicts` may be null.
ChangedKeys take_keys(const FilterArrays& filter, const KeyBatch& keys, std::uint8_t* verdicts,
                      Choice& choice, const BatchOptions& options) noexcept;

/// Removes the keys that the pass has taken in, as if one after another, from a filter of one
/// array.
ChangedKeys remove_taken_in(const FilterArrays& filter, ChangePass& pass) noexcept;

}  // namespace scbf
