// SPDX-License-Identifier: Apache-2.0
// scbf merge and scbf subtract: add whole filters to a filter, or subtract them from it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct CombineOptions {
  std::string file;
  std::vector<std::string> others;
  std::string out;
  bool force = false;
  RunOptions run;

  void add_to(CommandLine& line) {
    line.positional("FILE", "The filter to change; - is standard input", file);
    line.positionals("OTHER", "Filters of the same geometry and seed", others,
                     CommandLine::Need::required);
    line.option("-o,--output", "OUT",
                "Write here; default: replace FILE; - is standard output, and the report then goes "
                "to standard error",
                out);
    line.flag(
        "--force",
        "Combine even if one holds lines and the other u64 keys; replace OUT even if it is no "
        "filter",
        force);
    run.add_backend_to(line);
    run.add_json_to(line, "Print a report as JSON");
  }
};

void check_kinds(const Filter& filter, const Filter& other, const CombineOptions& options,
                 const std::string& other_file) {
  const auto kind = read_notes(filter.metadata()).kind;
  const auto other_kind = read_notes(other.metadata()).kind;
  if (options.force || !kind || !other_kind || *kind == *other_kind) return;
  throw Incompatible(fmt::format("{} holds {} keys, {} holds {} keys; --force combines them",
                                 display_name(options.file), to_string(*kind),
                                 display_name(other_file), to_string(*other_kind)));
}

/// Calls combine(filter, other) for each other filter, saves the filter, and completes and prints
/// `report`. `verb` is the past tense of the operation.
template <class Combine>
int combine_all(const CombineOptions& options, const char* verb, Json report,
                const Combine& combine) {
  const Destination to =
      changed_filter(options.file, options.out,
                     {.force = options.force, .json = options.run.json, .inputs = options.others});
  std::vector<std::string> inputs = options.others;
  inputs.insert(inputs.begin(), options.file);
  check_inputs(inputs);
  Filter filter = open_for_changes(options.file, options.run);
  for (const std::string& name : options.others) {
    // Loaded, not mapped: only a verified filter may be added to another.
    const Filter other = open_for_changes(name, options.run);
    check_kinds(filter, other, options, name);
    try {
      combine(filter, other, report);
    } catch (const Incompatible& error) {
      throw Incompatible(fmt::format("{} and {}: {}", display_name(options.file),
                                     display_name(name), error.what()));
    }
  }
  const Statistics statistics = save_filter(filter, to, options.run).statistics;
  const std::uint64_t keys = keys_left(statistics.keys_inserted, statistics.keys_removed);
  report["file"] = to.path();
  report["filters"] = options.others.size();
  report["keys"] = keys;
  describe_size(report, filter);
  describe_fill(report, statistics);
  if (options.run.json) {
    print_json(report);
  } else {
    to.report(fmt::format("{}: {} {}; {} now, fill {}, {} saturated\n", to.path(), verb,
                          counted(options.others.size(), "filter"), counted(keys, "key"),
                          percent(statistics.fill), grouped(statistics.saturated)));
  }
  warn_if_over_capacity(keys, read_notes(filter.metadata()), statistics.estimated_fpr);
  return kOk;
}

int merge(const CombineOptions& options) {
  return combine_all(options, "merged", Json::object(),
                     [&](Filter& filter, const Filter& other, Json&) {
                       filter.merge(other, options.run.batch());
                     });
}

int subtract(const CombineOptions& options) {
  std::uint64_t inexact = 0;
  const int code = combine_all(options, "subtracted", Json{{"inexact_counters", std::uint64_t{0}}},
                               [&](Filter& filter, const Filter& other, Json& report) {
                                 inexact +=
                                     filter.subtract(other, options.run.batch()).inexact_counters;
                                 report["inexact_counters"] = inexact;
                               });
  if (inexact > 0) {
    note(fmt::format("{} stayed at 15: there the difference is an upper bound",
                     counted(inexact, "saturated counter")));
  }
  return code;
}

}  // namespace

Run set_up_merge(CommandLine& line) {
  auto options = std::make_shared<CombineOptions>();
  options->add_to(line);
  line.footer(
      R"(Filters can be merged if layout, geometry and seed are equal: build them with the same --capacity,
--fpr and --seed. Filters that grow need only equal seeds; stages that cannot be merged are appended.
If filters cannot be merged, nothing is written and the exit code is 4.

Examples:
  scbf merge monday.scbf tuesday.scbf wednesday.scbf -o week.scbf
  scbf merge all.scbf today.scbf)");
  return [options] { return merge(*options); };
}

Run set_up_subtract(CommandLine& line) {
  auto options = std::make_shared<CombineOptions>();
  options->add_to(line);
  line.footer(
      R"(Undoes merge, except where counters are saturated; their number is reported. A filter
that FILE does not contain is refused with exit code 4.

Examples:
  scbf subtract week.scbf monday.scbf
  scbf subtract week.scbf monday.scbf -o rest.scbf --json)");
  return [options] { return subtract(*options); };
}

}  // namespace scbf::cli
