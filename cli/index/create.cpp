// SPDX-License-Identifier: Apache-2.0
// scbf index create: the columns of the table, which of them are indexed, the plan of the filters.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "options.hpp"
#include "reports.hpp"
#include "sizes.hpp"
#include "table_reader.hpp"

namespace scbf::cli {

namespace {

struct CreateOptions {
  IndexTarget target;
  std::string key, columns, header;
  std::optional<TableFormat> format;
  Escapes escapes = Escapes::yes;
  std::vector<std::string> indexed;
  IndexPlan plan;
};

/// The names of all columns. The key may be among them.
std::vector<std::string> column_names(const CreateOptions& options) {
  if (!options.columns.empty() && !options.header.empty()) {
    throw UsageError("--columns and --header: only one of them can say which columns there are");
  }
  if (!options.header.empty()) {
    return read_header(options.header, format_of(options.header, options.format), options.escapes);
  }
  if (options.columns.empty()) {
    throw UsageError("no columns: name them by --columns a,b,c or by --header FILE");
  }
  return split_list(options.columns);
}

/// Parses "a,b" or "a,b:SEP". The text after the colon separates the values of the last column.
void mark_indexed(TableSchema& schema, const std::string& text) {
  const auto mark = [&](const std::string& name, const std::string& separator) {
    const auto is_it = [&](const Column& column) { return column.name == name; };
    const auto it = std::find_if(schema.columns.begin(), schema.columns.end(), is_it);
    if (it == schema.columns.end()) return false;
    it->indexed = true;
    it->separator = separator;
    return true;
  };
  if (mark(text, "")) return;  // a column whose name has a comma or a colon
  const std::size_t colon = text.find(':');
  const std::string separator = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon != std::string::npos && separator.empty()) {
    throw UsageError(fmt::format("--index {}: nothing after the colon; say what separates values",
                                 in_quotes(text)));
  }
  refuse_list_of_columns(schema, separator, fmt::format("--index {}", in_quotes(text)));
  const std::vector<std::string> names = split_list(text.substr(0, colon));
  for (const std::string& name : names) {
    if (mark(name, &name == &names.back() ? separator : "")) continue;
    throw UsageError(name == schema.key
                         ? fmt::format("--index {}: the key needs no index", in_quotes(name))
                         : fmt::format("--index {}: there is no such column", in_quotes(name)));
  }
}

TableSchema schema_of(const CreateOptions& options) {
  TableSchema schema{.key = options.key};
  const std::vector<std::string> names = column_names(options);
  if (std::ranges::count(names, options.key) > 1) {
    throw UsageError(fmt::format("--columns: {} is there twice", in_quotes(options.key)));
  }
  for (const std::string& name : names) {
    if (name != options.key) schema.columns.push_back({.name = name});
  }
  if (!options.header.empty() && schema.columns.size() == names.size()) {
    throw UsageError(fmt::format("--key {}: {} has no such column", in_quotes(options.key),
                                 in_quotes(options.header)));
  }
  for (const std::string& text : options.indexed) mark_indexed(schema, text);
  return schema;
}

int create(const CreateOptions& options) {
  const TableSchema schema = schema_of(options);
  schema.check();
  must_be_new(options.target.folder, true);
  const SecondaryIndex index =
      SecondaryIndex::create(options.target.folder, schema, options.plan, options.target.options);
  work_is_done(options.target.folder);
  if (options.target.json) {
    Json json;
    json["index"] = options.target.folder;
    add_definition(json, schema, options.plan);
    print_json(json);
  } else {
    print_text(fmt::format(
        "{}: key {}, {}, of which indexed: {}; servers: {}\n", options.target.folder, schema.key,
        counted(schema.columns.size(), "column"), indexed_columns(schema), options.plan.servers));
  }
  if (options.indexed.empty()) {
    note(
        "no column is indexed, so 'index query' can find nothing; --index COL names columns to "
        "index");
  }
  return kOk;
}

}  // namespace

Run set_up_index_create(CommandLine& line) {
  auto options = std::make_shared<CreateOptions>();
  CreateOptions& o = *options;
  o.target.add_to(line, "Print a report as JSON");
  line.option("--key", "COL", "The column with the key of each row", o.key,
              CommandLine::Need::required);
  line.option("--columns", "A,B,…", "The columns, in order", o.columns);
  line.option("--header", "FILE", "Take the columns from the first line of this file", o.header);
  line.option("--separator", "SEP",
              "Between the names in that line: tab or a character; default: by the file's name",
              [&o](const std::string& text) { o.format = table_format_from_string(text); });
  add_escapes_to(line, o.escapes);
  line.repeated(
      "--index", "A,B[:SEP]",
      "Columns to index; after a colon, the separator between the values of the last one. Can "
      "be given several times",
      [&o](const std::string& text) { o.indexed.push_back(text); });
  line.option("--fpr", "P", "Bound on the false-positive rate of a region's filter; default 1%",
              [&o](const std::string& text) { o.plan.fpr = parse_rate("--fpr", text); });
  line.option(
      "--region-values", "N",
      "Distinct values for which a region's filter is sized; it grows beyond. Default 16384",
      [&o](const std::string& text) {
        o.plan.region_values = parse_count("--region-values", text);
      });
  line.option(
      "--servers", "S", "Servers that share the regions; default 1", [&o](const std::string& text) {
        o.plan.servers = static_cast<std::uint32_t>(parse_count("--servers", text, 1, kMaxServers));
      });
  line.option("--seed", "X", "Seed of the hash: any 64-bit number; default 0",
              [&o](const std::string& text) { o.plan.seed = parse_seed("--seed", text); });
  line.option("--layout", "LAYOUT", "split_block (default), split or ranked",
              [&o](const std::string& text) { o.plan.layout = layout_from_string(text); });
  line.footer(
      R"(DIR must be empty or not exist. If a field holds several values ("a, b"), each of them is indexed:
--index depends:, declares that a comma separates them.

Examples:
  scbf index create people.index --key id --columns id,name,town --index town
  scbf index create packages.index --header packages.tsv --key package --servers 16 \
    --index maintainer,section --index depends:,)");
  return [options] { return create(*options); };
}

}  // namespace scbf::cli
