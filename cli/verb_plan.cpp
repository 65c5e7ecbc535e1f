// SPDX-License-Identifier: Apache-2.0
// scbf plan: the geometry, the memory and the rate of a filter, computed in advance.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "describe.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "plan_regions.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct PlanOptions {
  ShapeOptions shape;
  RegionOptions regions;
  RunOptions run;
};

Json to_json(const Plan& plan) {
  Json json;
  json["layout"] = to_string(plan.geometry.layout());
  json["capacity"] = plan.capacity;
  json["fpr"] = plan.fpr;
  describe_geometry(json, plan.geometry);
  json["bits_per_key"] = plan.bits_per_key;
  json["predicted_fpr"] = plan.predicted_fpr;
  json["reason"] = plan.reason;
  return json;
}

std::string to_text(const Plan& plan, bool rate_given) {
  const Geometry& g = plan.geometry;
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<20} {}\n", name, value);
  };
  row("layout", std::string(to_string(g.layout())));
  row("capacity", counted(plan.capacity, "key"));
  if (rate_given) row("rate asked for", percent(plan.fpr));
  row("rate predicted", percent(plan.predicted_fpr));
  if (g.layout() == Layout::split_block) row("groups", fmt::format("{}", g.groups()));
  row("probes", fmt::format("{}", g.probes()));
  if (g.layout() == Layout::ranked) {
    row("positions",
        fmt::format("{} in each of {} blocks, 4 times {}", kRankedSlices * g.positions(),
                    grouped(g.blocks_per_group()), g.positions()));
    row("blocks that may spill", grouped(g.spill_slots()));
  } else {
    row("counters", fmt::format("{} of {} bits", grouped(g.counters()), kCounterBits));
  }
  row("memory", human_bytes(g.bytes()));
  row("bits per key", fmt::format("{:.1f}", plan.bits_per_key));
  row("cache lines per key", fmt::format("{}", g.cache_lines_per_key()));
  return text + plan.reason + "\n";
}

}  // namespace

Run set_up_plan(CommandLine& line) {
  auto options = std::make_shared<PlanOptions>();
  options->shape.add_to(line);
  options->regions.add_to(line);
  options->run.add_json_to(line, "Print JSON");
  line.footer(
      R"(Give two of --capacity, --fpr and --memory; three are accepted if they can all be met.

With --regions: the memory of a secondary index's filters, and the number of servers that a query
asks. --fpr is then the bound of one region's filter (default 1%), and --memory the memory of a
machine that holds the bank.

Examples:
  scbf plan --capacity 1e8 --fpr 1%
  scbf plan --capacity 1e8 --memory 512MiB
  scbf plan --fpr 0.001 --memory 2GiB --layout split --json
  scbf plan --regions 64 --servers 16 --rows 60k --values 5000 --fpr 1%)");
  return [options]() -> int {
    if (options->regions.regions) {
      return plan_regions(options->regions, options->shape.request, options->run.json);
    }
    options->regions.refuse_rest();
    const PlanRequest& request = options->shape.request;
    if (request.capacity.has_value() + request.fpr.has_value() + request.memory_bytes.has_value() <
        2) {
      throw UsageError(fmt::format("plan: needs at least two of --capacity, --fpr and --memory{}",
                                   request.capacity       ? ", got only --capacity"
                                   : request.fpr          ? ", got only --fpr"
                                   : request.memory_bytes ? ", got only --memory"
                                                          : ""));
    }
    const Plan result = plan(options->shape.request);
    if (options->run.json) {
      print_json(to_json(result));
    } else {
      print_text(to_text(result, options->shape.request.fpr.has_value()));
    }
    return kOk;
  };
}

}  // namespace scbf::cli
