// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "scbf/version.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// A verb, or the command itself, whose path is empty.
struct Place {
  std::string path;  // "index create"
  const CLI::App* app;
};

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void collect(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
  places.push_back({path, &app});
  for (const CLI::App* verb : verbs_of(app)) {
    collect(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), places);
  }
}

/// The first line of a text, to stand between single quotes.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '\'') {
      result += "’";
    } else {
      result += c;
    }
  }
  return result;
}

/// Calls each(name with its dashes, description) for all options of a verb.
template <class Each>
void for_each_option(const CLI::App& app, const Each& each) {
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) each("--" + name, option->get_description());
    for (const auto& name : option->get_snames()) each("-" + name, option->get_description());
  }
}

/// bash and zsh: a case for each verb, which sets `verbs` and `options`.
std::string cases(const std::vector<Place>& places, bool described) {
  std::string text = "  case $place in\n";
  const auto item = [&](std::string name, const std::string& description) {
    return described ? fmt::format(" '{}:{}'", name, quoted(description)) : " " + name;
  };
  for (const Place& place : places) {
    std::string verbs, options;
    for (const CLI::App* verb : verbs_of(*place.app)) {
      verbs += item(verb->get_name(), verb->get_description());
    }
    for_each_option(*place.app, [&](const std::string& name, const std::string& description) {
      options += item(name, description);
    });
    const std::string_view open = described ? "(" : "'", close = described ? " )" : " '";
    text += fmt::format("    '{}')\n      verbs={}{}{}\n      options={}{}{}\n      ;;\n",
                        place.path, open, verbs, close, open, options, close);
  }
  return text + "  esac\n";
}

/// bash and zsh: which verb the words before the cursor name.
std::string path_loop(const std::vector<Place>& places, std::string_view words) {
  std::string known;
  for (const Place& place : places) {
    if (!place.path.empty()) known += fmt::format("{}'{}'", known.empty() ? "" : "|", place.path);
  }
  return fmt::format(
      "  for word in \"{}\"; do\n    case \"${{place:+$place }}$word\" in\n"
      "      {}) place=\"${{place:+$place }}$word\" ;;\n    esac\n  done\n",
      words, known);
}

std::string bash(const std::vector<Place>& places) {
  return "# Completion of scbf for bash.\n_scbf() {\n"
         "  local word place='' verbs='' options='' current=${COMP_WORDS[COMP_CWORD]}\n" +
         path_loop(places, "${COMP_WORDS[@]:1:COMP_CWORD-1}") + cases(places, false) +
         "  [[ $current == -* ]] && verbs=$options\n"
         "  COMPREPLY=($(compgen -W \"$verbs\" -- \"$current\"))\n}\n"
         "complete -o default -F _scbf scbf\n";
}

std::string zsh(const std::vector<Place>& places) {
  return "#compdef scbf\n# Completion of scbf for zsh.\n_scbf() {\n"
         "  local word place=''\n  local -a verbs options\n" +
         path_loop(places, "${(@)words[2,CURRENT-1]}") + cases(places, true) +
         "  if [[ $PREFIX == -* ]]; then _describe option options\n"
         "  elif (( $#verbs )); then _describe verb verbs\n"
         "  else _files\n  fi\n}\n_scbf \"$@\"\n";
}

std::string fish(const std::vector<Place>& places) {
  std::string text =
      "# Completion of scbf for fish.\nfunction __scbf_at\n  set -l place\n"
      "  set -l words (commandline -opc)\n  set -e words[1]\n  for word in $words\n"
      "    if contains -- (string join -- ' ' $place $word)";
  for (const Place& place : places) {
    if (!place.path.empty()) text += fmt::format(" '{}'", place.path);
  }
  text += "\n      set -a place $word\n    end\n  end\n  test \"$place\" = \"$argv\"\nend\n";
  for (const Place& place : places) {
    const std::string lead = fmt::format("complete -c scbf -n '__scbf_at {}'", place.path);
    for (const CLI::App* verb : verbs_of(*place.app)) {
      text += fmt::format("{} -f -a {} -d '{}'\n", lead, verb->get_name(),
                          quoted(verb->get_description()));
    }
    for_each_option(*place.app, [&](const std::string& name, const std::string& description) {
      const bool is_long = name.starts_with("--");
      text += fmt::format("{} -{} {} -d '{}'\n", lead, is_long ? 'l' : 's',
                          name.substr(is_long ? 2 : 1), quoted(description));
    });
  }
  return text;
}

/// The help of the command and of each verb, as it is.
std::string man(const std::vector<Place>& places) {
  std::string text = ".TH SCBF 1 \"\" \"scbf " SCBF_VERSION
                     "\"\n.SH NAME\nscbf \\- split counting Bloom filters: sets that change, asked "
                     "in bulk\n";
  for (const Place& place : places) {
    const std::string name = place.path.empty() ? "scbf" : "scbf " + place.path;
    text += fmt::format(".SH {}\n.nf\n", place.path.empty() ? "COMMAND" : '"' + name + '"');
    const std::size_t before = name.rfind(' ');  // CLI11 adds the last word itself
    bool line_begins = true;
    for (const char c : place.app->help(before == name.npos ? "" : name.substr(0, before))) {
      if (line_begins && (c == '.' || c == '\'')) text += "\\&";
      if (c == '\\') {
        text += "\\e";
      } else if (c == '-') {
        text += "\\-";
      } else {
        text += c;
      }
      line_begins = c == '\n';
    }
    text += ".fi\n";
  }
  return text;
}

}  // namespace

std::string completion(const CLI::App& app, std::string_view what) {
  std::vector<Place> places;
  collect(app, "", places);
  using Print = std::string (*)(const std::vector<Place>&);
  return parse_word<Print>("completion", what,
                           {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {"man", man}})(places);
}

}  // namespace scbf::cli
