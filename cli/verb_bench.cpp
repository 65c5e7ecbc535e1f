// SPDX-License-Identifier: Apache-2.0
// scbf bench: measures sizes × layouts × backends × operations and prints a table or JSON.
#include <fmt/format.h>

#include <unistd.h>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_cells.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "scbf/version.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

/// The scalar backend is slow. With more keys the default matrix would take more than a minute.
constexpr std::uint64_t kScalarKeys = 1'000'000;

struct Options {
  std::vector<std::uint64_t> sizes = {100'000, 1'000'000, 10'000'000};
  std::vector<Layout> layouts = {Layout::split_block, Layout::split};
  std::vector<std::string> backends;  ///< empty: auto, and scalar up to kScalarKeys keys
  std::vector<Operation> operations{std::begin(kOperations), std::end(kOperations)};
  double fpr = kDefaultFpr;
  double seconds = 0.1;
  std::uint64_t seed = 1;
  Path path = Path::automatic;
  RunOptions run;
};

std::vector<std::string> items_of(const std::string& option, const std::string& text) {
  std::vector<std::string> items = split_list(text);
  for (const std::string& item : items) {
    if (item.empty()) throw UsageError(fmt::format("{} '{}': an item is empty", option, text));
  }
  return items;
}

template <class Item, class Parse>
void parse_list(std::vector<Item>& into, const std::string& option, const std::string& text,
                const Parse& parse) {
  into.clear();
  for (const std::string& item : items_of(option, text)) into.push_back(parse(item));
}

Path path_from_string(const std::string& name) {
  if (name == "automatic") return Path::automatic;
  if (name == "direct") return Path::direct;
  if (name == "partitioned") return Path::partitioned;
  throw UsageError(fmt::format("--path '{}': must be automatic, direct or partitioned", name));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::uint64_t cache_bytes([[maybe_unused]] int name) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

Json machine_json(const Options& options) {
  Json json;
  json["processor"] = processor_name();
  json["threads"] = options.run.resolved_threads();
#if defined(_SC_LEVEL2_CACHE_SIZE)
  json["l2_bytes"] = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
  json["l3_bytes"] = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
#endif
#if defined(__clang__)
  json["compiler"] = "clang " __clang_version__;
#else
  json["compiler"] = "g++ " __VERSION__;
#endif
  json["version"] = SCBF_VERSION;
  json["date"] = [] {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
  }();
  return json;
}

struct Cell {
  std::uint64_t size;
  CellResult result;
};

std::vector<std::string> backends_for(const Options& options, std::uint64_t size) {
  if (!options.backends.empty()) return options.backends;
  if (size <= kScalarKeys) return {"scalar", "auto"};
  return {"auto"};
}

std::vector<Cell> measure_all(const Options& options) {
  std::vector<Cell> cells;
  std::uint64_t total = 0, keys_done = 0;
  for (const std::uint64_t size : options.sizes) {
    total += size * options.layouts.size() * backends_for(options, size).size();
  }
  Progress progress(options.run.progress, "measuring", total);
  for (const std::uint64_t size : options.sizes) {
    const BenchKeys keys(size, options.seed);
    for (const Layout layout : options.layouts) {
      const Geometry geometry = geometry_for(layout, size, options.fpr);
      std::unique_ptr<Filter> model;
      for (const std::string& backend : backends_for(options, size)) {
        BatchOptions batch = options.run.batch();
        batch.path = options.path;
        std::unique_ptr<Filter> full;
        cells.push_back({size, measure_cell({.geometry = geometry,
                                             .backend = backend,
                                             .operations = options.operations,
                                             .batch = batch,
                                             .seconds = options.seconds},
                                            keys, model.get(), model ? nullptr : &full)});
        if (!model) model = std::move(full);
        keys_done += size;
        progress.update(keys_done, keys_done);
      }
    }
  }
  progress.finish(keys_done, total);
  return cells;
}

double bits_per_key(const Cell& cell) {
  return 8 * static_cast<double>(cell.result.geometry.bytes()) / static_cast<double>(cell.size);
}

Json to_json(const Options& options, const std::vector<Cell>& cells, double seconds) {
  Json results = Json::array();
  for (const Cell& cell : cells) {
    for (const Timing& timing : cell.result.timings) {
      results.push_back(Json{{"keys", cell.size},
                             {"layout", to_string(cell.result.geometry.layout())},
                             {"probes", cell.result.geometry.probes()},
                             {"bytes", cell.result.geometry.bytes()},
                             {"backend", cell.result.backend},
                             {"target", cell.result.target},
                             {"operation", to_string(timing.operation)},
                             {"ns_per_key", timing.ns_per_key},
                             {"fastest_ns_per_key", timing.fastest_ns},
                             {"slowest_ns_per_key", timing.slowest_ns},
                             {"repetitions", timing.repetitions},
                             {"keys_per_second", 1e9 / timing.ns_per_key},
                             {"measured_fpr", cell.result.measured_fpr},
                             {"predicted_fpr", cell.result.predicted_fpr},
                             {"bits_per_key", bits_per_key(cell)}});
    }
  }
  return Json{{"machine", machine_json(options)},
              {"fpr", options.fpr},
              {"seed", options.seed},
              {"seconds", seconds},
              {"results", std::move(results)}};
}

std::string to_text(const Options& options, const std::vector<Cell>& cells, double seconds) {
  const Json machine = machine_json(options);
  std::string text =
      fmt::format("{}, {} thread{}, {}, scbf {}\n", machine["processor"].get<std::string>(),
                  options.run.resolved_threads(), options.run.resolved_threads() == 1 ? "" : "s",
                  machine["compiler"].get<std::string>(), SCBF_VERSION);
  const Cell* previous = nullptr;
  for (const Cell& cell : cells) {
    const CellResult& r = cell.result;
    if (!previous || previous->size != cell.size || previous->result.geometry != r.geometry) {
      text += fmt::format(
          "\n{} keys in {}, {}: {:.1f} bits per key, rate {} measured, {} predicted\n"
          "  backend                 operation   ns/key    keys/s      fastest - slowest, ns\n",
          grouped(cell.size), r.geometry.describe(), human_bytes(r.geometry.bytes()),
          bits_per_key(cell), percent(r.measured_fpr), percent(r.predicted_fpr));
    }
    previous = &cell;
    const std::string name = r.backend.find(r.target) == std::string::npos
                                 ? fmt::format("{} ({})", r.backend, r.target)
                                 : r.backend;
    for (const Timing& t : r.timings) {
      text += fmt::format("  {:<22}  {:<9} {:>8.2f}  {:>8}      {:.2f} - {:.2f}\n", name,
                          to_string(t.operation), t.ns_per_key, human_rate(1e9 / t.ns_per_key),
                          t.fastest_ns, t.slowest_ns);
    }
  }
  return text +
         fmt::format("\nAnswers were verified before they were timed. {:.0f} s in all.\n", seconds);
}

int bench(const Options& options) {
  for (const std::string& backend : options.backends) find_backend(backend);
  const Stopwatch watch;
  const std::vector<Cell> cells = measure_all(options);
  if (options.run.json) {
    print_json(to_json(options, cells, watch.seconds()));
  } else {
    print_text(to_text(options, cells, watch.seconds()));
  }
  return kOk;
}

}  // namespace

Run set_up_bench(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Options* const o = options.get();
  line.option("--sizes", "N,...",
              "Numbers of keys; default 100k,1M,10M. A key takes about 32 bytes of memory",
              [o](const std::string& text) {
                parse_list(o->sizes, "--sizes", text, [](const std::string& item) {
                  return parse_count("--sizes", item, 1000, 10'000'000'000);
                });
              });
  line.option("--layouts", "L,...", "Default split_block,split", [o](const std::string& text) {
    parse_list(o->layouts, "--layouts", text,
               [](const std::string& item) { return layout_from_string(item); });
  });
  line.option("--backends", "B,...",
              "Names that 'scbf backends' lists; default scalar (up to 1M keys) and auto",
              [o](const std::string& text) { o->backends = items_of("--backends", text); });
  line.option("--operations", "O,...", "Some of insert,hit,miss,mix,count,remove; default all",
              [o](const std::string& text) {
                parse_list(o->operations, "--operations", text, operation_from_string);
              });
  line.option("--fpr", "P", "False-positive rate of the filters; default 1%",
              [o](const std::string& text) { o->fpr = parse_rate("--fpr", text); });
  line.option(
      "--seconds", "S", "Approximate time for each operation of each filter; default 0.1",
      [o](const std::string& text) { o->seconds = parse_real("--seconds", text, 0.001, 3600); });
  line.option("--path", "PATH", "automatic (default), direct or partitioned",
              [o](const std::string& text) { o->path = path_from_string(text); });
  line.option("--seed", "S", "Seed of the keys; default 1",
              [o](const std::string& text) { o->seed = parse_seed("--seed", text); });
  add_threads_to(line, options->run.threads);
  options->run.add_scratch_to(line);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print JSON");
  line.footer(
      R"(Distinct 64-bit keys in whole batches; hit, miss and mix are lookups of present, absent and both
kinds of keys. If an answer is wrong, bench stops with exit code 4.

Examples:
  scbf bench
  scbf bench --threads 1 --sizes 1e8 --backends auto --layouts split_block
  scbf bench --operations insert,remove --path partitioned --json)");
  return [options] { return bench(*options); };
}

}  // namespace scbf::cli
