// SPDX-License-Identifier: Apache-2.0
// scbf query and scbf count: look up keys and print the answers in input order.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct QueryOptions {
  std::string file;
  KeyOptions keys;
  RunOptions run;
  bool load = false;
  bool invert = false;
  bool only_count = false;

  void add_to(CommandLine& line) {
    line.positional("FILE", "The filter; - is standard input", file);
    keys.add_to(line, true);
    line.flag("--load", "Load and verify the filter instead of mapping it: better for many keys",
              load);
    run.add_backend_to(line);
    run.add_progress_to(line);
  }
};

/// The inputs are checked before the filter is opened.
void check_inputs_of(const QueryOptions& o) {
  std::vector<std::string> inputs = o.keys.sources();
  inputs.insert(inputs.begin(), o.file);
  check_inputs(inputs);
}

/// A filter, and the keys to look up.
template <class OneFilter>
struct QuerySession {
  QuerySession(const QueryOptions& o, OneFilter opened)
      : options(o),
        filter(std::move(opened)),
        reader(o.keys.sources(), agreed_format(o.keys, read_notes(filter.metadata()), o.file),
               KeyReader::Pace::prompt, large_block(filter.bytes())) {}

  /// Calls ask(batch, answers), which fills one byte per key, and print(block, i, answer) for each
  /// key i. What was printed is written also if an error follows.
  template <class Ask, class Print>
  void go_through(const Ask& ask, const Print& print) {
    std::vector<std::uint8_t> answers;
    const auto use = [&](const KeyBlock& block) {
      answers.resize(block.size());
      ask(block.batch(), answers);
      for (std::size_t i = 0; i < answers.size(); ++i) print(block, i, answers[i]);
      // If the input is a pipe, answers are written as soon as they are known.
      if (!reader.total_bytes()) out.flush();
    };
    try {
      options.run.go_through(reader, "asking", use);
    } catch (const IoError&) {
      out.flush();
      throw;
    }
  }

  void print_key(const KeyBlock& block, std::size_t i) {
    write_key(out, block, i, reader.format());
  }
  void end_line() { out.write(reader.format().end); }

  Json report(double seconds) const {
    Json json;
    json["file"] = options.file;
    describe_work(json, reader.totals(), filter.backend(), options.run, seconds);
    return json;
  }

  const QueryOptions& options;
  OneFilter filter;
  KeyReader reader;
  Output out;
};

template <class OneFilter>
int query_in(OneFilter filter, const QueryOptions& options) {
  QuerySession session(options, std::move(filter));
  const bool print_keys = !options.only_count && !options.run.json;
  const std::uint8_t wanted = options.invert ? 0 : 1;
  std::uint64_t present = 0;
  const Stopwatch watch;
  session.go_through(
      [&](const KeyBatch& keys, std::span<std::uint8_t> answers) {
        present += session.filter.contains(keys, answers, options.run.batch()).hits;
      },
      [&](const KeyBlock& block, std::size_t i, std::uint8_t answer) {
        if (!print_keys || answer != wanted) return;
        session.print_key(block, i);
        session.end_line();
      });
  const std::uint64_t absent = session.reader.keys() - present;
  const std::uint64_t matched = options.invert ? absent : present;
  if (options.run.json) {
    Json json = session.report(watch.seconds());
    json["present"] = present;
    json["absent"] = absent;
    json["matched"] = matched;
    session.out.write_json(json);
  } else if (options.only_count) {
    session.out.write(fmt::format("{}\n", matched));
  }
  session.out.finish();
  return matched > 0 ? kOk : kNothingFound;
}

int query(const QueryOptions& options) {
  check_inputs_of(options);
  return std::visit(
      [&](auto&& filter) { return query_in(std::forward<decltype(filter)>(filter), options); },
      open_for_queries(options.file, options.run, options.load));
}

int count(const QueryOptions& options) {
  check_inputs_of(options);
  QuerySession session(options, open_counters(options.file, options.run, options.load));
  std::uint64_t found = 0;
  const Stopwatch watch;
  session.go_through(
      [&](const KeyBatch& keys, std::span<std::uint8_t> answers) {
        session.filter.count(keys, answers, options.run.batch());
      },
      [&](const KeyBlock& block, std::size_t i, std::uint8_t count) {
        found += count > 0;
        if (options.run.json) return;
        const fmt::format_int digits(static_cast<unsigned>(count));
        session.print_key(block, i);
        session.out.write('\t');
        session.out.write(std::string_view(digits.data(), digits.size()));
        session.end_line();
      });
  if (options.run.json) {
    Json json = session.report(watch.seconds());
    json["present"] = found;
    json["absent"] = session.reader.keys() - found;
    session.out.write_json(json);
  }
  session.out.finish();
  return kOk;
}

}  // namespace

Run set_up_query(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  options->add_to(line);
  line.flag("--invert", "Print the keys that are surely absent", options->invert);
  line.flag("--count", "Print only how many there are", options->only_count);
  options->run.add_json_to(line, "Print a report as JSON instead of keys");
  line.footer(
      R"(Keys are printed in input order, u64 keys as decimal numbers, which the next query reads. The exit code is 1 if no key is
printed. The filter is mapped and only its header verified; --load and 'scbf verify' check the rest.

Examples:
  scbf query words.scbf candidates.txt
  sort -u candidates.txt | scbf query words.scbf --invert > surely_new.txt
  scbf query ids.scbf ids.u64 | scbf query more_ids.scbf
  find . -print0 | scbf query paths.scbf -0 | xargs -0 ls)");
  return [options] { return query(*options); };
}

Run set_up_count(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  options->add_to(line);
  options->run.add_json_to(line, "Print a report as JSON instead of keys");
  line.footer(
      R"help(Prints key, tab and count in input order. The count is the smallest of the key's counters. It is
never too low if no key was removed that had not been inserted. It is too high if other keys share all
counters of the key. 15 means 15 or more. The exit code is 0 even if every count is 0.

Examples:
  scbf count words.scbf candidates.txt
  scbf count words.scbf candidates.txt | sort -t "$(printf '\t')" -k2 -nr | head)help");
  return [options] { return count(*options); };
}

}  // namespace scbf::cli
