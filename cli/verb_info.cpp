// SPDX-License-Identifier: Apache-2.0
// scbf info and scbf verify: show the header and statistics of a file, and check its checksums.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "describe.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bank.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct InfoOptions {
  std::string file;
  bool header_only = false;
  RunOptions run;
};

/// The metadata, which is free-form: parsed if it is JSON, otherwise as a string.
Json metadata_json(const std::string& metadata) {
  Json json = metadata_as_json(metadata);
  return json.is_discarded() ? Json(metadata) : json;
}

/// Metadata in text: with escapes, as they may come from strangers; of long ones, only the size.
std::string shown(const std::string& metadata) {
  constexpr std::size_t kLong = 200;
  if (metadata.size() > kLong) return human_bytes(metadata.size());
  return printable(metadata, std::string_view::npos);
}

/// Keys inserted and removed, summed over all stages.
struct Books {
  std::uint64_t inserted = 0, removed = 0;

  explicit Books(const FileInfo& info) {
    for (const StageFileInfo& stage : info.stages) {
      inserted += stage.keys_inserted;
      removed += stage.keys_removed;
    }
  }
  void describe(Json& json) const {
    json["keys"] = json["keys_in_filter"] = keys_left(inserted, removed);
    json["keys_inserted"] = inserted;
    json["keys_removed"] = removed;
  }
  std::string text() const {
    return fmt::format("{} ({} inserted, {} removed)", grouped(keys_left(inserted, removed)),
                       grouped(inserted), grouped(removed));
  }
};

/// The keys that only a file with a single stage has. They are not nested.
void describe_single(Json& json, const StageFileInfo& stage, const StageStatistics* statistics) {
  json["hash"] = stage.hash;
  json["hash_version"] = stage.hash_version;
  json["counter_bits"] = stage.counter_bits;
  describe_geometry(json, stage.shape.geometry);
  json["payload_offset"] = stage.payload_offset;
  json["payload_bytes"] = stage.payload_bytes;
  json["chunk_bytes"] = stage.chunk_bytes;
  json["chunks"] = stage.chunks;
  json["saturated"] = stage.saturated;
  if (statistics == nullptr) return;
  json["slice_fill"] = statistics->slice_fill;
  json["histogram"] = statistics->histogram;
}

/// The keys that only a container has.
void describe_container(Json& json, const FileInfo& info, const Statistics* statistics) {
  describe_growth(json, info.growth);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < info.stages.size(); ++i) {
    const StageFileInfo& stage = info.stages[i];
    Json one;
    describe_geometry(one, stage.shape.geometry);
    one["fpr"] = stage.shape.fpr;
    one["full_at"] = stage.shape.full_at;
    one["offset"] = stage.offset;
    one["keys_inserted"] = stage.keys_inserted;
    one["keys_removed"] = stage.keys_removed;
    if (statistics != nullptr) describe_fill(one, statistics->stages[i]);
    bytes += stage.shape.geometry.bytes();
    json["stages"].push_back(std::move(one));
  }
  json["bytes"] = bytes;
  if (statistics == nullptr) return;
  json["fpr_bound"] = statistics->fpr_bound;
  json["ambiguous_share"] = statistics->ambiguous_share;
}

/// How many bits a delta changes.
std::uint64_t changes_of(const FileInfo& info) {
  std::uint64_t sum = 0;
  for (const StageFileInfo& stage : info.stages) sum += stage.changes;
  return sum;
}

std::string describe_contents(const FileInfo& info) {
  std::string text;
  if (info.is_delta) {
    text = fmt::format("a delta, epoch {} to {}: {} changed", info.since.number, info.epoch.number,
                       counted(changes_of(info), "bit"));
  } else {
    text = info.cell() == Cell::bit ? "bits, for readers" : "counters";
    if (info.epoch) text += fmt::format(", epoch {}", info.epoch.number);
    if (info.compressed) text += ", compressed";
  }
  return text;
}

/// `statistics` is null if only the headers were requested.
Json to_json(const std::string& file, const FileInfo& info, const Statistics* statistics) {
  Json json;
  json["file"] = file;
  json["kind"] = kind_of(info);
  json["version"] = info.version;
  json["compressed"] = info.compressed;
  describe_epoch(json, info.epoch);
  if (info.is_delta) {
    json["since"] = info.since.number;
    json["changes"] = changes_of(info);
  }
  json["seed"] = info.seed;
  Books(info).describe(json);
  if (info.is_container()) {
    describe_container(json, info, statistics);
  } else {
    describe_single(json, info.stages[0], statistics ? &statistics->stages[0] : nullptr);
    json["metadata_bytes"] = info.metadata.size();
  }
  json["file_bytes"] = info.file_bytes;
  json["metadata"] = metadata_json(info.metadata);
  if (statistics != nullptr) describe_fill(json, *statistics);
  return json;
}

std::string to_text(const std::string& file, const FileInfo& info, const Statistics* statistics) {
  const bool container = info.is_container();
  std::string text;
  const auto row = [&](std::string_view name, std::string_view value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  row("file", fmt::format("{} ({}, {}version {})", file, human_bytes(info.file_bytes),
                          container ? "container " : "", info.version));
  row("holds", describe_contents(info));
  if (container) {
    row("growth", info.growth.describe());
  } else {
    const Geometry& g = info.growth.first_geometry();
    row("geometry", g.describe());
    row("probes",
        fmt::format("{} in {}", g.probes(), counted(g.cache_lines_per_key(), "cache line")));
    const Geometry held = g.with(info.cell());
    row(fmt::format("{}s", to_string(held.cell())),
        fmt::format("{}, {}", grouped(held.counters()), human_bytes(held.bytes())));
  }
  row("hash", fmt::format("{}, seed {}", info.stages[0].hash, info.seed));
  row("keys", Books(info).text());
  if (!container && info.cell() == Cell::counter) {
    row("saturated", counted(info.stages[0].saturated, "counter"));
  }
  if (!info.metadata.empty()) row("metadata", shown(info.metadata));
  if (statistics != nullptr) {
    const double keys = statistics->estimated_keys;
    row("fill", percent(statistics->fill));
    row("estimated",
        (std::isfinite(keys) ? counted(static_cast<std::uint64_t>(keys + 0.5), "distinct key")
                             : "too many distinct keys") +
            ", from the fill");
    row("estimated rate",
        percent(statistics->estimated_fpr) +
            (container ? fmt::format(" (bound {})", percent(statistics->fpr_bound)) : ""));
    if (container) row("ambiguous", percent(statistics->ambiguous_share) + " of the keys");
  }
  if (!container) return text;
  for (std::size_t i = 0; i < info.stages.size(); ++i) {
    const StageShape& shape = info.stages[i].shape;
    row(fmt::format("stage {}", i),
        fmt::format("{}, {}, rate {}{}", shape.geometry.describe(),
                    human_bytes(shape.geometry.bytes()), percent(shape.fpr),
                    statistics ? ", fill " + percent(statistics->stages[i].fill) : ""));
  }
  return text;
}

// ---- banks

std::string_view describe_bank(const BankFileInfo& info) {
  return info.cell == Cell::bit ? "a bank of bits" : "a bank";
}

Json to_json(const std::string& file, const BankFileInfo& info) {
  Json json;
  json["file"] = file;
  json["kind"] = kind_of(info);
  json["version"] = info.version;
  json["compressed"] = info.compressed;
  json["seed"] = info.seed;
  json["capacity"] = info.capacity;
  json["row_bytes"] = info.row_bytes;
  describe_growth_of_bank(json, info.growth);
  json["members"] = Json::array();
  for (const MemberFileInfo& member : info.members) {
    Json one{{"number", member.number},
             {"asked_always", member.asked_always},
             {"offset", member.offset},
             {"file_bytes", member.filter.file_bytes},
             {"stages", member.filter.stages.size()}};
    Books(member.filter).describe(one);
    one["metadata"] = metadata_json(member.filter.metadata);
    json["members"].push_back(std::move(one));
  }
  json["file_bytes"] = info.file_bytes;
  json["metadata"] = metadata_json(info.metadata);
  return json;
}

/// Most members that are listed as text.
constexpr std::size_t kListed = 20;

std::string to_text(const std::string& file, const BankFileInfo& info) {
  std::string text;
  const auto row = [&](std::string_view name, std::string_view value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  row("file",
      fmt::format("{} ({}, bank version {})", file, human_bytes(info.file_bytes), info.version));
  row("holds", fmt::format("{} of {}, room for {}{}", describe_bank(info),
                           counted(info.members.size(), "member"), grouped(info.capacity),
                           info.compressed ? ", compressed" : ""));
  const bool grows = info.growth.policy() != Growth::Policy::one;
  row(info.cell == Cell::counter && grows ? "rows, stage 1" : "rows", human_bytes(info.row_bytes));
  row("growth", info.growth.policy() == Growth::Policy::one
                    ? info.growth.first_geometry().describe()
                    : info.growth.describe());
  row("hash", fmt::format("XXH3-64, seed {}", info.seed));
  if (!info.metadata.empty()) row("metadata", shown(info.metadata));
  for (std::size_t i = 0; i < std::min(info.members.size(), kListed); ++i) {
    const MemberFileInfo& member = info.members[i];
    const std::string& metadata = member.filter.metadata;
    row(fmt::format("member {}", member.number),
        fmt::format("{}{}{}{}", Books(member.filter).text(),
                    member.filter.is_container()
                        ? ", " + counted(member.filter.stages.size(), "stage")
                        : "",
                    member.asked_always ? ", always asked" : "",
                    metadata.empty() ? "" : ", " + shown(metadata)));
  }
  if (info.members.size() > kListed) {
    row("", fmt::format("and {} more; --json lists all", info.members.size() - kListed));
  }
  return text;
}

/// Statistics of the filter at `path`, which has these headers.
Statistics statistics_of(const std::string& path, const FileInfo& info,
                         const InfoOptions& options) {
  const AnyFilter filter = info.cell() == Cell::bit
                               ? open_for_queries(path, options.run, Opening::map)
                               : AnyFilter(open_counters(path, options.run, Opening::map));
  return std::visit(
      [&](const auto& opened) {
        if (opened.stages() != info.stages.size()) {
          throw IoError(
              fmt::format("{}: replaced by another meanwhile", display_name(options.file)));
        }
        return opened.statistics(options.run.batch());
      },
      filter);
}

/// Shows the file that is at `path`, or the headers only.
void show(const InfoOptions& options, const std::string& path) {
  const AnyFileInfo any = options.header_only ? read_any_file_info(path) : verify_any_file(path);
  if (const auto* const bank = std::get_if<BankFileInfo>(&any)) {
    if (options.run.json) {
      print_json(to_json(options.file, *bank));
    } else {
      print_text(to_text(options.file, *bank));
    }
    return;
  }
  const auto& info = std::get<FileInfo>(any);
  std::optional<Statistics> statistics;
  if (!options.header_only && !info.is_delta) {
    // Statistics of a damaged file would be wrong but look plausible, so the whole file is
    // verified.
    statistics = statistics_of(path, info, options);
  }
  const Statistics* const known = statistics ? &*statistics : nullptr;
  if (options.run.json) {
    print_json(to_json(options.file, info, known));
  } else {
    print_text(to_text(options.file, info, known));
  }
}

int info(const InfoOptions& options) {
  if (options.header_only) {
    with_path_of(options.file, [&](const std::string& path) { show(options, path); });
    return kOk;
  }
  const Rereadable file(options.file);
  file.with_path([&](const std::string& path) { show(options, path); });
  return kOk;
}

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

/// What verify says of a file that is whole, as text and, in `one`, as JSON.
std::string verified(const FileInfo& info, Json& one) {
  one["kind"] = kind_of(info);
  one["file_bytes"] = info.file_bytes;
  if (info.is_container()) one["stages"] = info.stages.size();
  return fmt::format("{}{}, {}", info.cell() == Cell::counter ? "" : describe_contents(info) + "; ",
                     info.is_container() ? counted(info.stages.size(), "stage")
                                         : info.growth.first_geometry().describe(),
                     human_bytes(info.file_bytes));
}
std::string verified(const BankFileInfo& info, Json& one) {
  one["kind"] = kind_of(info);
  one["file_bytes"] = info.file_bytes;
  one["members"] = info.members.size();
  return fmt::format("{} of {}, {}", describe_bank(info), counted(info.members.size(), "member"),
                     human_bytes(info.file_bytes));
}

int verify(const VerifyOptions& options) {
  Json all = Json::array();
  std::string text;
  int code = kOk;
  for (const std::string& file : options.files) {
    Json one{{"file", file}, {"ok", true}};
    const auto refuse = [&](const Error& error, int with) {
      code = with;
      one["ok"] = false;
      one["error"] = error.what();
      note(error.what());
    };
    try {
      const AnyFileInfo any =
          with_path_of(file, [](const std::string& path) { return verify_any_file(path); });
      text += fmt::format("{}: ok, {}\n", file,
                          std::visit([&](const auto& info) { return verified(info, one); }, any));
    } catch (const CorruptFile& error) {
      refuse(error, kCorrupt);
    } catch (const IoError& error) {
      refuse(error, code == kOk ? kInputOutput : code);
    }
    all.push_back(std::move(one));
  }
  if (options.json) {
    print_json(all);
  } else {
    print_text(text);
  }
  return code;
}

}  // namespace

Run set_up_info(CommandLine& line) {
  auto options = std::make_shared<InfoOptions>();
  line.positional("FILE", "The filter or bank; - is standard input", options->file);
  line.flag("--header", "Only the header, without statistics; fast for files of any size",
            options->header_only);
  options->run.add_backend_to(line);
  options->run.add_json_to(line, "Print JSON");
  line.footer(
      R"(Reads and verifies the whole file, then reads every counter of a filter. A bank is listed member by member.

Examples:
  scbf info words.scbf
  scbf info words.scbf --json | jq .estimated_fpr
  scbf info huge.scbf --header)");
  return [options] { return info(*options); };
}

Run set_up_verify(CommandLine& line) {
  auto options = std::make_shared<VerifyOptions>();
  line.positionals("FILE", "Filters and banks", options->files, CommandLine::Need::required);
  line.flag("--json", "Print an array as JSON", options->json);
  line.footer(
      R"(Checks all files, and reports on standard error which are damaged and where. The exit code is then
4, or 3 if a file could not be read and none is damaged.

Examples:
  scbf verify words.scbf
  scbf verify *.scbf)");
  return [options] { return verify(*options); };
}

}  // namespace scbf::cli
