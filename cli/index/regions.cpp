// SPDX-License-Identifier: Apache-2.0
// scbf index regions, split, merge and move.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

struct RegionsOptions {
  IndexTarget target;
  std::optional<std::string> at;
  RegionId region = 0, right = 0;
  ServerId server = 0;
};

/// Adds a required positional argument that is a number.
void add_number(CommandLine& line, const std::string& name, const std::string& help,
                std::uint32_t& value) {
  line.positional(name, help, [name, &value](const std::string& text) {
    value = static_cast<std::uint32_t>(parse_count(name, text, 0, UINT32_MAX));
  });
}

Json region_json(const RegionInfo& region) {
  Json json;
  json["region"] = region.id;
  json["from"] = region.from;
  json["to"] = region.to;
  json["server"] = region.server;
  json["rows"] = region.rows;
  json["values"] = region.values;
  json["stages"] = region.stages;
  json["filter_bytes"] = region.filter_bytes;
  json["estimated_fpr"] = region.estimated_fpr;
  json["left_over"] = region.left_over;
  json["unsaved"] = region.unsaved;
  json["asked_always"] = region.asked_always;
  return json;
}

std::string region_table(const std::vector<RegionInfo>& regions) {
  std::string text = fmt::format("{:>6} {:>6} {:>10} {:>10} {:>6} {:>11} {:>8}  {}\n", "region",
                                 "server", "rows", "values", "stages", "filter", "rate", "from");
  for (const RegionInfo& r : regions) {
    text += fmt::format("{:>6} {:>6} {:>10} {:>10} {:>6} {:>11} {:>8}  {}{}\n", r.id, r.server,
                        grouped(r.rows), grouped(r.values), r.stages, human_bytes(r.filter_bytes),
                        percent(r.estimated_fpr), r.from.empty() ? "-" : printable(r.from),
                        r.asked_always ? "  (asked always)" : "");
  }
  return text;
}

int print(const RegionsOptions& options, const std::vector<RegionInfo>& regions) {
  if (options.target.json) {
    Json json = Json::array();
    for (const RegionInfo& region : regions) json.push_back(region_json(region));
    print_json(json);
  } else {
    print_text(region_table(regions));
  }
  return kOk;
}

int regions(const RegionsOptions& options) {
  return print(options, options.target.open_read_only().regions());
}

/// Prints the regions that were made or moved.
int report(const RegionsOptions& options, const SecondaryIndex& index,
           const std::vector<RegionId>& ids) {
  work_is_done(options.target.folder);
  std::vector<RegionInfo> changed = index.regions();
  std::erase_if(changed, [&](const RegionInfo& region) {
    return std::find(ids.begin(), ids.end(), region.id) == ids.end();
  });
  return print(options, changed);
}

int split(const RegionsOptions& options) {
  SecondaryIndex index = options.target.open();
  const auto [left, right] = index.split(options.region, options.at);
  return report(options, index, {left, right});
}

int merge(const RegionsOptions& options) {
  SecondaryIndex index = options.target.open();
  return report(options, index, {index.merge(options.region, options.right)});
}

int move(const RegionsOptions& options) {
  SecondaryIndex index = options.target.open();
  index.move(options.region, options.server);
  return report(options, index, {options.region});
}

}  // namespace

Run set_up_index_regions(CommandLine& line) {
  auto options = std::make_shared<RegionsOptions>();
  options->target.add_to(line, "Print an array as JSON");
  line.footer(
      R"(Regions are listed in key order. The rate is that of the region's filter as it is.

Examples:
  scbf index regions packages.index
  scbf index regions packages.index --json | jq '.[].rows')");
  return [options] { return regions(*options); };
}

Run set_up_index_split(CommandLine& line) {
  auto options = std::make_shared<RegionsOptions>();
  options->target.add_to(line, "Print the two regions as JSON");
  add_number(line, "REGION", "The region's number", options->region);
  line.option("--at", "KEY", "First key of the second region; default: the key of the middle row",
              [o = options.get()](const std::string& text) { o->at = text; });
  line.footer(
      R"(The first region stays on its server. The second goes to the server with the fewest regions.

Examples:
  scbf index split packages.index 3
  scbf index split packages.index 3 --at libc6)");
  return [options] { return split(*options); };
}

Run set_up_index_merge(CommandLine& line) {
  auto options = std::make_shared<RegionsOptions>();
  options->target.add_to(line, "Print the region as JSON");
  add_number(line, "LEFT", "A region's number", options->region);
  add_number(line, "RIGHT", "The number of the next region by key", options->right);
  line.footer(R"(The new region is on the server of LEFT.

Examples:
  scbf index merge packages.index 3 4)");
  return [options] { return merge(*options); };
}

Run set_up_index_move(CommandLine& line) {
  auto options = std::make_shared<RegionsOptions>();
  options->target.add_to(line, "Print the region as JSON");
  add_number(line, "REGION", "The region's number", options->region);
  add_number(line, "SERVER", "The server's number, from 0 on", options->server);
  line.footer(R"(The region's filter does not change.

Examples:
  scbf index move packages.index 3 15)");
  return [options] { return move(*options); };
}

}  // namespace scbf::cli
