// SPDX-License-Identifier: Apache-2.0
// scbf delta and scbf apply: changes of filters of bits, from the writer to readers.
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "bank_names.hpp"
#include "describe.hpp"
#include "errors.hpp"
#include "files/file_io.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/delta.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

/// The bits in a file, to be changed. Throws Incompatible if it holds counters.
BloomFilter bits_of(Changeable& opened, const std::string& file) {
  if (auto* const bits = std::get_if<BloomFilter>(&opened.filter)) return std::move(*bits);
  throw Incompatible(
      fmt::format("{}: a filter of counters: 'scbf project' makes the bits that "
                  "deltas change",
                  display_name(file)));
}

struct DeltaOptions {
  std::string bits, now, out;
  bool force = false, json = false;
};

std::string describe(const Delta& delta) {
  const std::string size = human_bytes(delta.message().size());
  if (delta.whole()) return fmt::format("epoch {}, whole, {}", delta.epoch().number, size);
  return fmt::format("epoch {} to {}, {} changed, {}", delta.since().number, delta.epoch().number,
                     counted(delta.changes(), "bit"), size);
}

int delta(const DeltaOptions& options) {
  if (is_standard_input(options.bits) || !S_ISREG(status_of(options.bits).st_mode)) {
    throw UsageError(fmt::format(
        "{}: the published bits must be in a file, named here, which moves on to the new epoch",
        display_name(options.bits)));
  }
  const std::vector<std::string> inputs = {options.bits, options.now};
  check_inputs(inputs);
  const Destination to("-o " + in_quotes(options.out), options.out,
                       {.replace = Destination::Rules::Replace::nothing,
                        .force = options.force,
                        .json = options.json,
                        .inputs = inputs});
  const Destination published = changed_filter(
      options.bits, {},
      {.json = false, .inputs = {options.now}, .way_out = "FILTER must be another file"});
  const RunOptions run;
  Changeable opened = open_for_changes(options.bits, run);
  BloomFilter bits = bits_of(opened, options.bits);
  Changeable now = open_for_changes(options.now, run);
  const auto& latest =
      std::visit([](const auto& filter) -> const FilterBase& { return filter; }, now.filter);
  const auto before = read_notes(bits.metadata()).kind, after = read_notes(latest.metadata()).kind;
  if (before && after && *before != *after && !options.force) {
    throw Incompatible(
        fmt::format("{} holds {} keys, and {} held {} keys: is it the right one? --force takes it",
                    display_name(options.now), to_string(*after), display_name(options.bits),
                    to_string(*before)));
  }
  if (bits.epoch() && (!(bits.growth() == latest.growth()) || bits.seed() != latest.seed())) {
    note(fmt::format("{} is not of the shape of {}: the delta is whole", display_name(options.now),
                     display_name(options.bits)));
  }
  const Delta changes = std::visit([&](const auto& filter) { return bits.advance(filter); },
                                   std::as_const(now.filter));
  const std::uint64_t whole_bytes = bits.bytes();
  const bool is_new = !to.is_standard_output() && !std::filesystem::exists(to.path());
  // The delta first: if the process then ends before the filter is written, the next delta has this
  // epoch again, and readers notice.
  to.write([&](Output& out) {
    const auto message = changes.message();
    out.write({reinterpret_cast<const char*>(message.data()), message.size()});
  });
  try {
    published.write([&](Output& out) { write_filter(out, bits, {.compress = opened.compressed}); });
  } catch (const std::exception&) {
    // The published bits have not moved on, so nobody may get this delta.
    std::error_code failed;
    if (is_new) std::filesystem::remove(behind_links(to.path()), failed);
    if (!is_new || failed) {
      note(fmt::format("{}: do not send it: {} is still at the epoch before",
                       display_name(to.path()), display_name(options.bits)));
    }
    throw;
  }
  if (options.json) {
    Json json{{"file", to.path()}, {"whole", changes.whole()}, {"since", changes.since().number}};
    describe_epoch(json, changes.epoch());
    json["changes"] = changes.changes();
    json["bytes"] = changes.message().size();
    json["bits_bytes"] = whole_bytes;
    print_json(json);
  } else {
    to.report(fmt::format("{}: {}; all bits: {}\n", to.path(), describe(changes),
                          human_bytes(whole_bytes)));
  }
  return kOk;
}

struct ApplyOptions {
  std::string file, out;
  std::optional<std::string> member;
  std::vector<std::string> deltas;
  bool force = false, json = false, compress = false;

  /// What is changed, for messages.
  std::string changed() const {
    return member ? fmt::format("member {} of {}", in_quotes(*member), display_name(file))
                  : display_name(file);
  }
};

/// Calls apply(delta) for each delta, in order. Returns how many bits changed.
template <class Apply>
std::uint64_t apply_all(const ApplyOptions& options, Apply apply) {
  std::uint64_t changes = 0;
  for (const std::string& name : options.deltas) {
    const Delta delta = load_as<Delta>(name);
    try {
      apply(delta);
    } catch (const Incompatible& error) {
      throw Incompatible(
          fmt::format("{} and {}: {}", options.changed(), display_name(name), error.what()));
    }
    changes += delta.changes();
  }
  return changes;
}

/// Reports what was written; `bits` has its numbers.
void report(const ApplyOptions& options, const Destination& to, std::uint64_t changes,
            const BloomFilter& bits) {
  const std::uint64_t keys = keys_left(bits.keys_inserted(), bits.keys_removed());
  if (options.json) {
    Json json{{"file", to.path()}, {"deltas", options.deltas.size()}, {"changes", changes}};
    if (options.member) json["member"] = *options.member;
    describe_epoch(json, bits.epoch());
    json["keys"] = json["keys_in_filter"] = keys;
    json["fill"] = bits.fill();
    describe_size(json, bits);
    print_json(json);
    return;
  }
  to.report(fmt::format("{}: {}epoch {}; {}, fill {}\n", to.path(),
                        options.member ? in_quotes(*options.member) + ", " : std::string(),
                        bits.epoch().number, counted(keys, "key"), percent(bits.fill())));
}

void apply_to_filter(const ApplyOptions& options, const Rereadable& source, const Destination& to) {
  Changeable opened = open_for_changes(source, {});
  BloomFilter bits = bits_of(opened, options.file);
  const std::uint64_t changes = apply_all(options, [&](const Delta& delta) { bits.apply(delta); });
  to.write([&](Output& out) { write_filter(out, bits, {.compress = options.compress}); });
  report(options, to, changes, bits);
}

void apply_to_member(const ApplyOptions& options, const Rereadable& source, const Destination& to) {
  source.with_path([&](const std::string& path) {
    if (is_bank_file(path)) return;
    const bool is_delta = read_file_info(path).is_delta;  // throws if it is no filter, either
    throw Incompatible(fmt::format("{}: {}", display_name(options.file),
                                   is_delta ? "a delta: 'scbf apply' applies it"
                                            : "a filter, and no bank: leave --member out"));
  });
  OpenedBank opened = open_bank_for_changes(source, {});
  auto* const bank = std::get_if<BloomBank>(&opened.bank);
  if (bank == nullptr) {
    throw Incompatible(
        fmt::format("{}: a bank of counters: 'scbf project' makes the bits that deltas change",
                    display_name(options.file)));
  }
  const auto members =
      members_named(*bank, names_of(*bank), *options.member, "--member", options.file);
  if (members.size() > 1) {
    throw UsageError(fmt::format(
        "--member {}: {} has {} members of this name: drop them ('scbf bank --drop'), and add each "
        "under a name of its own",
        in_quotes(*options.member), display_name(options.file), members.size()));
  }
  const std::uint32_t member = members.front();
  const std::string before = bank->metadata(member);
  const std::uint64_t changes =
      apply_all(options, [&](const Delta& delta) { bank->apply(member, delta); });
  bank->set_metadata(member, named_as_before(before, bank->metadata(member)));
  to.write([&](Output& out) { write_filter(out, *bank, {.compress = options.compress}); });
  report(options, to, changes, bank->copy_member(member));
}

int apply(const ApplyOptions& options) {
  using Replace = Destination::Rules::Replace;
  const Destination to =
      changed_filter(options.file, options.out,
                     {.replace = options.member ? Replace::banks : Replace::filters,
                      .force = options.force,
                      .json = options.json,
                      .inputs = options.deltas,
                      .way_out = "DELTA must be another file"});
  std::vector<std::string> inputs = options.deltas;
  inputs.insert(inputs.begin(), options.file);
  check_inputs(inputs);
  const Rereadable source(options.file);
  if (options.member) {
    apply_to_member(options, source, to);
  } else if (is_bank_file(source.path())) {
    throw UsageError(fmt::format("{}: a bank: name the member that changes by --member NAME",
                                 display_name(options.file)));
  } else {
    apply_to_filter(options, source, to);
  }
  return kOk;
}

}  // namespace

Run set_up_delta(CommandLine& line) {
  auto options = std::make_shared<DeltaOptions>();
  line.positional("PUBLISHED",
                  "The bits as readers have them; a file, which moves on to the new epoch",
                  options->bits);
  line.positional("FILTER", "The filter of now, of counters or of bits; - is standard input",
                  options->now);
  line.option(
      "-o,--output", "DELTA",
      "The delta, a new file; - is standard output, and the report then goes to standard error",
      options->out, CommandLine::Need::required);
  line.flag("--force",
            "Replace DELTA if it exists: readers who do not have it must begin anew; take FILTER "
            "even if its "
            "keys are of another kind",
            options->force);
  line.flag("--json", "Print a report as JSON", options->json);
  line.footer(
      R"(Writes what changed between the bits in PUBLISHED, which 'scbf project' or 'scbf build --bits' made at
first, and those of FILTER, and makes PUBLISHED the bits of FILTER. Each call is an epoch, and its delta
applies to the bits of the epoch before. The first delta has all bits; so has any other for which that is
shorter. A copy of PUBLISHED serves a reader who has lost a delta. Any other verb that changes PUBLISHED ends
its epochs: readers then begin anew. Commands that change the same file run one after another.

Examples:
  scbf delta published.scbf words.scbf -o 1.delta
  scbf delta published.scbf words.scbf -o next.delta --json)");
  return [options] { return delta(*options); };
}

Run set_up_apply(CommandLine& line) {
  auto options = std::make_shared<ApplyOptions>();
  line.positional("FILE",
                  "The bits of a reader, or a bank of bits; - is standard input, which takes -o",
                  options->file);
  line.positionals("DELTA", "Deltas, in order; - is standard input", options->deltas,
                   CommandLine::Need::required);
  line.option(
      "-o,--output", "OUT",
      "Write here; default: replace FILE; - is standard output, and the report then goes to "
      "standard error",
      options->out);
  line.option(
      "--member", "NAME",
      "FILE is a bank of bits, whose member of this name (without a name: its number) changes",
      [o = options.get()](const std::string& name) { o->member = name; });
  line.flag("--force",
            "Replace OUT whatever it holds; by default only a filter is replaced (with --member: "
            "only a bank)",
            options->force);
  add_compress_to(line, options->compress);
  line.flag("--json", "Print a report as JSON", options->json);
  line.footer(
      R"(Each delta must begin at the epoch that FILE then has, of the same history; otherwise nothing is
written, and the exit code is 4. A whole delta applies to bits of any earlier epoch, and is a compressed
filter of bits itself: a reader begins with a copy of it. What is written here is not compressed, unless
--compress asks for that, and so can be mapped by 'scbf query' and 'scbf find'. Commands that change the same
file run one after another.

Examples:
  scbf apply reader.scbf 2.delta
  scbf apply reader.scbf 2.delta 3.delta -o newest.scbf
  scbf apply proxies.bank --member paris.bits paris-2.delta)");
  return [options] { return apply(*options); };
}

}  // namespace scbf::cli
