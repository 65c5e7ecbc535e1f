// SPDX-License-Identifier: Apache-2.0
#include "plan_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "describe.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "scbf/growth.hpp"
#include "scbf/routing.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// Rates to compare with the requested one.
constexpr double kRates[] = {0.1, 0.01, 0.001};
constexpr std::uint64_t kHolding[] = {0, 1, 10, 100};

/// An index whose filters have a given rate.
struct Choice {
  Geometry geometry;   ///< of the first stage of a region's filter
  double rate;         ///< bound of a region's filter, however many stages it has
  double rate_now;     ///< rate up to the planned number of values, with one stage
  double server_rate;  ///< bound for all regions of a server together
  double server_rate_now;
  BankMemory bank;

  std::uint64_t bank_bytes() const { return bank.counters + bank.rows; }
};

struct Question {
  std::uint32_t regions;
  std::uint64_t servers, values;
  std::optional<std::uint64_t> rows, machine_bytes;
  double rate;
  Layout layout;
  std::vector<std::uint64_t> holding;

  double regions_per_server() const {
    return static_cast<double>(regions) / static_cast<double>(servers);
  }
  double requests(double server_rate, std::uint64_t h) const {
    return expected_requests(static_cast<double>(servers), static_cast<double>(h), server_rate);
  }
};

Question question(const RegionOptions& options, const PlanRequest& shape) {
  if (shape.capacity) throw UsageError("--capacity does not go with --regions; say --values V");
  if (shape.groups || shape.probes) {
    throw UsageError("--groups and --probes do not go with --regions: an index chooses them");
  }
  if (!options.servers) throw UsageError("--regions goes with --servers S");
  if (!options.values && !options.rows) {
    throw UsageError(
        "--regions goes with --values V, the distinct values of one region, or --rows");
  }
  if (*options.regions < *options.servers) {
    throw UsageError(fmt::format("--servers {}: must be at most {}, the regions",
                                 grouped(*options.servers), grouped(*options.regions)));
  }
  Question q{.regions = *options.regions,
             .servers = *options.servers,
             .values = 0,
             .rows = options.rows,
             .machine_bytes = shape.memory_bytes,
             .rate = shape.fpr.value_or(kDefaultFpr),
             .layout = shape.layout.value_or(Layout::split_block),
             .holding = options.holding};
  // One value per row, all of them distinct.
  q.values = options.values
                 ? *options.values
                 : std::max<std::uint64_t>(1, (*options.rows + q.regions - 1) / q.regions);
  if (q.holding.empty()) {
    for (const std::uint64_t h : kHolding) {
      if (h <= q.servers) q.holding.push_back(h);
    }
  }
  for (const std::uint64_t h : q.holding) {
    if (h > q.servers) {
      throw UsageError(fmt::format("--holding {}: must be at most {}, the servers", grouped(h),
                                   grouped(q.servers)));
    }
  }
  return q;
}

Choice choose(const Question& q, double rate) {
  const Growth growth = Growth::tightening(q.values, rate, q.layout);
  const Geometry& geometry = growth.first_geometry();
  const double now = predicted_fpr(geometry, static_cast<double>(q.values));
  const double r = q.regions_per_server();
  return {.geometry = geometry,
          .rate = rate,
          .rate_now = now,
          .server_rate = server_fpr(rate, r),
          .server_rate_now = server_fpr(now, r),
          .bank = bank_memory(geometry, q.regions)};
}

/// The rates to show, in descending order.
std::vector<double> shown_rates(const Question& q) {
  std::vector<double> rates(std::begin(kRates), std::end(kRates));
  rates.push_back(q.rate);
  std::sort(rates.begin(), rates.end(), std::greater<>());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

/// Whether two rates are equal up to rounding.
bool is_shown(const Question& q, double rate) {
  const std::vector<double> rates = shown_rates(q);
  return std::any_of(rates.begin(), rates.end(),
                     [&](double other) { return std::abs(other - rate) <= 1e-9 * rate; });
}

/// The rate of a region's filter at which a query for a value that no server holds is expected to
/// ask one server.
double rate_for_one_request(const Question& q) {
  const auto servers = static_cast<double>(q.servers);
  if (servers < 2) return q.rate;
  return region_fpr_for(server_fpr_for(servers, 0, 1), q.regions_per_server());
}

/// Number of machines with the given memory that hold the bank. Each has the counters and the rows
/// of bits of its regions.
std::uint64_t machines(const Question& q, const Choice& choice) {
  const std::uint32_t each = bank_members_in(choice.geometry, *q.machine_bytes);
  if (each == 0) {
    throw UsageError(fmt::format("--memory {}: must hold a filter, which takes {}",
                                 human_bytes(*q.machine_bytes),
                                 human_bytes(choice.geometry.bytes())));
  }
  return (q.regions + each - 1) / each;
}

Json to_json(const Question& q, const Choice& choice) {
  Json json;
  json["fpr"] = choice.rate;
  json["fpr_first_stage"] = choice.rate_now;
  describe_geometry(json, choice.geometry);
  json["bits_per_value"] =
      8 * static_cast<double>(choice.geometry.bytes()) / static_cast<double>(q.values);
  json["counters_bytes"] = choice.bank.counters;
  json["rows_of_bits_bytes"] = choice.bank.rows;
  json["bank_bytes"] = choice.bank_bytes();
  json["server_bytes"] = choice.bank_bytes() / q.servers;
  if (q.machine_bytes) json["machines"] = machines(q, choice);
  json["server_fpr"] = choice.server_rate;
  json["server_fpr_first_stage"] = choice.server_rate_now;
  json["requests"] = Json::array();
  for (const std::uint64_t h : q.holding) {
    json["requests"].push_back({{"holding", h},
                                {"expected", q.requests(choice.server_rate, h)},
                                {"expected_first_stage", q.requests(choice.server_rate_now, h)},
                                {"broadcast", q.servers}});
  }
  return json;
}

Json to_json(const Question& q) {
  Json json;
  json["regions"] = q.regions;
  json["servers"] = q.servers;
  json["regions_per_server"] = q.regions_per_server();
  if (q.rows) json["rows"] = *q.rows;
  json["values_per_region"] = q.values;
  json["plan"] = to_json(q, choose(q, q.rate));
  json["rates"] = Json::array();
  for (const double rate : shown_rates(q)) json["rates"].push_back(to_json(q, choose(q, rate)));
  json["fpr_for_one_request"] = rate_for_one_request(q);
  json["plan_for_one_request"] = to_json(q, choose(q, rate_for_one_request(q)));
  return json;
}

/// One line for each rate, with memory and with the requests for each h; all of them are bounds.
/// The last rate is the one at which a query makes one false request.
std::string table(const Question& q) {
  std::string text =
      fmt::format("{:<14} {:>11} {:>12} {:>14}  requests, if this many hold the value:\n",
                  "region's rate", "bank", "per server", "server's rate");
  text += fmt::format("{:<55}", "");
  for (const std::uint64_t h : q.holding) text += fmt::format(" {:>9}", grouped(h));
  text += '\n';
  const auto line = [&](const Choice& choice) {
    text += fmt::format("{:<14} {:>11} {:>12} {:>14} ", percent(choice.rate),
                        human_bytes(choice.bank_bytes()),
                        human_bytes(choice.bank_bytes() / q.servers), percent(choice.server_rate));
    for (const std::uint64_t h : q.holding) {
      text += fmt::format(" {:>9.1f}", q.requests(choice.server_rate, h));
    }
    text += '\n';
  };
  for (const double rate : shown_rates(q)) line(choose(q, rate));
  if (const double rate = rate_for_one_request(q); !is_shown(q, rate)) line(choose(q, rate));
  text += fmt::format("{:<14} {:>11} {:>12} {:>14} ", "broadcast", "none", "none", "");
  for (std::size_t i = 0; i < q.holding.size(); ++i) {
    text += fmt::format(" {:>9}", grouped(q.servers));
  }
  return text + '\n';
}

std::string to_text(const Question& q) {
  const Choice choice = choose(q, q.rate);
  const auto values = static_cast<double>(q.values);
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<20} {}\n", name, value);
  };
  row("regions", fmt::format("{} on {}, {:.4g} each", grouped(q.regions),
                             counted(q.servers, "server"), q.regions_per_server()));
  if (q.rows) {
    row("rows", fmt::format("{}, {} per region", grouped(*q.rows), grouped(*q.rows / q.regions)));
  }
  row("values", fmt::format("{} per region, distinct", grouped(q.values)));
  row("a region's filter",
      fmt::format("{}: {:.1f} counters per value, {} in {}", human_bytes(choice.geometry.bytes()),
                  static_cast<double>(choice.geometry.counters()) / values,
                  counted(choice.geometry.probes(), "probe"),
                  counted(choice.geometry.cache_lines_per_key(), "cache line")));
  row("its rate", fmt::format("at most {}, in stages; {} while it holds no more than that",
                              percent(choice.rate), percent(choice.rate_now)));
  row("a server's rate", fmt::format("at most {}; {} while they hold no more",
                                     percent(choice.server_rate), percent(choice.server_rate_now)));
  row("all counters", human_bytes(choice.bank.counters));
  row("rows of bits", human_bytes(choice.bank.rows));
  row("bank", fmt::format("{}: counters and rows of bits", human_bytes(choice.bank_bytes())));
  if (q.machine_bytes) {
    const std::uint64_t n = machines(q, choice);
    row("where it fits", n == 1 ? fmt::format("a machine of {}", human_bytes(*q.machine_bytes))
                                : fmt::format("{} machines of {}, {} each", grouped(n),
                                              human_bytes(*q.machine_bytes),
                                              counted((q.regions + n - 1) / n, "region")));
  }
  return text + '\n' + table(q);
}

}  // namespace

void RegionOptions::add_to(CommandLine& line) {
  line.option("--regions", "N", "Plan a secondary index of N regions instead",
              [this](const std::string& text) {
                regions =
                    static_cast<std::uint32_t>(parse_count("--regions", text, 1, kMaxBankMembers));
              });
  line.option("--servers", "S", "Servers that share the regions", [this](const std::string& text) {
    servers = parse_count("--servers", text, 1, kMaxServers);
  });
  line.option("--rows", "R", "Rows of the whole table; without --values, a value in each",
              [this](const std::string& text) { rows = parse_count("--rows", text); });
  line.option("--values", "V", "Distinct indexed values of one region",
              [this](const std::string& text) { values = parse_count("--values", text); });
  line.repeated("--holding", "H",
                "Servers that hold the value asked for; default: 0, 1, 10 and 100. Can be given "
                "several times",
                [this](const std::string& text) {
                  holding.push_back(parse_count("--holding", text, 0, kMaxServers));
                });
}

void RegionOptions::refuse_rest() const {
  const char* const given = servers            ? "--servers"
                            : rows             ? "--rows"
                            : values           ? "--values"
                            : !holding.empty() ? "--holding"
                                               : nullptr;
  if (given != nullptr) throw UsageError(fmt::format("{} goes with --regions N", given));
}

int plan_regions(const RegionOptions& options, const PlanRequest& shape, bool json) {
  const Question q = question(options, shape);
  if (json) {
    print_json(to_json(q));
  } else {
    print_text(to_text(q));
  }
  return kOk;
}

}  // namespace scbf::cli
