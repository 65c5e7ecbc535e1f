// SPDX-License-Identifier: Apache-2.0
// The benchmark program: registers the matrix of cases with Google Benchmark and runs it.
//
//   filter_bench --matrix=quick --benchmark_out=result.json
//   filter_bench --matrix=full --benchmark_filter='n:100000000'
//
// Beside Google Benchmark's flags: --matrix=smoke|quick|full (default quick). A row's name is its
// operation and configuration as key:value pairs, so that filters can pick by any of them. The
// exit code is 1 when answers were wrong. scripts/bench runs this and keeps what it finds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench_case.hpp"
#include "driver.hpp"
#include "machine.hpp"

namespace scbf::bench {
namespace {

double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
double most(const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }

void configure(benchmark::internal::Benchmark* row, int repetitions) {
  row->Iterations(1)
      ->Repetitions(repetitions)
      ->ComputeStatistics("min", least)
      ->ComputeStatistics("max", most)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  if (repetitions > 1) row->ReportAggregatesOnly();
}

void add_floors(Size size) {
  struct Named {
    Floor floor;
    const char* name;
  };
  for (const Where where : {Where::cache, Where::memory}) {
    if (size == Size::smoke && where == Where::memory) continue;
    for (const Named named :
         {Named{Floor::line_read, "line_read"}, Named{Floor::line_update, "line_update"},
          Named{Floor::stream_read, "stream_read"}, Named{Floor::stream_copy, "stream_copy"}}) {
      for (const unsigned threads : {1u, 2u}) {
        if (threads > std::max(1u, std::thread::hardware_concurrency())) continue;
        const std::string name = std::string("floor/access:") + named.name +
                                 "/where:" + (where == Where::cache ? "l2" : "memory") +
                                 "/threads:" + std::to_string(threads);
        configure(
            benchmark::RegisterBenchmark(name.c_str(), run_floor, named.floor, where, threads),
            size == Size::smoke ? 1 : 5);
      }
    }
  }
}

void add_cases(Size size) {
  for (const Case& c : matrix(size)) {
    for (const Operation operation : c.operations) {
      const std::string name = to_string(operation) + "/" + c.name();
      configure(benchmark::RegisterBenchmark(name.c_str(), run_operation, c, operation),
                c.repetitions);
    }
  }
}

/// Takes --matrix=… out of the arguments. Returns false when its value is unknown.
bool take_matrix(int& argc, char** argv, Size& size) {
  constexpr std::string_view flag = "--matrix=";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(flag)) {
      argv[kept++] = argv[i];
      continue;
    }
    const std::string_view value = argument.substr(flag.size());
    if (value == "smoke") {
      size = Size::smoke;
    } else if (value == "quick") {
      size = Size::quick;
    } else if (value == "full") {
      size = Size::full;
    } else {
      std::fprintf(stderr, "--matrix %.*s: must be smoke, quick or full\n",
                   static_cast<int>(value.size()), value.data());
      return false;
    }
  }
  argc = kept;
  return true;
}

}  // namespace
}  // namespace scbf::bench

int main(int argc, char** argv) {
  using namespace scbf::bench;
  Size size = Size::quick;
  if (!take_matrix(argc, argv, size)) return 2;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& [name, value] : context()) benchmark::AddCustomContext(name, value);
  add_floors(size);
  add_cases(size);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return any_failure() ? 1 : 0;
}
