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
#include "list_keys.hpp"
#include "output.hpp"
#include "print_in_order.hpp"
#include "query_session.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

/// How many of the keys are present, where none is printed.
template <class Session>
std::uint64_t count_present(Session& session) {
  std::uint64_t present = 0;
  session.go_through_unprinted([&](const KeyBatch& keys) {
    present += session.asked.count_present(keys, session.options.run.batch_beside_keys()).hits;
  });
  return present;
}

template <class OneFilter>
int query_in(OneFilter filter, const QueryOptions& options) {
  const bool print_keys = !options.only_count && !options.run.json;
  using Session = QuerySession<OneFilter>;
  Session session(options, std::move(filter),
                  print_keys ? Session::Blocks::large : Session::Blocks::small);
  const std::uint8_t wanted = options.invert ? 0 : 1;
  std::uint64_t present = 0;
  const Stopwatch watch;
  if (print_keys) {
    std::vector<std::uint8_t> answers;
    const auto ask = [&](const KeyBatch& keys) {
      answers.resize(keys.size());
      present += session.asked.contains(keys, answers, options.run.batch_beside_keys()).hits;
    };
    session.go_through(ask, [&](const KeyBlock& block) {
      list_keys(session.out, options.run.resolved_threads(), block, session.format, answers,
                wanted);
    });
  } else {
    present = count_present(session);
  }
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
  options.check_inputs();
  return std::visit(
      [&](auto&& filter) { return query_in(std::forward<decltype(filter)>(filter), options); },
      open_for_queries(options.file, options.run, options.opening));
}

int count(const QueryOptions& options) {
  options.check_inputs();
  using Session = QuerySession<Filter>;
  Session session(options, open_counters(options.file, options.run, options.opening),
                  options.run.json ? Session::Blocks::small : Session::Blocks::large);
  const Stopwatch watch;
  if (options.run.json) {
    const std::uint64_t present = count_present(session);
    Json json = session.report(watch.seconds());
    json["present"] = present;
    json["absent"] = session.reader.keys() - present;
    session.out.write_json(json);
  } else {
    std::vector<std::uint8_t> counts;
    const auto ask = [&](const KeyBatch& keys) {
      counts.resize(keys.size());
      session.asked.count(keys, counts, options.run.batch_beside_keys());
    };
    session.go_through(ask, [&](const KeyBlock& block) {
      const auto print = [&](Output& to, std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
          const fmt::format_int digits(static_cast<unsigned>(counts[i]));
          write_key(to, block, i, session.format);
          to.write('\t');
          to.write(std::string_view(digits.data(), digits.size()));
          to.write(session.format.end);
        }
      };
      print_in_order(session.out, options.run.resolved_threads(), block.size(), print);
    });
  }
  session.out.finish();
  return kOk;
}

}  // namespace

Run set_up_query(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  options->add_to(line);
  options->add_choice_to(line);
  options->run.add_json_to(line, "Print a report as JSON instead of keys");
  line.footer(
      R"(Keys are printed in input order, u64 keys as decimal numbers, which the next query reads. The exit code is
1 if no key is printed. A filter of up to 64 MiB is loaded and verified. A larger one is mapped and only its
header verified: it is ready at once, and processes share its memory; --load and 'scbf verify' check the rest.

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
counters of the key. 15 means 15 or more. In layout ranked it may also mean unknown: every key of a block that
is too full counts 15. The exit code is 0 even if every count is 0.

Examples:
  scbf count words.scbf candidates.txt
  scbf count words.scbf candidates.txt | sort -t "$(printf '\t')" -k2 -nr | head)help");
  return [options] { return count(*options); };
}

}  // namespace scbf::cli
