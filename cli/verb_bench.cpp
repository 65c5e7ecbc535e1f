// SPDX-License-Identifier: Apache-2.0
// scbf bench: measures sizes × layouts × backends × operations with the driver of bench/, and
// prints a table or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/driver/driver.hpp"
#include "bench/driver/filter_case.hpp"
#include "bench/driver/machine.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "scbf/errors.hpp"
#include "scbf/version.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

using bench::FilterCase;
using bench::kOperations;
using bench::Operation;
using bench::RowResult;

/// The scalar backend is slow. With more keys the default matrix would take more than a minute.
constexpr std::uint64_t kScalarKeys = 1'000'000;

struct BenchOptions {
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
    if (item.empty())
      throw UsageError(fmt::format("{} {}: an item is empty", option, in_quotes(text)));
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
  throw UsageError(
      fmt::format("--path {}: must be automatic, direct or partitioned", in_quotes(name)));
}

Operation operation_from_string(const std::string& name) {
  for (const Operation operation : kOperations) {
    if (to_string(operation) == name) return operation;
  }
  throw UsageError(fmt::format("--operations {}: must be insert, hit, miss, mix, count or remove",
                               in_quotes(name)));
}

Json machine_json(const BenchOptions& options) {
  Json json;
  json["processor"] = bench::cpu_model();
  json["threads"] = options.run.resolved_threads();
  json["l2_bytes"] = bench::cache_bytes(2);
  json["l3_bytes"] = bench::cache_bytes(3);
  json["compiler"] = bench::compiler();
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

/// A filter of the matrix, and a row per operation.
struct Cell {
  FilterCase filter;
  Geometry geometry;
  std::string backend, target;
  std::vector<RowResult> rows;

  double figure(const char* name) const { return rows.at(0).figures.at(name).median; }
};

std::vector<std::string> backends_for(const BenchOptions& options, std::uint64_t size) {
  if (!options.backends.empty()) return options.backends;
  if (size <= kScalarKeys) return {"scalar", "auto"};
  return {"auto"};
}

std::vector<Cell> cells_for(const BenchOptions& options) {
  std::vector<Cell> cells;
  BatchOptions batch = options.run.batch();
  batch.path = options.path;
  for (const std::uint64_t size : options.sizes) {
    for (const Layout layout : options.layouts) {
      for (const std::string& name : backends_for(options, size)) {
        const Backend& backend = find_backend(name);
        const int repetitions = size < 10'000'000 ? 5 : 3;
        cells.push_back({.filter = {.structure = std::string(to_string(layout)),
                                    .n = size,
                                    .fpr = options.fpr,
                                    .keys = {.seed = options.seed},
                                    .backend = std::string(backend.name()),
                                    .options = batch,
                                    .operations = options.operations,
                                    .seconds = options.seconds / repetitions,
                                    .repetitions = repetitions,
                                    .against_floor = false},
                         .geometry = geometry_for(layout, size, options.fpr),
                         .backend = std::string(backend.name()),
                         .target = std::string(backend.target())});
      }
    }
  }
  return cells;
}

/// Throws Incompatible when an answer is wrong.
std::vector<Cell> measure_all(const BenchOptions& options) {
  std::vector<Cell> cells = cells_for(options);
  std::uint64_t total = 0, keys_done = 0;
  for (const Cell& cell : cells) {
    total += cell.filter.n * cell.filter.operations.size();
    add_filter_case(cell.filter);
  }
  Progress progress(options.run.progress, "measuring", total);
  // BENCHMARK_ variables of the environment can change the order of rows, or leave some out.
  struct Awaited {
    RowResult* row;
    std::uint64_t keys;
  };
  std::multimap<std::string, Awaited> awaited;
  for (Cell& cell : cells) {
    cell.rows.resize(cell.filter.operations.size());
    for (std::size_t i = 0; i < cell.rows.size(); ++i) {
      awaited.emplace(
          fmt::format("{}/{}", to_string(cell.filter.operations[i]), cell.filter.name()),
          Awaited{&cell.rows[i], cell.filter.n});
    }
  }
  const bench::Failure failure = bench::run_rows("all", true, [&](const RowResult& row) {
    const auto at = awaited.lower_bound(row.name);
    if (at == awaited.end() || at->first != row.name) return;
    *at->second.row = row;
    keys_done += at->second.keys;
    awaited.erase(at);
    progress.update(keys_done, keys_done);
  });
  try {
    if (failure.error) std::rethrow_exception(failure.error);
  } catch (const bench::WrongAnswer& error) {
    throw Incompatible(fmt::format("bench: {}: wrong answers, so nothing is timed: {}", failure.row,
                                   error.what()));
  }
  if (!awaited.empty()) {
    throw UsageError(fmt::format("bench: {} was not measured: unset BENCHMARK_ variables",
                                 awaited.begin()->first));
  }
  progress.finish(keys_done, total);
  return cells;
}

Json to_json(const BenchOptions& options, const std::vector<Cell>& cells, double seconds) {
  Json results = Json::array();
  for (const Cell& cell : cells) {
    for (std::size_t i = 0; i < cell.rows.size(); ++i) {
      const bench::Spread ns = cell.rows[i].figures.at("ns_per_key");
      results.push_back(Json{{"keys", cell.filter.n},
                             {"layout", cell.filter.structure},
                             {"probes", cell.geometry.probes()},
                             {"bytes", cell.geometry.bytes()},
                             {"backend", cell.backend},
                             {"target", cell.target},
                             {"operation", to_string(cell.filter.operations[i])},
                             {"ns_per_key", ns.median},
                             {"fastest_ns_per_key", ns.least},
                             {"slowest_ns_per_key", ns.most},
                             {"repetitions", cell.rows[i].repetitions},
                             {"keys_per_second", 1e9 / ns.median},
                             {"measured_fpr", cell.figure("fpr_measured")},
                             {"predicted_fpr", cell.figure("fpr_predicted")},
                             {"bits_per_key", cell.figure("bits_per_key")}});
    }
  }
  return Json{{"machine", machine_json(options)},
              {"fpr", options.fpr},
              {"seed", options.seed},
              {"seconds", seconds},
              {"results", std::move(results)}};
}

std::string to_text(const BenchOptions& options, const std::vector<Cell>& cells, double seconds) {
  const Json machine = machine_json(options);
  std::string text =
      fmt::format("{}, {} thread{}, {}, scbf {}\n", machine["processor"].get<std::string>(),
                  options.run.resolved_threads(), options.run.resolved_threads() == 1 ? "" : "s",
                  machine["compiler"].get<std::string>(), SCBF_VERSION);
  const Cell* previous = nullptr;
  for (const Cell& cell : cells) {
    if (!previous || previous->filter.n != cell.filter.n || previous->geometry != cell.geometry) {
      text += fmt::format(
          "\n{} keys in {}, {}: {:.1f} bits per key, rate {} measured, {} predicted\n"
          "  backend                 operation   ns/key    keys/s      fastest - slowest, ns\n",
          grouped(cell.filter.n), cell.geometry.describe(), human_bytes(cell.geometry.bytes()),
          cell.figure("bits_per_key"), percent(cell.figure("fpr_measured")),
          percent(cell.figure("fpr_predicted")));
    }
    previous = &cell;
    const std::string name = cell.backend.find(cell.target) == std::string::npos
                                 ? fmt::format("{} ({})", cell.backend, cell.target)
                                 : cell.backend;
    for (std::size_t i = 0; i < cell.rows.size(); ++i) {
      const bench::Spread ns = cell.rows[i].figures.at("ns_per_key");
      text += fmt::format("  {:<22}  {:<9} {:>8.2f}  {:>8}      {:.2f} - {:.2f}\n", name,
                          to_string(cell.filter.operations[i]), ns.median,
                          human_rate(1e9 / ns.median), ns.least, ns.most);
    }
  }
  return text +
         fmt::format("\nAnswers were verified before they were timed. {:.0f} s in all.\n", seconds);
}

int run_bench(const BenchOptions& options) {
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
  auto options = std::make_shared<BenchOptions>();
  BenchOptions* const o = options.get();
  line.option("--sizes", "N,...",
              "Numbers of keys; default 100k,1M,10M. A key takes about 40 bytes of memory",
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
                std::ranges::sort(o->operations, {}, [](Operation one) {
                  return std::ranges::find(kOperations, one) - std::begin(kOperations);
                });
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
  return [options] { return run_bench(*options); };
}

}  // namespace scbf::cli
