// SPDX-License-Identifier: Apache-2.0
// What other rooms and deltas use of filter_files.cpp.
#pragma once

#include <memory>

#include "files/file_input.hpp"
#include "filter/state.hpp"

namespace scbf {

/// Reads a filter of these cells from where the input is. Throws CorruptFile or Incompatible.
std::unique_ptr<FilterState> read_filter(Input& input, const Backend& backend, Cell cell);

}  // namespace scbf
