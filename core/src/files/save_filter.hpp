// SPDX-License-Identifier: Apache-2.0
// Saving a filter and telling what it holds, for the command.
#pragma once

#include "files/file_io.hpp"
#include "scbf/filter_base.hpp"

namespace scbf {

/// Writes the bytes of FilterBase::save, in one pass over the counters where that is possible.
/// Returns the filter's statistics without slice_fill and histograms, which cost nothing then,
/// unless the non-zero counters must be counted.
Statistics write_and_summarise(const FilterBase& filter, const SaveOptions& options,
                               const OutputFile& file);

}  // namespace scbf
