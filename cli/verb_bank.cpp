// SPDX-License-Identifier: Apache-2.0
// scbf bank: makes a bank of the keys of many files, or of filters, and changes its members.
#include "scbf/bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bank_names.hpp"
#include "counted_keys.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
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
  std::string to, out;             ///< the bank to change, if there is one; and where it goes
  std::vector<std::string> drops;  ///< names of members to take out
  bool scalable = false, filters = false, compress = false;

  bool shaped() const noexcept { return capacity || fpr || layout || scalable || seed != 0; }
  /// Does any option say how keys are written?
  bool written() const noexcept {
    return keys.kind || keys.format.column || keys.format.end != '\n' || keys.format.chomp_cr ||
           !keys.format.decode;
  }
};

/// What all members of a bank have in common, and the notes for its file.
struct MemberShape {
  Growth growth;
  std::uint64_t seed;
  FilterNotes notes;
  bool any_kind = false;  ///< the bank has members, and does not say what their keys are
};

void note_both_kinds() {
  note("members have keys of both kinds: say by --keys which ones 'scbf find' is to ask for");
}

/// Members that a bank is to take.
struct Members {
  std::vector<Filter> filters = {};
  KeyTotals read = {};
  std::uint64_t largest = 0;  ///< most keys of a member
  std::size_t at = 0;         ///< which member that is
};

/// Keys of each input that were counted, if they were.
using Counted = std::vector<std::optional<CountedKeys>>;

/// The shape of the members of a new bank. Counts keys where it must.
MemberShape new_shape(const BankVerbOptions& options, const KeyFormat& format, Counted& counted) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  const double fpr = options.fpr.value_or(kDefaultFpr);
  if (options.scalable) {
    return {Growth::tightening(options.capacity.value_or(kFirstStageKeys), fpr,
                               options.layout.value_or(Layout::split_block)),
            options.seed,
            {.kind = format.kind, .fpr = fpr}};
  }
  std::uint64_t capacity = options.capacity.value_or(1);
  if (!options.capacity) {
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
  return {Growth::one(plan({.capacity = capacity, .fpr = fpr, .layout = options.layout}).geometry),
          options.seed,
          {.kind = format.kind, .capacity = capacity, .fpr = fpr}};
}

/// A filter of the keys of each input.
Members members_of_keys(const BankVerbOptions& options, const MemberShape& shape,
                        const KeyFormat& format, Counted counted) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  Members members;
  members.read.kind = format.kind;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Filter filter(shape.growth, {.seed = shape.seed, .backend = options.run.backend});
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

/// The filters that the inputs are. Their shape must be that of the bank; without one, `shape` is
/// set to that of the first.
Members members_of_filters(const BankVerbOptions& options, std::optional<MemberShape>& shape) {
  Members members;
  std::string shaped_by = options.to, noted_by = options.to;
  bool mixed = false;
  for (const std::string& input : options.keys.inputs) {
    Filter filter = counters_of(open_for_changes(input, options.run), input,
                                "which cannot be a member: members have counters");
    const FilterNotes notes = read_notes(filter.metadata());
    if (!shape) {
      shape = MemberShape{filter.growth(), filter.seed(), notes};
      shaped_by = noted_by = input;
    }
    if (!(filter.growth() == shape->growth) || filter.seed() != shape->seed) {
      const auto text = [](const Growth& growth, std::uint64_t seed) {
        return fmt::format("{}, seed {}",
                           growth.policy() == Growth::Policy::one
                               ? growth.first_geometry().describe()
                               : growth.describe(),
                           seed);
      };
      throw Incompatible(fmt::format("{} has {}; {} {}: all members have one shape and seed",
                                     display_name(shaped_by), text(shape->growth, shape->seed),
                                     display_name(input), text(filter.growth(), filter.seed())));
    }
    check_kinds(shape->notes, noted_by, notes, input, options.keys.force);
    if (!shape->notes.kind && !shape->any_kind) {
      shape->notes.kind = notes.kind;
      noted_by = input;
    }
    mixed |= notes.kind && shape->notes.kind && *notes.kind != *shape->notes.kind;
    const std::uint64_t keys = keys_left(filter.keys_inserted(), filter.keys_removed());
    members.read.keys += keys;
    members.largest = std::max(members.largest, keys);
    filter.set_metadata(named(input, filter.metadata()));
    members.filters.push_back(std::move(filter));
  }
  if (mixed) {
    shape->notes.kind.reset();
    note_both_kinds();
  }
  members.read.kind = shape->notes.kind.value_or(KeyKind::lines);
  return members;
}

void check_options(const BankVerbOptions& options) {
  const std::vector<std::string>& inputs = options.keys.inputs;
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
struct BankWork {
  Bank bank;
  FilterNotes notes;
  Members members;
  Statistics fullest = {};  ///< of the member that got most keys
  std::size_t added = 0, dropped = 0;
};

/// Adds the members to the bank.
BankWork add_to(Bank bank, const MemberShape& shape, Members members,
                const BankVerbOptions& options) {
  BankWork work{std::move(bank), shape.notes, std::move(members)};
  std::vector<Filter>& filters = work.members.filters;
  work.added = filters.size();
  if (!filters.empty()) {
    if (!options.filters) {
      work.fullest = filters[work.members.at].statistics(options.run.batch());
    }
    work.bank.add_members(std::move(filters), options.run.batch());
  }
  return work;
}

BankWork make_bank(const BankVerbOptions& options) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  std::optional<MemberShape> shape;
  Members members;
  if (options.filters) {
    members = members_of_filters(options, shape);
  } else {
    const KeyFormat format = options.keys.format_for(options.keys.kind.value_or(KeyKind::lines));
    Counted counted(inputs.size());
    shape = new_shape(options, format, counted);
    members = members_of_keys(options, *shape, format, std::move(counted));
  }
  Bank bank(shape->growth, {.seed = shape->seed,
                            .backend = options.run.backend,
                            .capacity = static_cast<std::uint32_t>(inputs.size())});
  bank.set_metadata(write_notes(shape->notes));
  return add_to(std::move(bank), *shape, std::move(members), options);
}

/// The metadata of a bank, with another kind of keys noted there. If they are not JSON, they stay
/// as they are.
std::string with_kind(const std::string& metadata, std::optional<KeyKind> kind) {
  Json json = metadata.empty() ? Json::object() : metadata_as_json(metadata);
  if (!json.is_object()) return metadata;
  json.erase("keys");
  if (kind) json["keys"] = to_string(*kind);
  return json_text(json);
}

/// Takes out the members of these names. Returns how many there were.
std::size_t drop(Bank& bank, const std::vector<std::string>& drops, const std::string& file) {
  std::size_t dropped = 0;
  for (const std::string& name : std::set(drops.begin(), drops.end())) {
    for (const std::uint32_t member : members_named(bank, name, "--drop", file)) {
      bank.remove_member(member);
      ++dropped;
    }
  }
  return dropped;
}

BankWork change_bank(const BankVerbOptions& options, Bank bank) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  const std::size_t dropped = drop(bank, options.drops, options.to);
  if (bank.size() + inputs.size() > kMaxBankMembers) {
    throw UsageError(fmt::format("bank: {} members and {} files: a bank has at most {} members",
                                 bank.size(), inputs.size(), kMaxBankMembers));
  }
  std::unordered_set<std::string> new_names;
  for (const std::string& input : inputs) {
    if (new_names.insert(input).second) continue;
    throw UsageError(fmt::format("{} is named twice", display_name(input)));
  }
  const std::vector<std::string> names = names_of(bank);
  for (std::uint32_t member = 0; member < names.size(); ++member) {
    if (!bank.has_member(member) || !new_names.contains(names[member])) continue;
    throw UsageError(fmt::format("{}: {} has a member of this name: --drop it to replace it",
                                 in_quotes(names[member]), display_name(options.to)));
  }
  const FilterNotes notes = read_notes(bank.metadata());
  std::optional<MemberShape> shape{
      MemberShape{bank.growth(), bank.seed(), notes, !notes.kind && bank.size() > 0}};
  Members members;
  if (options.filters) {
    members = members_of_filters(options, shape);
  } else {
    const KeyFormat format = agreed_format(options.keys, notes, options.to);
    if (notes.kind && *notes.kind != format.kind && !inputs.empty()) {
      shape->notes.kind.reset();
      note_both_kinds();
    }
    if (!notes.kind && !shape->any_kind) shape->notes.kind = format.kind;
    members = members_of_keys(options, *shape, format, Counted(inputs.size()));
  }
  if (shape->notes.kind != notes.kind) {
    bank.set_metadata(with_kind(bank.metadata(), shape->notes.kind));
  }
  BankWork work = add_to(std::move(bank), *shape, std::move(members), options);
  work.dropped = dropped;
  return work;
}

int bank(const BankVerbOptions& options) {
  check_options(options);
  const bool changes = !options.to.empty();
  std::vector<std::string> inputs = options.keys.inputs;
  const Destination::Rules rules{
      .force = options.keys.force, .json = options.run.json, .inputs = inputs};
  if (changes) inputs.insert(inputs.begin(), options.to);
  check_inputs(inputs);
  const Destination to = changes ? changed_filter(options.to, options.out, rules)
                                 : Destination("-o " + in_quotes(options.out), options.out, rules);
  const Stopwatch watch;
  bool compress = options.compress;
  const BankWork work = [&] {
    if (!changes) return make_bank(options);
    OpenedBank opened = open_bank_for_changes(options.to, options.run);
    compress |= opened.compressed;
    return change_bank(options, std::move(opened.bank));
  }();
  const double seconds = watch.seconds();
  to.write([&](Output& out) { write_filter(out, work.bank, {.compress = compress}); });
  const Bank& made = work.bank;
  const BankMemory memory = made.memory();
  if (options.run.json) {
    Json json{{"file", to.path()},
              {"kind", "bank"},
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
  } else {
    const std::string change =
        changes ? fmt::format(" ({} added, {} dropped)", work.added, work.dropped) : std::string();
    to.report(fmt::format("{}: {}{}, {} in {:.2f} s; {} of counters, {} of rows\n", to.path(),
                          counted(made.size(), "member"), change,
                          counted(work.members.read.keys, "key"), seconds,
                          human_bytes(memory.counters), human_bytes(memory.rows)));
  }
  if (!options.filters) {
    warn_if_too_full(work.members.largest, work.notes, work.fullest,
                     changes ? "make the bank anew" : "build a larger one");
  }
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
  line.flag("--filters", "FILEs are filters of counters, all of one shape and seed",
            options->filters);
  options->keys.add_format_to(line, false,
                              "Replace OUT even if it is no filter; take filters of lines and of "
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
them, on average.

Examples:
  scbf bank --fpr 0.1% -o logs.bank logs/*.txt.gz
  scbf bank --to logs.bank today.txt.gz
  scbf bank --to logs.bank --drop logs/1.txt.gz logs/1.txt.gz
  scbf bank --filters -o shards.bank shard-*.scbf)");
  return [options] { return bank(*options); };
}

}  // namespace scbf::cli
