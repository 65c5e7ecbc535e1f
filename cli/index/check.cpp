// SPDX-License-Identifier: Apache-2.0
// scbf index stats, checkpoint and check: show an index, save its filters, check its consistency.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "options.hpp"
#include "reports.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"

namespace scbf::cli {

namespace {

struct CheckOptions {
  IndexTarget target;
  RunOptions run;
  bool repair = false, prometheus = false, each_region = false;
};

Json recovery_json(const RecoveryReport& found) {
  Json json;
  json["replayed"] = found.replayed;
  json["changes_replayed"] = found.changes_replayed;
  json["rebuilt"] = found.rebuilt;
  json["asked_always"] = found.asked_always;
  json["reasons"] = found.reasons;
  return json;
}

Json freshness_json(const Freshness& freshness) {
  Json json;
  json["number"] = freshness.number;
  json["as_of"] =
      std::chrono::duration<double>(freshness.as_of.time_since_epoch()).count();  // Unix time
  return json;
}

std::string utc_text(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts = {};
  char text[sizeof "2026-11-29 12:00:00 UTC"];
  gmtime_r(&seconds, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

int stats(const CheckOptions& options) {
  if (options.prometheus && options.target.json) {
    throw UsageError("--prometheus and --json: only one of them");
  }
  if (options.each_region && !options.prometheus) {
    throw UsageError("--each-region goes with --prometheus; 'scbf index regions' lists regions");
  }
  const SecondaryIndex index = options.target.open_read_only();
  if (options.prometheus) {
    print_text(
        index.metrics(options.each_region ? MetricsDetail::each_region : MetricsDetail::totals));
    return kOk;
  }
  const IndexStatistics s = index.statistics();
  const IndexPlan& plan = index.plan();
  const TableSchema& schema = index.schema();
  if (options.target.json) {
    Json json;
    json["index"] = options.target.folder;
    json["rows"] = s.rows;
    add_sizes(json, s);
    add_definition(json, schema, plan);
    json["recovery"] = recovery_json(index.recovery());
    json["freshness"] = freshness_json(index.freshness());
    print_json(json);
    return kOk;
  }
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<20} {}\n", name, value);
  };
  row("key", schema.key);
  row("indexed columns", indexed_columns(schema));
  row("rows", grouped(s.rows));
  row("values", fmt::format("{}, counted in each region", grouped(s.values)));
  row("regions", fmt::format("{} on {}", grouped(s.regions), counted(s.servers, "server")));
  row("filters", fmt::format("{} of counters, in a writer", human_bytes(s.filter_bytes)));
  row("rows of bits", fmt::format("{}, in a writer and in readers", human_bytes(s.bit_row_bytes)));
  row("store", fmt::format("about {} on disk", human_bytes(s.store_bytes)));
  row("rate of a region", fmt::format("at most {}", percent(plan.fpr)));
  row("made for", counted(plan.region_values, "value") + " per region");
  const Freshness freshness = index.freshness();
  row("as of", fmt::format("{}, change {}", utc_text(freshness.as_of), grouped(freshness.number)));
  if (const RecoveryReport& r = index.recovery(); r.replayed > 0) {
    row("brought up to date", fmt::format("filters of {}, by {}", counted(r.replayed, "region"),
                                          counted(r.changes_replayed, "change")));
  }
  print_text(text);
  return kOk;
}

int checkpoint(const CheckOptions& options) {
  SecondaryIndex index = options.target.open();
  const Stopwatch watch;
  index.checkpoint();
  work_is_done(options.target.folder);
  const double seconds = watch.seconds();
  if (options.target.json) {
    print_json(Json{{"index", options.target.folder}, {"seconds", seconds}});
  } else {
    print_text(fmt::format("{}: filters saved in {:.2f} s\n", options.target.folder, seconds));
  }
  return kOk;
}

CheckReport compare(const CheckOptions& options, const SecondaryIndex& index) {
  Progress progress(options.run.progress, "checking", index.statistics().rows, "row");
  const CheckReport report =
      index.check([&](std::uint64_t done, std::uint64_t) { progress.update(done, done); });
  progress.finish(report.rows, report.rows);
  return report;
}

/// Rebuilds the filters of regions that are always asked or in which the check found a problem.
/// Returns how many.
std::uint32_t repair(SecondaryIndex& index, const CheckReport& report) {
  std::uint32_t rebuilt = 0;
  for (const RegionInfo& region : index.regions()) {
    const bool bad =
        std::find(report.regions.begin(), report.regions.end(), region.id) != report.regions.end();
    if (!region.asked_always && !bad) continue;
    try {
      index.rebuild(region.id);
      ++rebuilt;
    } catch (const CorruptFile& error) {  // the rows or values themselves; the next check tells
      note(fmt::format("region {}: cannot be repaired: {}", region.id, error.what()));
    }
  }
  if (rebuilt > 0) index.checkpoint();
  return rebuilt;
}

/// For a check without repair, an index that cannot be opened for writing will do.
SecondaryIndex open_for_check(const IndexTarget& target, bool repair) {
  if (repair) return target.open();
  try {
    return target.open();
  } catch (const IoError&) {
    return target.open_read_only();
  }
}

int check(const CheckOptions& options) {
  IndexTarget target = options.target;
  target.options.rebuild = false;  // the check must see the filters as they are
  SecondaryIndex index = open_for_check(target, options.repair);
  const RecoveryReport found = index.recovery();
  const Stopwatch watch;
  CheckReport report = compare(options, index);
  std::uint32_t rebuilt = 0, asked = found.asked_always;
  if (options.repair) {
    const bool again = report.problem_count > 0;
    rebuilt = repair(index, report);
    if (rebuilt > 0) work_is_done(target.folder);
    asked = 0;
    if (again) report = compare(options, index);
  }
  // Beside a writer, its files and its memory differ at any moment, so a reader's check of filters
  // says nothing.
  if (index.read_only()) asked = 0;
  const bool ok = report.problem_count == 0 && asked == 0;
  if (target.json) {
    Json json;
    json["index"] = target.folder;
    json["ok"] = ok;
    json["rows"] = report.rows;
    json["postings"] = report.postings;
    json["values"] = report.values;
    json["problem_count"] = report.problem_count;
    json["problems"] = report.problems;
    json["asked_always"] = asked;
    json["rebuilt"] = rebuilt;
    json["recovery"] = recovery_json(found);
    json["read_only"] = index.read_only();
    json["seconds"] = watch.seconds();
    print_json(json);
    return ok ? kOk : kCorrupt;
  }
  for (const std::string& problem : report.problems) note(problem);
  if (report.problem_count > report.problems.size()) {
    note(fmt::format("and {} more", grouped(report.problem_count - report.problems.size())));
  }
  if (!options.repair) {
    for (const std::string& reason : found.reasons) note(reason);
  }
  if (!ok) {
    const std::string filters =
        asked > 0 ? counted(asked, "region") + " without a filter to trust" : "";
    const std::string problems =
        report.problem_count > 0 ? counted(report.problem_count, "problem") : "";
    note(fmt::format("{}: {}{}{}{}", in_quotes(target.folder), problems,
                     problems.empty() || filters.empty() ? "" : ", ", filters,
                     options.repair ? "" : "; --repair rebuilds the filters"));
    return kCorrupt;
  }
  print_text(
      fmt::format("{}: ok: {}, {}, {} of the local indexes{}{}\n", target.folder,
                  counted(report.rows, "row"), counted(report.values, "value"),
                  report.postings == 1 ? "1 entry" : grouped(report.postings) + " entries",
                  index.read_only() ? "; saved filters were not judged, as the index cannot "
                                      "be opened for writing"
                                    : "",
                  rebuilt > 0 ? fmt::format("; {} rebuilt", counted(rebuilt, "filter")) : ""));
  return kOk;
}

}  // namespace

Run set_up_index_stats(CommandLine& line) {
  auto options = std::make_shared<CheckOptions>();
  options->target.add_to(line, "Print JSON");
  line.flag("--prometheus", "Print metrics in Prometheus's text format", options->prometheus);
  line.flag("--each-region", "With --prometheus: also metrics of each region",
            options->each_region);
  line.footer(
      R"(Metrics are for a collector that reads text files, such as that of node_exporter; an index that another
process writes may be asked as well. They are those of the files, so the counters of queries and writes,
which begin when a process opens the index, are 0: a program that serves an index gives its own by
SecondaryIndex::metrics.

Examples:
  scbf index stats packages.index
  scbf index stats packages.index --prometheus > packages.prom)");
  return [options] { return stats(*options); };
}

Run set_up_index_checkpoint(CommandLine& line) {
  auto options = std::make_shared<CheckOptions>();
  options->target.add_to(line, "Print a report as JSON");
  line.footer(
      R"(Filters are also saved automatically, from time to time and when an index is closed.

Examples:
  scbf index checkpoint packages.index)");
  return [options] { return checkpoint(*options); };
}

Run set_up_index_check(CommandLine& line) {
  auto options = std::make_shared<CheckOptions>();
  options->target.add_to(line, "Print a report as JSON");
  line.flag("--repair",
            "Rebuild the filters that cannot be trusted, and those of regions with problems",
            options->repair);
  options->run.add_progress_to(line);
  line.footer(
      R"(Compares every row with the local index of its region, and the local index with the region's filter.
The exit code is 4 if there are problems that --repair was not asked to repair or could not repair.
--repair rebuilds filters from the local indexes. It cannot help if local indexes and rows disagree.
If the index cannot be opened for writing, because another process has it open or a permission is missing,
everything is checked but whether the saved filters are up to date.

Examples:
  scbf index check packages.index
  scbf index check packages.index --repair)");
  return [options] { return check(*options); };
}

}  // namespace scbf::cli
