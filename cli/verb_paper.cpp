// SPDX-License-Identifier: Apache-2.0
// scbf paper: Tables 1 to 4 of the paper as printed, as computed, and as simulated.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "paper.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct PaperOptions {
  std::uint32_t trials = 200;
  std::uint64_t seed = 1;
  bool json = false;
};

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}
Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string sizing_text(const PaperOptions& options) {
  std::string text =
      "Table 1: 45 KiB of positions (368,640). n is the number of keys\n"
      "            |        printed        |                    computed                      "
      "|  simulated\n"
      "        P   |  k        m         n |     k     k        m   n ideal  n half fill   n exact "
      "| P at n exact\n";
  for (const paper::SizingRow& row : paper::sizing_table(options.trials, options.seed)) {
    text += fmt::format(
        "{:>9}   | {:>2} {:>8} {:>9} | {:>5.2f} {:>5} {:>8} {:>9} {:>12} {:>9} | {:>12}\n",
        fmt::format("{:.6g} %", row.fpr * 100), row.printed_probes, grouped(row.printed_slice),
        grouped(row.printed_keys), row.ideal_probes, row.probes, grouped(row.slice),
        grouped(static_cast<std::uint64_t>(row.keys_ideal)),
        grouped(static_cast<std::uint64_t>(row.keys_half_fill)),
        grouped(static_cast<std::uint64_t>(row.keys_exact)),
        row.simulated_fpr ? percent(*row.simulated_fpr) : "-");
  }
  return text +
         "n ideal is M (ln 2)^2 / |ln P|, what the paper prints; n half fill is m ln 2 with the "
         "rounded k;\nn exact is the most keys with (1 - (1 - 1/m)^n)^k <= P.\n";
}

std::string overflow_text(const PaperOptions& options) {
  std::string split =
      "Tables 2 and 3: probability that a counter of a split filter reaches j, at half fill\n"
      "bits   j     printed  bound w/o e^j        bound        exact  simulated +- 1 s.e.\n";
  std::string standard =
      "Table 4: the same for the standard counting filter\n"
      "bits   j     printed                                   exact  simulated\n";
  for (const paper::OverflowRow& row : paper::overflow_table(options.trials, options.seed)) {
    const std::string error =
        row.simulated_error ? fmt::format(" +- {:.1g}", *row.simulated_error) : "";
    split += fmt::format("{:>4} {:>3} {:>11.4g} {:>14.4g} {:>12.4g} {:>12.4g}  {}{}\n", row.bits,
                         row.j, row.printed_split, row.bound_without_e, row.bound, row.exact_split,
                         cell(row.simulated_split), error);
    standard +=
        fmt::format("{:>4} {:>3} {:>11} {:>40.4g}  {}\n", row.bits, row.j,
                    cell(row.printed_standard), row.exact_standard, cell(row.simulated_standard));
  }
  return split + "The printed values leave out the factor e^j of the bound.\n\n" + standard +
         "The last printed value is the rounding error of 1 - sum in double precision. Splitting "
         "hardly changes\nthe overflow; it makes the probes independent.\n";
}

Json to_json(const PaperOptions& options) {
  Json table1 = Json::array(), overflow = Json::array();
  for (const paper::SizingRow& row : paper::sizing_table(options.trials, options.seed)) {
    table1.push_back(Json{{"fpr", row.fpr},
                          {"printed_probes", row.printed_probes},
                          {"printed_slice", row.printed_slice},
                          {"printed_keys", row.printed_keys},
                          {"ideal_probes", row.ideal_probes},
                          {"probes", row.probes},
                          {"slice", row.slice},
                          {"keys_ideal", row.keys_ideal},
                          {"keys_half_fill", row.keys_half_fill},
                          {"keys_exact", row.keys_exact},
                          {"simulated_fpr", number(row.simulated_fpr)}});
  }
  for (const paper::OverflowRow& row : paper::overflow_table(options.trials, options.seed)) {
    overflow.push_back(Json{{"bits", row.bits},
                            {"j", row.j},
                            {"printed_split", row.printed_split},
                            {"bound_without_e", row.bound_without_e},
                            {"bound", row.bound},
                            {"exact_split", row.exact_split},
                            {"simulated_split", number(row.simulated_split)},
                            {"simulated_error", number(row.simulated_error)},
                            {"printed_standard", number(row.printed_standard)},
                            {"exact_standard", row.exact_standard},
                            {"poisson", row.poisson},
                            {"simulated_standard", number(row.simulated_standard)},
                            {"simulated_standard_error", number(row.simulated_standard_error)}});
  }
  return Json{{"trials", options.trials},
              {"seed", options.seed},
              {"table_1", std::move(table1)},
              {"tables_2_3_4", std::move(overflow)}};
}

int print_paper(const PaperOptions& options) {
  if (options.json) {
    print_json(to_json(options));
  } else {
    print_text(sizing_text(options) + "\n" + overflow_text(options));
  }
  return kOk;
}

}  // namespace

Run set_up_paper(CommandLine& line) {
  auto options = std::make_shared<PaperOptions>();
  line.option("--trials", "N", "Filters to simulate, about 5 ms each; default 200, 0 for none",
              [o = options.get()](const std::string& text) {
                o->trials = static_cast<std::uint32_t>(parse_count("--trials", text, 0, 1'000'000));
              });
  line.option(
      "--seed", "S", "Seed of the simulation; default 1",
      [o = options.get()](const std::string& text) { o->seed = parse_seed("--seed", text); });
  line.flag("--json", "Print JSON", options->json);
  line.footer("Examples:\n  scbf paper\n  scbf paper --trials 2000 --json");
  return [options] { return print_paper(*options); };
}

}  // namespace scbf::cli
