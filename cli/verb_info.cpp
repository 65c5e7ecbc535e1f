// SPDX-License-Identifier: Apache-2.0
// scbf info and scbf verify: what a file says about itself, and whether it can be believed.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "errors.hpp"
#include "filter_file.hpp"
#include "options.hpp"
#include "output.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct InfoOptions {
  std::string file;
  bool header_only = false;
  RunOptions run;
};

Json header_json(const std::string& file, const FileInfo& info) {
  Json json;
  json["file"] = file;
  json["version"] = info.version;
  json["hash"] = info.hash;
  json["hash_version"] = info.hash_version;
  json["seed"] = info.seed;
  describe_geometry(json, info.geometry);
  json["counter_bits"] = info.counter_bits;
  json["keys"] = keys_left(info.keys_inserted, info.keys_removed);
  json["keys_inserted"] = info.keys_inserted;
  json["keys_removed"] = info.keys_removed;
  json["saturated"] = info.saturated;
  json["file_bytes"] = info.file_bytes;
  json["payload_offset"] = info.payload_offset;
  json["payload_bytes"] = info.payload_bytes;
  json["chunk_bytes"] = info.chunk_bytes;
  json["chunks"] = info.chunks;
  json["metadata_bytes"] = info.metadata.size();
  // Metadata is free-form; as JSON where it is JSON.
  Json metadata = Json::parse(info.metadata, nullptr, false);
  json["metadata"] = metadata.is_discarded() ? Json(info.metadata) : std::move(metadata);
  return json;
}

std::string header_text(const std::string& file, const FileInfo& info) {
  const Geometry& g = info.geometry;
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  row("file", fmt::format("{} ({}, version {})", file, human_bytes(info.file_bytes), info.version));
  row("geometry", g.describe());
  row("probes", fmt::format("{} in {} cache line{}", g.probes(), g.cache_lines_per_key(),
                            g.cache_lines_per_key() == 1 ? "" : "s"));
  row("counters", fmt::format("{}, {}", grouped(g.counters()), human_bytes(g.bytes())));
  row("hash", fmt::format("{}, seed {}", info.hash, info.seed));
  row("keys", fmt::format("{} ({} inserted, {} removed)",
                          grouped(keys_left(info.keys_inserted, info.keys_removed)),
                          grouped(info.keys_inserted), grouped(info.keys_removed)));
  row("saturated", fmt::format("{} counters", grouped(info.saturated)));
  if (!info.metadata.empty()) {
    row("metadata",
        info.metadata.size() <= 200 ? info.metadata : human_bytes(info.metadata.size()));
  }
  return text;
}

void add_statistics(Json& json, const Statistics& statistics) {
  json["fill"] = statistics.fill;
  json["saturated"] = statistics.saturated;
  json["estimated_keys"] = statistics.estimated_keys;  // null when the filter is full
  json["estimated_fpr"] = statistics.estimated_fpr;
  json["slice_fill"] = statistics.slice_fill;
  json["histogram"] = statistics.histogram;
}

std::string statistics_text(const Statistics& statistics) {
  return fmt::format("{:<16} {}\n{:<16} {} distinct keys, from the fill\n{:<16} {}\n", "fill",
                     percent(statistics.fill), "estimated",
                     std::isfinite(statistics.estimated_keys)
                         ? grouped(static_cast<std::uint64_t>(statistics.estimated_keys + 0.5))
                         : "too many",
                     "estimated rate", percent(statistics.estimated_fpr));
}

Json scalable_header_json(const std::string& file, const ScalableFileInfo& info) {
  Json json;
  json["file"] = file;
  json["version"] = info.version;
  json["seed"] = info.seed;
  describe_growth(json, info.growth);
  std::uint64_t inserted = 0, removed = 0, bytes = 0;
  Json stages = Json::array();
  for (const auto& stage : info.stages) {
    Json one = stage_json(stage.shape);
    one["offset"] = stage.offset;
    one["keys_inserted"] = stage.filter.keys_inserted;
    one["keys_removed"] = stage.filter.keys_removed;
    inserted += stage.filter.keys_inserted;
    removed += stage.filter.keys_removed;
    bytes += stage.shape.geometry.bytes();
    stages.push_back(std::move(one));
  }
  json["stages"] = std::move(stages);
  json["bytes"] = bytes;
  json["keys"] = keys_left(inserted, removed);
  json["keys_inserted"] = inserted;
  json["keys_removed"] = removed;
  json["file_bytes"] = info.file_bytes;
  Json metadata = Json::parse(info.metadata, nullptr, false);
  json["metadata"] = metadata.is_discarded() ? Json(info.metadata) : std::move(metadata);
  return json;
}

int scalable_info(const InfoOptions& options) {
  const ScalableFileInfo header = options.header_only ? read_scalable_file_info(options.file)
                                                      : verify_scalable_file(options.file);
  Json json = scalable_header_json(options.file, header);
  std::string text = fmt::format(
      "{:<16} {} ({}, container version {})\n{:<16} {}\n{:<16} XXH3-64, seed {}\n{:<16} {} ({} "
      "inserted, {} removed)\n",
      "file", options.file, human_bytes(header.file_bytes), header.version, "growth",
      header.growth.describe(), "hash", header.seed, "keys",
      grouped(json["keys"].get<std::uint64_t>()),
      grouped(json["keys_inserted"].get<std::uint64_t>()),
      grouped(json["keys_removed"].get<std::uint64_t>()));
  std::vector<double> fills;
  if (!options.header_only) {
    const AnyFilter filter = open_for_queries(options.file, options.run, false);
    const ScalableStatistics s = filter.scalable()->statistics(options.run.batch());
    for (std::size_t i = 0; i < s.stages.size(); ++i) {
      const Statistics& stage = s.stages[i].counters;
      fills.push_back(stage.fill);
      json["stages"][i]["fill"] = stage.fill;
      json["stages"][i]["saturated"] = stage.saturated;
      json["stages"][i]["estimated_keys"] = stage.estimated_keys;
      json["stages"][i]["estimated_fpr"] = stage.estimated_fpr;
    }
    json["fill"] = static_cast<double>(s.nonzero) / static_cast<double>(s.counters);
    json["saturated"] = s.saturated;
    json["estimated_keys"] = s.estimated_keys;
    json["estimated_fpr"] = s.estimated_fpr;
    json["fpr_bound"] = s.fpr_bound;
    json["ambiguous_share"] = s.ambiguous_share;
    text += fmt::format("{:<16} {} (bound {})\n{:<16} {} of the keys\n", "estimated rate",
                        percent(s.estimated_fpr), percent(s.fpr_bound), "ambiguous",
                        percent(s.ambiguous_share));
  }
  for (std::size_t i = 0; i < header.stages.size(); ++i) {
    const StageShape& shape = header.stages[i].shape;
    text += fmt::format("{:<16} {}, {}, rate {}{}\n", fmt::format("stage {}", i),
                        shape.geometry.describe(), human_bytes(shape.geometry.bytes()),
                        percent(shape.fpr),
                        fills.empty() ? "" : fmt::format(", fill {}", percent(fills[i])));
  }
  if (options.run.json) {
    print_json(json);
  } else {
    print_text(text);
  }
  return kOk;
}

int info(const InfoOptions& options) {
  if (is_scalable_file(options.file)) return scalable_info(options);
  if (options.header_only) {
    const FileInfo header = read_file_info(options.file);
    if (options.run.json) {
      print_json(header_json(options.file, header));
    } else {
      print_text(header_text(options.file, header));
    }
    return kOk;
  }
  // Statistics of a damaged file would be wrong without looking wrong, so all of it is verified.
  const FileInfo header = verify_file(options.file);
  const AnyFilter filter = open_for_queries(options.file, options.run, false);
  const Statistics statistics = filter.plain()->statistics(options.run.batch());
  if (options.run.json) {
    Json json = header_json(options.file, header);
    add_statistics(json, statistics);
    print_json(json);
  } else {
    print_text(header_text(options.file, header) + statistics_text(statistics));
  }
  return kOk;
}

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

int verify(const VerifyOptions& options) {
  Json all = Json::array();
  std::string text;
  for (const std::string& file : options.files) {
    if (is_scalable_file(file)) {
      const ScalableFileInfo info = verify_scalable_file(file);
      all.push_back(Json{{"file", file},
                         {"ok", true},
                         {"file_bytes", info.file_bytes},
                         {"stages", info.stages.size()}});
      text += fmt::format("{}: ok, {} stages, {}\n", file, info.stages.size(),
                          human_bytes(info.file_bytes));
      continue;
    }
    const FileInfo info = verify_file(file);
    all.push_back(Json{{"file", file}, {"ok", true}, {"file_bytes", info.file_bytes}});
    text += fmt::format("{}: ok, {}, {}\n", file, info.geometry.describe(),
                        human_bytes(info.file_bytes));
  }
  if (options.json) {
    print_json(all.size() == 1 ? all.front() : all);
  } else {
    print_text(text);
  }
  return kOk;
}

}  // namespace

Run set_up_info(CommandLine& line) {
  auto options = std::make_shared<InfoOptions>();
  line.positional("FILE", "The filter", options->file);
  line.flag("--header", "Only the header: at once, whatever the size, but without statistics",
            options->header_only);
  options->run.add_backend_to(line);
  options->run.add_json_to(line, "Print JSON");
  line.footer(R"(Reads and verifies the whole file, then looks at every counter.

Examples:
  scbf info words.scbf
  scbf info words.scbf --json | jq .estimated_fpr
  scbf info huge.scbf --header)");
  return [options] { return info(*options); };
}

Run set_up_verify(CommandLine& line) {
  auto options = std::make_shared<VerifyOptions>();
  line.positionals("FILE", "Filters", options->files, CommandLine::Need::required);
  line.flag("--json", "Print JSON", options->json);
  line.footer(R"(Exit code 4, and what is wrong where, at the first file that is damaged.

Examples:
  scbf verify words.scbf
  scbf verify *.scbf)");
  return [options] { return verify(*options); };
}

}  // namespace scbf::cli
