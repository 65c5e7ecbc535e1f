// SPDX-License-Identifier: Apache-2.0
#include "too_full.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "options.hpp"
#include "output.hpp"
#include "scbf/sizing.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// A rate this many times the one that was planned is clearly above it. (What the fill says is an
/// estimate.)
constexpr double kClearly = 1.25;

}  // namespace

std::uint64_t saturated_counters(const Statistics& statistics) {
  std::uint64_t saturated = 0;
  for (const StageStatistics& stage : statistics.stages) {
    const Geometry& geometry = stage.shape.geometry;
    const bool keep_a_key =
        geometry.layout() == Layout::ranked || stage.saturated >= geometry.probes();
    if (geometry.cell() == Cell::counter && keep_a_key) saturated += stage.saturated;
  }
  return saturated;
}

void warn_of_saturated(std::uint64_t counters) {
  if (counters == 0) return;
  note(fmt::format(
      "saturated counters, which can no longer be lowered: {}. A key that has no "
      "others can never be removed. There are too many keys, or too many copies of some: "
      "build a larger filter, or insert each key once (sort -u, or scbf insert --new)",
      grouped(counters)));
}

void warn_if_too_full(std::uint64_t keys, const FilterNotes& notes, const Statistics& statistics,
                      const char* way_out) {
  if (!notes.capacity || keys <= *notes.capacity) return;
  // (Repeated keys take no room.)
  const double estimated_fpr = statistics.estimated_fpr;
  if (notes.fpr && estimated_fpr <= kClearly * *notes.fpr) return;
  const std::string rate =
      notes.fpr ? fmt::format(" (planned: {})", percent(*notes.fpr)) : std::string();
  // A nearly full filter cannot tell how many keys made it so: no more than there were.
  constexpr double kNearlyFull = 0.9;
  const double estimated = std::min(statistics.estimated_keys, static_cast<double>(keys));
  const auto distinct = static_cast<std::uint64_t>(std::ceil(estimated));
  note(
      fmt::format("about {} distinct keys in a filter for {}: false-positive rate now about {}{}; "
                  "{} with --capacity {}",
                  grouped(distinct), grouped(*notes.capacity), percent(estimated_fpr), rate,
                  way_out, statistics.fill > kNearlyFull ? keys : distinct));
}

void add_max_fpr_to(CommandLine& line, double& most) {
  line.option(
      "--max-fpr", "P",
      "Write nothing if the filter's false-positive rate ends above this; default " +
          percent(kMostFpr),
      [&most](const std::string& text) { most = parse_rate("--max-fpr", text, LargestRate::one); });
}

void check_rate(const FilterBase& filter, double most, const Refusal& refusal) {
  if (most >= 1) return;
  double rate = filter.fpr_bound();
  if (filter.stages() == 1) {
    const Geometry geometry = filter.geometry();
    rate = predicted_fpr(
        geometry, keys_for_fill(filter.fill(), static_cast<double>(geometry.counters_per_slice())));
  }
  if (rate <= most) return;
  std::string way_out = refusal.way_out;
  // A filter that was planned above the limit can never meet it. (Whoever gave a lower limit than
  // the default meant it.)
  if (refusal.planned && *refusal.planned > most && most >= kMostFpr) {
    const auto in_percent = [](double p) { return fmt::format("{:.0f}%", std::ceil(100 * p)); };
    way_out = rate <= kClearly * *refusal.planned
                  ? fmt::format("{} was planned; --max-fpr {} accepts the filter",
                                percent(*refusal.planned), in_percent(rate))
                  : fmt::format("{}, with --max-fpr {}", way_out, in_percent(*refusal.planned));
  }
  throw Incompatible(fmt::format(
      "{}: with {}, its false-positive rate would be {} {}, and --max-fpr allows {}: {}; {}",
      refusal.name, counted(keys_left(filter.keys_inserted(), filter.keys_removed()), "key"),
      filter.stages() == 1 ? "about" : "up to", percent(rate), percent(most), refusal.outcome,
      way_out));
}

std::string full_text(const Refusal& refusal, std::string_view reason, std::uint64_t fitted) {
  return fmt::format("{}: {}; {} of the input fitted, and {}", refusal.name, reason,
                     counted(fitted, "key"), refusal.outcome);
}

}  // namespace scbf::cli
