// SPDX-License-Identifier: Apache-2.0
// The command line of a verb, and the parsing of all of them. This is all that verbs see of
// CLI11, whose header takes longer to compile than everything else here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace scbf::cli {

/// Does the work and returns the exit code; throws UsageError, ReaderGone or what the library
/// throws.
using Run = std::function<int()>;

struct Verb;

/// What a verb's options are added to. Everything that is bound here must outlive the parsing.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}

  enum class Need : unsigned char { optional, required };
  using Parse = std::function<void(const std::string&)>;

  /// `--name VALUE` (or "-o,--output"); `parse` gets the text while the command line is read, so
  /// that a bad value is refused before anything is done.
  void option(const std::string& names, const std::string& value_name, const std::string& help,
              Parse parse, Need need = Need::optional);
  void option(const std::string& names, const std::string& value_name, const std::string& help,
              std::string& value, Need need = Need::optional);
  /// The same, each time that it is given.
  void repeated(const std::string& names, const std::string& value_name, const std::string& help,
                Parse parse, Need need = Need::optional);
  void flag(const std::string& names, const std::string& help, bool& value);
  /// A required word without dashes.
  void positional(const std::string& name, const std::string& help, std::string& value);
  void positional(const std::string& name, const std::string& help, Parse parse);
  /// All remaining words.
  void positionals(const std::string& name, const std::string& help,
                   std::vector<std::string>& values, Need need = Need::optional);
  /// The line goes on with one of these verbs, which have options of their own. Returns the work of
  /// the one that is chosen.
  Run verbs(std::span<const Verb> verbs);
  /// Takes any words and options whatever, and forgets them.
  void anything();
  /// What --help prints after the options.
  void footer(const std::string& text);

 private:
  CLI::App& app_;
};

struct Verb {
  const char* name;
  const char* summary;
  /// Adds the options and returns what to do once they are parsed.
  Run (*set_up)(CommandLine& line);
};

/// What the command line asks for: a verb's work, or printing help or the version. Throws
/// UsageError.
Run parse_command_line(std::span<const Verb> verbs, const char* footer, int argc, char** argv);

}  // namespace scbf::cli
