// SPDX-License-Identifier: Apache-2.0
// scbf bank and scbf find: make a bank of the keys of many files, or of filters, and ask it which
// of them may hold a key.
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "counted_keys.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "query_session.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

constexpr std::uint64_t kFirstStageKeys = 1000;

struct BankVerbOptions {
  KeyOptions keys;  ///< its inputs are the members
  RunOptions run;
  std::optional<std::uint64_t> capacity = {};
  std::optional<double> fpr = {};
  std::optional<Layout> layout = {};
  std::uint64_t seed = 0;
  std::string out;
  bool scalable = false, filters = false, compress = false;

  bool shaped() const noexcept { return capacity || fpr || layout || scalable || seed != 0; }
  /// Is it said how keys are written?
  bool written() const noexcept {
    return keys.kind || keys.format.column || keys.format.end != '\n' || keys.format.chomp_cr ||
           !keys.format.decode;
  }
};

/// The members of a bank that is being made, and the notes for its file.
struct Members {
  std::vector<Filter> filters = {};
  FilterNotes notes = {};
  KeyTotals read = {};
  std::uint64_t largest = 0;  ///< most keys of a member
  std::size_t at = 0;         ///< which member that is
};

/// A member's metadata: its name, beside what was there. A name that is not UTF-8 is noted as
/// {"bytes": [255, …]}.
std::string named(const std::string& name, const std::string& metadata) {
  Json json = metadata_as_json(metadata);
  if (!json.is_object()) {
    json = Json::object();
    if (!metadata.empty()) json["metadata"] = metadata;
  }
  json["name"] = name;
  return json_text(json);
}

/// The text of a value in a member's metadata.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto bytes = value.is_object() ? value.find("bytes") : value.end();
  if (bytes == value.end() || !bytes->is_array()) return json_text(value);
  std::string text;
  for (const Json& byte : *bytes) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255) return json_text(value);
    text += static_cast<char>(byte.get<std::uint64_t>());
  }
  return text;
}

/// The name of a member: that of named(), or the group of Spark, or its number.
std::string name_of(const Bank& bank, std::uint32_t member) {
  const Json json = metadata_as_json(bank.metadata(member));
  if (json.is_object()) {
    for (const char* const key : {"name", "group"}) {
      if (const auto it = json.find(key); it != json.end()) return text_of(*it);
    }
  }
  return fmt::format("{}", member);
}

/// The shape of each member.
Growth growth_of_members(const BankVerbOptions& options, std::uint64_t capacity) {
  const double fpr = options.fpr.value_or(kDefaultFpr);
  if (options.scalable) {
    return Growth::tightening(options.capacity.value_or(kFirstStageKeys), fpr,
                              options.layout.value_or(Layout::split_block));
  }
  return Growth::one(plan({.capacity = capacity, .fpr = fpr, .layout = options.layout}).geometry);
}

/// A filter of the keys of each input.
Members members_of_keys(const BankVerbOptions& options) {
  const KeyFormat format = options.keys.format_for(options.keys.kind.value_or(KeyKind::lines));
  const std::vector<std::string>& inputs = options.keys.inputs;
  std::vector<std::optional<CountedKeys>> counted(inputs.size());
  std::uint64_t capacity = options.capacity.value_or(1);
  if (!options.capacity && !options.scalable) {
    if (!all_regular(inputs)) {
      throw UsageError(
          "bank: --capacity is missing, and keys that come from a pipe cannot be counted first: "
          "give an upper bound for the largest member such as --capacity 1e7, or --scalable");
    }
    std::uint64_t memory = memory_to_spare() / 4;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      counted[i].emplace(std::vector{inputs[i]}, format, options.seed, options.run, memory);
      capacity = std::max(capacity, counted[i]->keys());
      if (counted[i]->have_hashes()) {
        memory -= std::min(memory, counted[i]->keys() * sizeof(std::uint64_t));
      }
    }
  }
  const Growth growth = growth_of_members(options, capacity);
  Members members{.notes = {.kind = format.kind, .fpr = options.fpr.value_or(kDefaultFpr)}};
  if (!options.scalable) members.notes.capacity = capacity;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Filter filter(growth, {.seed = options.seed, .backend = options.run.backend});
    const KeyTotals read =
        insert_keys(filter, {inputs[i]}, format, counted[i], options.run, "building");
    counted[i].reset();
    filter.set_metadata(named(inputs[i], {}));
    members.filters.push_back(std::move(filter));
    members.read.kind = read.kind;
    members.read.keys += read.keys;
    members.read.empty_lines += read.empty_lines;
    members.read.bytes += read.bytes;
    if (read.keys > members.largest) {
      members.largest = read.keys;
      members.at = i;
    }
  }
  return members;
}

/// The filters that the inputs are.
Members members_of_filters(const BankVerbOptions& options) {
  Members members;
  FilterNotes first_notes;  // of the first filter that says what its keys are
  std::string first_noted;
  bool mixed = false;
  for (const std::string& input : options.keys.inputs) {
    Filter filter = counters_of(open_for_changes(input, options.run), input,
                                "which cannot be a member: members have counters");
    const FilterNotes notes = read_notes(filter.metadata());
    check_kinds(first_notes, first_noted, notes, input, options.keys.force);
    if (!first_notes.kind) {
      first_notes = notes;
      first_noted = input;
    }
    mixed |= notes.kind && *notes.kind != *first_notes.kind;
    if (!members.filters.empty()) {
      const Filter& first = members.filters.front();
      if (!(filter.growth() == first.growth()) || filter.seed() != first.seed()) {
        throw Incompatible(fmt::format(
            "{} is {}, seed {}; {} is {}, seed {}: all members have one shape and seed",
            display_name(options.keys.inputs.front()), first.growth().describe(), first.seed(),
            display_name(input), filter.growth().describe(), filter.seed()));
      }
    }
    const std::uint64_t keys = keys_left(filter.keys_inserted(), filter.keys_removed());
    members.read.keys += keys;
    members.largest = std::max(members.largest, keys);
    filter.set_metadata(named(input, filter.metadata()));
    members.filters.push_back(std::move(filter));
  }
  members.notes = first_notes;
  if (mixed) {
    members.notes.kind.reset();
    note("members have keys of both kinds: say by --keys which ones 'scbf find' is to ask for");
  }
  members.read.kind = members.notes.kind.value_or(KeyKind::lines);
  return members;
}

int bank(const BankVerbOptions& options) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  if (inputs.size() > kMaxBankMembers) {
    throw UsageError(
        fmt::format("bank: {} files: a bank has at most {}", inputs.size(), kMaxBankMembers));
  }
  if (options.filters && options.shaped()) {
    throw UsageError(
        "bank: --capacity, --fpr, --layout, --scalable and --seed do not go with --filters, which "
        "have a shape and a seed");
  }
  if (options.filters && options.written()) {
    throw UsageError(
        "bank: --keys, --column, -0, --chomp-cr and --raw do not go with --filters: no keys are "
        "read");
  }
  check_inputs(inputs);
  const Destination to("-o " + in_quotes(options.out), options.out,
                       {.force = options.keys.force, .json = options.run.json, .inputs = inputs});
  const Stopwatch watch;
  Members members = options.filters ? members_of_filters(options) : members_of_keys(options);
  Bank made(members.filters.front().growth(),
            {.seed = members.filters.front().seed(),
             .backend = options.run.backend,
             .capacity = static_cast<std::uint32_t>(inputs.size())});
  made.set_metadata(write_notes(members.notes));
  const std::size_t count = members.filters.size();
  const Statistics fullest = members.filters[members.at].statistics(options.run.batch());
  made.add_members(std::move(members.filters), options.run.batch());
  const double seconds = watch.seconds();
  to.write([&](Output& out) { write_filter(out, made, {.compress = options.compress}); });
  const BankMemory memory = made.memory();
  if (options.run.json) {
    Json json{{"file", options.out}, {"kind", "bank"}, {"members", count}};
    describe_work(json, members.read, made.backend(), options.run, seconds);
    json["largest_member"] = members.largest;
    json["seed"] = made.seed();
    describe_growth(json, made.growth());
    describe_geometry(json, made.growth().first_geometry());
    json["counter_bytes"] = memory.counters;
    json["row_bytes"] = memory.rows;
    print_json(json);
  } else {
    to.report(fmt::format("{}: {}, {} in {:.2f} s; {} of counters, {} of rows\n", to.path(),
                          counted(count, "member"), counted(members.read.keys, "key"), seconds,
                          human_bytes(memory.counters), human_bytes(memory.rows)));
  }
  if (!options.filters) warn_if_too_full(members.largest, members.notes, fullest);
  return kOk;
}

int find(const QueryOptions& options) {
  options.check_inputs();
  QuerySession session(options, open_bank(options.file, options.run), kSmallBlock);
  const Bank& bank = session.asked;
  std::vector<std::string> names(bank.slots());
  for (std::uint32_t m = 0; m < bank.slots(); ++m) {
    if (bank.has_member(m)) names[m] = name_of(bank, m);
  }
  const bool print_keys = !options.only_count && !options.run.json;
  std::uint64_t found = 0, pairs = 0;
  MemberLists lists;
  const Stopwatch watch;
  session.go_through(
      [&](const KeyBatch& keys) {
        bank.find(keys, lists, options.run.batch());
        pairs += lists.members.size();
      },
      [&](const KeyBlock& block, std::size_t i) {
        const auto members = lists.of(i);
        found += !members.empty();
        if (!print_keys) return;
        if (options.invert && members.empty()) {
          session.print_key(block, i);
          session.end_line();
        }
        if (options.invert) return;
        for (const std::uint32_t member : members) {
          write_tsv_field(session.out, names[member]);
          session.out.write('\t');
          session.print_key(block, i);
          session.end_line();
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

Run set_up_bank(CommandLine& line) {
  auto options = std::make_shared<BankVerbOptions>();
  BankVerbOptions* const o = options.get();
  line.option("--capacity", "N",
              "Distinct keys of the largest member: 5000, 1e8, 100M; default: counted first. With "
              "--scalable, of the first stage; default 1000",
              [o](const std::string& text) { o->capacity = parse_count("--capacity", text); });
  line.option("--fpr", "P", "False-positive rate of each member: 0.01 or 1% (default)",
              [o](const std::string& text) { o->fpr = parse_rate("--fpr", text); });
  line.option("--layout", "LAYOUT", "split_block (default), split, or ranked",
              [o](const std::string& text) { o->layout = layout_from_string(text); });
  line.flag("--scalable",
            "Members that grow in stages: less memory if the files differ much in size, and "
            "slower answers",
            options->scalable);
  line.option("--seed", "S", "Seed of the hash; default 0",
              [o](const std::string& text) { o->seed = parse_seed("--seed", text); });
  line.flag("--filters", "FILEs are filters of counters, all of one shape and seed",
            options->filters);
  options->keys.add_format_to(line, false,
                              "Replace OUT even if it is no filter; take filters of lines and of "
                              "u64 keys together");
  line.positionals("FILE", "Files of keys; each becomes a member", options->keys.inputs,
                   CommandLine::Need::required);
  line.option("-o,--output", "OUT",
              "The bank; replaced as a whole; - is standard output, and the report then goes to "
              "standard error",
              options->out, CommandLine::Need::required);
  add_threads_to(line, options->run.threads);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON");
  add_compress_to(line, options->compress);
  line.footer(
      R"(Each FILE becomes a member: a filter of its keys, named after it. 'scbf find' asks all members at once, at a
cost that hardly depends on their number. A key that is in none of N files is still reported for N times P of
them, on average.

Examples:
  scbf bank --fpr 0.1% -o logs.bank logs/*.txt.gz
  scbf bank --filters -o shards.bank shard-*.scbf)");
  return [options] { return bank(*options); };
}

Run set_up_find(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  line.positional("FILE", "The bank; - is standard input", options->file);
  options->keys.add_format_to(line, true,
                              "Take --keys even if the bank was built from the other kind");
  line.positionals("INPUT", "Files of keys; - or none: standard input", options->keys.inputs);
  options->add_choice_to(line);
  add_threads_to(line, options->run.threads);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON instead of keys");
  line.footer(
      R"(Prints name, tab and key, a line for each member that may hold the key, in input order. A name is the file
that 'scbf bank' read, with tab, line breaks and backslash as \t, \n, \r and \\; or the number of the member.
The exit code is 1 if no key is printed. The bank is loaded and verified.

Examples:
  scbf find logs.bank addresses.txt
  scbf find logs.bank addresses.txt | cut -f1 | sort | uniq -c
  scbf find logs.bank addresses.txt --invert > in_no_log.txt)");
  return [options] { return find(*options); };
}

}  // namespace scbf::cli
