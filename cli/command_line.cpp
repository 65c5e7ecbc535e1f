// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <ranges>
#include <sstream>
#include <string_view>
#include <utility>

#include "errors.hpp"
#include "output.hpp"
#include "scbf/version.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// Number of edits (insert, delete, replace, swap neighbours) that turn a into b.
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

/// Breaks the descriptions of options into lines.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(28); }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t kLineLength = 110;
    const std::size_t most = kLineLength - get_column_width();
    std::istringstream words(option->get_description());
    std::string text;
    std::size_t length = 0;
    for (std::string word; words >> word;) {
      const bool fits = length + 1 + word.size() <= most;
      if (!text.empty()) text += fits ? ' ' : '\n';
      length = text.empty() || !fits ? word.size() : length + 1 + word.size();
      text += word;
    }
    return text;
  }
};

/// CLI11 reads "[a,b]" as two words, but a key may look like that. So such words get this
/// suffix while CLI11 parses them. No argument can contain it.
constexpr char kGuard = '\0';

std::string guarded(std::string word) {
  if (word.starts_with('[') && word.ends_with(']')) word += kGuard;
  return word;
}

std::string unguarded(std::string word) {
  if (word.ends_with(kGuard)) word.pop_back();
  return word;
}

/// Returns the leading words that name verbs, such as "index create". Throws UsageError for an
/// unknown verb and suggests the nearest one; CLI11 would only report unexpected arguments.
std::string chosen_verbs(const CLI::App& root, std::span<char* const> words) {
  const CLI::App* app = &root;
  std::string path;
  for (const std::string_view word : words) {
    const auto verbs = app->get_subcommands([](const CLI::App*) { return true; });
    if (verbs.empty() || word.starts_with('-')) break;
    const auto is_it = [&](const CLI::App* verb) { return verb->get_name() == word; };
    const auto found = std::find_if(verbs.begin(), verbs.end(), is_it);
    if (found == verbs.end()) {
      const auto distance = [&](const CLI::App* verb) {
        return edit_distance(word, verb->get_name());
      };
      const CLI::App& nearest = **std::min_element(
          verbs.begin(), verbs.end(),
          [&](const CLI::App* a, const CLI::App* b) { return distance(a) < distance(b); });
      const std::string lead = path.empty() ? "" : path + " ";
      const std::string typed = lead + std::string(word);
      throw UsageError(distance(&nearest) <= 2
                           ? fmt::format("{}: no such verb; did you mean '{}{}'?", in_quotes(typed),
                                         lead, nearest.get_name())
                           : fmt::format("{}: no such verb; 'scbf {}--help' lists them",
                                         in_quotes(typed), lead));
    }
    app = *found;
    path += (path.empty() ? "" : " ") + app->get_name();
  }
  return path;
}

/// Whether the next word is the value of this option.
bool takes_value(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_max() > 0;
}

/// Throws UsageError for a word such as "-hash.scbf", which may be the name of a file: CLI11 would
/// take it for the options -h, -a …, and print the help.
void refuse_lookalikes(const CLI::App& app, const std::string& verb, std::span<char* const> words) {
  bool is_value = false;
  for (const std::string_view word : words) {
    if (std::exchange(is_value, false) || !word.starts_with('-')) continue;
    if (word == "--") return;
    if (word.starts_with("--")) {
      is_value =
          word.find('=') == word.npos && takes_value(app.get_option_no_throw(std::string(word)));
      continue;
    }
    for (std::size_t i = 1; i < word.size() && !is_value; ++i) {
      const CLI::Option* const option = app.get_option_no_throw({'-', word[i]});
      if (takes_value(option)) {
        is_value = i + 1 == word.size();
        break;  // the rest is the value
      }
      if (option != nullptr) continue;
      if (word.size() == 2 || (i == 1 && word[i] >= '0' && word[i] <= '9')) break;
      throw UsageError(fmt::format(
          "{}{}: this looks like an option; put -- before it, or write {} if it is a "
          "file",
          verb.empty() ? "" : verb + ": ", in_quotes(word), in_shell(fmt::format("./{}", word))));
    }
  }
}

/// The verb that chosen_verbs names.
const CLI::App& chosen_app(const CLI::App& root, const std::string& verb) {
  const CLI::App* app = &root;
  std::istringstream path(verb);
  for (std::string name; path >> name;) app = app->get_subcommand(name);
  return *app;
}

/// The only long option that begins with the letter of an unknown "-x"; otherwise nothing.
std::string option_of_letter(const CLI::App& app, std::string_view word) {
  if (word.size() != 2 || word[1] == '-' || app.get_option_no_throw(std::string(word)) != nullptr) {
    return "";
  }
  std::string found;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      if (std::tolower(static_cast<unsigned char>(word[1])) != known[0]) continue;
      if (!found.empty()) return "";
      found = known;
    }
  }
  return found;
}

/// "; did you mean --x?" for an option that is unknown and nearly --x; otherwise nothing.
std::string nearest_option(const CLI::App& app, std::span<char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") break;
    if (word.starts_with('-')) {
      const std::string found = option_of_letter(app, word);
      if (!found.empty()) return fmt::format("; did you mean --{}?", found);
    }
    if (!word.starts_with("--") || word.size() < 4) continue;
    const std::string_view name = word.substr(2, word.find('=') - 2);
    std::string nearest;
    std::size_t least = 3;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& known : option->get_lnames()) {
        const std::size_t distance = known.starts_with(name) ? 1 : edit_distance(name, known);
        if (known == name) least = 0;
        if (distance >= least) continue;
        least = distance;
        nearest = known;
      }
    }
    if (least > 0 && !nearest.empty()) return fmt::format("; did you mean --{}?", nearest);
  }
  return "";
}

/// Throws UsageError for an unknown option where a verb must stand; CLI11 would only say that a
/// verb is missing.
void refuse_option_for_verb(const CLI::App& app, const std::string& verb,
                            std::span<char* const> words) {
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  if (words.empty() || verbs.empty()) return;
  const std::string_view word = words.front();
  const std::string name(word.substr(0, word.find('=')));
  if (!word.starts_with('-') || word == "--" || app.get_option_no_throw(name) != nullptr) return;
  const std::string lead = verb.empty() ? "scbf" : "scbf " + verb;
  const auto is_verb = [&](std::string_view later) {
    return std::any_of(verbs.begin(), verbs.end(),
                       [&](const CLI::App* known) { return known->get_name() == later; });
  };
  const auto found = std::find_if(words.begin() + 1, words.end(), is_verb);
  if (found != words.end()) {
    const std::string later = chosen_verbs(app, std::span(found, words.end()));
    const std::string option = word.starts_with("--") ? name : name.substr(0, 2);  // of "-ofile"
    if (chosen_app(app, later).get_option_no_throw(option) != nullptr) {
      throw UsageError(fmt::format("{}: options come after the verb: {} {} … {}", in_quotes(word),
                                   lead, later, word));
    }
  }
  throw UsageError(fmt::format("{}: no such option{}; '{} --help' tells more", in_quotes(word),
                               nearest_option(app, words.first(1)), lead));
}

}  // namespace

void CommandLine::option(const std::string& names, const std::string& value_name,
                         const std::string& help, Parse parse, Need need) {
  app_.add_option_function<std::string>(
          names, [parse = std::move(parse)](const std::string& text) { parse(unguarded(text)); },
          help)
      ->type_name(value_name)
      ->required(need == Need::required);
}

void CommandLine::option(const std::string& names, const std::string& value_name,
                         const std::string& help, std::string& value, Need need) {
  option(
      names, value_name, help, [&value](const std::string& text) { value = text; }, need);
}

void CommandLine::repeated(const std::string& names, const std::string& value_name,
                           const std::string& help, Parse parse) {
  const auto parse_all = [parse = std::move(parse)](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) parse(unguarded(text));
  };
  app_.add_option_function<std::vector<std::string>>(names, parse_all, help)
      ->allow_extra_args(false)  // the next word is not a value of this option
      ->type_name(value_name);
}

void CommandLine::flag(const std::string& names, const std::string& help, bool& value) {
  app_.add_flag(names, value, help);
}

void CommandLine::flag(const std::string& names, const std::string& help,
                       std::function<void()> use) {
  app_.add_flag_callback(names, std::move(use), help);
}

void CommandLine::positional(const std::string& name, const std::string& help, std::string& value) {
  positional(name, help, [&value](const std::string& text) { value = text; });
}

void CommandLine::positional(const std::string& name, const std::string& help, Parse parse) {
  const auto take = [parse = std::move(parse)](const std::string& text) { parse(unguarded(text)); };
  app_.add_option_function<std::string>(name, take, help)->required()->type_name("");
}

void CommandLine::positionals(const std::string& name, const std::string& help,
                              std::vector<std::string>& values, Need need) {
  const auto take = [&values](const std::vector<std::string>& texts) {
    values.clear();
    for (const std::string& text : texts) values.push_back(unguarded(text));
  };
  app_.add_option_function<std::vector<std::string>>(name, take, help)
      ->type_name("")
      ->required(need == Need::required);
}

Run CommandLine::verbs(std::span<const Verb> verbs) {
  app_.require_subcommand(1);
  const auto chosen = std::make_shared<Run>();
  for (const Verb& verb : verbs) {
    CLI::App* sub = app_.add_subcommand(verb.name, verb.summary);
    CommandLine line(*sub);
    sub->callback([chosen, run = verb.set_up(line)] { *chosen = run; });
  }
  return [chosen] { return (*chosen)(); };
}

void CommandLine::anything() { app_.prefix_command(); }

void CommandLine::footer(const std::string& text) { app_.footer(text); }

const CLI::App& CommandLine::root() const {
  const CLI::App* app = &app_;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return *app;
}

Run parse_command_line(std::span<const Verb> verbs, const char* footer, int argc, char** argv) {
  CLI::App app("scbf - split counting Bloom filters: sets that change, asked in bulk", "scbf");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "scbf " SCBF_VERSION);
  app.footer(footer);
  const Run run = CommandLine(app).verbs(verbs);
  std::vector<char*> words(argv + std::min(argc, 1), argv + argc);
  std::string help_option = "--help";
  if (!words.empty() && words[0] == std::string_view("help")) {  // help VERB is VERB --help
    words.erase(words.begin());
    words.push_back(help_option.data());
  }
  const std::string verb = chosen_verbs(app, words);
  const CLI::App& chosen = chosen_app(app, verb);
  const auto path_words =
      static_cast<std::size_t>(verb.empty() ? 0 : std::count(verb.begin(), verb.end(), ' ') + 1);
  refuse_option_for_verb(chosen, verb, std::span(words).subspan(path_words));
  refuse_lookalikes(chosen, verb, words);

  std::vector<std::string> reversed;  // CLI11 expects the words in reverse
  reversed.reserve(words.size());
  for (const char* word : std::views::reverse(words)) reversed.push_back(guarded(word));
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) {  // help and version
      return [text = out.str()] {
        print_text(text);
        return kOk;
      };
    }
    std::string what = error.what();
    if (const std::size_t at = what.find(": At Most 1 required but received"); at != what.npos) {
      what.replace(at, what.npos, " may be given once");
    }
    throw UsageError(fmt::format("{}{}{}; 'scbf{}{} --help' tells more",
                                 verb.empty() ? "" : verb + ": ", what,
                                 nearest_option(chosen, words), verb.empty() ? "" : " ", verb));
  }
  return run;
}

}  // namespace scbf::cli
