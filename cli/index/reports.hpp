// SPDX-License-Identifier: Apache-2.0
// What several verbs of scbf index say of an index in the same words.
#pragma once

#include <string>

#include "output.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::cli {

/// key, columns, fpr, region_values, servers, seed, layout.
void add_definition(Json& json, const TableSchema& schema, const IndexPlan& plan);
/// values, regions, filter_bytes, bit_row_bytes, store_bytes.
void add_sizes(Json& json, const IndexStatistics& statistics);
/// "section, depends"; "none".
std::string indexed_columns(const TableSchema& schema);

}  // namespace scbf::cli
