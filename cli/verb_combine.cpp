// SPDX-License-Identifier: Apache-2.0
// scbf merge and scbf subtract: add whole filters to a filter, or subtract them from it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "describe.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "too_full.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct CombineOptions {
  std::string file;
  std::vector<std::string> others;
  std::string out;
  double most_fpr = kMostFpr;  ///< of a merged filter; nothing is written above it
  bool force = false;
  bool compress = false;
  RunOptions run;

  void add_to(CommandLine& line) {
    line.positional("FILE", "The filter to change; - is standard input, which takes -o", file);
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
    add_compress_to(line, compress);
  }
};

/// A filter of the same kind as the one to change: the bits of counters serve for bits.
template <class OneFilter>
OneFilter open_other(const std::string& file, const RunOptions& run) {
  if constexpr (std::is_same_v<OneFilter, BloomFilter>) {
    return load_as<BloomFilter>(file, FilterOptions{.backend = run.backend});
  } else {
    return counters_of(open_for_changes(file, run), file,
                       "which cannot be combined with counters: 'scbf project' makes bits of them");
  }
}

/// The filter to change, and where it goes.
struct Combining {
  Combining(const CombineOptions& o, bool merges)
      : options(o),
        adds(merges),
        to(changed_filter(
            o.file, o.out,
            {.force = o.force, .json = o.run.json, .inputs = o.others, .way_out = "use -o OUT"})) {
    std::vector<std::string> inputs = o.others;
    inputs.insert(inputs.begin(), o.file);
    check_inputs(inputs);
    opened.emplace(open_for_changes(o.file, o.run));
  }

  const CombineOptions& options;
  bool adds;  ///< or subtracts
  Destination to;
  std::optional<Changeable> opened;
};

/// Calls combine(filter, other, report) for each other filter, saves the filter, and completes and
/// prints `report`. `verb` is the past tense of the operation.
template <class OneFilter, class Combine>
int combine_all(OneFilter filter, const Combining& combining, const char* verb, Json report,
                const Combine& combine) {
  const CombineOptions& options = combining.options;
  const Epoch before = epoch_of(filter);
  const std::optional<KeyKind> noted = read_notes(filter.metadata()).kind;
  std::optional<KeyKind> kind = noted;
  bool both_kinds = false, perhaps_both = false, unnoted = false;
  for (const std::string& name : options.others) {
    // Loaded, not mapped: only a verified filter may be added to another.
    const auto other = open_other<OneFilter>(name, options.run);
    const FilterNotes notes = read_notes(other.metadata());
    check_kinds(read_notes(filter.metadata()), options.file, notes, name, options.force);
    if (combining.adds && kind && other.keys_inserted() > 0) {
      const bool had_keys = filter.keys_inserted() > 0;
      if (!notes.kind) {
        unnoted = true;
        perhaps_both |= had_keys;
      } else if (*notes.kind != *kind) {
        both_kinds |= had_keys;
        kind = notes.kind;
      }
    }
    try {
      combine(filter, other, report);
    } catch (const Incompatible& error) {
      throw Incompatible(fmt::format("{} and {}: {}", display_name(options.file),
                                     display_name(name), error.what()));
    }
  }
  if (both_kinds || unnoted) kind.reset();
  if (kind != noted) filter.set_metadata(with_kind(filter.metadata(), kind));
  // A difference only becomes emptier.
  if (combining.adds) {
    check_rate(filter, options.most_fpr,
               {.name = display_name(options.file),
                .way_out = "merge fewer, or build larger filters",
                .planned = read_notes(filter.metadata()).fpr});
  }
  const Destination& to = combining.to;
  const Statistics statistics =
      save_filter(filter, to, options.run,
                  {.compress = options.compress || combining.opened->compressed})
          .statistics;
  const std::uint64_t keys = keys_left(statistics.keys_inserted, statistics.keys_removed);
  report["file"] = to.path();
  report["filters"] = options.others.size();
  report["keys"] = report["keys_in_filter"] = keys;
  describe_size(report, filter);
  describe_fill(report, statistics);
  if (options.run.json) {
    print_json(report);
  } else {
    to.report(fmt::format("{}: {} {}; {} now, fill {}, {} saturated\n", to.path(), verb,
                          counted(options.others.size(), "filter"), counted(keys, "key"),
                          percent(statistics.fill), grouped(statistics.saturated)));
  }
  if (both_kinds || perhaps_both) {
    note_both_kinds(both_kinds ? "the filter holds" : "the filter may hold", "query");
  }
  warn_of_saturated(saturated_counters(statistics));
  warn_if_too_full(keys, read_notes(filter.metadata()), statistics);
  note_end_of(before, filter, options.file);
  return kOk;
}

int merge(const CombineOptions& options) {
  Combining combining(options, true);
  return std::visit(
      [&](auto&& filter) {
        return combine_all(
            std::forward<decltype(filter)>(filter), combining, "merged", Json::object(),
            [&](auto& into, const auto& other, Json&) { into.merge(other, options.run.batch()); });
      },
      std::move(combining.opened->filter));
}

int subtract(const CombineOptions& options) {
  std::uint64_t inexact = 0;
  Combining combining(options, false);
  const int code =
      combine_all(counters_of(std::move(*combining.opened), options.file,
                              "which does not count: nothing can be subtracted"),
                  combining, "subtracted", Json{{"inexact_counters", std::uint64_t{0}}},
                  [&](Filter& filter, const Filter& other, Json& report) {
                    inexact += filter.subtract(other, options.run.batch()).inexact_counters;
                    report["inexact_counters"] = inexact;
                  });
  if (inexact > 0) {
    note(fmt::format("{} could not be lowered: there the difference is an upper bound",
                     counted(inexact, "saturated counter")));
  }
  return code;
}

}  // namespace

Run set_up_merge(CommandLine& line) {
  auto options = std::make_shared<CombineOptions>();
  options->add_to(line);
  add_max_fpr_to(line, options->most_fpr);
  line.footer(
      R"(Filters can be merged if layout, geometry and seed are equal: build them with the same --capacity,
--fpr and --seed. Filters that grow need only equal seeds; stages that cannot be merged are appended.
FILE may hold bits ('scbf project'); then the bits of all others are added, whatever these hold.
If filters cannot be merged, or the rate ends above --max-fpr, nothing is written and the exit code is 4.
Commands that change the same file run one after another.

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
that FILE does not contain is refused with exit code 4. Commands that change the same file run one
after another.

Examples:
  scbf subtract week.scbf monday.scbf
  scbf subtract week.scbf monday.scbf -o rest.scbf --json)");
  return [options] { return subtract(*options); };
}

}  // namespace scbf::cli
