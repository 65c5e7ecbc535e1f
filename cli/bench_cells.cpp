// SPDX-License-Identifier: Apache-2.0
#include "bench_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "errors.hpp"
#include "key_stream.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"

namespace scbf::cli {

namespace {

[[noreturn]] void wrong(const CellRequest& request, const std::string& what) {
  throw Incompatible(fmt::format("bench: {}, {} backend: wrong answers, so nothing is timed: {}",
                                 request.geometry.describe(), request.backend, what));
}

double measured_fpr(const Filter& filter, const BenchKeys& keys, const BatchOptions& batch,
                    std::vector<std::uint8_t>& answers) {
  const std::uint64_t hits = filter.contains(keys.absent, answers, batch).hits;
  return static_cast<double>(hits) / static_cast<double>(keys.absent.size());
}

/// Repetitions of one operation: at least three, unless they take far too long.
class Repetitions {
 public:
  Repetitions(double budget, std::uint64_t keys) : budget_(budget), keys_(keys) {}
  bool more() const {
    if (ns_.size() >= kMost || total_ >= 4 * budget_) return ns_.empty();
    return ns_.size() < 3 || total_ < budget_;
  }
  void time(const std::function<void()>& work) {
    const Stopwatch watch;
    work();
    const double seconds = watch.seconds();
    total_ += seconds;
    ns_.push_back(seconds * 1e9 / static_cast<double>(keys_));
  }
  Timing result(Operation operation) {
    std::sort(ns_.begin(), ns_.end());
    return {.operation = operation,
            .ns_per_key = ns_[ns_.size() / 2],
            .fastest_ns = ns_.front(),
            .slowest_ns = ns_.back(),
            .repetitions = static_cast<std::uint32_t>(ns_.size())};
  }

 private:
  static constexpr std::size_t kMost = 10'000;
  double budget_;
  std::uint64_t keys_;
  double total_ = 0;
  std::vector<double> ns_;
};

}  // namespace

std::string_view to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::insert:
      return "insert";
    case Operation::hit:
      return "hit";
    case Operation::miss:
      return "miss";
    case Operation::mix:
      return "mix";
    case Operation::count:
      return "count";
    case Operation::remove:
      return "remove";
  }
  return "";
}

Operation operation_from_string(std::string_view name) {
  for (const Operation operation : kOperations) {
    if (to_string(operation) == name) return operation;
  }
  throw UsageError(
      fmt::format("--operations '{}': must be insert, hit, miss, mix, count or remove", name));
}

BenchKeys::BenchKeys(std::uint64_t n, std::uint64_t seed) : present(n), absent(n), mixed(n) {
  KeyStream stream({.seed = seed});  // uniform: no key comes twice
  stream.fill(present);
  stream.fill(absent);
  for (std::uint64_t i = 0; i < n; ++i) {
    mixed[i] = (mix(seed + i) & 1) != 0 ? present[i] : absent[i];
  }
}

CellResult measure_cell(const CellRequest& request, const BenchKeys& keys, const Filter* model,
                        std::unique_ptr<Filter>* full) {
  const BatchOptions& batch = request.batch;
  const std::uint64_t n = keys.present.size();
  Filter filter(request.geometry, {.backend = request.backend});
  CellResult result{.geometry = request.geometry,
                    .predicted_fpr = predicted_fpr(request.geometry, static_cast<double>(n)),
                    .backend = std::string(filter.backend().name()),
                    .target = std::string(filter.backend().target())};
  std::vector<std::uint8_t> answers(n);

  filter.insert(keys.present, batch);
  const std::uint64_t found = filter.contains(keys.present, answers, batch).hits;
  if (found != n) wrong(request, fmt::format("{} of {} inserted keys are not found", n - found, n));
  result.measured_fpr = measured_fpr(filter, keys, batch, answers);
  // The second term is the variance of the filter's fill.
  const double error = std::sqrt(result.predicted_fpr / static_cast<double>(n)) +
                       result.predicted_fpr / std::sqrt(static_cast<double>(n));
  if (std::abs(result.measured_fpr - result.predicted_fpr) >
      6 * error + 1 / static_cast<double>(n)) {
    wrong(request, fmt::format("measured rate {}, predicted {} +- {}", percent(result.measured_fpr),
                               percent(result.predicted_fpr), percent(error)));
  }
  if (model != nullptr && !(filter == *model)) {
    wrong(request, "counters differ from those of the backend before it");
  }

  for (const Operation operation : request.operations) {
    const std::vector<std::uint64_t>* asked = nullptr;
    if (operation == Operation::hit) asked = &keys.present;
    if (operation == Operation::miss) asked = &keys.absent;
    if (operation == Operation::mix) asked = &keys.mixed;
    if (asked == nullptr && operation != Operation::count) continue;
    Repetitions repetitions(request.seconds, n);
    while (repetitions.more()) {
      repetitions.time([&] {
        if (asked != nullptr) {
          filter.contains(*asked, answers, batch);
        } else {
          filter.count(keys.present, answers, batch);
        }
      });
    }
    result.timings.push_back(repetitions.result(operation));
  }
  if (full != nullptr) *full = std::make_unique<Filter>(filter);

  // Inserts and removes undo each other. So every repetition starts from the same filter, in memory
  // whose pages are already mapped.
  const std::uint64_t saturated = filter.statistics(batch).saturated;
  Repetitions removes(request.seconds, n), inserts(request.seconds, n);
  RemoveReport removed;
  const auto remove_all = [&] { removed = filter.remove(keys.present, answers, batch); };
  removes.time(remove_all);
  if (removed.removed != n) {
    wrong(request, fmt::format("{} of {} inserted keys could not be removed", removed.absent, n));
  }
  if (saturated == 0 && filter.statistics(batch).nonzero != 0) {
    wrong(request, "removing everything does not leave an empty filter");
  }
  const bool wanted =
      std::any_of(request.operations.begin(), request.operations.end(),
                  [](Operation o) { return o == Operation::insert || o == Operation::remove; });
  while (wanted && (inserts.more() || removes.more())) {
    inserts.time([&] { filter.insert(keys.present, batch); });
    removes.time(remove_all);
  }
  for (const Operation operation : request.operations) {
    if (operation == Operation::insert) result.timings.push_back(inserts.result(operation));
    if (operation == Operation::remove) result.timings.push_back(removes.result(operation));
  }
  std::stable_sort(result.timings.begin(), result.timings.end(),
                   [](const Timing& a, const Timing& b) { return a.operation < b.operation; });
  return result;
}

}  // namespace scbf::cli
