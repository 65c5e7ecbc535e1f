// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "errors.hpp"
#include "output.hpp"
#include "scbf/version.hpp"

namespace scbf::cli {

namespace {

/// Edits (insert, delete, replace, swap neighbours) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

/// CLI11 would only say that arguments were not expected.
void check_verb(std::span<const Verb> verbs, std::string_view name) {
  const auto is_it = [&](const Verb& verb) { return name == verb.name; };
  if (std::any_of(verbs.begin(), verbs.end(), is_it)) return;
  const auto distance = [&](const Verb& verb) { return edit_distance(name, verb.name); };
  const Verb& nearest =
      *std::min_element(verbs.begin(), verbs.end(),
                        [&](const Verb& a, const Verb& b) { return distance(a) < distance(b); });
  throw UsageError(distance(nearest) <= 2
                       ? fmt::format("'{}': no such verb; did you mean '{}'?", name, nearest.name)
                       : fmt::format("'{}': no such verb; 'scbf --help' lists them", name));
}

}  // namespace

void CommandLine::option(const std::string& names, const std::string& value_name,
                         const std::string& help, Parse parse, Need need) {
  app_.add_option_function<std::string>(names, std::move(parse), help)
      ->type_name(value_name)
      ->required(need == Need::required);
}

void CommandLine::option(const std::string& names, const std::string& value_name,
                         const std::string& help, std::string& value, Need need) {
  app_.add_option(names, value, help)->type_name(value_name)->required(need == Need::required);
}

void CommandLine::flag(const std::string& names, const std::string& help, bool& value) {
  app_.add_flag(names, value, help);
}

void CommandLine::positional(const std::string& name, const std::string& help, std::string& value) {
  app_.add_option(name, value, help)->required()->type_name("");
}

void CommandLine::positionals(const std::string& name, const std::string& help,
                              std::vector<std::string>& values, Need need) {
  app_.add_option(name, values, help)->type_name("")->required(need == Need::required);
}

void CommandLine::footer(const std::string& text) { app_.footer(text); }

Run parse_command_line(std::span<const Verb> verbs, const char* footer, int argc, char** argv) {
  CLI::App app("scbf - split counting Bloom filters: sets that change, asked in bulk", "scbf");
  app.set_version_flag("--version", "scbf " SCBF_VERSION);
  app.footer(footer);
  app.require_subcommand(1);
  std::map<const CLI::App*, Run> runs;
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->get_formatter()->column_width(28);
    CommandLine line(*sub);
    runs[sub] = verb.set_up(line);
  }
  if (argc > 1 && argv[1][0] != '-') check_verb(verbs, argv[1]);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) {  // help and version
      return [text = out.str()] {
        print_text(text);
        return kOk;
      };
    }
    const auto chosen = app.get_subcommands();
    const std::string verb = chosen.empty() ? "" : " " + chosen.front()->get_name();
    throw UsageError(fmt::format("{}{}; 'scbf{} --help' tells more",
                                 verb.empty() ? "" : verb.substr(1) + ": ", error.what(), verb));
  }
  return runs.at(app.get_subcommands().front());
}

}  // namespace scbf::cli
