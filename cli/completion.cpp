// SPDX-License-Identifier: Apache-2.0
// scbf completion: completion for shells, and the manual page. Both are made from the command line
// itself, so they know every verb and option.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "output.hpp"
#include "scbf/version.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

/// How a verb is called; the command itself has no words.
struct VerbPath {
  std::string words;  // "index create"
  const CLI::App* app;
};

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void collect(const CLI::App& app, const std::string& path, std::vector<VerbPath>& paths) {
  paths.push_back({path, &app});
  for (const CLI::App* verb : verbs_of(app)) {
    collect(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), paths);
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
std::string cases(const std::vector<VerbPath>& paths, bool described) {
  std::string text = "  case $at in\n";
  const auto item = [&](std::string name, const std::string& description) {
    return described ? fmt::format(" '{}:{}'", name, quoted(description)) : " " + name;
  };
  for (const VerbPath& path : paths) {
    std::string verbs, options;
    for (const CLI::App* verb : verbs_of(*path.app)) {
      verbs += item(verb->get_name(), verb->get_description());
    }
    for_each_option(*path.app, [&](const std::string& name, const std::string& description) {
      options += item(name, description);
    });
    const std::string_view open = described ? "(" : "'", close = described ? " )" : " '";
    text += fmt::format("    '{}')\n      verbs={}{}{}\n      options={}{}{}\n      ;;\n",
                        path.words, open, verbs, close, open, options, close);
  }
  return text + "  esac\n";
}

/// bash and zsh: which verb the words before the cursor name.
std::string path_loop(const std::vector<VerbPath>& paths, std::string_view words) {
  std::string known;
  for (const VerbPath& path : paths) {
    if (!path.words.empty()) known += fmt::format("{}'{}'", known.empty() ? "" : "|", path.words);
  }
  return fmt::format(
      "  for word in \"{}\"; do\n    case \"${{at:+$at }}$word\" in\n"
      "      {}) at=\"${{at:+$at }}$word\" ;;\n    esac\n  done\n",
      words, known);
}

std::string bash(const std::vector<VerbPath>& paths) {
  return "# Completion of scbf for bash.\n_scbf() {\n"
         "  local word at='' verbs='' options='' current=${COMP_WORDS[COMP_CWORD]}\n" +
         path_loop(paths, "${COMP_WORDS[@]:1:COMP_CWORD-1}") + cases(paths, false) +
         "  [[ $current == -* ]] && verbs=$options\n"
         "  COMPREPLY=($(compgen -W \"$verbs\" -- \"$current\"))\n}\n"
         "complete -o default -F _scbf scbf\n";
}

std::string zsh(const std::vector<VerbPath>& paths) {
  return "#compdef scbf\n# Completion of scbf for zsh.\n_scbf() {\n"
         "  local word at=''\n  local -a verbs options\n" +
         path_loop(paths, "${(@)words[2,CURRENT-1]}") + cases(paths, true) +
         "  if [[ $PREFIX == -* ]]; then _describe option options\n"
         "  elif (( $#verbs )); then _describe verb verbs\n"
         "  else _files\n  fi\n}\n_scbf \"$@\"\n";
}

std::string fish(const std::vector<VerbPath>& paths) {
  std::string text =
      "# Completion of scbf for fish.\nfunction __scbf_at\n  set -l at\n"
      "  set -l words (commandline -opc)\n  set -e words[1]\n  for word in $words\n"
      "    if contains -- (string join -- ' ' $at $word)";
  for (const VerbPath& path : paths) {
    if (!path.words.empty()) text += fmt::format(" '{}'", path.words);
  }
  text += "\n      set -a at $word\n    end\n  end\n  test \"$at\" = \"$argv\"\nend\n";
  for (const VerbPath& path : paths) {
    const std::string lead = fmt::format("complete -c scbf -n '__scbf_at {}'", path.words);
    for (const CLI::App* verb : verbs_of(*path.app)) {
      text += fmt::format("{} -f -a {} -d '{}'\n", lead, verb->get_name(),
                          quoted(verb->get_description()));
    }
    for_each_option(*path.app, [&](const std::string& name, const std::string& description) {
      const bool is_long = name.starts_with("--");
      text += fmt::format("{} -{} {} -d '{}'\n", lead, is_long ? 'l' : 's',
                          name.substr(is_long ? 2 : 1), quoted(description));
    });
  }
  return text;
}

/// The help of the command and of each verb, as it is.
std::string man(const std::vector<VerbPath>& paths) {
  std::string text = ".TH SCBF 1 \"\" \"scbf " SCBF_VERSION
                     "\"\n.SH NAME\nscbf \\- split counting Bloom filters: sets that change, asked "
                     "in bulk\n";
  for (const VerbPath& path : paths) {
    const std::string name = path.words.empty() ? "scbf" : "scbf " + path.words;
    text += fmt::format(".SH {}\n.nf\n", path.words.empty() ? "COMMAND" : '"' + name + '"');
    bool line_begins = true;
    // (App::help would give the help of the verb that is running.)
    const CLI::App& app = *path.app;
    for (const char c : app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal)) {
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

/// `what` is bash, zsh, fish or man.
std::string completion(const CLI::App& app, std::string_view what) {
  std::vector<VerbPath> paths;
  collect(app, "", paths);
  using Print = std::string (*)(const std::vector<VerbPath>&);
  return parse_word<Print>("completion", what,
                           {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {"man", man}})(paths);
}

}  // namespace

Run set_up_completion(CommandLine& line) {
  auto text = std::make_shared<std::string>();
  line.positional(
      "SHELL", "bash, zsh or fish; or man, the manual page",
      [text, &root = line.root()](const std::string& shell) { *text = completion(root, shell); });
  line.footer(
      R"(An installed command has all of these already.

Examples:
  scbf completion bash > scbf.bash && . ./scbf.bash
  scbf completion man > scbf.1 && man ./scbf.1)");
  return [text] {
    print_text(*text);
    return kOk;
  };
}

}  // namespace scbf::cli
