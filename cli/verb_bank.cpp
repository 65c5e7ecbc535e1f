// SPDX-License-Identifier: Apache-2.0
// scbf bank: makes a bank of the keys of many files, or of filters, and changes its members.
#include "describe.hpp"
#include "filter_notes.hpp"
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "bank_members.hpp"
#include "bank_names.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bloom_bank.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "too_full.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

void check_options(const BankVerbOptions& options) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  std::unordered_set<std::string> names;
  for (const std::string& input : inputs) {  // members of one name could not be told apart
    if (names.insert(input).second) continue;
    throw UsageError(fmt::format("{} is named twice", display_name(input)));
  }
  if (options.to.empty() && options.out.empty()) {
    throw UsageError("bank: -o OUT or --to BANK is missing");
  }
  if (options.to.empty() && !options.drops.empty()) {
    throw UsageError("bank: --drop goes with --to BANK");
  }
  if (inputs.empty() && options.drops.empty()) {
    throw UsageError(options.to.empty() ? "bank: no FILE: each becomes a member"
                                        : "bank: no FILE to add, and no --drop NAME");
  }
  if (inputs.size() > kMaxBankMembers) {
    throw UsageError(
        fmt::format("bank: {} files: a bank has at most {}", inputs.size(), kMaxBankMembers));
  }
  if ((options.filters || !options.to.empty()) && options.shaped()) {
    throw UsageError(
        fmt::format("bank: --capacity, --fpr, --layout, --scalable and --seed do not go with {}",
                    options.filters ? "--filters: these have a shape and a seed"
                                    : "--to: the bank has a shape and a seed"));
  }
  if (options.filters && options.written()) {
    throw UsageError(
        "bank: --keys, --column, -0, --chomp-cr and --raw do not go with --filters: no keys are "
        "read");
  }
}

/// A bank that is made or changed, and what is reported of it.
template <class OneBank>
struct BankWork {
  OneBank bank;
  FilterNotes notes;
  Members<MemberOf<OneBank>> members = {};
  Statistics fullest = {};      ///< of the member that got most keys
  std::uint64_t saturated = 0;  ///< counters of all of them
  std::size_t added = 0, dropped = 0;
};
using AnyBankWork = std::variant<BankWork<Bank>, BankWork<BloomBank>>;

/// Adds the members to the bank.
template <class OneBank>
BankWork<OneBank> add_to(OneBank bank, const MemberShape& shape, Members<MemberOf<OneBank>> members,
                         const BankVerbOptions& options) {
  BankWork<OneBank> work{std::move(bank), shape.notes, std::move(members)};
  auto& filters = work.members.filters;
  work.added = filters.size();
  if (!filters.empty()) {
    if (!options.filters) {
      work.fullest = filters[work.members.at].statistics(options.run.batch());
      if constexpr (std::is_same_v<OneBank, Bank>) {
        for (const Filter& filter : filters) {
          work.saturated += saturated_counters(filter.statistics(options.run.batch()));
        }
      }
    }
    work.bank.add_members(std::move(filters), options.run.batch());
  }
  return work;
}

/// A new bank of these members.
template <class OneBank>
BankWork<OneBank> bank_of(const MemberShape& shape, Members<MemberOf<OneBank>> members,
                          const BankVerbOptions& options) {
  OneBank bank(shape.growth, {.seed = shape.seed,
                              .backend = options.run.backend,
                              .capacity = static_cast<std::uint32_t>(options.keys.inputs.size())});
  bank.set_metadata(write_notes(shape.notes));
  return add_to(std::move(bank), shape, std::move(members), options);
}

template <class OneBank>
BankWork<OneBank> bank_of_filters(const BankVerbOptions& options, std::vector<AnyFilter> filters) {
  std::optional<MemberShape> shape;
  auto members = members_of_filters<MemberOf<OneBank>>(options, std::move(filters), shape);
  return bank_of<OneBank>(*shape, std::move(members), options);
}

AnyBankWork make_bank(const BankVerbOptions& options) {
  if (options.filters) {
    std::vector<AnyFilter> filters = open_filters(options);
    if (std::holds_alternative<BloomFilter>(filters.front())) {
      return bank_of_filters<BloomBank>(options, std::move(filters));
    }
    return bank_of_filters<Bank>(options, std::move(filters));
  }
  const KeyFormat format = options.keys.format_for(options.keys.kind.value_or(KeyKind::lines));
  Counted counted(options.keys.inputs.size());
  const MemberShape shape = new_shape(options, format, counted);
  return bank_of<Bank>(shape, members_of_keys(options, shape, format, std::move(counted)), options);
}

/// Takes out the members of these names. Returns how many there were.
template <class OneBank>
std::size_t drop(OneBank& bank, const std::vector<std::string>& drops, const std::string& file) {
  const std::vector<std::string> names = names_of(bank);
  std::size_t dropped = 0;
  for (const std::string& name : std::set(drops.begin(), drops.end())) {
    for (const std::uint32_t member : members_named(bank, names, name, "--drop", file)) {
      bank.remove_member(member);
      ++dropped;
    }
  }
  return dropped;
}

template <class OneBank>
BankWork<OneBank> change_bank(const BankVerbOptions& options, OneBank bank) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  if (std::is_same_v<OneBank, BloomBank> && !options.filters && !inputs.empty()) {
    throw Incompatible(fmt::format("{}: a bank of bits takes filters of bits (--filters), not keys",
                                   display_name(options.to)));
  }
  const std::size_t dropped = drop(bank, options.drops, options.to);
  if (bank.size() + inputs.size() > kMaxBankMembers) {
    throw UsageError(fmt::format("bank: {} members and {} files: a bank has at most {} members",
                                 bank.size(), inputs.size(), kMaxBankMembers));
  }
  const std::unordered_set<std::string> new_names(inputs.begin(), inputs.end());
  const std::vector<std::string> names = names_of(bank);
  for (std::uint32_t member = 0; member < names.size(); ++member) {
    if (!bank.has_member(member) || !new_names.contains(names[member])) continue;
    throw UsageError(fmt::format("{}: {} has a member of this name: --drop it to replace it",
                                 in_quotes(names[member]), display_name(options.to)));
  }
  const FilterNotes notes = read_notes(bank.metadata());
  std::optional<MemberShape> shape{
      MemberShape{bank.growth(), bank.seed(), notes, !notes.kind && bank.size() > 0}};
  Members<MemberOf<OneBank>> members;
  if (options.filters) {
    members = members_of_filters<MemberOf<OneBank>>(options, open_filters(options), shape);
  } else if (inputs.empty()) {
    members.read.kind = notes.kind.value_or(KeyKind::lines);
  } else if constexpr (std::is_same_v<OneBank, Bank>) {
    const KeyFormat format = agreed_format(options.keys, notes, options.to);
    if (notes.kind && *notes.kind != format.kind) {
      shape->notes.kind.reset();
      note_both_kinds("members have", "find");
    }
    if (!notes.kind && !shape->any_kind) shape->notes.kind = format.kind;
    members = members_of_keys(options, *shape, format, Counted(inputs.size()));
  }
  if (shape->notes.kind != notes.kind) {
    bank.set_metadata(with_kind(bank.metadata(), shape->notes.kind));
  }
  BankWork<OneBank> work = add_to(std::move(bank), *shape, std::move(members), options);
  work.dropped = dropped;
  return work;
}

/// Memory of counters and of rows of bits.
BankMemory memory_of(const Bank& bank) { return bank.memory(); }
BankMemory memory_of(const BloomBank& bank) { return {.counters = 0, .rows = bank.bytes()}; }

template <class OneBank>
void report(const BankVerbOptions& options, const BankWork<OneBank>& work, const Destination& to,
            double seconds) {
  const OneBank& made = work.bank;
  const BankMemory memory = memory_of(made);
  if (options.run.json) {
    Json json{{"file", to.path()},
              {"kind", std::is_same_v<OneBank, Bank> ? "bank" : "bits_bank"},
              {"members", made.size()},
              {"added", work.added},
              {"dropped", work.dropped}};
    describe_work(json, work.members.read, made.backend(), options.run, seconds);
    json["largest_added"] = work.members.largest;
    json["seed"] = made.seed();
    describe_growth_of_bank(json, made.growth());
    json["counter_bytes"] = memory.counters;
    json["row_bytes"] = memory.rows;
    print_json(json);
    return;
  }
  const std::string change = options.to.empty()
                                 ? std::string()
                                 : fmt::format(" ({} added, {} dropped)", work.added, work.dropped);
  const std::string counters = memory.counters > 0
                                   ? fmt::format("{} of counters, ", human_bytes(memory.counters))
                                   : std::string();
  to.report(fmt::format(
      "{}: {}{}, {} in {:.2f} s; {}{} of rows\n", to.path(), counted(made.size(), "member"), change,
      counted(work.members.read.keys, "key"), seconds, counters, human_bytes(memory.rows)));
}

int bank(const BankVerbOptions& options) {
  check_options(options);
  const bool changes = !options.to.empty();
  std::vector<std::string> inputs = options.keys.inputs;
  const Destination::Rules rules{.replace = Destination::Rules::Replace::banks,
                                 .force = options.keys.force,
                                 .json = options.run.json,
                                 .inputs = inputs,
                                 .way_out = changes ? "FILE must be another file" : ""};
  if (changes) inputs.insert(inputs.begin(), options.to);
  check_inputs(inputs);
  const Destination to = changes ? changed_filter(options.to, options.out, rules)
                                 : Destination("-o " + in_quotes(options.out), options.out, rules);
  const Stopwatch watch;
  bool compress = options.compress;
  const AnyBankWork any_work = [&] {
    if (!changes) return make_bank(options);
    OpenedBank opened = open_bank_for_changes(Rereadable(options.to), options.run);
    compress |= opened.compressed;
    return std::visit(
        [&](auto& bank) -> AnyBankWork { return change_bank(options, std::move(bank)); },
        opened.bank);
  }();
  const double seconds = watch.seconds();
  std::visit(
      [&](const auto& work) {
        to.write([&](Output& out) { write_filter(out, work.bank, {.compress = compress}); });
        report(options, work, to, seconds);
        if (options.filters) return;
        warn_of_saturated(work.saturated);
        warn_if_too_full(work.members.largest, work.notes, work.fullest,
                         changes ? "make the bank anew" : "build a larger one");
      },
      any_work);
  return kOk;
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
  line.flag("--filters", "FILEs are filters, all of counters or all of bits, of one shape and seed",
            options->filters);
  add_max_fpr_to(line, options->most_fpr);
  options->keys.add_format_to(line, false,
                              "Replace OUT even if it is no bank; take filters of lines and of "
                              "u64 keys together");
  line.positionals("FILE", "Files of keys; each becomes a member", options->keys.inputs);
  line.option(
      "--to", "BANK",
      "Add the members to this bank; they get its shape and seed. BANK is replaced, unless -o "
      "names another file",
      options->to);
  line.repeated("--drop", "NAME",
                "With --to: first take out all members of this name (without a name: its number)",
                [o](const std::string& name) { o->drops.push_back(name); });
  line.option("-o,--output", "OUT",
              "The bank; replaced as a whole; - is standard output, and the report then goes to "
              "standard error",
              options->out);
  add_threads_to(line, options->run.threads);
  options->run.add_progress_to(line);
  options->run.add_json_to(line, "Print a report as JSON");
  add_compress_to(line, options->compress);
  line.footer(
      R"(Each FILE becomes a member: a filter of its keys, named after it. 'scbf find' asks all members at once, at a
cost that hardly depends on their number. A key that is in none of N files is still reported for N times P of
them, on average. Filters of bits make a bank of bits, for readers; 'scbf apply --member' keeps its members
up to date. If a member's rate ends above --max-fpr, nothing is written and the exit code is 4.

Examples:
  scbf bank --fpr 0.1% -o logs.bank logs/*.txt.gz
  scbf bank --to logs.bank today.txt.gz
  scbf bank --to logs.bank --drop logs/1.txt.gz logs/1.txt.gz
  scbf bank --filters -o shards.bank shard-*.scbf
  scbf bank --filters -o proxies.bank proxy-*.bits)");
  return [options] { return bank(*options); };
}

}  // namespace scbf::cli
