// SPDX-License-Identifier: Apache-2.0
// Parts of reports that several verbs of scbf index share.
#pragma once

#include <string>

#include "output.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::cli {

/// Adds key, columns, fpr, region_values, servers, seed and layout.
void add_definition(Json& json, const TableSchema& schema, const IndexPlan& plan);
/// Adds values, regions, filter_bytes, bit_row_bytes and store_bytes.
void add_sizes(Json& json, const IndexStatistics& statistics);
/// The names of the indexed columns, with what divides the values of a field, such as "section,
/// depends (divided by ',')"; "none" if there are none.
std::string indexed_columns(const TableSchema& schema);

}  // namespace scbf::cli
