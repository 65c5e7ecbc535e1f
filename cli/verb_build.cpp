// SPDX-License-Identifier: Apache-2.0
// scbf build: makes a filter file from keys.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "counted_keys.hpp"
#include "describe.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "free_memory.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "too_full.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

constexpr std::uint64_t kDefaultFirstCapacity = 100'000;

struct BuildOptions {
  ShapeOptions shape;
  KeyOptions keys;
  RunOptions run;
  std::uint64_t seed = 0;
  std::string out;
  double most_fpr = kMostFpr;  ///< nothing is written above it
  bool scalable = false;
  bool bits = false, compress = false;
  Cell cell() const noexcept { return bits ? Cell::bit : Cell::counter; }
  std::optional<Growth::Policy> policy = {};
  std::optional<double> factor = {}, tightening = {}, stage_fpr = {};
};

CountedKeys count_first(const BuildOptions& options, const KeyFormat& format) {
  const std::vector<std::string> sources = options.keys.sources();
  if (!all_regular(sources)) {
    throw UsageError(
        "build: --capacity is missing, and keys that come from standard input or a pipe cannot be "
        "counted first: give an upper bound such as --capacity 1e7, or name regular files");
  }
  return {sources, format, options.seed, options.run, memory_to_spare() / 4};
}

Growth growth_of(const BuildOptions& options) {
  const PlanRequest& shape = options.shape.request;
  const double fpr = shape.fpr.value_or(kDefaultFpr);
  const Layout layout = shape.layout.value_or(Layout::split_block);
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
    return plan_fixed(*shape.memory_bytes, *options.stage_fpr, fpr, layout, shape.cell).growth;
  }
  if (shape.memory_bytes || options.stage_fpr) {
    throw UsageError("build: --memory and --stage-fpr go with --scalable --policy fixed");
  }
  return Growth::tightening(shape.capacity.value_or(kDefaultFirstCapacity), fpr, layout,
                            options.factor.value_or(kDefaultGrowth),
                            options.tightening.value_or(kDefaultTightening));
}

/// Notes on standard error that layout ranked, chosen to save memory, takes more than another: at
/// rates below some 10^-6.
void note_if_ranked_is_large(const Geometry& first, std::uint64_t capacity, double fpr, Cell cell) {
  if (first.layout() != Layout::ranked) return;
  const Geometry other = plan({.capacity = capacity, .fpr = fpr, .cell = cell}).geometry;
  const std::uint64_t own = first.with(cell).bytes(), others = other.with(cell).bytes();
  if (own <= others) return;
  note(fmt::format("layout ranked takes {} for {} at a rate of {:.3g}, and {} would take {}",
                   human_bytes(own), counted(capacity, "key"), fpr, to_string(other.layout()),
                   human_bytes(others)));
}

/// The filter to build.
struct Design {
  Growth growth;
  FilterNotes notes;
  std::optional<Plan> plan = {};            ///< the plan of a filter with a single stage
  std::optional<CountedKeys> counted = {};  ///< if its capacity was counted from the inputs
  double count_seconds = 0;
};

Design growing(const BuildOptions& options, const KeyFormat& format) {
  const Growth growth = growth_of(options);
  if (growth.policy() == Growth::Policy::tightening) {
    note_if_ranked_is_large(growth.first_geometry(), growth.first_capacity(), growth.stage(0).fpr,
                            options.cell());
  }
  return {.growth = growth, .notes = {.kind = format.kind, .fpr = growth.fpr()}};
}

Design single_stage(const BuildOptions& options, const KeyFormat& format) {
  PlanRequest request = options.shape.request;
  if (!request.fpr && !request.memory_bytes) request.fpr = kDefaultFpr;
  const Stopwatch watch;
  std::optional<CountedKeys> counted;
  if (!request.capacity && !(request.fpr && request.memory_bytes)) {
    counted = count_first(options, format);
    request.capacity = std::max<std::uint64_t>(counted->keys(), 1);
    if (counted->keys() == 0 && !request.memory_bytes) {
      note(
          "no keys were read, so the filter is planned for one; --capacity plans for those that "
          "come later");
    }
  }
  const double count_seconds = watch.seconds();
  const Plan shape = plan(request);
  note_if_ranked_is_large(shape.geometry, shape.capacity, shape.fpr, options.cell());
  return {.growth = Growth::one(shape.geometry),
          .notes = {.kind = format.kind, .capacity = shape.capacity, .fpr = shape.fpr},
          .plan = shape,
          .counted = std::move(counted),
          .count_seconds = count_seconds};
}

/// The result of a build: the filter with all keys, and the times.
struct Built {
  const FilterBase& filter;
  KeyTotals read;
  double seconds;  ///< of counting, reading and inserting
  Saved saved;
};

Json to_json(const BuildOptions& options, const Design& design, const Built& built) {
  Json json;
  json["file"] = options.out;
  json["kind"] = options.bits ? "bits" : "counters";
  describe_work(json, built.read, built.filter.backend(), options.run, built.seconds);
  json["input_bytes"] = built.read.bytes;
  json["save_seconds"] = built.saved.seconds;
  json["seed"] = options.seed;
  if (const std::optional<Plan>& plan = design.plan) {
    json["count_seconds"] = design.count_seconds;
    json["capacity"] = plan->capacity;
    json["capacity_counted"] = design.counted.has_value();
    json["hashes_kept"] = design.counted && design.counted->have_hashes();
    json["fpr"] = plan->fpr;
    json["predicted_fpr"] = plan->predicted_fpr;
    json["reason"] = plan->reason;
    describe_geometry(json, plan->geometry);
  } else {
    describe_growth(json, design.growth);
    json["fpr_bound"] = built.saved.statistics.fpr_bound;
  }
  describe_size(json, built.filter);
  describe_fill(json, built.saved.statistics);
  return json;
}

std::string to_text(const BuildOptions& options, const Design& design, const Built& built) {
  const Backend& backend = built.filter.backend();
  const Statistics& s = built.saved.statistics;
  const std::string keys = fmt::format("{}: {}", options.out, counted(built.read.keys, "key"));
  const std::string time = fmt::format(" in {:.2f} s, {} keys/s", built.seconds,
                                       human_rate(per_second(built.read.keys, built.seconds)));
  const std::string rate = "estimated rate " + percent(s.estimated_fpr);
  if (!design.plan) {
    return fmt::format("{}{}; {}, {}; {}\n", keys, time, counted(s.stages.size(), "stage"),
                       human_bytes(s.bytes), rate);
  }
  const std::string empty =
      built.read.empty_lines > 0
          ? fmt::format(" ({})", counted(built.read.empty_lines, "empty line"))
          : "";
  return fmt::format(
      "{}{}{} ({} {}, threads: {})\n{}, {}; capacity {}{}; fill {}, {} saturated; {}\n", keys,
      empty, time, backend.name(), backend.target(), options.run.resolved_threads(),
      design.plan->geometry.describe(), human_bytes(s.bytes), grouped(design.plan->capacity),
      design.counted.has_value() ? " (counted, repetitions included)" : "", percent(s.fill),
      grouped(s.saturated), rate);
}

template <class OneFilter>
OneFilter empty_filter(Design& design, const BuildOptions& options) {
  const Growth& growth = design.growth;
  for (;;) {
    try {
      return OneFilter(growth, {.seed = options.seed, .backend = options.run.backend});
    } catch (const std::bad_alloc&) {
      if (!design.counted || !design.counted->have_hashes()) break;
      design.counted->forget_hashes();  // the inputs are read again instead
    }
  }
  const Cell cell = options.cell();
  throw IoError(fmt::format(
      "build: no memory for {} of {}s; a smaller --capacity or --memory, or a higher --fpr, takes "
      "less ('scbf plan' says how much)",
      human_bytes(growth.first_geometry().with(cell).bytes()), to_string(cell)));
}

template <class OneFilter>
int build_as(const BuildOptions& options, Design design, const KeyFormat& format,
             const Stopwatch& watch, const Destination& to) {
  const RunOptions& run = options.run;
  auto filter = empty_filter<OneFilter>(design, options);
  filter.set_metadata(write_notes(design.notes));
  const Refusal refusal{.name = to.is_standard_output() ? "the filter" : in_quotes(options.out),
                        .planned = design.notes.fpr};
  const KeyTotals read = insert_or_refuse(filter, refusal, [&] {
    return insert_keys(filter, options.keys.sources(), format, design.counted, run, "building");
  });
  check_rate(filter, options.most_fpr, refusal);
  const double seconds = watch.seconds();
  const Built built{filter, read, seconds,
                    save_filter(filter, to, run, {.compress = options.compress})};
  if (run.json) {
    print_json(to_json(options, design, built));
  } else {
    to.report(to_text(options, design, built));
  }
  warn_of_saturated(saturated_counters(built.saved.statistics));
  warn_if_too_full(read.keys, design.notes, built.saved.statistics);
  return kOk;
}

int build(const BuildOptions& options) {
  if (!options.scalable &&
      (options.policy || options.factor || options.tightening || options.stage_fpr)) {
    throw UsageError("build: --policy, --growth, --tightening and --stage-fpr go with --scalable");
  }
  const RunOptions& run = options.run;
  find_backend(run.backend);  // throws before any work is done
  const std::vector<std::string> sources = options.keys.sources();
  check_inputs(sources);
  const Destination to("-o " + in_quotes(options.out), options.out,
                       {.force = options.keys.force, .json = run.json, .inputs = sources});
  const KeyFormat format = options.keys.format_for(options.keys.kind.value_or(KeyKind::lines));
  const Stopwatch watch;
  Design design = options.scalable ? growing(options, format) : single_stage(options, format);
  return options.bits ? build_as<BloomFilter>(options, std::move(design), format, watch, to)
                      : build_as<Filter>(options, std::move(design), format, watch, to);
}

}  // namespace

Run set_up_build(CommandLine& line) {
  auto options = std::make_shared<BuildOptions>();
  options->shape.add_to(line);
  options->keys.add_to(line, false);
  line.option(
      "--seed", "S", "Seed of the hash; default 0. Only filters of one seed can be merged",
      [o = options.get()](const std::string& text) { o->seed = parse_seed("--seed", text); });
  line.flag("--scalable",
            "A filter that grows in stages; --capacity is that of the first one, default " +
                grouped(kDefaultFirstCapacity),
            options->scalable);
  add_max_fpr_to(line, options->most_fpr);
  line.option(
      "--policy", "POLICY",
      "tightening (default: later stages larger and stricter) or fixed (identical stages of "
      "--memory bytes and rate --stage-fpr, as many as --fpr allows)",
      [o = options.get()](const std::string& text) {
        o->policy = parse_word<Growth::Policy>(
            "--policy", text,
            {{"tightening", Growth::Policy::tightening}, {"fixed", Growth::Policy::fixed}});
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
  line.option(
      "-o,--output", "FILE",
      "The filter file; replaced as a whole; - is standard output, and the report then goes to "
      "standard error",
      options->out, CommandLine::Need::required);
  options->run.add_backend_to(line);
  options->run.add_scratch_to(line, "a quarter of the filter's size");
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON");
  line.flag("--bits",
            "Keep a bit for each counter: a Bloom filter of a quarter of the size (layout ranked: "
            "more), from which no key "
            "can be removed; --memory is that of the bits",
            options->bits);
  add_compress_to(line, options->compress);
  line.footer(
      R"(Without --capacity, the keys of regular files are counted first, repetitions included, so the filter
is large enough. Their hashes are kept, 8 bytes each, while a quarter of the free memory is enough for
them; otherwise the files are read again. Without --fpr and --memory the rate is 1%. gzip and zstd are
decompressed; filters, UTF-16 and lines with zero bytes (in the first 64 KiB) are refused; --raw takes them.
'seconds' covers counting, reading and inserting; saving is reported separately. The exit code is 4 if the
rate ends above --max-fpr, and 3 if a filter of --policy fixed becomes full; then nothing is written.

Examples:
  scbf build --fpr 0.1% -o words.scbf words.txt more_words.txt
  scbf build --fpr 1% -o urls.scbf urls.gz more_urls.zst
  scbf build --column email -o people.scbf people.csv
  scbf build --bits -o readers.scbf words.txt
  tail -n 1000000 log | scbf build --scalable --capacity 10k -o seen.scbf
  scbf gen --keys 1e8 | scbf build --keys u64 --capacity 1e8 --threads 1 -o ids.scbf --json)");
  return [options] {
    options->shape.request.cell = options->cell();
    return build(*options);
  };
}

}  // namespace scbf::cli
