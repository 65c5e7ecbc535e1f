// SPDX-License-Identifier: Apache-2.0
// scbf find: asks a bank which of its members may hold a key.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bank_names.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "query_session.hpp"
#include "scbf/bloom_bank.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

int find(const QueryOptions& options) {
  options.check_inputs();
  using Session = QuerySession<BloomBank>;
  Session session(options, open_bank_for_queries(options.file, options.run, options.opening),
                  Session::Blocks::small);
  const BloomBank& bank = session.asked;
  const std::vector<std::string> names = names_of(bank);
  const bool print_keys = !options.only_count && !options.run.json;
  std::uint64_t found = 0, pairs = 0;
  MemberLists lists;
  const Stopwatch watch;
  session.go_through(
      [&](const KeyBatch& keys) {
        bank.find(keys, lists, options.run.batch());
        pairs += lists.members.size();
        for (std::size_t i = 0; i < keys.size(); ++i) found += !lists.of(i).empty();
      },
      [&](const KeyBlock& block) {
        if (!print_keys) return;
        for (std::size_t i = 0; i < block.size(); ++i) {
          const auto members = lists.of(i);
          if (options.invert && members.empty()) session.print_line(block, i);
          if (options.invert) continue;
          for (const std::uint32_t member : members) {
            write_tsv_field(session.out, names[member]);
            session.out.write('\t');
            session.print_line(block, i);
          }
        }
      });
  const std::uint64_t absent = session.reader.keys() - found;
  const std::uint64_t matched = options.invert ? absent : found;
  if (options.run.json) {
    Json json = session.report(watch.seconds());
    json["members"] = bank.size();
    json["present"] = found;
    json["absent"] = absent;
    json["pairs"] = pairs;
    session.out.write_json(json);
  } else if (options.only_count) {
    session.out.write(fmt::format("{}\n", matched));
  }
  session.out.finish();
  return matched > 0 ? kOk : kNothingFound;
}

}  // namespace

Run set_up_find(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  line.positional("FILE", "The bank; - is standard input", options->file);
  options->keys.add_format_to(line, true,
                              "Take --keys even if the bank was built from the other kind");
  line.positionals("INPUT", "Files of keys; - or none: standard input", options->keys.inputs);
  options->add_opening_to(line);
  options->add_choice_to(line);
  add_threads_to(line, options->run.threads);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON instead of keys");
  line.footer(
      R"(Prints name, tab and key, a line for each member that may hold the key, in input order. A name is the file
that 'scbf bank' read, with tab, line breaks and backslash as \t, \n, \r and \\; or the number of the member.
The exit code is 1 if no key is printed. A bank is loaded and verified. But a bank of bits of more than 64
MiB, as 'scbf project' makes it, is mapped, unless it is compressed, and only its header verified: it is ready
at once, and processes share its memory.

Examples:
  scbf find logs.bank addresses.txt
  scbf find logs.bank addresses.txt | cut -f1 | sort | uniq -c
  scbf find logs.bank addresses.txt --invert > in_no_log.txt)");
  return [options] { return find(*options); };
}

}  // namespace scbf::cli
