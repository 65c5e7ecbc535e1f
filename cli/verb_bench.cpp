// SPDX-License-Identifier: Apache-2.0
// scbf bench: measures sizes × layouts × backends × forms of calls × operations with the driver of
// bench/, and prints tables or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/driver/driver.hpp"
#include "bench/driver/filter_case.hpp"
#include "bench/driver/floors.hpp"
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

using bench::Calls;
using bench::FilterCase;
using bench::Floor;
using bench::kOperations;
using bench::Operation;
using bench::RowResult;
using bench::Where;

/// The scalar backend is slow. With more keys the default matrix would take more than a minute.
constexpr std::uint64_t kScalarKeys = 1'000'000;
/// Keys per timed call where each key is a call of its own: enough to measure, and no minutes.
constexpr std::size_t kKeyByKey = 1'000'000;

struct BenchOptions {
  std::vector<std::uint64_t> sizes = {100'000, 1'000'000, 10'000'000};
  std::vector<Layout> layouts = {Layout::split_block, Layout::ranked, Layout::split};
  std::vector<std::string> backends;  ///< empty: auto, and scalar up to kScalarKeys keys
  std::vector<Calls> calls;           ///< empty: all for auto, one batch for other backends
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
  for (const std::string& item : items_of(option, text)) {
    into.push_back(parse(item));
    if (std::count(into.begin(), into.end(), into.back()) > 1) {
      throw UsageError(fmt::format("{} {}: {} is there twice", option, in_quotes(text), item));
    }
  }
}

Path path_of(const char* option, const std::string& name) {
  try {
    return path_from_string(name);
  } catch (const InvalidArgument& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// The one of `all` that has this name.
template <class Item, std::size_t n>
Item from_string(const char* option, const Item (&all)[n], const std::string& name) {
  std::string known;
  for (const Item item : all) {
    if (to_string(item) == name) return item;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(item));
  }
  throw UsageError(fmt::format("{} {}: must be one of {}", option, in_quotes(name), known));
}

/// The name of a form of calls in tables.
std::string_view described(Calls calls) {
  static_assert(bench::kSmallBatch == 4096);
  switch (calls) {
    case Calls::one:
      return "one batch";
    case Calls::small:
      return "batches of 4,096 keys";
    case Calls::bulk:
      return "batches of 4,096 keys, in bulk";
    case Calls::key:
      return "one key a call, one thread";
    case Calls::view:
      return "through a view, one thread";
    case Calls::ahead:
      return "through a view, prefetched";
  }
  return "";
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

/// A filter of the matrix in one form of calls, and a row per operation.
struct FilterCell {
  FilterCase filter;
  Geometry geometry;
  std::string backend, target;
  std::vector<RowResult> rows;

  double figure(const char* name) const { return rows.at(0).figures.at(name).median; }
  /// Null if the operation was not measured.
  const bench::Spread* ns(Operation operation) const {
    const auto at = std::ranges::find(filter.operations, operation);
    if (at == filter.operations.end()) return nullptr;
    return &rows.at(static_cast<std::size_t>(at - filter.operations.begin()))
                .figures.at("ns_per_key");
  }
};

/// A random cache line, in ns, where a filter lies.
struct Floors {
  Where where;
  double read, update;
};

struct Results {
  std::vector<FilterCell> cells;
  std::vector<Floors> floors;
};

std::vector<std::string> backends_for(const BenchOptions& options, std::uint64_t size) {
  if (!options.backends.empty()) return options.backends;
  if (size <= kScalarKeys) return {"scalar", "auto"};
  return {"auto"};
}

std::vector<Calls> calls_for(const BenchOptions& options, const std::string& name) {
  const Backend& backend = find_backend(name);
  const bool on_host = backend.memory() == kHostMemory;
  for (const Calls calls : options.calls) {
    if ((calls == Calls::view || calls == Calls::ahead) && !on_host) {
      throw UsageError(fmt::format("--calls {}: there are no views of counters in the memory of {}",
                                   to_string(calls), backend.memory()));
    }
  }
  if (!options.calls.empty()) return options.calls;
  if (name == "auto" && on_host) return {std::begin(bench::kCalls), std::end(bench::kCalls)};
  return {Calls::one};
}

/// Only changes go in bulk. Builds are measured in batches.
std::vector<Operation> operations_for(const BenchOptions& options, Calls calls) {
  std::vector<Operation> operations = options.operations;
  std::erase_if(operations, [&](Operation operation) {
    return calls == Calls::bulk ? !changes(operation) : is_key_by_key(calls) && is_build(operation);
  });
  return operations;
}

std::vector<FilterCell> cells_for(const BenchOptions& options) {
  std::vector<FilterCell> cells;
  BatchOptions batch = options.run.batch();
  batch.path = options.path;
  const auto add = [&](std::uint64_t size, Layout layout, const Backend& backend, Calls calls) {
    const std::vector<Operation> operations = operations_for(options, calls);
    if (operations.empty()) return;
    const int repetitions = size < 10'000'000 ? 5 : 3;
    BatchOptions of_calls = batch;
    if (is_key_by_key(calls)) of_calls.threads = 1;
    cells.push_back(
        {.filter = {.structure = std::string(to_string(layout)),
                    .n = size,
                    .fpr = options.fpr,
                    .keys = {.seed = options.seed},
                    .backend = std::string(backend.name()),
                    .options = of_calls,
                    .calls = calls,
                    .operations = operations,
                    .batch = is_key_by_key(calls) ? std::min<std::size_t>(size, kKeyByKey) : size,
                    .seconds = options.seconds / repetitions,
                    .repetitions = repetitions,
                    .against_floor = false},
         .geometry = geometry_for(layout, size, options.fpr),
         .backend = std::string(backend.name()),
         .target = std::string(backend.target())});
  };
  for (const std::uint64_t size : options.sizes) {
    for (const Layout layout : options.layouts) {
      for (const std::string& name : backends_for(options, size)) {
        for (const Calls calls : calls_for(options, name)) {
          add(size, layout, find_backend(name), calls);
        }
      }
    }
  }
  if (cells.empty()) {
    throw UsageError(
        "--operations: --calls bulk has only insert, remove, build and first_build; key, view and "
        "ahead have no builds");
  }
  return cells;
}

/// Where the counters lie that a floor is measured for: in the caches of a core, or in memory.
std::optional<Where> floor_for(const Geometry& geometry) {
  if (geometry.bytes() <= bench::cache_bytes(2)) return Where::cache;
  if (bench::beyond_caches(static_cast<double>(geometry.bytes()))) return Where::memory;
  return std::nullopt;
}

std::vector<Floors> measure_floors(const BenchOptions& options,
                                   const std::vector<FilterCell>& cells) {
  std::vector<Floors> floors;
  for (const Where where : {Where::cache, Where::memory}) {
    const bool wanted = std::ranges::any_of(
        cells, [&](const FilterCell& cell) { return floor_for(cell.geometry) == where; });
    if (!wanted) continue;
    const auto ns = [&](Floor floor) {
      return measure_floor(floor, where, options.run.resolved_threads()).ns_per_line;
    };
    floors.push_back({where, ns(Floor::line_read), ns(Floor::line_update)});
  }
  return floors;
}

/// Throws Incompatible when an answer is wrong.
Results measure_all(const BenchOptions& options) {
  std::vector<FilterCell> cells = cells_for(options);
  std::uint64_t total = 0, keys_done = 0;
  for (const FilterCell& cell : cells) {
    total += cell.filter.n * cell.filter.operations.size();
    add_filter_case(cell.filter);
  }
  Progress progress(options.run.progress, "measuring", total);
  std::vector<Floors> floors = measure_floors(options, cells);
  // BENCHMARK_ variables of the environment can change the order of rows, or leave some out.
  struct Awaited {
    RowResult* row;
    std::uint64_t keys;
  };
  std::multimap<std::string, Awaited> awaited;
  for (FilterCell& cell : cells) {
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
  return {std::move(cells), std::move(floors)};
}

std::string_view to_string(Where where) { return where == Where::cache ? "cache" : "memory"; }

Json to_json(const BenchOptions& options, const Results& measured, double seconds) {
  Json floors = Json::array();
  for (const Floors& floor : measured.floors) {
    floors.push_back(Json{{"where", to_string(floor.where)},
                          {"bytes", floor_bytes(floor.where)},
                          {"threads", options.run.resolved_threads()},
                          {"line_read_ns", floor.read},
                          {"line_update_ns", floor.update}});
  }
  Json results = Json::array();
  for (const FilterCell& cell : measured.cells) {
    for (std::size_t i = 0; i < cell.rows.size(); ++i) {
      const bench::Spread ns = cell.rows[i].figures.at("ns_per_key");
      results.push_back(Json{{"keys", cell.filter.n},
                             {"layout", cell.filter.structure},
                             {"probes", cell.geometry.probes()},
                             {"bytes", cell.geometry.bytes()},
                             {"backend", cell.backend},
                             {"target", cell.target},
                             {"calls", to_string(cell.filter.calls)},
                             {"threads", cell.filter.options.threads},
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
              {"floors", std::move(floors)},
              {"results", std::move(results)}};
}

// A table for each filter: a row for each backend and form of calls, a column for each operation.

std::string heading(const BenchOptions& options, const FilterCell& cell) {
  std::string text = fmt::format(
      "\n{} keys in {}, {}: {:.1f} bits per key, rate {} measured, {} predicted\n  {:<32}",
      grouped(cell.filter.n), cell.geometry.describe(), human_bytes(cell.geometry.bytes()),
      cell.figure("bits_per_key"), percent(cell.figure("fpr_measured")),
      percent(cell.figure("fpr_predicted")), "ns per key");
  for (const Operation operation : options.operations) {
    text += fmt::format("{:>8}",
                        operation == Operation::first_build ? "1st build" : to_string(operation));
  }
  return text + "  spread\n";
}

std::string table_row(const BenchOptions& options, const FilterCell& cell,
                      const std::string& name) {
  std::string text = fmt::format("  {:<32}", name);
  double spread = 0;
  for (const Operation operation : options.operations) {
    if (const bench::Spread* ns = cell.ns(operation)) {
      text += fmt::format("{:>8.2f}", ns->median);
      spread = std::max(spread, (ns->most - ns->least) / ns->median);
    } else {
      text += fmt::format("{:>8}", "");
    }
  }
  return text + fmt::format("{:>7.0f}%\n", 100 * spread);
}

std::string floor_row(const BenchOptions& options, const Floors& floor) {
  std::string text =
      fmt::format("  {:<32}", fmt::format("a random line in {}", to_string(floor.where)));
  for (const Operation operation : options.operations) {
    text += fmt::format("{:>8.2f}", changes(operation) ? floor.update : floor.read);
  }
  return text + "\n";
}

std::string to_text(const BenchOptions& options, const Results& measured, double seconds) {
  const Json machine = machine_json(options);
  std::string text =
      fmt::format("{}, {} thread{}, {}, scbf {}\n", machine["processor"].get<std::string>(),
                  options.run.resolved_threads(), options.run.resolved_threads() == 1 ? "" : "s",
                  machine["compiler"].get<std::string>(), SCBF_VERSION);
  const std::vector<FilterCell>& cells = measured.cells;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const FilterCell& cell = cells[i];
    const auto same_filter = [&](const FilterCell& other) {
      return other.filter.n == cell.filter.n && other.geometry == cell.geometry;
    };
    const bool begins = i == 0 || !same_filter(cells[i - 1]);
    if (begins) text += heading(options, cell);
    const std::string backend = cell.backend.find(cell.target) == std::string::npos
                                    ? fmt::format("{} ({})", cell.backend, cell.target)
                                    : cell.backend;
    const bool named = begins || cells[i - 1].backend != cell.backend;
    text += table_row(options, cell,
                      named ? fmt::format("{}, {}", backend, described(cell.filter.calls))
                            : fmt::format("  {}", described(cell.filter.calls)));
    if (i + 1 < cells.size() && same_filter(cells[i + 1])) continue;
    for (const Floors& floor : measured.floors) {
      if (floor_for(cell.geometry) == floor.where) text += floor_row(options, floor);
    }
  }
  return text +
         fmt::format(
             "\nFigures are medians; spread is the widest of a row, from fastest to slowest. "
             "Answers were\nverified before they were timed. {:.0f} s in all.\n",
             seconds);
}

int run_bench(const BenchOptions& options) {
  const Stopwatch watch;
  const Results measured = measure_all(options);
  if (options.run.json) {
    print_json(to_json(options, measured, watch.seconds()));
  } else {
    print_text(to_text(options, measured, watch.seconds()));
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
  line.option("--layouts", "L,...", "Default split_block,ranked,split",
              [o](const std::string& text) {
                parse_list(o->layouts, "--layouts", text,
                           [](const std::string& item) { return layout_from_string(item); });
              });
  line.option("--backends", "B,...",
              "Names that 'scbf backends' lists; default scalar (up to 1M keys) and auto",
              [o](const std::string& text) {
                parse_list(o->backends, "--backends", text,
                           [](const std::string& item) { return item; });
              });
  line.option("--calls", "C,...",
              "How keys are given: one batch, in small batches of 4,096, in bulk through a "
              "BulkInserter or BulkRemover, key by key, through a view, or ahead: a view with "
              "prefetching. Some of "
              "one,small,bulk,key,view,ahead; default all for auto, one for other backends",
              [o](const std::string& text) {
                parse_list(o->calls, "--calls", text, [](const std::string& item) {
                  return from_string("--calls", bench::kCalls, item);
                });
              });
  line.option("--operations", "O,...",
              "Some of first_build,build,insert,hit,miss,mix,count,remove; default all",
              [o](const std::string& text) {
                parse_list(o->operations, "--operations", text, [](const std::string& item) {
                  return from_string("--operations", kOperations, item);
                });
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
              [o](const std::string& text) { o->path = path_of("--path", text); });
  line.option("--seed", "S", "Seed of the keys; default 1",
              [o](const std::string& text) { o->seed = parse_seed("--seed", text); });
  add_threads_to(line, options->run.threads);
  options->run.add_scratch_to(line, "the filter's size, for insertions half of it");
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print JSON");
  line.footer(
      R"(Distinct 64-bit keys. first_build and build make the filter and insert all keys, without and with
the temporary memory of an earlier build. hit, miss and mix are lookups of present, absent and both
kinds of keys. For comparison, a table ends with a random cache line of 64 bytes, read or updated, if
the filter lies in the L2 cache, or is far larger than all caches. If an answer is wrong, bench stops
with exit code 4.

Examples:
  scbf bench
  scbf bench --threads 1 --sizes 1e8 --backends auto --layouts split_block
  scbf bench --calls small,bulk --operations insert,remove
  scbf bench --operations insert,remove --path partitioned --json)");
  return [options] { return run_bench(*options); };
}

}  // namespace scbf::cli
