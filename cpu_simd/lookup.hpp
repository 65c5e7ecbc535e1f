// SPDX-License-Identifier: Apache-2.0
// Lookups in one filter or more: is a key in any of them, and how often in all of them? There is at
// least one filter; all have the same seed.
#pragma once

#include <cstdint>
#include <span>

#include "cpu_simd/choose.hpp"
#include "cpu_simd/engine.hpp"

namespace scbf {

/// As Backend::contains. For a single filter, `choice` comes from choose, and it throws nothing: if
/// there is no memory for partitions, it goes the direct way and sets choice.way to that. For
/// several, `choice` comes from choose_lookup, and it throws std::bad_alloc.
std::uint64_t look_up(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                      std::uint8_t* out, Choice& choice, const BatchOptions& options);
/// As Backend::count_present, for a filter of one array. `choice` is as for look_up, and from
/// choose for this operation. Throws nothing.
std::uint64_t count_present(const ConstFilterArrays& filter, const KeyBatch& keys, Choice& choice,
                            const BatchOptions& options);
/// As Backend::count. Throws std::bad_alloc.
std::uint64_t count_keys(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                         std::uint8_t* out, const BatchOptions& options);

/// Way::by_hash (by_hash.cpp).
std::uint64_t look_up_by_hash(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                              std::uint8_t* out, const Choice& choice, const BatchOptions& options);

}  // namespace scbf
