// SPDX-License-Identifier: Apache-2.0
// The driver of all benchmarks, on Google Benchmark. A benchmark is a case: a fixture, and rows
// that are timed on it. The driver holds one fixture at a time and verifies it before it times
// anything. Each row reports ns per item for each of its forms, which are measured in turn. After a
// wrong answer the row has no figures and the program fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace scbf::bench {

struct WrongAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The arguments of the program are not usable.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The state of a case while its rows are timed.
class Fixture {
 public:
  Fixture() = default;
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  virtual ~Fixture() = default;

  /// Throws WrongAnswer. Called before the first row.
  virtual void verify() {}
  /// Figures for every row of the case.
  virtual std::map<std::string, double> counters() const { return {}; }
};

/// The clock and the figures of one repetition of a row.
class Repetition {
 public:
  /// Times a call on so many items and adds it to a form of the row; the main form is "". Returns
  /// what the call returns.
  template <class Call>
  auto time(const std::string& form, std::size_t items, const Call& call) {
    const Timer timer(forms_[form], items);
    return call();
  }
  /// Adds a time that was taken elsewhere.
  void add(const std::string& form, std::size_t items, double seconds) {
    forms_[form].items += static_cast<double>(items);
    forms_[form].seconds += seconds;
  }
  void counter(const std::string& name, double value) { counters_[name] = value; }
  void label(const std::string& text) { label_ = text; }

  /// The number of finished passes in this repetition.
  std::size_t pass() const noexcept { return pass_; }
  double seconds() const;
  double ns_per_item(const std::string& form = "") const;

 private:
  friend class Driver;

  struct Form {
    double items = 0, seconds = 0;
  };
  class Timer {
   public:
    Timer(Form& form, std::size_t items) : form_(form), start_(Clock::now()) {
      form_.items += static_cast<double>(items);
    }
    Timer(const Timer&) = delete;
    ~Timer() { form_.seconds += std::chrono::duration<double>(Clock::now() - start_).count(); }

   private:
    using Clock = std::chrono::steady_clock;
    Form& form_;
    Clock::time_point start_;
  };

  std::map<std::string, Form> forms_;
  std::map<std::string, double> counters_;
  std::string label_;
  std::size_t pass_ = 0;
};

struct Row {
  std::string name;  ///< "operation/key:value/…"
  int repetitions = 5;
  /// One pass. Throws WrongAnswer.
  std::function<void(Fixture&, Repetition&)> measure;
  std::string item = "key";  ///< "line" makes the main figure ns_per_line
  std::size_t passes = 1;    ///< minimum per repetition
  double seconds = 0;        ///< minimum of timed seconds per repetition
  bool changes = false;      ///< changes the fixture, so verify it after the last repetition
};

/// Makes a row's `measure` from a member function of the case's own fixture.
template <class Own, class... Parameters, class... Arguments>
std::function<void(Fixture&, Repetition&)> by(void (Own::*pass)(Repetition&, Parameters...),
                                              Arguments... arguments) {
  return [=](Fixture& fixture, Repetition& repetition) {
    (static_cast<Own&>(fixture).*pass)(repetition, arguments...);
  };
}

/// Adds a case. Its fixture is made when the first of its rows runs.
void add_case(std::function<std::unique_ptr<Fixture>()> make, std::vector<Row> rows);

struct Spread {
  double least = 0, median = 0, most = 0;
};
/// The result of a row. Figures are ns_per_<item>, ns_per_<item>_<form> and counters.
struct RowResult {
  std::string name, label, error;
  std::size_t repetitions = 0;
  std::map<std::string, Spread> figures;
};

struct Failure {
  std::string row;
  std::exception_ptr error;
};

/// Runs the rows that `pattern` (a regular expression, or "all") picks, and calls report(row) after
/// each. Returns the first failure. With `stop_early`, no row is measured after it.
Failure run_rows(const std::string& pattern, bool stop_early,
                 const std::function<void(const RowResult&)>& report);

/// A whole number among the arguments. Throws UsageError, which names it, unless it is at least
/// `least`.
std::uint64_t parse_number(const std::string& argument, std::uint64_t least);

/// Adds a line to the JSON's context, besides those of machine.hpp.
void add_context(const std::string& name, const std::string& value);

/// The main function of a benchmark program: takes Google Benchmark's flags, calls
/// add_cases(other arguments), runs the rows and prints a line for each. Returns the exit code: 1
/// when a row failed, 2 for unusable arguments.
int run(int argc, char** argv, const char* usage,
        const std::function<void(const std::vector<std::string>&)>& add_cases);

}  // namespace scbf::bench
