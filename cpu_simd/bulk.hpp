// SPDX-License-Identifier: Apache-2.0
// Insertions and removals in many batches, each perhaps far too small for a pass over the filter.
// Keys are scattered to partitions as they come, and the partitions are drained when the scratch
// memory is full.
#pragma once

#include <memory>

#include "cpu_simd/engine.hpp"
#include "scbf/backend.hpp"

namespace scbf {

// If partitions do not pay, or there is no memory for them, keys go the direct way.

/// Backend::begin_bulk.
std::unique_ptr<BulkInsertion> begin_bulk_insertion(const FilterArrays& filter,
                                                    const BatchOptions& options);
/// Backend::begin_bulk_removal, for a filter of one array.
std::unique_ptr<BulkRemoval> begin_bulk_removal(const FilterArrays& filter,
                                                const BatchOptions& options);

}  // namespace scbf
