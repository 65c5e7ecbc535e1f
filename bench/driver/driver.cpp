// SPDX-License-Identifier: Apache-2.0
// Times are manual (UseManualTime). One "iteration" of Google Benchmark is one repetition of a row
// with all its timed calls, because the filter must be emptied between two timed inserts without
// being timed.
#include "driver.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "machine.hpp"

namespace scbf::bench {

struct Case {
  std::function<std::unique_ptr<Fixture>()> make;
  std::exception_ptr error;  ///< thrown while the fixture was made or verified
};

/// The state that the rows of a process share: the current fixture and the first failure.
class Driver {
 public:
  static Driver& get() {
    static Driver driver;
    return driver;
  }

  /// `last`: whether this is the last repetition.
  void run_row(benchmark::State& state, const std::shared_ptr<Case>& of, const Row& row,
               bool last) {
    if (stop_early && failure.error) return state.SkipWithError("not measured after a failure");
    try {
      Fixture& fixture = hold(of);
      Repetition repetition;
      for (auto _ : state) {
        std::size_t& pass = repetition.pass_;
        for (; pass < row.passes || repetition.seconds() < row.seconds; ++pass) {
          row.measure(fixture, repetition);
        }
        state.SetIterationTime(repetition.seconds());
      }
      if (row.changes && last) fixture.verify();
      state.SetLabel(repetition.label_);
      for (const auto& [name, form] : repetition.forms_) {
        state.counters[fmt::format("ns_per_{}{}{}", row.item, name.empty() ? "" : "_", name)] =
            repetition.ns_per_item(name);
      }
      for (const auto& [name, value] : fixture.counters()) state.counters[name] = value;
      for (const auto& [name, value] : repetition.counters_) state.counters[name] = value;
    } catch (const std::exception& error) {
      of->error = std::current_exception();  // its state is not known any more
      if (!failure.error) failure = {row.name, of->error};
      state.SkipWithError(error.what());
    }
  }

  void release() {
    fixture_.reset();
    held_.reset();
  }

  Failure failure;
  bool stop_early = false;

 private:
  /// The fixture of this case, verified.
  Fixture& hold(const std::shared_ptr<Case>& wanted) {
    if (held_ != wanted) {
      release();  // before the next one takes memory
      held_ = wanted;
      try {
        fixture_ = wanted->make();
        fixture_->verify();
      } catch (...) {
        wanted->error = std::current_exception();
      }
    }
    if (wanted->error) std::rethrow_exception(wanted->error);
    return *fixture_;
  }

  std::shared_ptr<Case> held_;
  std::unique_ptr<Fixture> fixture_;
};

namespace {

Spread spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

/// Summarises a row from its repetitions, which Google Benchmark reports after the last one.
class Reporter final : public benchmark::BenchmarkReporter {
 public:
  explicit Reporter(const std::function<void(const RowResult&)>& report) : report_(report) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    RowResult row;
    std::map<std::string, std::vector<double>> values;
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      row.name = run.run_name.function_name;
      row.label = run.report_label;
      if (run.error_occurred) row.error = run.error_message;
      ++row.repetitions;
      for (const auto& [name, counter] : run.counters) values[name].push_back(counter.value);
    }
    if (row.repetitions == 0) return;  // only aggregates
    for (auto& [name, list] : values) row.figures[name] = spread(std::move(list));
    report_(row);
  }

 private:
  const std::function<void(const RowResult&)>& report_;
};

void print(const RowResult& row) {
  if (!row.error.empty()) {
    fmt::print("{}  FAILED: {}\n", row.name, row.error);
  } else {
    fmt::print("{}\n   ", row.name);
    for (const auto& [name, figure] : row.figures) {
      fmt::print(" {}={:.4g}", name, figure.median);
      if (name.starts_with("ns_per_") && row.repetitions > 1) {
        fmt::print(" ({:.4g} to {:.4g})", figure.least, figure.most);
      }
    }
    fmt::print("{}{}\n", row.label.empty() ? "" : "  ", row.label);
  }
  std::fflush(stdout);
}

}  // namespace

double Repetition::seconds() const {
  double sum = 0;
  for (const auto& [name, form] : forms_) sum += form.seconds;
  return sum;
}

double Repetition::ns_per_item(const std::string& form) const {
  const Form& times = forms_.at(form);
  return times.seconds * 1e9 / times.items;
}

void add_case(std::function<std::unique_ptr<Fixture>()> make, std::vector<Row> rows) {
  const auto of = std::make_shared<Case>(Case{std::move(make), {}});
  for (Row& row : rows) {
    const std::string name = row.name;
    const int repetitions = row.repetitions;
    benchmark::RegisterBenchmark(
        name.c_str(),
        [of, row = std::move(row), left = repetitions](benchmark::State& state) mutable {
          Driver::get().run_row(state, of, row, --left == 0);
        })
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

Failure run_rows(const std::string& pattern, bool stop_early,
                 const std::function<void(const RowResult&)>& report) {
  Driver::get().stop_early = stop_early;
  Reporter reporter(report);
  benchmark::RunSpecifiedBenchmarks(&reporter, pattern);
  Driver::get().release();
  return Driver::get().failure;
}

std::uint64_t parse_number(const std::string& argument, std::uint64_t least) {
  std::uint64_t number = 0;
  const char* const end = argument.data() + argument.size();
  const auto [at, error] = std::from_chars(argument.data(), end, number);
  if (error != std::errc() || at != end || number < least) {
    throw UsageError(fmt::format("'{}': must be a whole number, at least {}", argument, least));
  }
  return number;
}

void add_context(const std::string& name, const std::string& value) {
  benchmark::AddCustomContext(name, value);
}

int run(int argc, char** argv, const char* usage,
        const std::function<void(const std::vector<std::string>&)>& add_cases) {
  benchmark::Initialize(&argc, argv);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    for (const std::string_view argument : arguments) {
      if (argument.starts_with("--benchmark")) {
        throw UsageError(fmt::format("{}: is no flag of Google Benchmark", argument));
      }
    }
    add_cases(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n{}", error.what(), usage);
    return 2;
  }
  for (const auto& [name, value] : context()) benchmark::AddCustomContext(name, value);
  std::string pattern = benchmark::GetBenchmarkFilter();
  if (pattern.empty()) pattern = "all";
  const Failure failure = run_rows(pattern, false, print);
  benchmark::Shutdown();
  if (failure.error) fmt::print(stderr, "failed: {}\n", failure.row);
  return failure.error ? 1 : 0;
}

}  // namespace scbf::bench
