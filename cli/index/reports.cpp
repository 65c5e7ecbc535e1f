// SPDX-License-Identifier: Apache-2.0
#include "reports.hpp"

#include <nlohmann/json.hpp>

namespace scbf::cli {

void add_definition(Json& json, const TableSchema& schema, const IndexPlan& plan) {
  json.update(Json::parse(definition_json(schema, plan)));
}

void add_sizes(Json& json, const IndexStatistics& statistics) {
  json["values"] = statistics.values;
  json["regions"] = statistics.regions;
  json["filter_bytes"] = statistics.filter_bytes;
  json["bit_row_bytes"] = statistics.bit_row_bytes;
  json["store_bytes"] = statistics.store_bytes;
}

std::string indexed_columns(const TableSchema& schema) {
  std::string names;
  for (const Column& column : schema.columns) {
    if (!column.indexed) continue;
    names += (names.empty() ? "" : ", ") + column.name;
    if (!column.separator.empty()) {
      names += fmt::format(" (divided by {})", in_quotes(column.separator));
    }
  }
  return names.empty() ? "none" : names;
}

}  // namespace scbf::cli
