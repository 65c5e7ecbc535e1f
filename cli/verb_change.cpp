// SPDX-License-Identifier: Apache-2.0
// scbf insert and scbf remove: change the keys of an existing filter.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct Options {
  std::string file;
  std::string out;
  KeyOptions keys;
  RunOptions run;

  void add_to(CommandLine& line) {
    line.positional("FILE", "The filter", file);
    keys.add_to(line, true);
    line.option("-o,--output", "OUT", "Write here; default: replace FILE; - for a pipe", out);
    run.add_backend_to(line);
    run.add_scratch_to(line);
    run.add_progress_to(line);
    run.add_json_to(line, "Print a report as JSON");
  }
  const std::string& target() const { return out.empty() ? file : out; }
};

struct Change {
  const char* progress;
  /// Applies a batch and adds its counts to the report.
  void (*apply)(Filter&, const KeyBatch&, const BatchOptions&, Json& report);
  std::string (*describe)(const Json& report);
};

/// `report` must have the keys that apply() counts, all zero. Returns the complete report.
Json change(const Options& options, const Change& what, Json report) {
  const RunOptions& run = options.run;
  check_output(options.target(), run.json);
  Filter filter = open_for_changes(options.file, run);
  const FilterNotes notes = read_notes(filter.metadata());
  const KeyKind kind = agreed_kind(options.keys, notes, options.file);
  const Stopwatch watch;
  KeyReader reader(options.keys.sources(), kind);
  run.go_through(reader, what.progress, [&](const KeyBlock& block) {
    what.apply(filter, block.batch(), run.batch(), report);
  });
  const double seconds = watch.seconds();
  save_filter(filter, options.target());

  const Statistics statistics = filter.statistics(run.batch());
  const std::uint64_t keys = keys_left(statistics.keys_inserted, statistics.keys_removed);
  report["file"] = options.target();
  describe_work(report, reader, filter, run, seconds);
  describe_size(report, filter);
  report["keys_in_filter"] = keys;
  report["fill"] = statistics.fill;
  report["saturated"] = statistics.saturated;
  report["estimated_fpr"] = statistics.estimated_fpr;
  if (run.json) {
    print_json(report);
  } else if (options.target() != "-") {
    print_text(fmt::format("{}: {}; {} keys now, fill {}, {} saturated\n", options.target(),
                           what.describe(report), grouped(keys), percent(statistics.fill),
                           grouped(statistics.saturated)));
  }
  warn_if_over_capacity(keys, notes, statistics.estimated_fpr);
  return report;
}

void add(Json& report, const char* key, std::uint64_t value) {
  report[key] = report[key].get<std::uint64_t>() + value;
}

int insert(const Options& options) {
  const auto apply = [](Filter& filter, const KeyBatch& keys, const BatchOptions& batch,
                        Json& report) {
    add(report, "inserted", filter.insert(keys, batch).inserted);
  };
  const auto describe = [](const Json& report) {
    return fmt::format("inserted {}", grouped(report["inserted"].get<std::uint64_t>()));
  };
  change(options, {"inserting", apply, describe}, Json{{"inserted", std::uint64_t{0}}});
  return kOk;
}

int remove(const Options& options) {
  const auto apply = [](Filter& filter, const KeyBatch& keys, const BatchOptions& batch,
                        Json& report) {
    const RemoveReport removed = filter.remove(keys, {}, batch);
    add(report, "removed", removed.removed);
    add(report, "absent", removed.absent);
    add(report, "ambiguous", removed.ambiguous);
  };
  const auto describe = [](const Json& report) {
    const auto ambiguous = report["ambiguous"].get<std::uint64_t>();
    return fmt::format("removed {}, absent {}{}", grouped(report["removed"].get<std::uint64_t>()),
                       grouped(report["absent"].get<std::uint64_t>()),
                       ambiguous > 0 ? fmt::format(", ambiguous {}", grouped(ambiguous)) : "");
  };
  const Json report = change(options, {"removing", apply, describe},
                             Json{{"removed", std::uint64_t{0}},
                                  {"absent", std::uint64_t{0}},
                                  {"ambiguous", std::uint64_t{0}}});
  if (const auto ambiguous = report["ambiguous"].get<std::uint64_t>(); ambiguous > 0) {
    note(fmt::format("{} keys are claimed by several stages and were left where they are",
                     grouped(ambiguous)));
  }
  const bool found = report["removed"] > std::uint64_t{0} || report["keys"] == std::uint64_t{0};
  return found ? kOk : kNothingFound;
}

}  // namespace

Run set_up_insert(CommandLine& line) {
  auto options = std::make_shared<Options>();
  options->add_to(line);
  line.footer(
      R"(FILE is replaced as a whole after all keys are inserted; on failure it stays as it was.

Examples:
  scbf insert words.scbf new_words.txt
  scbf insert words.scbf -o more.scbf new_words.txt)");
  return [options] { return insert(*options); };
}

Run set_up_remove(CommandLine& line) {
  auto options = std::make_shared<Options>();
  options->add_to(line);
  line.footer(
      R"(An absent key is left alone and reported as absent; the exit code is 1 if all keys are absent.
Remove only keys that were inserted: removing a false positive takes counts away from other keys. In
a filter that grows, a key that several stages claim stays and is reported as ambiguous. FILE is
replaced as a whole; on failure it stays as it was.

Examples:
  scbf remove words.scbf retired.txt
  scbf remove words.scbf -o smaller.scbf retired.txt --json)");
  return [options] { return remove(*options); };
}

}  // namespace scbf::cli
