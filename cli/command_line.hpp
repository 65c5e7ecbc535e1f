// SPDX-License-Identifier: Apache-2.0
// The command line of a verb, and the parsing of the whole command line. Only command_line.cpp
// and completion.cpp include CLI11, whose header takes longer to compile than everything else here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace scbf::cli {

/// Runs a verb and returns the exit code. Throws UsageError, ReaderGone and the library's errors.
using Run = std::function<int()>;

struct Verb;

/// Collects the options of a verb. All variables bound to it must outlive the parsing.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}

  enum class Need : unsigned char { optional, required };
  using Parse = std::function<void(const std::string&)>;

  /// `--name VALUE` (or "-o,--output"). `parse` is called with the text while the command line is
  /// read, so that a bad value is refused before the verb runs.
  void option(const std::string& names, const std::string& value_name, const std::string& help,
              Parse parse, Need need = Need::optional);
  void option(const std::string& names, const std::string& value_name, const std::string& help,
              std::string& value, Need need = Need::optional);
  /// An option that can be given several times; `parse` is called for each.
  void repeated(const std::string& names, const std::string& value_name, const std::string& help,
                Parse parse);
  void flag(const std::string& names, const std::string& help, bool& value);
  void flag(const std::string& names, const std::string& help, std::function<void()> use);
  /// A required positional argument.
  void positional(const std::string& name, const std::string& help, std::string& value);
  void positional(const std::string& name, const std::string& help, Parse parse);
  /// All remaining positional arguments.
  void positionals(const std::string& name, const std::string& help,
                   std::vector<std::string>& values, Need need = Need::optional);
  /// The next word must be one of these verbs, each with its own options. Returns the run of the
  /// chosen verb.
  Run verbs(std::span<const Verb> verbs);
  /// Accepts all words and options and ignores them.
  void anything();
  /// The text that --help prints after the options.
  void footer(const std::string& text);
  /// The command to which the verb belongs.
  const CLI::App& root() const;

 private:
  CLI::App& app_;
};

struct Verb {
  const char* name;
  const char* summary;
  /// Adds the options and returns the run of the verb, to be called after parsing.
  Run (*set_up)(CommandLine& line);
};

/// Parses the command line. Returns the run of the chosen verb, or one that prints the help or the
/// version. Throws UsageError.
Run parse_command_line(std::span<const Verb> verbs, const char* footer, int argc, char** argv);

}  // namespace scbf::cli
