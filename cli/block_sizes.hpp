// SPDX-License-Identifier: Apache-2.0
// How many keys of an input are worked on together.
#pragma once

#include <cstddef>

#include "key_reader.hpp"
#include "options.hpp"
#include "scbf/backend.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::cli {

/// Bytes of blocks whose keys go to a BulkInserter or BulkRemover: small ones, unless the filter is
/// on a device, which takes each as a batch.
std::size_t bulk_block(const Backend& backend);
/// How many keys for each cache line of a filter are worked on together, so that a pass over it
/// pays. A removal gains nothing by more, and fresh memory for them is slow. Tried on one machine
/// only, an Emerald Rapids.
inline constexpr double kAskedPerLine = 4, kRemovedPerLine = 1.25;
/// So many keys for this filter, at least 1 MiB of them, but not more than half of --scratch has
/// room for at 8 bytes each (default: 1 GiB), or an eighth of the memory that is free. The library
/// gets the other half (RunOptions::batch_beside_keys).
std::size_t window_keys(const FilterBase& filter, double keys_per_line, const RunOptions& run);
/// Bytes of blocks whose keys are asked together and may be printed, so that they stay in memory as
/// they were read. For integers that is a window. Lines take more memory than a large batch would
/// save, so for them it is 10 bytes for each cache line of the filter, from 1 to 256 MiB.
std::size_t printed_block(const FilterBase& filter, KeyKind kind, double keys_per_line,
                          const RunOptions& run);

}  // namespace scbf::cli
