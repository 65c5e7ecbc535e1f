// SPDX-License-Identifier: Apache-2.0
// Operations on whole stretches of packed counters, for backends that run on the host: merge,
// subtract, histograms. Memory-bound, so plain 64-bit arithmetic does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

void merge_words(std::uint64_t* into, const std::uint64_t* from, std::size_t words) noexcept;
SubtractCounts check_subtract_words(const std::uint64_t* from, const std::uint64_t* what,
                                    std::size_t words) noexcept;
void subtract_words(std::uint64_t* from, const std::uint64_t* what, std::size_t words) noexcept;

/// How many units the work of a histogram can be cut into: cache lines of one slice (split) or
/// blocks of all groups (split_block).
std::uint64_t histogram_units(const Geometry& geometry) noexcept;
/// One histogram per slice over units first … last − 1; padding counters are not counted. Those
/// of disjoint ranges add up.
std::vector<Histogram> histograms_of(ConstCounterView view, std::uint64_t first,
                                     std::uint64_t last);

}  // namespace scbf
