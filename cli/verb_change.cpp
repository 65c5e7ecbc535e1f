// SPDX-License-Identifier: Apache-2.0
// scbf insert and scbf remove: change the keys of an existing filter.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "block_sizes.hpp"
#include "describe.hpp"
#include "errors.hpp"
#include "files/file_io.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "free_memory.hpp"
#include "list_keys.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "too_full.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct ChangeOptions {
  std::string file;
  std::string out;
  KeyOptions keys;
  RunOptions run;
  bool compress = false;

  void add_to(CommandLine& line, const std::string& scratch) {
    line.positional("FILE", "The filter; - is standard input, which takes -o", file);
    keys.add_to(line, true);
    line.option("-o,--output", "OUT",
                "Write here; default: replace FILE; - is standard output, and the report then goes "
                "to standard error",
                out);
    run.add_backend_to(line);
    run.add_scratch_to(line, scratch);
    run.add_progress_to(line);
    run.add_json_to(line, "Print a report as JSON");
    add_compress_to(line, compress);
  }
};

/// Where the result goes, checked before any work is done.
Destination destination_of(const ChangeOptions& o) {
  std::vector<std::string> inputs = o.keys.sources();
  Destination to = changed_filter(o.file, o.out,
                                  {.force = o.keys.force,
                                   .json = o.run.json,
                                   .inputs = inputs,
                                   .way_out = "INPUT must be a file of keys"});
  inputs.insert(inputs.begin(), o.file);
  check_inputs(inputs);
  return to;
}

/// Writes a filter, or a list of keys beside it, by write(). They are one result in two parts, so a
/// reader that leaves before the end of either is an error.
template <class Write>
auto write_part(const char* what, const Write& write) {
  try {
    return write();
  } catch (const ReaderGone&) {
    throw IoError(
        fmt::format("the reader of the {} has closed it before its end: no filter is saved", what));
  }
}

/// A filter, the keys that change it, and where it goes.
template <class OneFilter>
struct ChangeSession {
  enum class Blocks : bool { small, large };

  ChangeSession(const ChangeOptions& o, Destination destination, OneFilter opened, bool compress,
                Blocks blocks)
      : options(o),
        to(std::move(destination)),
        filter(std::move(opened)),
        form{.compress = o.compress || compress},
        notes(read_notes(filter.metadata())),
        format(agreed_format(o.keys, notes, o.file)),
        reader(o.keys.sources(), format,
               {.threads = o.run.resolved_threads(),
                .seed = filter.seed(),
                .block_bytes = blocks == Blocks::large
                                   ? printed_block(filter, format.kind, kRemovedPerLine, o.run)
                                   : bulk_block(filter.backend())}) {}

  /// Calls use(block) for all keys.
  void go_through(const char* progress, const std::function<void(const KeyBlock&)>& use) {
    options.run.go_through(reader, progress, use);
  }

  /// Saves the filter, after all changes, and after the list if there is one.
  Statistics save(const std::optional<Destination>& list) {
    seconds = watch.seconds();
    const auto write = [&] { return save_filter(filter, to, options.run, form).statistics; };
    return list ? write_part("filter", write) : write();
  }

  /// Prints `text` or `json`, completed: `text` to standard error if the filter or `other`, a
  /// second result, goes to standard output.
  void report(const Statistics& statistics, Json json, const std::string& text,
              const Destination* other = nullptr) const {
    const RunOptions& run = options.run;
    const std::uint64_t keys = keys_left(statistics.keys_inserted, statistics.keys_removed);
    if (run.json) {
      json["file"] = to.path();
      describe_work(json, reader.totals(), filter.backend(), run, seconds);
      describe_size(json, filter);
      json["keys_in_filter"] = keys;
      json["fill"] = statistics.fill;
      json["saturated"] = statistics.saturated;
      json["estimated_fpr"] = statistics.estimated_fpr;
      print_json(json);
    } else {
      const Destination& first = other != nullptr && other->is_standard_output() ? *other : to;
      first.report(fmt::format("{}: {}; {} now, fill {}, {} saturated\n", to.path(), text,
                               counted(keys, "key"), percent(statistics.fill),
                               grouped(statistics.saturated)));
    }
    warn_of_saturated(saturated_counters(statistics));
    warn_if_too_full(keys, notes, statistics);
  }

  const ChangeOptions& options;
  Destination to;
  OneFilter filter;
  SaveOptions form;
  FilterNotes notes;
  KeyFormat format;
  Stopwatch watch;
  KeyReader reader;
  double seconds = 0;  ///< of reading and changing
};

/// The file that a destination is, or will be: what its links lead to, even if that is not there
/// yet.
std::filesystem::path written_file(const Destination& to) {
  namespace fs = std::filesystem;
  if (to.is_standard_output()) return to.path();
  const fs::path path = fs::absolute(behind_links(to.path()));
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical;
}

/// Where a list of keys goes that is written beside the filter, if `path` is not empty.
std::optional<Destination> list_of_keys(const char* option, const std::string& path,
                                        const ChangeOptions& options, const Destination& filter) {
  if (path.empty()) return {};
  std::vector<std::string> inputs = options.keys.sources();
  inputs.push_back(options.file);
  Destination list(fmt::format("{} {}", option, in_quotes(path)), path,
                   {.replace = Destination::Rules::Replace::nothing,
                    .force = options.keys.force,
                    .binary = false,
                    .json = options.run.json,
                    .inputs = inputs});
  if (written_file(list) == written_file(filter)) {
    throw UsageError(fmt::format("{} {}: the filter is written there", option, in_quotes(path)));
  }
  return list;
}

struct InsertOptions : ChangeOptions {
  std::string new_keys;        ///< file for the keys that are new; empty: insert all
  double most_fpr = kMostFpr;  ///< nothing is written above it
};

/// Inserts all keys into the filter in memory.
template <class OneFilter>
InsertNewReport insert_all(ChangeSession<OneFilter>& session) {
  BulkInserter bulk = session.filter.bulk(session.options.run.batch());
  session.go_through("inserting", [&](const KeyBlock& block) { bulk.insert(block.batch()); });
  return {.inserted = bulk.finish().inserted};
}

/// Inserts the new keys into the filter in memory, and writes them to `list`.
template <class OneFilter>
InsertNewReport insert_new(ChangeSession<OneFilter>& session, Output& list) {
  InsertNewReport sum;
  std::vector<std::uint8_t> is_new;
  session.go_through("inserting", [&](const KeyBlock& block) {
    is_new.resize(block.size());
    sum += session.filter.insert_new(block.batch(), is_new, session.options.run.batch());
    list_keys(list, session.options.run.resolved_threads(), block, session.format, is_new, 1);
  });
  return sum;
}

template <class OneFilter>
int insert_into(OneFilter filter, bool compressed, Destination to, const InsertOptions& options) {
  using Session = ChangeSession<OneFilter>;
  const std::optional<Destination> list = list_of_keys("--new", options.new_keys, options, to);
  if (list && filter.backend().memory() != kHostMemory) {
    throw UsageError(fmt::format("--new: the counters are in the memory of {}: use --backend simd",
                                 filter.backend().memory()));
  }
  Session session(options, std::move(to), std::move(filter), compressed,
                  list ? Session::Blocks::large : Session::Blocks::small);
  const Epoch before = epoch_of(session.filter);
  InsertNewReport sum;
  Refusal refusal{.name = display_name(options.file), .planned = session.notes.fpr};
  if (list && list->is_standard_output()) {
    refusal.outcome = "it was not written, and the keys that were listed are not in it";
  }
  const auto insert = [&](auto how) {
    sum = insert_or_refuse(session.filter, refusal, how);
    check_rate(session.filter, options.most_fpr, refusal);
  };
  if (list) {
    write_part("list", [&] {
      list->write([&](Output& out) { insert([&] { return insert_new(session, out); }); });
    });
  } else {
    insert([&] { return insert_all(session); });
  }
  const std::optional<KeyKind> noted = session.notes.kind, read = session.reader.kind();
  const bool other_kind = noted && noted != read && sum.inserted > 0;
  const bool both_kinds = other_kind && session.filter.keys_inserted() > sum.inserted;
  if (other_kind) {
    session.filter.set_metadata(
        with_kind(session.filter.metadata(), both_kinds ? std::nullopt : read));
  }
  Json json{{"inserted", sum.inserted}};
  std::string text = fmt::format("inserted {}", grouped(sum.inserted));
  if (list) {
    json["present"] = sum.present;
    text += fmt::format(", present {}", grouped(sum.present));
  }
  session.report(session.save(list), std::move(json), text, list ? &*list : nullptr);
  if (both_kinds) note_both_kinds("the filter holds", "query");
  note_end_of(before, session.filter, options.file);
  return kOk;
}

int insert(const InsertOptions& options) {
  Destination to = destination_of(options);
  Changeable opened = open_for_changes(options.file, options.run);
  return std::visit(
      [&](auto&& filter) {
        return insert_into(std::forward<decltype(filter)>(filter), opened.compressed, std::move(to),
                           options);
      },
      std::move(opened.filter));
}

/// How many keys may be absent: a number of keys, or a share of them.
struct Limit {
  std::optional<std::uint64_t> keys = {};
  static constexpr double kHalf = 0.5;
  double share = kHalf;
  bool given = false;

  bool exceeded(std::uint64_t absent, std::uint64_t all) const {
    // 29 % of 100 are a little less than 29. Exact for up to 10^12 keys.
    constexpr double kRounding = 1 + 1e-12;
    return keys ? absent > *keys
                : static_cast<double>(absent) > share * static_cast<double>(all) * kRounding;
  }
  std::string text() const {
    return keys ? grouped(*keys) : share == kHalf ? std::string("half of them") : percent(share);
  }
};

Limit parse_limit(const std::string& text) {
  Limit limit{.given = true};
  try {
    if (text.ends_with('%')) {
      limit.share = parse_real({}, text.substr(0, text.size() - 1), 0, 100) / 100;
    } else {
      limit.keys = parse_count({}, text, 0);
    }
  } catch (const UsageError&) {
    throw UsageError(fmt::format(
        "--max-absent {}: must be a whole number of keys, or a share of them from 0% to "
        "100% such as 50%",
        in_quotes(text)));
  }
  return limit;
}

struct RemoveOptions : ChangeOptions {
  Limit most_absent;
  std::string absent;  ///< file for the absent keys; empty: none
};

/// Options of a removal in bulk. Where less memory is free than the filter takes, a quarter of what
/// is free is enough.
BatchOptions bulk_options(const Filter& filter, const RunOptions& run) {
  BatchOptions options = run.batch();
  const std::uint64_t spare = memory_to_spare();
  if (options.scratch_bytes == 0 && spare < filter.bytes()) {
    options.scratch_bytes = std::max<std::uint64_t>(spare / 4, kSmallBlock);
  }
  return options;
}

/// Removes all keys from the filter in memory.
RemoveReport remove_all(ChangeSession<Filter>& session) {
  BulkRemover bulk = session.filter.bulk_remove(bulk_options(session.filter, session.options.run));
  session.go_through("removing", [&](const KeyBlock& block) { bulk.remove(block.batch()); });
  return bulk.finish();
}

/// Removes all keys from the filter in memory, and writes the absent ones to `list`.
RemoveReport remove_all(ChangeSession<Filter>& session, Output& list) {
  RemoveReport sum;
  std::vector<std::uint8_t> verdicts;
  session.go_through("removing", [&](const KeyBlock& block) {
    verdicts.resize(block.size());
    sum += session.filter.remove(block.batch(), verdicts, session.options.run.batch_beside_keys());
    list_keys(list, session.options.run.resolved_threads(), block, session.format, verdicts,
              static_cast<std::uint8_t>(Removal::absent));
  });
  return sum;
}

/// lost_per_false_removal of the stage that claims such a key.
double lost_with_one(const Statistics& statistics) {
  double lost = 0, claimed = 0;
  for (const StageStatistics& stage : statistics.stages) {
    if (!std::isfinite(stage.estimated_keys)) continue;  // too full to say
    lost +=
        stage.estimated_fpr * lost_per_false_removal(stage.shape.geometry, stage.estimated_keys);
    claimed += stage.estimated_fpr;
  }
  return claimed > 0 ? lost / claimed : 0;
}

int remove(const RemoveOptions& options) {
  Destination to = destination_of(options);
  Changeable opened = open_for_changes(options.file, options.run);
  const bool compressed = opened.compressed;
  using Session = ChangeSession<Filter>;
  Session session(
      options, std::move(to),
      counters_of(std::move(opened), options.file, "which does not count: no key can be removed"),
      compressed, options.absent.empty() ? Session::Blocks::small : Session::Blocks::large);
  const std::optional<Destination> list =
      list_of_keys("--absent", options.absent, options, session.to);
  RemoveReport sum;
  if (list) {
    write_part("list", [&] { list->write([&](Output& out) { sum = remove_all(session, out); }); });
  } else {
    sum = remove_all(session);
  }

  const std::uint64_t keys = session.reader.keys();
  const std::string absent_of_all =
      fmt::format("{} of {} {} absent", grouped(sum.absent), counted(keys, "key"),
                  sum.absent == 1 ? "is" : "are");
  // Nothing was removed if all are absent, so nothing is lost then.
  if (options.most_absent.exceeded(sum.absent, keys) &&
      (options.most_absent.given || sum.removed > 0)) {
    std::string why = fmt::format(
        "{}: {}, more than {}: nothing is removed. Were they removed before, or do they end in a "
        "CR?",
        display_name(options.file), absent_of_all, options.most_absent.text());
    if (sum.removed > 0) {
      why += fmt::format(
          " Then the other {} may be false positives, whose removal makes other keys absent; "
          "--max-absent {} removes them all the same.",
          grouped(keys - sum.absent), sum.absent);
    }
    if (list) why += fmt::format(" {} lists the absent ones.", list->path());
    throw Incompatible(why);
  }
  const Statistics statistics = session.save(list);
  const double lost = lost_with_one(statistics);
  session.report(
      statistics,
      Json{{"removed", sum.removed},
           {"absent", sum.absent},
           {"ambiguous", sum.ambiguous},
           {"kept", sum.kept},
           {"lost_per_false_removal", lost}},
      fmt::format("removed {}, absent {}{}{}", grouped(sum.removed), grouped(sum.absent),
                  sum.ambiguous > 0 ? fmt::format(", ambiguous {}", grouped(sum.ambiguous)) : "",
                  sum.kept > 0 ? fmt::format(", kept {}", grouped(sum.kept)) : ""),
      list ? &*list : nullptr);
  if (2 * sum.absent > keys) {
    const auto others =
        static_cast<std::uint64_t>(std::ceil(lost * static_cast<double>(sum.removed)));
    note(fmt::format(
        "{}; {}", absent_of_all,
        sum.removed == 0
            ? "nothing is removed"
            : fmt::format("if those removed were false positives, about {} {} absent now",
                          counted(others, "other key"), others == 1 ? "is" : "are")));
  }
  if (sum.ambiguous > 0) {
    note(fmt::format("{} claimed by several stages and left where {}",
                     sum.ambiguous == 1 ? "1 key is" : grouped(sum.ambiguous) + " keys are",
                     sum.ambiguous == 1 ? "it is" : "they are"));
  }
  if (sum.kept > 0) {
    note(
        fmt::format("{} in blocks that were too full and have lost their counts: {} still there; "
                    "build the filter anew, for more keys, to be able to remove {}",
                    sum.kept == 1 ? "1 key is" : grouped(sum.kept) + " keys are",
                    sum.kept == 1 ? "it is" : "they are", sum.kept == 1 ? "it" : "them"));
  }
  return sum.removed + sum.kept > 0 || keys == 0 ? kOk : kNothingFound;
}

}  // namespace

Run set_up_insert(CommandLine& line) {
  auto options = std::make_shared<InsertOptions>();
  options->add_to(line, "a quarter of the filter's size");
  line.option("--new", "LIST",
              "Insert only the keys that are not there yet, and write them here, one a line: a new "
              "file, unless --force is given; - is standard output",
              options->new_keys);
  add_max_fpr_to(line, options->most_fpr);
  line.footer(
      R"(FILE is replaced as a whole after all keys are inserted; on failure it stays as it was: the exit code
is 4 if the rate ends above --max-fpr, and 3 if no stage has room. Commands that change the same file run
one after another.

With --new, keys are taken one after another: of equal ones only the first is new, and each counts once.
A new key is taken for an old one at the filter's rate; it is not inserted then, and not in LIST. LIST is
complete before FILE is replaced. If FILE cannot be replaced, the keys of LIST are not in it. Later,
remove only keys that were in a LIST. Do not pipe LIST into a command that changes FILE, too, but write
it to a file first.

Examples:
  scbf insert words.scbf new_words.txt
  scbf insert words.scbf -o more.scbf new_words.txt
  scbf insert words.scbf new_words.txt --new unseen.txt)");
  return [options] { return insert(*options); };
}

Run set_up_remove(CommandLine& line) {
  auto options = std::make_shared<RemoveOptions>();
  options->add_to(line, "a quarter of the filter's size; with --absent all of it");
  line.option("--max-absent", "N",
              "Remove nothing if more than N of the keys are absent, or N% of them; default 50%",
              [o = options.get()](const std::string& text) { o->most_absent = parse_limit(text); });
  line.option("--absent", "LIST",
              "Write the absent keys here, one a line: a new file, unless --force is given; - is "
              "standard output",
              options->absent);
  line.footer(
      R"(An absent key is left alone and reported as absent; the exit code is 1 if all keys are absent. In a
filter that grows, a key that several stages claim stays and is reported as ambiguous. FILE is replaced
as a whole; on failure it stays as it was. Commands that change the same file run one after another: do
not pipe the absent keys into one that changes FILE, too, but write them to a LIST first.

Remove only keys that were inserted, and each as often as it was. Keys that are not in the filter look
present at its false-positive rate. Removing such a key lowers counters of other keys: in a full filter of
1%, about 4 of these (layout ranked: 3) become absent (docs/maths.md, "Removing what was not inserted").
So if more than half of the keys are absent, nothing is removed and the exit code is 4: the keys were
probably removed before, or belong to another filter. --max-absent sets another limit, such as 0 for
keys that must all be there.

A counter that has reached 15 (layout ranked: a count of 255) is saturated and is never lowered again. A
key whose counters are all saturated is reported as removed but still looks present, until the filter is
built anew. In layout ranked, keys of blocks that were too full are reported as kept.

Examples:
  scbf remove words.scbf retired.txt --max-absent 0
  scbf remove words.scbf retired.txt --absent were_not_there.txt
  scbf remove words.scbf -o smaller.scbf retired.txt --json)");
  return [options] { return remove(*options); };
}

}  // namespace scbf::cli
