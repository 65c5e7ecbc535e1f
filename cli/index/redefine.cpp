// SPDX-License-Identifier: Apache-2.0
// scbf index replan, add-column and drop-column: change the definition of an index.
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
#include "stopwatch.hpp"

namespace scbf::cli {

namespace {

struct RedefineOptions {
  IndexTarget target;
  RunOptions run;
  std::vector<std::string> columns;
  std::optional<double> fpr;
  std::optional<std::uint64_t> region_values;
  bool dry_run = false;
};

/// The filters of an index with a plan.
struct Filters {
  IndexPlan plan;
  std::uint64_t bytes;
  double mean_fpr, highest_fpr;
};

Filters filters_of(const SecondaryIndex& index) {
  const std::vector<RegionInfo> regions = index.regions();
  Filters filters = {index.plan(), 0, 0, 0};
  for (const RegionInfo& region : regions) {
    filters.bytes += region.filter_bytes;
    filters.highest_fpr = std::max(filters.highest_fpr, region.estimated_fpr);
    filters.mean_fpr += region.estimated_fpr / static_cast<double>(regions.size());
  }
  return filters;
}

Json json_of(const Filters& filters) {
  Json json;
  json["fpr"] = filters.plan.fpr;
  json["region_values"] = filters.plan.region_values;
  json["filter_bytes"] = filters.bytes;
  json["mean_fpr"] = filters.mean_fpr;
  json["highest_fpr"] = filters.highest_fpr;
  return json;
}

/// The definition of the index changes only while it is closed, so nobody has it open here.
SecondaryIndex open_changed(const IndexTarget& target) {
  return SecondaryIndex::open(target.folder, target.options);
}

int replan(const RedefineOptions& options) {
  const IndexTarget& target = options.target;
  const Stopwatch watch;
  std::optional<SecondaryIndex> index = target.open_read_only();
  const Filters before = filters_of(*index);
  IndexPlan plan = index->plan_for(options.fpr.value_or(before.plan.fpr));
  if (options.region_values) plan.region_values = *options.region_values;
  const FilterForecast forecast = index->forecast(plan);
  Filters after = {plan, forecast.filter_bytes, forecast.mean_fpr, forecast.highest_fpr};
  index.reset();
  if (!options.dry_run) {
    SecondaryIndex::replan(target.folder, plan.fpr, plan.region_values);
    work_is_done(target.folder);
    SecondaryIndex now = open_changed(target);
    // The plan may be the old one, and then the filters fit it as they are.
    if (now.recovery().rebuilt == 0) {
      for (const RegionInfo& region : now.regions()) now.rebuild(region.id);
    }
    after = filters_of(now);
  }
  if (target.json) {
    Json json;
    json["index"] = target.folder;
    json["dry_run"] = options.dry_run;
    json["before"] = json_of(before);
    json["after"] = json_of(after);
    json["seconds"] = watch.seconds();
    print_json(json);
    return kOk;
  }
  std::string text =
      fmt::format("{:<22} {:>12} {:>12}\n", options.dry_run ? "nothing was changed" : "", "before",
                  options.dry_run ? "would be" : "now");
  const auto row = [&](const char* name, const std::string& then, const std::string& now) {
    text += fmt::format("{:<22} {:>12} {:>12}\n", name, then, now);
  };
  row("bound on a rate", percent(before.plan.fpr), percent(after.plan.fpr));
  row("made for values", grouped(before.plan.region_values), grouped(after.plan.region_values));
  row("filters", human_bytes(before.bytes), human_bytes(after.bytes));
  row("mean rate", percent(before.mean_fpr), percent(after.mean_fpr));
  row("highest rate", percent(before.highest_fpr), percent(after.highest_fpr));
  print_text(text);
  return kOk;
}

/// Parses "COL" or "COL:SEP". The name of a column may have a colon in it.
Column parse_column(const TableSchema& schema, const std::string& text) {
  const auto is_column = [&](const std::string& name) {
    return name == schema.key || std::any_of(schema.columns.begin(), schema.columns.end(),
                                             [&](const Column& c) { return c.name == name; });
  };
  for (std::size_t colon = text.size(); !is_column(text) && colon-- > 0;) {
    if (text[colon] != ':' || !is_column(text.substr(0, colon))) continue;
    if (colon + 1 == text.size()) {
      throw UsageError(
          fmt::format("{}: nothing after the colon; say what separates values", in_quotes(text)));
    }
    const std::string separator = text.substr(colon + 1);
    refuse_list_of_columns(schema, separator, in_quotes(text));
    return {.name = text.substr(0, colon), .separator = separator};
  }
  return {.name = text};
}

int report(const RedefineOptions& options, const char* what, const IndexStatistics& before,
           const Stopwatch& watch) {
  work_is_done(options.target.folder);
  const SecondaryIndex index = open_changed(options.target);
  const IndexStatistics now = index.statistics();
  if (options.target.json) {
    Json json;
    json["index"] = options.target.folder;
    add_definition(json, index.schema(), index.plan());
    json["rows"] = now.rows;
    add_sizes(json, now);
    json["seconds"] = watch.seconds();
    print_json(json);
    return kOk;
  }
  const TableSchema& schema = index.schema();
  print_text(fmt::format(
      "{}: {} {}; indexed: {}\n  values {}, {} before; filters {}, {} before; in {:.2f} s\n",
      options.target.folder, counted(options.columns.size(), "column"), what,
      indexed_columns(schema), grouped(now.values), grouped(before.values),
      human_bytes(now.filter_bytes), human_bytes(before.filter_bytes), watch.seconds()));
  if (indexed_columns(schema) == "none") {
    note("no column is indexed now, so 'index query' can find nothing");
  }
  return kOk;
}

int add_column(const RedefineOptions& options) {
  const Stopwatch watch;
  std::optional<SecondaryIndex> index = options.target.open_read_only();
  const IndexStatistics before = index->statistics();
  std::vector<Column> columns;
  for (const std::string& text : options.columns) {
    columns.push_back(parse_column(index->schema(), text));
  }
  index.reset();
  Progress progress(options.run.progress, "indexing", before.rows, "row");
  SecondaryIndex::add_columns(
      options.target.folder, columns,
      [&](std::uint64_t done, std::uint64_t) { progress.update(done, done); });
  progress.finish(before.rows, before.rows);
  return report(options, "added", before, watch);
}

int drop_column(const RedefineOptions& options) {
  const Stopwatch watch;
  const IndexStatistics before = options.target.open_read_only().statistics();
  SecondaryIndex::drop_columns(options.target.folder, options.columns);
  return report(options, "dropped", before, watch);
}

}  // namespace

Run set_up_index_replan(CommandLine& line) {
  auto options = std::make_shared<RedefineOptions>();
  RedefineOptions& o = *options;
  o.target.add_to(line, "Print a report as JSON");
  line.option("--fpr", "P",
              "Bound on the false-positive rate of a region's filter; default: as it is",
              [&o](const std::string& text) { o.fpr = parse_rate("--fpr", text); });
  line.option(
      "--region-values", "N",
      "Distinct values for which a region's filter is sized; default: those with which the "
      "filters take the least memory for what the regions hold, and a quarter more",
      [&o](const std::string& text) { o.region_values = parse_count("--region-values", text); });
  line.flag("--dry-run", "Only say what the filters would take", o.dry_run);
  line.footer(
      R"(All filters are built anew for what the index holds now. The report shows their memory and rates
before and after; with --dry-run those after are computed. No other process may have the index open for
writing; those that read it go on with the filters they have. If the command is interrupted, the index has
the old plan or the new one, and filters that are missing are built when it is next opened.

Examples:
  scbf index replan packages.index --dry-run
  scbf index replan packages.index --fpr 0.1%)");
  return [options] { return replan(*options); };
}

Run set_up_index_add_column(CommandLine& line) {
  auto options = std::make_shared<RedefineOptions>();
  RedefineOptions& o = *options;
  o.target.add_to(line, "Print a report as JSON");
  line.positionals("COL[:SEP]",
                   "Columns of the table to index; after a colon, the separator between the values "
                   "of a field",
                   o.columns, CommandLine::Need::required);
  o.run.add_progress_to(line);
  line.footer(
      R"(Indexes columns of the table that were not indexed, from the rows that are there. All of them are
added, or none. Once the command has ended, queries find all rows by the new columns. If it is
interrupted, the index has the old columns or the new ones, and filters that are missing are built when it
is next opened. No other process may have the index open for writing; those that read it show it as it was
before until they refresh.

Examples:
  scbf index add-column people.index name
  scbf index add-column packages.index section depends:,)");
  return [options] { return add_column(*options); };
}

Run set_up_index_drop_column(CommandLine& line) {
  auto options = std::make_shared<RedefineOptions>();
  options->target.add_to(line, "Print a report as JSON");
  line.positionals("COL", "Columns that are indexed no longer", options->columns,
                   CommandLine::Need::required);
  line.footer(
      R"(The fields of these columns stay in the rows; only queries by them end. Their entries are erased and
the space is given back. No other process may have the index open for writing.

Examples:
  scbf index drop-column packages.index maintainer)");
  return [options] { return drop_column(*options); };
}

}  // namespace scbf::cli
