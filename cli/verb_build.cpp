// SPDX-License-Identifier: Apache-2.0
// scbf build: keys in, filter file out.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

constexpr double kDefaultFpr = 0.01;

struct Options {
  ShapeOptions shape;
  KeyOptions keys;
  RunOptions run;
  std::uint64_t seed = 0;
  std::string out;
  bool scalable = false;
  std::optional<Growth::Policy> policy = {};
  std::optional<double> factor = {}, tightening = {}, stage_fpr = {};
};

std::uint64_t counted_capacity(const std::vector<std::string>& sources, KeyKind kind,
                               const RunOptions& run) {
  if (!all_regular(sources)) {
    throw UsageError(
        "build: --capacity is missing, and keys that come from standard input or a pipe cannot be "
        "counted first: give an upper bound such as --capacity 1e7, or name regular files");
  }
  const KeyReader lengths(sources, kind);
  Progress progress(run.progress, "counting", lengths.total_bytes());
  const std::uint64_t keys =
      count_keys(sources, kind, [&](std::uint64_t k, std::uint64_t b) { progress.update(k, b); });
  progress.finish(keys, lengths.total_bytes().value_or(0));
  return std::max<std::uint64_t>(keys, 1);
}

constexpr std::uint64_t kDefaultFirstCapacity = 100'000;

Growth growth_of(const Options& options) {
  const PlanRequest& shape = options.shape.request;
  const double fpr = shape.fpr.value_or(kDefaultFpr);
  if (shape.groups || shape.probes) {
    throw UsageError("build: --groups and --probes: with --scalable, each stage has its own");
  }
  if (options.policy.value_or(Growth::Policy::tightening) == Growth::Policy::fixed) {
    if (!shape.memory_bytes || !options.stage_fpr || shape.capacity || options.factor ||
        options.tightening) {
      throw UsageError(
          "build: --policy fixed needs --memory and --stage-fpr, of one stage, and --fpr, of all; "
          "and takes no --capacity, --growth or --tightening");
    }
    return plan_fixed(*shape.memory_bytes, *options.stage_fpr, fpr,
                      shape.layout.value_or(Layout::split_block))
        .growth;
  }
  if (shape.memory_bytes || options.stage_fpr) {
    throw UsageError("build: --memory and --stage-fpr go with --scalable --policy fixed");
  }
  return Growth::tightening(shape.capacity.value_or(kDefaultFirstCapacity), fpr,
                            shape.layout.value_or(Layout::split_block),
                            options.factor.value_or(kDefaultGrowth),
                            options.tightening.value_or(kDefaultTightening));
}

/// A filter full of keys, saved, and what that took.
struct Built {
  AnyFilter filter;
  KeyKind kind;
  std::uint64_t keys, empty_lines, input_bytes;
  double seconds, save_seconds;
  Summary summary;

  double rate() const { return seconds > 0 ? static_cast<double>(keys) / seconds : 0; }
};

/// Puts the keys of all sources into what make() returns.
template <class Make>
Built build_from(const Options& options, KeyKind kind, Make make) {
  const RunOptions& run = options.run;
  const Stopwatch watch;
  KeyReader reader(options.keys.sources(), kind);
  AnyFilter filter = make(FilterOptions{.seed = options.seed, .backend = run.backend});
  {
    Progress progress(run.progress, "building", reader.total_bytes());
    for_each_block(reader, run.overlap(), [&](const KeyBlock& block) {
      filter.insert(block.batch(), run.batch());
      progress.update(block.keys_so_far(), block.bytes_so_far());
    });
    progress.finish(reader.keys(), reader.bytes_read());
  }
  const double seconds = watch.seconds();
  const Stopwatch save_watch;
  save_filter(filter, options.out);
  const double save_seconds = save_watch.seconds();
  const Summary summary = filter.summary(run.batch());
  return {std::move(filter),   kind,    reader.keys(), reader.empty_lines(),
          reader.bytes_read(), seconds, save_seconds,  summary};
}

/// What reports on filters of both kinds begin with,
Json report_head(const Options& options, const Built& built) {
  Json json;
  json["file"] = options.out;
  json["keys"] = built.keys;
  json["empty_lines"] = built.empty_lines;
  json["input_bytes"] = built.input_bytes;
  json["seconds"] = built.seconds;
  json["keys_per_second"] = built.rate();
  json["save_seconds"] = built.save_seconds;
  json["backend"] = built.filter.backend().name();
  json["target"] = built.filter.backend().target();
  json["threads"] = options.run.resolved_threads();
  json["key_kind"] = to_string(built.kind);
  json["seed"] = options.seed;
  return json;
}
/// and what they have in the end.
void describe_summary(Json& json, const Summary& summary) {
  json["fill"] = summary.fill;
  json["saturated"] = summary.saturated;
  json["estimated_keys"] = summary.estimated_keys;
  json["estimated_fpr"] = summary.estimated_fpr;
}

void build_scalable(const Options& options, KeyKind kind) {
  const Growth growth = growth_of(options);
  const Built built = build_from(options, kind, [&](const FilterOptions& with) {
    ScalableFilter filter(growth, with);
    filter.set_metadata(write_notes({kind, std::nullopt, growth.fpr()}));
    return filter;
  });
  const Summary& summary = built.summary;
  const std::size_t stages = built.filter.scalable()->stages();
  if (options.run.json) {
    Json json = report_head(options, built);
    describe_growth(json, growth);
    json["stages"] = stages;
    json["bytes"] = summary.bytes;
    describe_summary(json, summary);
    json["fpr_bound"] = built.filter.scalable()->fpr_bound();
    print_json(json);
  } else if (options.out != "-") {
    print_text(fmt::format(
        "{}: {} keys in {:.2f} s, {} keys/s; {} stage{}, {}; estimated rate {}\n", options.out,
        grouped(built.keys), built.seconds, human_rate(built.rate()), stages,
        stages == 1 ? "" : "s", human_bytes(summary.bytes), percent(summary.estimated_fpr)));
  }
}

void build_plain(const Options& options, KeyKind kind) {
  const RunOptions& run = options.run;
  PlanRequest request = options.shape.request;
  if (!request.fpr && !request.memory_bytes) request.fpr = kDefaultFpr;
  const Stopwatch count_watch;
  const bool counted = !request.capacity && !(request.fpr && request.memory_bytes);
  if (counted) request.capacity = counted_capacity(options.keys.sources(), kind, run);
  const double count_seconds = counted ? count_watch.seconds() : 0;
  const Plan shape = plan(request);

  const FilterNotes notes{kind, shape.capacity, shape.fpr};
  const Built built = build_from(options, kind, [&](const FilterOptions& with) {
    Filter filter(shape.geometry, with);
    filter.set_metadata(write_notes(notes));
    return filter;
  });
  const Summary& summary = built.summary;
  if (run.json) {
    Json json = report_head(options, built);
    json["count_seconds"] = count_seconds;
    json["capacity"] = shape.capacity;
    json["capacity_counted"] = counted;
    json["fpr"] = shape.fpr;
    json["predicted_fpr"] = shape.predicted_fpr;
    describe_geometry(json, shape.geometry);
    describe_summary(json, summary);
    json["reason"] = shape.reason;
    print_json(json);
  } else if (options.out != "-") {
    const Backend& backend = built.filter.backend();
    print_text(fmt::format(
        "{}: {} keys{} in {:.2f} s, {} keys/s ({} {}, threads: {})\n"
        "{}, {}; capacity {}{}; fill {}, {} saturated; estimated rate {}\n",
        options.out, grouped(built.keys),
        built.empty_lines > 0 ? fmt::format(" ({} empty lines)", grouped(built.empty_lines)) : "",
        built.seconds, human_rate(built.rate()), backend.name(), backend.target(),
        run.resolved_threads(), shape.geometry.describe(), human_bytes(summary.bytes),
        grouped(shape.capacity), counted ? " (counted, repetitions included)" : "",
        percent(summary.fill), grouped(summary.saturated), percent(summary.estimated_fpr)));
  }
  warn_if_over_capacity(built.keys, notes, summary.estimated_fpr);
}

int build(const Options& options) {
  if (!options.scalable &&
      (options.policy || options.factor || options.tightening || options.stage_fpr)) {
    throw UsageError("build: --policy, --growth, --tightening and --stage-fpr go with --scalable");
  }
  find_backend(options.run.backend);  // before any work is done in vain
  check_output(options.out, options.run.json);
  const KeyKind kind = options.keys.kind.value_or(KeyKind::lines);
  if (options.scalable) {
    build_scalable(options, kind);
  } else {
    build_plain(options, kind);
  }
  return kOk;
}

}  // namespace

Run set_up_build(CommandLine& line) {
  auto options = std::make_shared<Options>();
  options->shape.add_to(line);
  options->keys.add_to(line, false);
  line.option(
      "--seed", "S", "Seed of the hash; default 0. Only filters of one seed can be merged",
      [o = options.get()](const std::string& text) { o->seed = parse_seed("--seed", text); });
  line.flag("--scalable", "A filter that grows in stages; --capacity is that of the first one",
            options->scalable);
  line.option(
      "--policy", "POLICY",
      "tightening (default: later stages larger and stricter) or fixed (identical stages of "
      "--memory bytes and rate --stage-fpr, as many as --fpr allows)",
      [o = options.get()](const std::string& text) {
        if (text != "tightening" && text != "fixed") {
          throw UsageError(fmt::format("--policy '{}': must be tightening or fixed", text));
        }
        o->policy = text == "fixed" ? Growth::Policy::fixed : Growth::Policy::tightening;
      });
  line.option("--growth", "G", "Keys of each stage over those of the one before; default 2",
              [o = options.get()](const std::string& text) {
                o->factor = parse_real("--growth", text, 1, 1024);
              });
  line.option("--tightening", "R", "Rate of each stage over that of the one before; default 0.8",
              [o = options.get()](const std::string& text) {
                o->tightening = parse_rate("--tightening", text);
              });
  line.option("--stage-fpr", "P", "Rate of one stage, at half fill",
              [o = options.get()](const std::string& text) {
                o->stage_fpr = parse_rate("--stage-fpr", text);
              });
  line.option("-o,--output", "FILE", "The filter file; replaced as a whole; - for a pipe",
              options->out, CommandLine::Need::required);
  options->run.add_backend_to(line);
  options->run.add_scratch_to(line);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON");
  line.footer(
      R"(Without --capacity, regular files are read twice: their keys are counted first, repetitions
included, so the filter is large enough. Without --fpr and --memory the rate is 1%.
'seconds' is reading and inserting; counting and saving are reported beside it.

Examples:
  scbf build --fpr 0.1% -o words.scbf words.txt more_words.txt
  zcat urls.gz | scbf build --capacity 50M --fpr 1% -o urls.scbf
  tail -f log | head -n 1000000 | scbf build --scalable --capacity 10k -o seen.scbf
  scbf gen --keys 1e8 | scbf build --keys u64 --capacity 1e8 --threads 1 -o ids.scbf --json)");
  return [options] { return build(*options); };
}

}  // namespace scbf::cli
